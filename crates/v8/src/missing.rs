//! Globals of other places, which this sandbox does not have.

use crate::run::Run;

/// As `is_host_name` in the guest.c of the crate execbox-quickjs.
const HOST_NAMES: [&str; 46] = [
    "setTimeout",
    "setInterval",
    "setImmediate",
    "clearTimeout",
    "clearInterval",
    "fetch",
    "require",
    "process",
    "global",
    "window",
    "self",
    "document",
    "Buffer",
    "Deno",
    "Bun",
    "URL",
    "URLSearchParams",
    "Request",
    "Response",
    "Headers",
    "FormData",
    "Blob",
    "WebSocket",
    "XMLHttpRequest",
    "WebAssembly",
    "crypto",
    "performance",
    "atob",
    "btoa",
    "TextEncoder",
    "TextDecoder",
    "AbortController",
    "AbortSignal",
    "Intl",
    "eval",
    "SharedArrayBuffer",
    "Atomics",
    "navigator",
    "localStorage",
    "alert",
    "module",
    "exports",
    "__dirname",
    "__filename",
    "fs",
    "path",
];

/// Names what the sandbox has, where a program uses a global that it does not have.
pub(crate) fn explain(run: &Run, name: &str, message: String) -> String {
    let missing = message
        .strip_suffix(" is not defined")
        .filter(|missing| name == "ReferenceError" && HOST_NAMES.contains(missing));
    let Some(missing) = missing else { return message };
    let mut available = String::new();
    if run.has_modules {
        available.push_str(" and what the program imports");
    } else {
        available.push_str(", console");
        for (namespace, _) in &*run.namespaces.borrow() {
            available.push_str(", ");
            available.push_str(&namespace.name);
        }
    }
    format!("{missing} is not available in this sandbox, which has the ECMAScript built-ins{available}")
}
