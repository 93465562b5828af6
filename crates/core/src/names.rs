//! Names in guest code: names of providers, and safe names of tools.

use std::collections::{HashMap, HashSet};

/// Words that are not identifiers in strict-mode module code, sorted.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete",
    "do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function", "if", "implements",
    "import", "in", "instanceof", "interface", "let", "new", "null", "package", "private", "protected", "public",
    "return", "static", "super", "switch", "this", "throw", "true", "try", "typeof", "var", "void", "while", "with",
    "yield",
];

/// Property names that JavaScript itself looks up on objects: no tool can have them.
pub(crate) const MAGIC: &[&str] = &["__proto__", "constructor", "prototype", "then", "toString"];

/// Globals of every guest, sorted: no provider can have their names.
#[rustfmt::skip]
const GLOBALS: &[&str] = &[
    "AggregateError", "Array", "ArrayBuffer", "AsyncDisposableStack", "Atomics", "BigInt", "BigInt64Array",
    "BigUint64Array", "Boolean", "DataView", "Date", "DisposableStack", "Error", "EvalError", "FinalizationRegistry",
    "Float16Array", "Float32Array", "Float64Array", "Function", "Infinity", "Int16Array", "Int32Array", "Int8Array",
    "InternalError", "Intl", "Iterator", "JSON", "Map", "Math", "NaN", "Number", "Object", "Promise", "Proxy",
    "RangeError", "ReferenceError", "Reflect", "RegExp", "Set", "SharedArrayBuffer", "String", "SuppressedError",
    "Symbol", "SyntaxError", "TypeError", "URIError", "Uint16Array", "Uint32Array", "Uint8Array",
    "Uint8ClampedArray", "WeakMap", "WeakRef", "WeakSet", "console", "decodeURI", "decodeURIComponent", "encodeURI",
    "encodeURIComponent", "escape", "globalThis", "isFinite", "isNaN", "parseFloat", "parseInt", "queueMicrotask",
    "structuredClone", "undefined", "unescape",
];

/// The most characters of a safe name before it is numbered. Longer names are cut.
const MAX_SAFE_NAME: usize = 128;

/// Whether `name` is an identifier in an ECMAScript module: letters and digits of any script, `_` and `$`, not starting with
/// a digit, and not a reserved word.
pub fn is_identifier(name: &str) -> bool {
    let starts = |c| matches!(c, '_' | '$') || unicode_id_start::is_id_start(c);
    name.starts_with(starts) && name.chars().all(is_identifier_part) && RESERVED.binary_search(&name).is_err()
}

/// Whether identifiers can contain `c`.
pub(crate) fn is_identifier_part(c: char) -> bool {
    matches!(c, '$' | '\u{200c}' | '\u{200d}') || unicode_id_start::is_id_continue(c)
}

/// Whether `name` can follow a dot in ASCII: letters, digits, `_` and `$`, not starting with a digit. Reserved words can.
pub fn is_property_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_name_char)
}

/// Whether a function of a script can have this name.
pub(crate) fn is_function_name(name: &str) -> bool {
    is_property_name(name) && !MAGIC.contains(&name)
}

/// Why a provider's name is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderNameError {
    /// Not an ASCII identifier.
    #[error(
        "invalid provider name {0:?}: expected ASCII letters, digits, `_` and `$`, not starting with a digit, and not a \
         reserved word"
    )]
    NotAnIdentifier(String),
    /// The name of a global of every guest.
    #[error("invalid provider name {0:?}: it would hide the global `{0}`; use another name")]
    Global(String),
    /// Two providers have this name.
    #[error("duplicate provider name {0:?}")]
    Duplicate(String),
}

/// Checks the name of a provider: that of a global in guest code.
pub fn check_provider_name(name: &str) -> Result<(), ProviderNameError> {
    if !name.is_ascii() || !is_identifier(name) || MAGIC.contains(&name) {
        return Err(ProviderNameError::NotAnIdentifier(name.to_owned()));
    }
    if GLOBALS.binary_search(&name).is_ok() {
        return Err(ProviderNameError::Global(name.to_owned()));
    }
    Ok(())
}

/// Checks the names of all providers of one execution, and that they are distinct.
pub(crate) fn check_provider_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), ProviderNameError> {
    let mut seen = HashSet::new();
    for name in names {
        check_provider_name(name)?;
        if !seen.insert(name) {
            return Err(ProviderNameError::Duplicate(name.to_owned()));
        }
    }
    Ok(())
}

