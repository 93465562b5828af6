//! The function `store.update`, which changes a value atomically. It calls a function of the program, which cannot cross to the
//! host, and so runs in the program itself.

use execbox::{ScriptFunction, Tool, ToolError};

use super::values::NAMESPACE;
use crate::text::words;

/// The name of the function.
const NAME: &str = "update";

/// The function, if one of `sources` contains its name and that of the namespace.
pub(in super::super) fn update<'a>(mut sources: impl Iterator<Item = &'a str>) -> Option<ScriptFunction> {
    let [namespace, name] = [NAMESPACE, NAME].map(str::to_owned);
    let function = || ScriptFunction::new(namespace, name, include_str!("update.js"));
    let names = |source: &str, name: &str| words(source).any(|word| word == name);
    sources.any(|source| names(source, NAME) && names(source, NAMESPACE)).then(function)
}

/// The tool in whose place programs have the function, so that errors list it.
pub(super) fn tool() -> Tool {
    let message = "write the name into the code: `await store.update({ key, update: (value) => newValue })`";
    Tool::new(NAME, move |_, _| std::future::ready(Err(ToolError::invalid(message))))
        .description("Changes a value atomically, by a function of the stored value, or of null")
}
