//! The end of a program, as the guest reports it: see `host_done` in guest.c.
//!
//! A program that does not end with a value ends with an array of strings.

use execbox_core::engine::{Cause, LinkError, Outcome, Thrown};
use execbox_core::error::{ErrorCode, ExecuteError};
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
            let cause = cause(&name, &message);
            Outcome::Threw(Thrown { name, message, frames: files.frames(&stack), cause })
        }
        None => invalid(),
    }
}

/// The cause behind a message of QuickJS. A guest can throw an error with the same message.
fn cause(name: &str, message: &str) -> Option<Cause> {
    match name {
        "TypeError" if message == "not a function" => Some(Cause::NotAFunction),
        "TypeError" if message.starts_with("cannot read property '") => Some(Cause::PropertyOfNothing),
        "ReferenceError" => message.strip_suffix(" is not defined").map(|name| Cause::NotDefined(name.to_owned())),
        _ => None,
    }
}

/// A compromised guest can name an unknown module: its name is then empty.
fn unlinked(value: &Value, files: &Files) -> Outcome {
    let Some([kind, module, name, message, stack]) = strings(value) else {
        return invalid();
    };
    let module = || files.module(&module).unwrap_or_default();
    Outcome::Unlinked(match kind.as_str() {
        "syntax" => {
            let position = files.frames(&stack).first().map(|frame| frame.position);
            LinkError::Syntax { module: module(), message, position }
        }
        "specifier" => LinkError::Specifier { module: module(), specifier: name },
        "export" => LinkError::Export { export: name },
        _ => LinkError::Binding { message },
    })
}

fn failed(value: &Value, files: &Files) -> Outcome {
    match strings(value) {
        Some([code, message, stack]) => {
            let code = ErrorCode::from_name(&code).unwrap_or(ErrorCode::ToolError);
            let frames = files.frames(&stack);
            Outcome::Failed { error: ExecuteError::new(code, message), frames }
        }
        None => invalid(),
    }
}
