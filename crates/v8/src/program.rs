//! One program in one isolate, from its start to its outcome.

use std::rc::Rc;
use std::sync::Arc;

use execbox_core::engine::Frame;
use execbox_core::engine::{ModuleError, Outcome, Thrown};
use execbox_core::language::{Code, Position};
use execbox_core::libraries::Library;
use execbox_core::program::{Modules, Program, Source};
use v8::{
    Context, ContextScope, Function, FunctionCallbackArguments, Global, Local, Object, PinScope, Platform, Promise,
    PromiseResolver, PromiseState, ReturnValue, Script, ScriptOrigin, Value,
};

use crate::exhaustion::HasProgram;
use crate::isolate::Isolate;
use crate::modules::{self, Graph, Unlinked};
use crate::run::{Run, TimersDue};
use crate::shared::{Resumed, Shared, Stopped, Used};
use crate::text::{string, text_of};
use crate::ticker::Ticker;
use crate::{console, functions, libraries, outcome, stack};

/// Runs a program to its end on this thread.
pub(crate) fn run(isolate: Isolate, program: Program, shared: &Arc<Shared>, ticker: &Arc<Ticker>) {
    let _has_program = HasProgram::new(shared, &isolate.memory);
    let mut isolate = isolate; // dropped first
    let memory = Arc::clone(&isolate.memory);
    memory.limit(&mut isolate.v8, program.limits.memory_len());
    let handle = isolate.v8.thread_safe_handle();
    if shared.begin(handle.clone()).is_err() {
        shared.end(Outcome::Interrupted, Used::default());
        return;
    }
    let watch = ticker.watch(handle, Arc::clone(&memory));
    let (outcome, run) = drive(&mut isolate, program, shared, watch);
    let cpu_time = run.as_ref().map(|run| run.cpu_time()).unwrap_or_default();
    memory.check(&mut isolate.v8);
    let outcome = if memory.is_exceeded() { Outcome::OutOfMemory } else { outcome };
    shared.end(outcome, Used { cpu_time, peak_memory_bytes: memory.peak() });
    // Disposing of the isolate takes as long as passing the outcome on, which may wait for this processor.
    shared.wait_for_drop();
    isolate.v8.remove_slot::<Rc<Run>>();
}

fn drive(
    isolate: &mut Isolate,
    program: Program,
    shared: &Arc<Shared>,
    watch: crate::ticker::Watch,
) -> (Outcome, Option<Rc<Run>>) {
    let memory = Arc::clone(&isolate.memory);
    let Some((context, realm)) = isolate.parts.take() else {
        return (Outcome::Fault("the snapshot has no intrinsics".to_owned()), None);
    };
    v8::scope!(let scope, &mut isolate.v8);
    let context = Local::new(scope, context);
    let scope = &mut ContextScope::new(scope, context);
    let run = Rc::new(Run::new(&program, Arc::clone(shared), memory, watch, realm));
    scope.set_slot(Rc::clone(&run));
    let outcome = steps(scope, &run, program);
    (run.stopped().unwrap_or(outcome), Some(run))
}

/// A promise that the program waits for before it continues or ends.
enum Step {
    /// The promise of a script.
    Script(Global<Promise>),
    /// The evaluation of the entry module.
    Evaluation(Global<Promise>, Selected),
    /// The result of the selected export.
    Export(Global<Promise>),
}

impl Step {
    fn promise(&self) -> &Global<Promise> {
        match self {
            Self::Script(promise) | Self::Evaluation(promise, _) | Self::Export(promise) => promise,
        }
    }
}

/// The export that is read or called when the entry has been evaluated.
struct Selected {
    entry: usize,
    export: String,
    args: Global<v8::Array>,
}

/// The next step of the program, or its outcome.
type Next = Result<Step, Box<Outcome>>;

