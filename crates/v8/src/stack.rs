//! The stacks of errors, calls and thrown values, as [`execbox_core::stack`] describes them.

use std::fmt::Write as _;

use execbox_core::language::Position;
use v8::{Array, Context, Exception, Function, Global, Local, Object, PinScope, StackFrame, StackTrace, Value};

use crate::decode::hidden;
use crate::run::Run;
use crate::text::{string, symbol, text_of};

/// The number of frames of a stack that the engine reports by default.
pub(crate) const DEFAULT_FRAMES: usize = 10;

/// The most UTF-16 units of a function's name.
const MAX_NAME: usize = 256;

/// The most UTF-16 units of a stack that crosses to the host.
pub(crate) const MAX_STACK: usize = 16 << 10;

/// The innermost frames of the code that runs now.
pub(crate) fn current(scope: &mut PinScope<'_, '_>, frames: usize) -> Option<Global<StackTrace>> {
    StackTrace::current_stack_trace(scope, frames).map(|trace| Global::new(scope, trace))
}

/// A stack as text, with as many frames as it has.
pub(crate) fn text(scope: &mut PinScope<'_, '_>, run: &Run, trace: Local<'_, StackTrace>) -> String {
    stack_text(scope, run, trace, usize::MAX)
}

fn stack_text(scope: &mut PinScope<'_, '_>, run: &Run, trace: Local<'_, StackTrace>, max_frames: usize) -> String {
    let mut text = String::new();
    for index in 0..trace.get_frame_count().min(max_frames) {
        if let Some(frame) = trace.get_frame(scope, index) {
            put_frame(scope, run, frame, &mut text);
        }
    }
    text
}

/// Appends one frame as one line: control characters in the name are replaced.
fn put_frame(scope: &mut PinScope<'_, '_>, run: &Run, frame: Local<'_, StackFrame>, text: &mut String) {
    let name = frame.get_function_name(scope).map(|name| text_of(scope, name, MAX_NAME)).unwrap_or_default();
    let name = name.replace(|c: char| c < ' ', " ");
    let file = frame.get_script_name(scope).map(|file| text_of(scope, file, usize::MAX));
    // Line 0 is that of the text before a script: V8 means the beginning of the function around it.
    let place = file.filter(|file| run.files.find(file).is_some() && frame.get_line_number() > 0).map_or_else(
        || "native".to_owned(),
        |file| {
            let at = Position { line: frame.get_line_number() as u32, column: frame.get_column() as u32 };
            let at = run.source_position(&file, at);
            format!("{file}:{}:{}", at.line, at.column)
        },
    );
    let _ = if name.is_empty() { writeln!(text, "    at {place}") } else { writeln!(text, "    at {name} ({place})") };
}

/// The stack that was recorded for an error: not its property `stack`, which guest code can write.
pub(crate) fn of_error(scope: &mut PinScope<'_, '_>, run: &Run, error: Local<'_, Object>) -> Option<String> {
    let private = Local::new(scope, &run.realm.stack);
    if let Some(kept) = error.get_private(scope, private)
        && let Ok(kept) = kept.try_cast::<v8::String>()
    {
        return Some(text_of(scope, kept, MAX_STACK));
    }
    let trace = Exception::get_stack_trace(scope, error.into())?;
    Some(stack_text(scope, run, trace, DEFAULT_FRAMES))
}

/// Sets the stack of an error from the host.
pub(crate) fn set(scope: &mut PinScope<'_, '_>, run: &Run, error: Local<'_, Object>, stack: &str) {
    let private = Local::new(scope, &run.realm.stack);
    let Some(text) = string(scope, stack) else { return };
    error.set_private(scope, private, text.into());
}

/// Sets the frames of an error that the engine makes, also in its property `stack`.
pub(crate) fn give(scope: &mut PinScope<'_, '_>, run: &Run, error: Local<'_, Object>, frames: &str) {
    set(scope, run, error, frames);
    let head = Local::<Value>::from(error).to_string(scope).map(|head| text_of(scope, head, MAX_STACK));
    let text = format!("{}\n{}", head.unwrap_or_default(), frames.trim_end_matches('\n'));
    if let Some(text) = string(scope, text.trim_end_matches('\n')) {
        hidden(scope, error, "stack", text.into());
    }
}

