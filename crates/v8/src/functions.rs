//! Functions of the host, and the settlement of their calls.

use std::sync::Arc;

use execbox_core::engine::{FunctionId, MAX_UNAWAITED, Outcome, Settlement, UnawaitedCall};
use execbox_core::error::ExecuteError;
use execbox_core::program::Namespace;
use execbox_core::value::FunctionKind;
use v8::{
    AccessorConfiguration, AccessorNameGetterCallback, ConstructorBehavior, Function, FunctionCallbackArguments,
    FunctionTemplate, Global, IntegrityLevel, Local, Name, Object, PinScope, Promise, PromiseResolver,
    PropertyAttribute, PropertyCallbackArguments, ReturnValue, StackTrace, Value,
};

use crate::decode::{self, Failed};
use crate::encode::{Mode, encode, encode_args};
use crate::run::Run;
use crate::shared::{SYNC_CALL, Settled};
use crate::text::{string, symbol};
use crate::{program, stack};

/// Calls that are not settled, by slot.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Option<Call>>,
    free: Vec<u32>,
}

struct Call {
    function: FunctionId,
    resolver: Global<PromiseResolver>,
    /// The stack of the call.
    trace: Option<Global<StackTrace>>,
}

impl Slots {
    fn take(&mut self, call: Call) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(call);
            return slot;
        }
        self.slots.push(Some(call));
        self.slots.len() as u32 - 1
    }

    /// The number of calls.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn release(&mut self, slot: u32) -> Option<Call> {
        let call = self.slots.get_mut(slot as usize)?.take();
        self.free.extend(call.is_some().then_some(slot));
        call
    }
}

/// Reports the places of the first calls that are not settled, once: when the result of the program is.
pub(crate) fn report_unawaited(scope: &mut PinScope<'_, '_>, run: &Run) {
    if run.has_reported.replace(true) {
        return;
    }
    let slots = run.slots.borrow();
    for call in slots.slots.iter().flatten().take(MAX_UNAWAITED) {
        let trace = call.trace.as_ref().map(|trace| Local::new(scope, trace));
        let place = trace.map(|trace| stack::text(scope, run, trace)).unwrap_or_default();
        let frame = run.files.frames(&place).into_iter().next();
        let call = UnawaitedCall { count: slots.len() as u64, function: call.function, frame };
        run.shared.lock().mailbox.unawaited(call);
    }
}

// ---- Namespaces of scripts --------------------------------------------------------------------------------------------

/// A namespace. Host functions are counted over all namespaces, and so are the program's own.
#[derive(Clone)]
pub(crate) struct NumberedNamespace {
    namespace: Arc<Namespace>,
    /// The number of the first host function of the namespace.
    first: u32,
    /// The number of the first own function of the namespace.
    first_own: u32,
}

/// Adds the namespaces as globals. Programs are given many functions and use few, so a namespace is made when it is first read.
pub(crate) fn add_namespaces(
    scope: &mut PinScope<'_, '_>,
    run: &Run,
    global: Local<'_, Object>,
    namespaces: &[Arc<Namespace>],
) -> Option<()> {
    let (mut first, mut first_own) = (0, 0);
    for (number, namespace) in namespaces.iter().enumerate() {
        let numbered = NumberedNamespace { namespace: Arc::clone(namespace), first, first_own };
        run.namespaces.borrow_mut().push(numbered);
        first += namespace.functions.len() as u32;
        first_own += namespace.own.len() as u32;
        let name = string(scope, &namespace.name)?;
        let number = v8::Integer::new(scope, number as i32);
        global.set_accessor_with_configuration(scope, name.into(), read_only(make_namespace).data(number.into()))?;
    }
    Some(())
}

/// Configures a getter as a read-only property, which looks to guest code like one with a value.
fn read_only<'s>(getter: impl v8::MapFnTo<AccessorNameGetterCallback>) -> AccessorConfiguration<'s> {
    AccessorConfiguration::new(getter).property_attribute(PropertyAttribute::READ_ONLY | PropertyAttribute::DONT_DELETE)
}