/// Starts the program, and lets it compute and wait until it ends.
fn steps(scope: &mut PinScope<'_, '_>, run: &Rc<Run>, program: Program) -> Outcome {
    let mut next = run.watch.computing(|| {
        v8::scope!(let scope, scope);
        let next = start(scope, run, program).and_then(|step| advance(scope, run, step));
        next.inspect_err(|outcome| report_unawaited(scope, run, outcome))
    });
    loop {
        let step = match next {
            Ok(step) => step,
            Err(outcome) => return *outcome,
        };
        let Resumed { settlements, is_woken } = match run.shared.wait(run.used(scope)) {
            Ok(resumed) => resumed,
            Err(Stopped) => return Outcome::Interrupted,
        };
        next = run.watch.computing(|| {
            v8::scope!(let scope, scope);
            for (settled, settlement) in settlements {
                functions::settle(scope, run, settled, &settlement);
            }
            if is_woken {
                run.timers.set(TimersDue::First);
            }
            advance(scope, run, step).inspect_err(|outcome| report_unawaited(scope, run, outcome))
        });
    }
}

/// Reports the calls that a program did not await, if it ended by itself.
fn report_unawaited(scope: &mut PinScope<'_, '_>, run: &Run, outcome: &Outcome) {
    if matches!(outcome, Outcome::Returned(_) | Outcome::Threw(_) | Outcome::Failed { .. }) {
        functions::report_unawaited(scope, run);
    }
}

fn start(scope: &mut PinScope<'_, '_>, run: &Run, program: Program) -> Next {
    let context = scope.get_current_context();
    let global = context.global(scope);
    match program.source {
        Source::Script { name, code } => {
            console::add(scope, run, global);
            let added = functions::add_namespaces(scope, run, global, &program.namespaces);
            added.ok_or_else(|| run.stopped().unwrap_or(Outcome::Interrupted))?;
            libraries::add_globals(scope, run, global, program.globals);
            start_script(scope, run, context, &name, &code)
        }
        Source::Modules(modules) => start_modules(scope, run, context, modules),
        _ => Err(Outcome::Fault("programs of this kind are not supported".to_owned()).into()),
    }
}

// ---- Scripts ----------------------------------------------------------------------------------------------------------

/// A text that must be exactly the body of an async function.
struct Body<'a> {
    file: &'a str,
    code: &'a Code,
    /// The text before the body: its lines are those of the source.
    before: &'a str,
    /// The text before the same body in a declaration.
    before_check: &'a str,
}

/// The text before a script.
const BEFORE: &str = "(async () => {\n";
const AFTER: &str = "\n})";
const BEFORE_CHECK: &str = "async function body() {\n";
const AFTER_CHECK: &str = "\n}";

/// The text before a function.
const BEFORE_OWN: &str = "(async (input) => {\n";
const BEFORE_OWN_CHECK: &str = "async function body(input) {\n";

impl Body<'_> {
    /// Compiles the body. `None` with an exception pending.
    ///
    /// A text could close the function around it and go on with other code. So a text with `}` is compiled in an arrow function
    /// and in a declaration. After the closing brace, the first needs `)` or `,` and the second a statement, and no text is
    /// both: a body that compiles in both closes neither.
    fn compile<'s>(&self, scope: &mut PinScope<'s, '_>) -> Option<Local<'s, Script>> {
        let text = self.code.text.as_str();
        if text.contains('}') {
            compile(scope, self.file, &[self.before_check, text, AFTER_CHECK])?;
        }
        compile(scope, self.file, &[self.before, text, AFTER])
    }

    /// The error of a body that did not compile; `None` if it was terminated.
    fn syntax_error(
        &self,
        caught: &mut v8::PinnedRef<'_, v8::TryCatch<'_, '_, v8::HandleScope<'_>>>,
        run: &Run,
    ) -> Option<Thrown> {
        let message = caught.message()?;
        let text = message.get(caught);
        let text = text_of(caught, text, 16 << 10);
        let text = text.strip_prefix("Uncaught ").unwrap_or(&text);
        let (name, text) = text.split_once(": ").unwrap_or(("SyntaxError", text));
        let mut thrown = Thrown { name: name.to_owned(), message: text.to_owned(), frames: Vec::new(), native: None };
        let mut position =
            modules::position(caught, run, self.file, message).unwrap_or(Position { line: 1, column: 1 });
        let end = end_of(&self.code.text);
        if position.line > end.line {
            // V8 found the error in the text after the body, which the source does not have.
            position = end;
            "Unexpected end of input".clone_into(&mut thrown.message);
        }
        thrown.frames.push(Frame { function: None, file: self.file.into(), position });
        Some(thrown)
    }
}

