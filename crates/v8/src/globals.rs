//! The globals that are functions of the host: `structuredClone` and `queueMicrotask`.

use v8::{
    ConstructorBehavior, Exception, Function, FunctionCallback, FunctionCallbackArguments, Local, MapFnTo, Object,
    PinScope, PropertyAttribute, ReturnValue, Value, ValueDeserializer, ValueDeserializerHelper, ValueDeserializerImpl,
    ValueSerializer, ValueSerializerHelper, ValueSerializerImpl,
};

use crate::encode::throw_named;
use crate::run::Run;
use crate::text::{string, symbol, text_of};
use crate::{console, stack};

/// Adds these functions to the globals.
pub(crate) fn add(scope: &mut PinScope<'_, '_>, global: Local<'_, Object>) {
    add_function(scope, global, "structuredClone", structured_clone);
    add_function(scope, global, "queueMicrotask", queue_microtask);
}

fn add_function(
    scope: &mut PinScope<'_, '_>,
    global: Local<'_, Object>,
    name: &'static str,
    function: impl MapFnTo<FunctionCallback>,
) {
    let function = Function::builder(function).length(1).constructor_behavior(ConstructorBehavior::Throw);
    let Some(function) = function.build(scope) else { return };
    let name = symbol(scope, name);
    function.set_name(name);
    global.define_own_property(scope, name.into(), function.into(), PropertyAttribute::DONT_ENUM);
}

#[allow(clippy::needless_pass_by_value)] // V8's signature
fn queue_microtask<'s>(scope: &mut PinScope<'s, '_>, args: FunctionCallbackArguments<'s>, _: ReturnValue<'_, Value>) {
    match args.get(0).try_cast::<Function>() {
        Ok(function) => {
            let run = Function::builder(run_microtask).data(function.into()).build(scope);
            if let Some(run) = run {
                scope.enqueue_microtask(run);
            }
        }
        Err(_) => {
            let Some(message) = string(scope, "not a function") else { return };
            let error = Exception::type_error(scope, message);
            scope.throw_exception(error);
        }
    }
}

/// Calls the function of a microtask and logs what it throws. V8 itself reports it without the place.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn run_microtask<'s>(scope: &mut PinScope<'s, '_>, args: FunctionCallbackArguments<'s>, _: ReturnValue<'_, Value>) {
    let Ok(function) = args.data().try_cast::<Function>() else { return };
    let run = Run::of(scope);
    v8::tc_scope!(let caught, scope);
    let undefined = v8::undefined(caught).into();
    if function.call(caught, undefined, &[]).is_some() || caught.has_terminated() || run.has_modules {
        return;
    }
    if let (Some(thrown), Some(message)) = (caught.exception(), caught.message()) {
        caught.reset();
        stack::note_message(caught, &run, thrown, message);
        console::log_uncaught(caught, &run, "Uncaught ", thrown);
    }
}

/// Implements `structuredClone`. The second argument is ignored: nothing is transferred. Functions of the host and promises are
/// not cloned.
#[allow(clippy::needless_pass_by_value)] // V8's signature
fn structured_clone<'s>(
    scope: &mut PinScope<'s, '_>,
    args: FunctionCallbackArguments<'s>,
    mut result: ReturnValue<'_, Value>,
) {
    let value = args.get(0);
    if !value.is_object() && !value.is_symbol() {
        result.set(value);
        return;
    }
    let context = scope.get_current_context();
    let serializer = ValueSerializer::new(scope, Box::new(Clone));
    serializer.write_header();
    if serializer.write_value(context, value) != Some(true) {
        return; // the function has thrown
    }
    let bytes = serializer.release();
    let deserializer = ValueDeserializer::new(scope, Box::new(Clone), &bytes);
    if deserializer.read_header(context) == Some(true)
        && let Some(copy) = deserializer.read_value(context)
    {
        result.set(copy);
    }
}

/// A delegate of V8's serializer and deserializer that supports no host objects.
struct Clone;

impl ValueSerializerImpl for Clone {
    fn throw_data_clone_error<'s>(&self, scope: &mut PinScope<'s, '_>, message: Local<'s, v8::String>) {
        let message = text_of(scope, message, 1024);
        throw_named(scope, "DataCloneError", message.trim_end_matches('.'));
    }
}

impl ValueDeserializerImpl for Clone {}