#[allow(clippy::needless_pass_by_value)] // V8's signature
fn make_namespace<'s>(
    scope: &mut PinScope<'s, '_>,
    _name: Local<'s, Name>,
    args: PropertyCallbackArguments<'s>,
    mut result: ReturnValue<'_, Value>,
) {
    let run = Run::of(scope);
    let Some(index) = args.data().uint32_value(scope) else { return };
    let made = run.made_namespaces.borrow().get(&index).map(|made| Local::new(scope, made));
    if let Some(made) = made {
        result.set(made.into());
        return;
    }
    let namespace = run.namespaces.borrow().get(index as usize).cloned();
    let Some(namespace) = namespace else { return };
    let Some(object) = namespace_object(scope, &namespace) else { return };
    run.made_namespaces.borrow_mut().insert(index, Global::new(scope, object));
    result.set(object.into());
}

fn namespace_object<'s>(scope: &mut PinScope<'s, '_>, numbered: &NumberedNamespace) -> Option<Local<'s, Object>> {
    let NumberedNamespace { namespace, first, first_own } = numbered;
    let object = Object::new(scope);
    for (number, name) in (*first..).zip(&namespace.functions) {
        let number = v8::Integer::new_from_unsigned(scope, number);
        let name = string(scope, name)?;
        // Made from a template: V8 makes other functions anew whenever one is in a stack.
        let template = FunctionTemplate::builder(call_tool).data(number.into()).length(1);
        let template = template.constructor_behavior(ConstructorBehavior::Throw).build(scope);
        let function = template.get_function(scope)?;
        function.set_name(name);
        object.create_data_property(scope, name.into(), function.into())?;
    }
    for (number, own) in (*first_own..).zip(&namespace.own) {
        let number = v8::Integer::new_from_unsigned(scope, number);
        let name = string(scope, &own.name)?;
        object.set_accessor_with_configuration(scope, name.into(), read_only(make_own).data(number.into()))?;
    }
    object.set_integrity_level(scope, IntegrityLevel::Frozen)?;
    Some(object)
}

/// Compiles a function of the program when it is first read. Throws if V8 rejects it.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn make_own<'s>(
    scope: &mut PinScope<'s, '_>,
    _name: Local<'s, Name>,
    args: PropertyCallbackArguments<'s>,
    mut result: ReturnValue<'_, Value>,
) {
    let run = Run::of(scope);
    let Some(number) = args.data().uint32_value(scope) else { return };
    let made = run.made_functions.borrow().get(&number).map(|made| Local::new(scope, made));
    if let Some(made) = made {
        result.set(made.into());
        return;
    }
    let after = run.namespaces.borrow().partition_point(|namespace| namespace.first_own <= number);
    let numbered = after.checked_sub(1).map(|index| run.namespaces.borrow()[index].clone());
    let Some(NumberedNamespace { namespace, first_own, .. }) = numbered else { return };
    let Some(own) = namespace.own.get((number - first_own) as usize) else { return };
    if let Some(function) = program::compile_own(scope, &run, own) {
        run.made_functions.borrow_mut().insert(number, Global::new(scope, function));
        result.set(function.into());
    }
}

/// Implements the functions of all namespaces, distinguished by their number. Only the first argument crosses.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn call_tool<'s>(
    scope: &mut PinScope<'s, '_>,
    args: FunctionCallbackArguments<'s>,
    mut result: ReturnValue<'_, Value>,
) {
    let run = Run::of(scope);
    let Some(number) = args.data().uint32_value(scope) else { return };
    let promise = called(scope, &run, number, |scope| encode(scope, &run, args.get(0), Mode::Json, "input"));
    if let Some(promise) = promise {
        result.set(promise.into());
    }
}

/// Starts a call and returns its promise, which is rejected if reading the input throws.
fn called<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    number: u32,
    input: impl FnOnce(&mut PinScope<'s, '_>) -> Option<Vec<u8>>,
) -> Option<Local<'s, Promise>> {
    let resolver = PromiseResolver::new(scope)?;
    let promise = resolver.get_promise(scope);
    v8::tc_scope!(let caught, scope);
    let Some(input) = input(caught) else {
        if caught.has_terminated() {
            return None;
        }
        let thrown = caught.exception()?;
        caught.reset();
        resolver.reject(caught, thrown);
        return Some(promise);
    };
    let (function, trace) = (FunctionId(number), stack::current(caught, 1));
    let slot = run.slots.borrow_mut().take(Call { function, resolver: Global::new(caught, resolver), trace });
    let taken = run.shared.lock().mailbox.call(function, slot, &input, false);
    if let Err(full) = taken {
        run.stop(caught, Outcome::HostMemory(full));
    }
    Some(promise)
}