fn start_script(scope: &mut PinScope<'_, '_>, run: &Run, context: Local<'_, Context>, name: &str, code: &Code) -> Next {
    v8::tc_scope!(let caught, scope);
    let body = Body { file: name, code, before: BEFORE, before_check: BEFORE_CHECK };
    let Some(script) = body.compile(caught) else {
        return Err(body.syntax_error(caught, run).map_or(Outcome::Interrupted, Outcome::Threw).into());
    };
    context.set_allow_generation_from_strings(false);
    let function = script.run(caught).and_then(|function| function.try_cast::<Function>().ok());
    let undefined: Local<'_, Value> = v8::undefined(caught).into();
    let promise = function.and_then(|function| function.call(caught, undefined, &[]));
    match promise.and_then(|promise| promise.try_cast::<Promise>().ok()) {
        Some(promise) => Ok(Step::Script(last_of_script(caught, run, promise))),
        None => {
            let thrown = caught.exception();
            caught.reset();
            Err(outcome::threw(caught, run, thrown).into())
        }
    }
}

/// Compiles a function of a script. `None` with an exception pending, whose stack begins with the place in its source.
pub(crate) fn compile_own<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    own: &execbox_core::program::Function,
) -> Option<Local<'s, Function>> {
    let body = Body { file: &own.file, code: &own.code, before: BEFORE_OWN, before_check: BEFORE_OWN_CHECK };
    let thrown = {
        v8::tc_scope!(let caught, scope);
        match body.compile(caught) {
            Some(script) => return script.run(caught).and_then(|function| function.try_cast::<Function>().ok()),
            None => body.syntax_error(caught, run)?,
        }
    };
    let message = string(scope, &format!("{} cannot be compiled: {}", own.file, thrown.message))?;
    let error = v8::Exception::syntax_error(scope, message);
    let place = thrown.frames.first().map(|at| format!("    at {}:{}\n", at.file, at.position)).unwrap_or_default();
    let caller = v8::StackTrace::current_stack_trace(scope, stack::DEFAULT_FRAMES);
    let caller = caller.map(|caller| stack::text(scope, run, caller)).unwrap_or_default();
    stack::give(scope, run, error.cast(), &(place + &caller));
    scope.throw_exception(error);
    None
}

/// Runs a script that has no effect, so that work that V8 does lazily or only once is done before the first program comes.
pub(crate) fn warm_up(scope: &mut PinScope<'_, '_>) {
    let script = compile(scope, "", &[BEFORE, "return 0", AFTER]);
    let function =
        script.and_then(|script| script.run(scope)).and_then(|function| function.try_cast::<Function>().ok());
    if let Some(function) = function {
        let undefined = v8::undefined(scope).into();
        function.call(scope, undefined, &[]);
        scope.perform_microtask_checkpoint();
    }
}

fn compile<'s>(scope: &mut PinScope<'s, '_>, name: &str, parts: &[&str]) -> Option<Local<'s, Script>> {
    let (name, text) = (string(scope, name)?, string(scope, &parts.concat())?);
    let origin = ScriptOrigin::new(scope, name.into(), -1, 0, false, 0, None, false, false, false, None);
    Script::compile(scope, text, Some(&origin))
}

/// The position after the last character of `text`.
fn end_of(text: &str) -> Position {
    let lines = text.split(['\n', '\u{2028}', '\u{2029}']).count() as u32;
    let last = text.rsplit(['\n', '\u{2028}', '\u{2029}']).next().unwrap_or_default();
    Position { line: lines, column: last.encode_utf16().count() as u32 + 1 }
}

/// Ends the script when its promise is settled, unless it waits for its calls.
fn last_of_script(scope: &mut PinScope<'_, '_>, run: &Run, promise: Local<'_, Promise>) -> Global<Promise> {
    let fulfilled = if run.waits_for_calls { Function::new(scope, returned) } else { Function::new(scope, settled) };
    let rejected = Function::new(scope, settled);
    when_settled(scope, promise, fulfilled, rejected)
}

