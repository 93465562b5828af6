//! How a program ends.

use execbox_core::engine::{NativeError, Outcome, Thrown};
use execbox_core::error::ExecuteError;
use execbox_core::value::Value as Encoded;
use v8::{Array, Local, Object, PinScope, Value};

use crate::encode::{Mode, encode};
use crate::run::Run;
use crate::text::{symbol, text_of};
use crate::{console, rejections, stack};

/// The most UTF-16 units of a message.
const MAX_MESSAGE: usize = 16 << 10;

/// The outcome of a program that returned this value.
pub(crate) fn returned(scope: &mut PinScope<'_, '_>, run: &Run, value: Local<'_, Value>) -> Outcome {
    v8::tc_scope!(let caught, scope);
    let mode = if run.has_modules { Mode::Graph } else { Mode::Json };
    match encode(caught, run, value, mode, "result") {
        Some(bytes) => {
            log_rejections(caught, run);
            Outcome::Returned(Encoded::from_bytes(bytes))
        }
        None => {
            let thrown = caught.exception();
            caught.reset();
            threw(caught, run, thrown)
        }
    }
}

/// The outcome of a program that threw this value; `None` if it was terminated.
pub(crate) fn threw(scope: &mut PinScope<'_, '_>, run: &Run, thrown: Option<Local<'_, Value>>) -> Outcome {
    let Some(thrown) = thrown else { return Outcome::Interrupted };
    let frames = run.files.frames(&stack::of_thrown(scope, run, thrown));
    log_rejections(scope, run);
    if let Some(error) = host_failure(scope, run, thrown) {
        return Outcome::Failed { error, frames };
    }
    let (name, message) = describe(scope, thrown);
    let native = native_error(&name, &message);
    Outcome::Threw(Thrown { name, message, frames, native })
}

fn log_rejections(scope: &mut PinScope<'_, '_>, run: &Run) {
    if !run.has_modules {
        rejections::log(scope, run);
    }
}

/// The error that the host failed a call with, if `thrown` is that very error.
fn host_failure(scope: &mut PinScope<'_, '_>, run: &Run, thrown: Local<'_, Value>) -> Option<ExecuteError> {
    let object: Local<'_, Object> = thrown.try_into().ok()?;
    let private = Local::new(scope, &run.realm.failure);
    let mark: Local<'_, Array> = object.get_private(scope, private)?.try_into().ok()?;
    let mut part = |index| {
        let text: Local<'_, v8::String> = mark.get_index(scope, index)?.try_into().ok()?;
        Some(text_of(scope, text, usize::MAX))
    };
    let [code, message, cause] = [part(0)?, part(1)?, part(2)?];
    Some(ExecuteError::from_parts(&code, message, &cause))
}

/// Name and message of a thrown value; either may be empty.
pub(crate) fn describe(scope: &mut PinScope<'_, '_>, thrown: Local<'_, Value>) -> (String, String) {
    let Ok(object) = thrown.try_cast::<Object>() else {
        return (String::new(), plain(scope, thrown));
    };
    let is_error = thrown.is_native_error();
    let name = text_property(scope, object, "name", 256).filter(|_| is_error).unwrap_or_default();
    let message = text_property(scope, object, "message", MAX_MESSAGE);
    let message = match message {
        Some(message) => message,
        None if is_error => String::new(),
        None => {
            v8::tc_scope!(let scope, scope);
            let json = if thrown.is_function() { None } else { v8::json::stringify(scope, thrown) };
            match json {
                Some(json) => text_of(scope, json, MAX_MESSAGE),
                None => plain(scope, thrown),
            }
        }
    };
    (name, message)
}

fn plain(scope: &mut PinScope<'_, '_>, value: Local<'_, Value>) -> String {
    v8::scope!(let scope, scope);
    let value = Local::new(scope, value);
    console::plain_text(scope, value).map(|text| text_of(scope, text, MAX_MESSAGE)).unwrap_or_default()
}

/// A property that is a string. Runs getters, and ignores what they throw.
fn text_property(
    scope: &mut PinScope<'_, '_>,
    object: Local<'_, Object>,
    name: &'static str,
    max: usize,
) -> Option<String> {
    v8::tc_scope!(let scope, scope);
    let key = symbol(scope, name);
    let text: Local<'_, v8::String> = object.get(scope, key.into())?.try_into().ok()?;
    Some(text_of(scope, text, max))
}

/// The kind of an error that V8 throws, by its name and message, because V8 marks it in no other way. A guest can throw an
/// error with the same message.
fn native_error(name: &str, message: &str) -> Option<NativeError> {
    match name {
        "TypeError" if message.ends_with(" is not a function") => Some(NativeError::NotAFunction),
        "TypeError" if message.starts_with("Cannot read properties of ") => Some(NativeError::PropertyOfNothing),
        "ReferenceError" => {
            message.strip_suffix(" is not defined").map(|name| NativeError::NotDefined(name.to_owned()))
        }
        _ => None,
    }
}