// ---- Functions in values of modules -----------------------------------------------------------------------------------

/// A function of the host in a value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bridged {
    pub(crate) number: u32,
    pub(crate) kind: FunctionKind,
}

const KINDS: [FunctionKind; 4] = [FunctionKind::Async, FunctionKind::Sync, FunctionKind::Notify, FunctionKind::Log];

/// Makes the guest's function for a function of the host.
pub(crate) fn bridged<'s>(
    scope: &mut PinScope<'s, '_>,
    number: u32,
    kind: FunctionKind,
    name: &str,
) -> Option<Local<'s, Function>> {
    let run = Run::of(scope);
    let data = v8::Number::new(scope, f64::from(number) * 4.0 + f64::from(kind as u8));
    let function = Function::builder(call_bridged).data(data.into()).constructor_behavior(ConstructorBehavior::Throw);
    let function = function.build(scope)?;
    let name = string(scope, name)?;
    function.set_name(name);
    let private = Local::new(scope, &run.realm.bridged);
    function.set_private(scope, private, data.into())?;
    Some(function)
}

/// The function of the host that `function` stands for; `None` for functions of the guest.
pub(crate) fn of(scope: &mut PinScope<'_, '_>, run: &Run, function: Local<'_, Object>) -> Option<Bridged> {
    let private = Local::new(scope, &run.realm.bridged);
    let data = function.get_private(scope, private)?;
    bridged_by(data)
}

fn bridged_by(data: Local<'_, Value>) -> Option<Bridged> {
    let data = data.try_cast::<v8::Number>().ok()?.value() as u64;
    Some(Bridged { number: u32::try_from(data / 4).ok()?, kind: KINDS[(data % 4) as usize] })
}

/// Calls a function of the host in a value. All arguments cross.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn call_bridged<'s>(
    scope: &mut PinScope<'s, '_>,
    args: FunctionCallbackArguments<'s>,
    mut result: ReturnValue<'_, Value>,
) {
    let run = Run::of(scope);
    let Some(Bridged { number, kind }) = bridged_by(args.data()) else { return };
    match kind {
        FunctionKind::Async => {
            let promise = called(scope, &run, number, |scope| encode_args(scope, &run, &args, Mode::Graph));
            if let Some(promise) = promise {
                result.set(promise.into());
            }
        }
        FunctionKind::Sync => {
            if let Some(input) = encode_args(scope, &run, &args, Mode::Graph)
                && let Some(value) = call_sync(scope, &run, number, &input)
            {
                result.set(value);
            }
        }
        FunctionKind::Notify => {
            let Some(input) = encode_args(scope, &run, &args, Mode::Graph) else { return };
            let taken = run.shared.lock().mailbox.notify(FunctionId(number), &input);
            if let Err(full) = taken {
                run.stop(scope, Outcome::HostMemory(full));
            }
        }
        FunctionKind::Log => {
            let input = match run.log_units.get() {
                0 => Vec::new(), // the host only counts further ones
                _ => {
                    let Some(input) = encode_args(scope, &run, &args, Mode::Log) else { return };
                    input
                }
            };
            let left = run.shared.lock().mailbox.log_record(FunctionId(number), &input);
            run.log_units.set(left);
        }
    }
}

/// Blocks until the call is answered. `None` with an exception pending, or if the program is stopped.
fn call_sync<'s>(scope: &mut PinScope<'s, '_>, run: &Run, number: u32, input: &[u8]) -> Option<Local<'s, Value>> {
    let taken = run.shared.lock().mailbox.call(FunctionId(number), SYNC_CALL, input, true);
    if let Err(full) = taken {
        run.stop(scope, Outcome::HostMemory(full));
        return None;
    }
    let Ok(answer) = run.shared.wait_for_answer(run.used(scope)) else {
        scope.terminate_execution();
        return None;
    };
    let trace = match answer {
        Settlement::Fulfilled(_) => None,
        Settlement::Rejected(_) | Settlement::Failed(_) => {
            StackTrace::current_stack_trace(scope, stack::DEFAULT_FRAMES)
        }
    };
    match settlement(scope, run, &answer, trace) {
        Some(Ok(value)) => Some(value),
        Some(Err(thrown)) => {
            scope.throw_exception(thrown);
            None
        }
        None => None,
    }
}

// ---- Settlements ------------------------------------------------------------------------------------------------------