/// The stack of a thrown value.
pub(crate) fn of_thrown(scope: &mut PinScope<'_, '_>, run: &Run, thrown: Local<'_, Value>) -> String {
    if thrown.is_native_error()
        && let Ok(error) = thrown.try_cast::<Object>()
    {
        return of_error(scope, run, error).unwrap_or_default();
    }
    match &*run.last_thrown.borrow() {
        Some((value, stack)) if Local::new(scope, value).same_value(thrown) => stack.clone(),
        _ => String::new(),
    }
}

/// Records where a value that is not an error was thrown.
pub(crate) fn note_thrown(scope: &mut PinScope<'_, '_>, run: &Run, thrown: Local<'_, Value>) {
    if thrown.is_native_error() {
        return;
    }
    // V8 gives the place where the promise is rejected. That is where the value was thrown if there is a `throw`; a value that was
    // thrown in a function that is called has no place.
    let message = Exception::create_message(scope, thrown);
    let line = message.get_source_line(scope).map(|line| text_of(scope, line, usize::MAX)).unwrap_or_default();
    let before: usize = line
        .chars()
        .scan(0, |units, c| {
            *units += c.len_utf16();
            (*units <= message.get_start_column()).then(|| c.len_utf8())
        })
        .sum();
    if line.get(before..).is_some_and(|code| code.starts_with("throw")) {
        note_message(scope, run, thrown, message);
    }
}

/// Records where a value that is not an error was thrown, by V8's message of it.
pub(crate) fn note_message(
    scope: &mut PinScope<'_, '_>,
    run: &Run,
    thrown: Local<'_, Value>,
    message: Local<'_, v8::Message>,
) {
    let trace = message.get_stack_trace(scope);
    let stack = trace.map(|trace| stack_text(scope, run, trace, DEFAULT_FRAMES)).unwrap_or_default();
    let stack = if stack.is_empty() { place_of(scope, run, message).unwrap_or_default() } else { stack };
    *run.last_thrown.borrow_mut() = Some((Global::new(scope, thrown), stack));
}

/// The place of a message without a stack, as a frame.
fn place_of(scope: &mut PinScope<'_, '_>, run: &Run, message: Local<'_, v8::Message>) -> Option<String> {
    let file = message.get_script_resource_name(scope)?.try_cast::<v8::String>().ok()?;
    let file = text_of(scope, file, usize::MAX);
    let column = u32::try_from(message.get_start_column()).ok()? + 1;
    let at = Position { line: message.get_line_number(scope)? as u32, column };
    let at = run.source_position(&file, at);
    run.files.find(&file).map(|file| format!("    at {file}:{}:{}\n", at.line, at.column))
}

/// Called by V8 when the property `stack` of an error is first read. Returns the error as a string, then its frames with
/// positions in the source.
pub(crate) fn prepare<'s>(
    scope: &mut PinScope<'s, '_, Context>,
    error: Local<'s, Value>,
    sites: Local<'s, Array>,
) -> Local<'s, Value> {
    let run = Run::of(scope);
    if let Some(prepared) = prepared_by_guest(scope, &run, error, sites) {
        return prepared;
    }
    v8::tc_scope!(let scope, scope);
    let head = error.to_string(scope);
    let mut text = head.map_or_else(|| "<error>".to_owned(), |head| text_of(scope, head, MAX_STACK));
    let frames = match error.try_cast::<Object>() {
        Ok(error) => Exception::get_stack_trace(scope, error.into()),
        Err(_) => None,
    };
    if let Some(trace) = frames {
        let stack = stack_text(scope, &run, trace, sites.length() as usize);
        if !stack.is_empty() {
            text.push('\n');
            text.push_str(stack.trim_end_matches('\n'));
        }
    }
    match string(scope, &text) {
        Some(text) => text.into(),
        None => v8::undefined(scope).into(),
    }
}

/// The result of the guest's `Error.prepareStackTrace`, if there is one and it does not throw.
fn prepared_by_guest<'s>(
    scope: &mut PinScope<'s, '_>,
    run: &Run,
    error: Local<'s, Value>,
    sites: Local<'s, Array>,
) -> Option<Local<'s, Value>> {
    let class = Local::new(scope, &run.realm.error);
    let name = symbol(scope, "prepareStackTrace");
    let prepare: Local<'_, Function> = class.get(scope, name.into())?.try_into().ok()?;
    v8::tc_scope!(let scope, scope);
    let result = prepare.call(scope, class.into(), &[error, sites.into()]);
    Some(result.unwrap_or_else(|| v8::null(scope).into()))
}