/// Ends the program when this promise is settled: other microtasks run no more.
fn last(scope: &mut PinScope<'_, '_>, promise: Local<'_, Promise>) -> Global<Promise> {
    let settled = Function::new(scope, settled);
    when_settled(scope, promise, settled, settled)
}

fn when_settled(
    scope: &mut PinScope<'_, '_>,
    promise: Local<'_, Promise>,
    fulfilled: Option<Local<'_, Function>>,
    rejected: Option<Local<'_, Function>>,
) -> Global<Promise> {
    if let (Some(fulfilled), Some(rejected)) = (fulfilled, rejected) {
        // The promise that `then` returns is not used: guest code can choose its class.
        v8::tc_scope!(let scope, scope);
        promise.then2(scope, fulfilled, rejected);
    }
    Global::new(scope, promise)
}

#[allow(clippy::needless_pass_by_value)] // V8's signature
fn returned<'s>(scope: &mut PinScope<'s, '_>, _: FunctionCallbackArguments<'s>, _: ReturnValue<'_, Value>) {
    functions::report_unawaited(scope, &Run::of(scope));
}

fn settled<'s>(scope: &mut PinScope<'s, '_>, _: FunctionCallbackArguments<'s>, _: ReturnValue<'_, Value>) {
    Run::of(scope).settled.set(true);
    scope.terminate_execution();
}

// ---- Modules ----------------------------------------------------------------------------------------------------------

fn start_modules(scope: &mut PinScope<'_, '_>, run: &Run, context: Local<'_, Context>, modules: Modules) -> Next {
    context.set_allow_generation_from_strings(false);
    *run.graph.borrow_mut() = Graph::new(modules.modules);
    let entry = run.graph.borrow().find(&modules.entry);
    let entry = entry.ok_or_else(|| Outcome::Fault(format!("the entry {:?} is not a module", modules.entry)))?;
    let args = modules::decoded(scope, run, &modules.args).map_err(|error| unlinked(scope, run, error))?;
    let args: Local<'_, v8::Array> =
        args.try_into().map_err(|_| Outcome::Fault("the arguments are not an array".to_owned()))?;
    let module = modules::link(scope, run, entry).map_err(|error| unlinked(scope, run, error))?;
    let evaluated = module.evaluate(scope).and_then(|promise| promise.try_cast::<Promise>().ok());
    let evaluated = evaluated.ok_or(Outcome::Interrupted)?;
    evaluated.mark_as_handled();
    let selected = Selected { entry, export: modules.export, args: Global::new(scope, args) };
    Ok(Step::Evaluation(Global::new(scope, evaluated), selected))
}

fn unlinked(scope: &mut PinScope<'_, '_>, run: &Run, error: Unlinked) -> Outcome {
    match error {
        Unlinked::Link(error) => Outcome::Unlinked(error),
        Unlinked::Terminated => Outcome::Interrupted,
        Unlinked::Threw(thrown) => {
            let thrown = Local::new(scope, thrown);
            match outcome::threw(scope, run, Some(thrown)) {
                Outcome::Threw(thrown) if thrown.name == "SyntaxError" || thrown.name == "RangeError" => {
                    Outcome::Unlinked(ModuleError::Binding { message: thrown.message })
                }
                outcome => outcome,
            }
        }
    }
}

/// Reads the selected export and calls it if it is a function (code-execution specification §5.1, 1 and 2).
fn run_export(scope: &mut PinScope<'_, '_>, run: &Run, selected: &Selected) -> Next {
    v8::tc_scope!(let caught, scope);
    match call_export(caught, run, selected) {
        Ok(Some(value)) => await_value(caught, run, value),
        Ok(None) => {
            let thrown = caught.exception();
            caught.reset();
            Err(outcome::threw(caught, run, thrown).into())
        }
        Err(outcome) => Err(outcome),
    }
}