/// Settles a call or a promise of the host.
pub(crate) fn settle(scope: &mut PinScope<'_, '_>, run: &Run, settled: Settled, answer: &Settlement) -> Option<()> {
    v8::scope!(let scope, scope);
    let (resolver, trace) = match settled {
        Settled::Call(slot) => {
            let call = run.slots.borrow_mut().release(slot)?;
            (call.resolver, call.trace)
        }
        Settled::Promise(number) => (run.host_promises.borrow_mut().remove(&number)?, None),
    };
    let resolver = Local::new(scope, &resolver);
    let trace = trace.map(|trace| Local::new(scope, trace));
    match settlement(scope, run, answer, trace)? {
        Ok(value) => fulfill(scope, resolver, value),
        Err(thrown) => resolver.reject(scope, thrown).map(drop),
    }
}

/// Fulfills a promise with the value itself: a function of the host that is named `then` is not called.
fn fulfill(scope: &mut PinScope<'_, '_>, resolver: Local<'_, PromiseResolver>, value: Local<'_, Value>) -> Option<()> {
    if let Ok(object) = value.try_cast::<Object>()
        && !value.is_proxy()
    {
        let key: Local<'_, Name> = symbol(scope, "then").into();
        if object.has_own_property(scope, key)? && object.get(scope, key.into())?.is_function() {
            // `then` is looked up at once, and only then.
            let then = object.get(scope, key.into())?;
            let undefined = v8::undefined(scope).into();
            object.create_data_property(scope, key, undefined)?;
            let resolved = resolver.resolve(scope, value);
            object.create_data_property(scope, key, then)?;
            return resolved.map(drop);
        }
    }
    resolver.resolve(scope, value).map(drop)
}

/// The value that a call returns, or that it throws, with the stack of the call. `None` if the program is stopped.
fn settlement<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    answer: &Settlement,
    trace: Option<Local<'_, StackTrace>>,
) -> Option<Result<Local<'s, Value>, Local<'s, Value>>> {
    v8::tc_scope!(let caught, scope);
    let decoded = match answer {
        Settlement::Failed(error) => return failure(caught, run, error, trace).map(|error| Err(error.into())),
        Settlement::Fulfilled(value) => decode::decode(caught, run, value).map(Ok),
        Settlement::Rejected(value) => decode::decode(caught, run, value).map(Err),
    };
    match decoded {
        Ok(Err(thrown)) => {
            place_error(caught, run, thrown, trace);
            Some(Err(thrown))
        }
        Ok(value) => Some(value),
        Err(Failed::Malformed) => {
            run.stop(caught, Outcome::Fault("the host sent a malformed value".to_owned()));
            None
        }
        Err(Failed::Thrown) => {
            let thrown = if caught.has_terminated() { None } else { caught.exception() };
            caught.reset();
            thrown.map(Err)
        }
    }
}

/// The error of a failed tool.
fn failure<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    failed: &ExecuteError,
    trace: Option<Local<'_, StackTrace>>,
) -> Option<Local<'s, Object>> {
    let message = string(scope, &failed.message)?;
    let (code, cause) = failed.to_parts();
    let (code, cause) = (string(scope, code)?, string(scope, &cause)?);
    let error: Local<'_, Object> = v8::Exception::error(scope, message).cast();
    let key = symbol(scope, "code");
    error.create_data_property(scope, key.into(), code.into())?;
    let private = Local::new(scope, &run.realm.failure);
    let mark = v8::Array::new_with_elements(scope, &[code.into(), message.into(), cause.into()]);
    error.set_private(scope, private, mark.into())?;
    give_stack(scope, run, error, trace);
    Some(error)
}

/// Gives the stack of a call to an error that has none, such as one of the host.
pub(crate) fn place_error(
    scope: &mut PinScope<'_, '_>,
    run: &Run,
    thrown: Local<'_, Value>,
    trace: Option<Local<'_, StackTrace>>,
) {
    if thrown.is_native_error()
        && let Ok(error) = thrown.try_cast::<Object>()
        && stack::of_error(scope, run, error).is_none_or(|stack| stack.is_empty())
    {
        give_stack(scope, run, error, trace);
    }
}

fn give_stack(scope: &mut PinScope<'_, '_>, run: &Run, error: Local<'_, Object>, trace: Option<Local<'_, StackTrace>>) {
    let frames = trace.map(|trace| stack::text(scope, run, trace)).unwrap_or_default();
    stack::give(scope, run, error, &frames);
}
