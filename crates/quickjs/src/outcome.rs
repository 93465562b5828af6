//! The end of a program, as the guest reports it: see `host_done` in guest.c.
//!
//! A program that does not end with a value ends with an array of strings.

use execbox_core::engine::{ModuleError, NativeError, Outcome, Thrown};
use execbox_core::error::ExecuteError;
use execbox_core::stack::Files;
use execbox_core::value::Value;
use serde_json::Value as Json;

use crate::boundary::End;

pub(crate) fn read(end: Option<End>, value: Value, files: &Files) -> Outcome {
    match end {
        Some(End::Value) => Outcome::Returned(value),
        Some(End::Thrown) => thrown(&value, files),
        Some(End::Failure) => failed(&value, files),
        Some(End::Unlinked) => unlinked(&value, files),
        None => invalid(),
    }
}

fn invalid() -> Outcome {
    Outcome::Fault("the guest reported an invalid outcome".to_owned())
}

/// An array of strings.
fn strings<const N: usize>(value: &Value) -> Option<[String; N]> {
    let Ok(Some(Json::Array(items))) = value.to_json("end", 1 << 20) else { return None };
    let texts: Option<Vec<String>> = items.into_iter().map(|item| item.as_str().map(str::to_owned)).collect();
    texts?.try_into().ok()
}

fn thrown(value: &Value, files: &Files) -> Outcome {
    match strings(value) {
        Some([name, message, stack]) => {
            let native = native_error(&name, &message);
            Outcome::Threw(Thrown { name, message, frames: files.frames(&stack), native })
        }
        None => invalid(),
    }
}

/// The error that QuickJS throws with this name and message. Nothing else identifies it, so a guest can throw an error that
/// looks the same.
fn native_error(name: &str, message: &str) -> Option<NativeError> {
    match name {
        "TypeError" if message == "not a function" => Some(NativeError::NotAFunction),
        "TypeError" if message.starts_with("cannot read property '") => Some(NativeError::PropertyOfNothing),
        "ReferenceError" => {
            message.strip_suffix(" is not defined").map(|name| NativeError::NotDefined(name.to_owned()))
        }
        _ => None,
    }
}

/// Modules that do not link. A compromised guest can name an unknown module: the name is then empty.
fn unlinked(value: &Value, files: &Files) -> Outcome {
    let Some([kind, module, name, message, stack]) = strings(value) else {
        return invalid();
    };
    let module = || files.find(&module).unwrap_or_default();
    Outcome::Unlinked(match kind.as_str() {
        "syntax" => {
            let position = files.frames(&stack).first().map(|frame| frame.position);
            ModuleError::Syntax { module: module(), message, position }
        }
        "specifier" => ModuleError::Specifier { module: module(), specifier: name },
        "export" => ModuleError::Export { export: name },
        _ => ModuleError::Binding { message },
    })
}

fn failed(value: &Value, files: &Files) -> Outcome {
    match strings(value) {
        Some([code, message, cause, stack]) => {
            let error = ExecuteError::from_parts(&code, message, &cause);
            Outcome::Failed { error, frames: files.frames(&stack) }
        }
        None => invalid(),
    }
}