/// Calls the selected export. `None` with an exception pending.
fn call_export<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    selected: &Selected,
) -> Result<Option<Local<'s, Value>>, Box<Outcome>> {
    let module = modules::compiled(scope, run, selected.entry).ok_or(Outcome::Interrupted)?;
    let namespace: Local<'_, Object> = module.get_module_namespace().try_into().map_err(|_| Outcome::Interrupted)?;
    let name = string(scope, &selected.export).ok_or(Outcome::Interrupted)?;
    match namespace.has_own_property(scope, name.into()) {
        Some(true) => {}
        Some(false) => return Err(Outcome::Unlinked(ModuleError::Export { export: selected.export.clone() }).into()),
        None => return Ok(None),
    }
    let Some(value) = namespace.get(scope, name.into()) else { return Ok(None) };
    let args = Local::new(scope, &selected.args);
    if let Ok(function) = value.try_cast::<Function>() {
        let args: Option<Vec<_>> = (0..args.length()).map(|index| args.get_index(scope, index)).collect();
        let undefined: Local<'_, Value> = v8::undefined(scope).into();
        return Ok(args.and_then(|args| function.call(scope, undefined, &args)));
    }
    if args.length() > 0 {
        let message = format!("the export {} is not a function, so it takes no arguments", selected.export);
        if let Some(message) = string(scope, &message) {
            let error = v8::Exception::type_error(scope, message);
            scope.throw_exception(error);
        }
        return Ok(None);
    }
    Ok(Some(value))
}

/// Makes the wait for a value the next step; returns the value as the outcome if it is not an object.
fn await_value(scope: &mut PinScope<'_, '_>, run: &Run, value: Local<'_, Value>) -> Next {
    if !value.is_object() {
        return Err(outcome::returned(scope, run, value).into());
    }
    let Some(resolver) = PromiseResolver::new(scope) else { return Err(Outcome::Interrupted.into()) };
    let promise = resolver.get_promise(scope);
    if resolver.resolve(scope, value).is_none() {
        return Err(Outcome::Interrupted.into());
    }
    Ok(Step::Export(last(scope, promise)))
}

// ---- Timers -----------------------------------------------------------------------------------------------------------

/// Calls the first timer that is due. Returns whether another one may be.
fn fire_timer(scope: &mut PinScope<'_, '_>, run: &Run) -> bool {
    let due = run.timers.take();
    if due == TimersDue::None {
        return false;
    }
    v8::tc_scope!(let caught, scope);
    let woken = v8::Boolean::new(caught, due == TimersDue::First).into();
    let undefined = v8::undefined(caught).into();
    let fire = libraries::function(caught, run, Library::Timers, "fire");
    let fired = fire.and_then(|fire| fire.call(caught, undefined, &[woken]));
    let is_over = fire.is_none() || fired.is_some_and(|fired| fired.is_false());
    if let (Some(thrown), Some(message)) = (caught.exception(), caught.message())
        && !caught.has_terminated()
    {
        caught.reset();
        stack::note_message(caught, run, thrown, message);
        console::log_uncaught(caught, run, "Uncaught ", thrown);
    }
    if !is_over {
        run.timers.set(TimersDue::More);
    }
    !is_over
}

// ---- Steps ------------------------------------------------------------------------------------------------------------

/// Runs microtasks until the program waits or has ended.
fn advance(scope: &mut PinScope<'_, '_>, run: &Run, mut step: Step) -> Next {
    loop {
        scope.perform_microtask_checkpoint();
        if run.settled.replace(false) {
            scope.cancel_terminate_execution();
        }
        if let Some(outcome) = run.stopped() {
            return Err(outcome.into());
        }
        let promise = Local::new(scope, step.promise());
        match promise.state() {
            PromiseState::Pending => {
                // V8 defers some work, such as the callbacks of a FinalizationRegistry.
                let platform = v8::V8::get_current_platform();
                if !Platform::pump_message_loop(&platform, scope, false) && !fire_timer(scope, run) {
                    return Ok(step);
                }
            }
            PromiseState::Fulfilled if matches!(step, Step::Script(_)) && run.awaits_calls() => {
                if !fire_timer(scope, run) {
                    return Ok(step);
                }
            }
            PromiseState::Fulfilled => {
                let value = promise.result(scope);
                step = match step {
                    Step::Script(_) | Step::Export(_) => return Err(outcome::returned(scope, run, value).into()),
                    Step::Evaluation(_, selected) => run_export(scope, run, &selected)?,
                };
            }
            PromiseState::Rejected => {
                let reason = promise.result(scope);
                return Err(outcome::threw(scope, run, Some(reason)).into());
            }
        }
    }
}
