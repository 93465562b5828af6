//! Names that guest code can write: provider names, and safe names for tools.
//!
//! Pure functions over text. Collisions between the tools of one provider are resolved in
//! [`SafeNames`]; whether two providers clash is for whoever holds them all.

use std::collections::{HashMap, HashSet};

/// Words that cannot be an identifier in strict-mode module code, sorted.
#[rustfmt::skip] // one word a line says no more
const RESERVED: &[&str] = &[
    "arguments", "await", "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete",
    "do", "else", "enum", "eval", "export", "extends", "false", "finally", "for", "function", "if", "implements",
    "import", "in", "instanceof", "interface", "let", "new", "null", "package", "private", "protected", "public",
    "return", "static", "super", "switch", "this", "throw", "true", "try", "typeof", "var", "void", "while", "with",
    "yield",
];

/// Property names that JavaScript itself looks up on objects: a tool must not answer to them.
const MAGIC: &[&str] = &["__proto__", "constructor", "prototype", "then", "toString"];

/// Global names of the realm and the console, sorted: a provider must not hide them.
#[rustfmt::skip] // one word a line says no more
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

/// The longest safe name; longer ones are cut (and stay unique by the collision rule).
const MAX_SAFE_NAME: usize = 128;

/// Whether `name` is an identifier as ECMAScript has them in modules: of letters and digits of any script, `_` and `$`, not
/// starting with a digit, not a reserved word.
pub fn is_identifier(name: &str) -> bool {
    let starts = |c| matches!(c, '_' | '$') || unicode_id_start::is_id_start(c);
    name.starts_with(starts) && name.chars().all(is_identifier_part) && RESERVED.binary_search(&name).is_err()
}

/// Whether identifiers can contain `c`.
pub(crate) fn is_identifier_part(c: char) -> bool {
    matches!(c, '$' | '\u{200c}' | '\u{200d}') || unicode_id_start::is_id_continue(c)
}

/// Whether `name` can follow a dot: an identifier, or a reserved word.
pub fn is_property_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_name_char)
}

/// Why a provider cannot have the name it was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderNameError {
    /// Not an identifier that guest code could write.
    #[error(
        "provider name {0:?} is not an identifier: use ASCII letters, digits, `_` and `$`, not starting with a digit, \
         and no reserved word"
    )]
    NotAnIdentifier(String),
    /// The name of something that guest code already has.
    #[error("provider name {0:?} would hide the global `{0}` from guest code: choose another")]
    Global(String),
    /// Two providers of one name.
    #[error("two providers are named {0:?}: give each its own name")]
    Duplicate(String),
}

/// Checks that `name` can be a provider's name: a guest-visible global namespace.
pub fn check_provider_name(name: &str) -> Result<(), ProviderNameError> {
    if !name.is_ascii() || !is_identifier(name) || MAGIC.contains(&name) {
        return Err(ProviderNameError::NotAnIdentifier(name.to_owned()));
    }
    if GLOBALS.binary_search(&name).is_ok() {
        return Err(ProviderNameError::Global(name.to_owned()));
    }
    Ok(())
}

/// Checks the names of all providers of one execution together.
pub fn check_provider_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), ProviderNameError> {
    let mut seen = HashSet::new();
    for name in names {
        check_provider_name(name)?;
        if !seen.insert(name) {
            return Err(ProviderNameError::Duplicate(name.to_owned()));
        }
    }
    Ok(())
}

/// Hands out the safe names of one provider's tools, each once.
///
/// ```
/// let mut names = execbox_core::names::SafeNames::default();
/// assert_eq!(names.assign("scrape-url"), "scrape_url");
/// assert_eq!(names.assign("scrape.url"), "scrape_url__2");
/// assert_eq!(names.assign("delete"), "delete_");
/// ```
#[derive(Debug, Default)]
pub struct SafeNames {
    /// Every name handed out, with how often a tool asked for just that one: where its numbering goes on.
    taken: HashMap<String, u32>,
}

impl SafeNames {
    /// The safe name for `original`: never handed out before by this value.
    pub fn assign(&mut self, original: &str) -> String {
        let base = safe_name(original);
        let mut name = base.clone();
        while self.taken.contains_key(&name) {
            let number = self.taken.entry(base.clone()).or_insert(1);
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
    fn safe_names_follow_the_rules() {
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
    fn collisions_are_numbered_and_never_meet() {
        let mut names = SafeNames::default();
        let given: Vec<_> = ["a", "a!", "a__2", "a?", "-a"].iter().map(|n| names.assign(n)).collect();
        assert_eq!(given, ["a", "a__2", "a__2__2", "a__3", "a__4"]);
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