/// Assigns distinct safe names to the tools of one provider.
///
/// ```
/// let mut names = execbox_core::names::SafeNames::default();
/// assert_eq!(names.assign("scrape-url"), "scrape_url");
/// assert_eq!(names.assign("scrape.url"), "scrape_url__2");
/// assert_eq!(names.assign("delete"), "delete_");
/// ```
#[derive(Debug, Default)]
pub struct SafeNames {
    /// Every assigned name, with the last number that was added to it.
    taken: HashMap<String, u32>,
}

impl SafeNames {
    /// The safe name of the tool `original`, different from all that were assigned before.
    pub fn assign(&mut self, original: &str) -> String {
        self.number(&safe_name(original))
    }

    /// As [`assign`](Self::assign), but reserved words stay as they are: `delete` can follow a dot.
    pub fn assign_reserved(&mut self, original: &str) -> String {
        let is_reserved = RESERVED.binary_search(&original).is_ok();
        if is_reserved { self.number(original) } else { self.assign(original) }
    }

    fn number(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        while self.taken.contains_key(&name) {
            let number = self.taken.entry(base.to_owned()).or_insert(1);
            *number += 1;
            name = format!("{base}__{number}");
        }
        self.taken.insert(name.clone(), 1);
        name
    }
}

fn safe_name(original: &str) -> String {
    let mut name = String::with_capacity(original.len().min(MAX_SAFE_NAME));
    for c in original.chars().take(MAX_SAFE_NAME) {
        if is_name_char(c) {
            name.push(c);
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = name.trim_matches('_');
    if name.is_empty() {
        "tool".to_owned()
    } else if name.starts_with(|c: char| c.is_ascii_digit()) {
        format!("_{name}")
    } else if RESERVED.binary_search(&name).is_ok() || MAGIC.contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(RESERVED.is_sorted());
        assert!(GLOBALS.is_sorted());
    }

    #[test]
    fn identifiers_are_those_of_ecmascript() {
        for name in ["a", "$", "_1", "größe", "名前", "ℵ", "a\u{200d}b", "e\u{301}"] {
            assert!(is_identifier(name), "{name}");
        }
        for name in ["", "1a", "a-b", "a b", "await", "\u{301}e", "\u{200d}a", "x\u{2028}", "😀"] {
            assert!(!is_identifier(name), "{name}");
        }
    }

    #[test]
    fn safe_names_are_valid_property_names() {
        for (original, safe) in [
            ("search", "search"),
            ("scrape-url", "scrape_url"),
            ("a  b--c", "a_b_c"),
            ("--x--", "x"),
            ("2fa", "_2fa"),
            ("delete", "delete_"),
            ("then", "then_"),
            ("__proto__", "proto"),
            ("constructor", "constructor_"),
            ("prototype", "prototype_"),
            ("toString", "toString_"),
            ("日本", "tool"),
            ("", "tool"),
            ("$ok", "$ok"),
        ] {
            assert_eq!(safe_name(original), safe, "{original:?}");
        }
    }

    #[test]
    fn colliding_names_are_numbered() {
        let mut names = SafeNames::default();
        let given: Vec<_> = ["a", "a!", "a__2", "a?", "-a"].iter().map(|n| names.assign(n)).collect();
        assert_eq!(given, ["a", "a__2", "a__2__2", "a__3", "a__4"]);
        let mut names = SafeNames::default();
        let given: Vec<_> = ["delete", "delete", "then", "a b"].iter().map(|n| names.assign_reserved(n)).collect();
        assert_eq!(given, ["delete", "delete__2", "then_", "a_b"]);
    }

    #[test]
    fn provider_names_are_checked() {
        assert_eq!(check_provider_names(["tools", "github"]), Ok(()));
        for bad in ["", "my-tools", "2x", "class", "then", "__proto__", "a b", "é"] {
            assert_eq!(check_provider_name(bad), Err(ProviderNameError::NotAnIdentifier(bad.into())));
        }
        assert_eq!(check_provider_name("JSON"), Err(ProviderNameError::Global("JSON".into())));
        assert_eq!(check_provider_name("console"), Err(ProviderNameError::Global("console".into())));
        assert_eq!(check_provider_names(["a", "a"]), Err(ProviderNameError::Duplicate("a".into())));
    }
}
