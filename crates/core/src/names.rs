//! Names in guest code: names of providers, and safe names of tools.

use std::collections::{HashMap, HashSet};

use unicode_normalization::UnicodeNormalization as _;

use crate::text::is_hidden;

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

/// The most characters of a safe name before it is numbered, and of a name from which one is made. Longer names are cut.
const MAX_SAFE_NAME: usize = 128;
const MAX_READ: usize = 1_024;

/// How many characters of a name without letters and digits its safe name has.
const MAX_CODES: usize = 16;

/// Whether `name` is an identifier in an ECMAScript module: letters and digits of any script, `_` and `$`, not starting with
/// a digit, and not a reserved word.
pub fn is_identifier(name: &str) -> bool {
    name.starts_with(starts_identifier)
        && name.chars().all(is_identifier_part)
        && RESERVED.binary_search(&name).is_err()
}

fn starts_identifier(c: char) -> bool {
    matches!(c, '_' | '$') || unicode_id_start::is_id_start(c)
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
#[non_exhaustive]
pub enum ProviderNameError {
    /// Not an identifier, or one with hidden characters.
    #[error(
        "invalid provider name {0:?}: expected letters, digits, `_` and `$`, not starting with a digit, and not a reserved word"
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
    if !is_identifier(name) || name.contains(is_hidden) || MAGIC.contains(&name) {
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

/// The safe name of a tool whose name is `original`: what code writes after the dot.
///
/// Letters, digits and marks of all scripts stay, in the form NFKC; each run of other characters becomes one `_`.
///
/// ```
/// use execbox_core::names::safe_name;
///
/// assert_eq!(safe_name("scrape-url"), "scrape_url");
/// assert_eq!(safe_name("予定を作成"), "予定を作成");
/// assert_eq!(safe_name("delete"), "delete_");
/// ```
pub fn safe_name(original: &str) -> String {
    let mut name = String::with_capacity(original.len().min(MAX_SAFE_NAME));
    for c in original.chars().take(MAX_READ).nfkc().take(MAX_SAFE_NAME) {
        if is_name_char(c) || !c.is_ascii() && unicode_id_start::is_id_continue(c) && !is_hidden(c) {
            name.push(c);
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = name.trim_matches('_');
    if name.is_empty() {
        unreadable(original)
    } else if !name.starts_with(starts_identifier) {
        format!("_{name}")
    } else if RESERVED.binary_search(&name).is_ok() || MAGIC.contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}

/// The safe name of a tool whose name has no letter and no digit: with the numbers of its characters, `tool_1f4c5`.
fn unreadable(original: &str) -> String {
    let codes = original.chars().filter(|c| *c != '_').take(MAX_CODES);
    codes.fold("tool".to_owned(), |name, c| format!("{name}_{:x}", u32::from(c)))
}

/// Distinct safe names of the tools of one provider. Of tools with the same safe name, the one with exactly that name keeps
/// it, and the others are numbered. The order of the tools changes nothing.
///
/// ```
/// let names = execbox_core::names::safe_names(&["scrape.url", "scrape-url", "scrape_url"]);
/// assert_eq!(names, ["scrape_url__3", "scrape_url__2", "scrape_url"]);
/// ```
pub fn safe_names(originals: &[&str]) -> Vec<String> {
    distinct(originals, safe_name)
}

/// Distinct names, each made of a name in `originals` by `safe`. Of those that collide, `a-b` comes before `a.b`, and that before
/// others.
pub fn distinct<'a>(originals: &[&'a str], safe: impl Fn(&'a str) -> String) -> Vec<String> {
    let mut names: Vec<String> = originals.iter().map(|original| safe(original)).collect();
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_cached_key(|&at| (names[at] != originals[at], separators(originals[at]), originals[at], at));
    let mut taken = Taken::default();
    for at in order {
        names[at] = taken.number(&names[at]);
    }
    names
}

/// How unusual the characters of a name are that its safe name does not have.
fn separators(original: &str) -> Vec<usize> {
    let others = original.chars().take(MAX_READ).filter(|&c| !is_name_char(c));
    others.map(|c| USUAL.iter().position(|usual| *usual == c).unwrap_or(USUAL.len())).collect()
}

/// The usual separators in names, the most usual first.
const USUAL: [char; 5] = ['-', '.', '/', ':', ' '];

/// Names that are taken, each with the last number that was added to it.
#[derive(Default)]
struct Taken(HashMap<String, u32>);

impl Taken {
    /// `base`, or `base` with the first number that makes a name which is not taken.
    fn number(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        while self.0.contains_key(&name) {
            let number = self.0.entry(base.to_owned()).or_insert(1);
            *number += 1;
            name = format!("{base}__{number}");
        }
        self.0.insert(name.clone(), 1);
        name
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
            ("予定を作成", "予定を作成"),
            ("स्थान-खोजें", "स्थान_खोजें"),
            ("قراءة ملف", "قراءة_ملف"),
            ("می\u{200c}خواهم", "می_خواهم"),
            ("cafe\u{301}", "café"),
            ("ｓｅａｒｃｈ①", "search1"),
            ("\u{301}a", "_\u{301}a"),
            ("٣ أيام", "_٣_أيام"),
            ("a\u{3164}b\u{e0100}c\u{202e}", "a_b_c"),
            ("ｄｅｌｅｔｅ", "delete_"),
            ("📅", "tool_1f4c5"),
            ("__📅!", "tool_1f4c5_21"),
            ("___", "tool"),
            ("", "tool"),
            ("$ok", "$ok"),
        ] {
            assert_eq!(safe_name(original), safe, "{original:?}");
        }
    }

    #[test]
    fn names_that_are_safe_already_are_kept_and_others_are_numbered_in_any_order() {
        let pairs = [
            ("a-b", "a_b__2"),
            ("a_b", "a_b"),
            ("a.b", "a_b__4"),
            ("a_b__3", "a_b__3"),
            ("-x", "x"),
            ("x!", "x__2"),
            ("📅", "tool_1f4c5"),
            ("🗑", "tool_1f5d1"),
            ("tool", "tool"),
        ];
        for turn in 0..pairs.len() {
            let mut pairs = pairs;
            pairs.rotate_left(turn);
            for pairs in [pairs, {
                pairs.reverse();
                pairs
            }] {
                assert_eq!(safe_names(&pairs.map(|(original, _)| original)), pairs.map(|(_, safe)| safe));
            }
        }
        assert_eq!(safe_names(&["a", "a"]), ["a", "a__2"]);
        let long = ["x".repeat(200), "x".repeat(201)];
        let safe = safe_names(&long.each_ref().map(String::as_str));
        assert_eq!(safe, ["x".repeat(128), "x".repeat(128) + "__2"]);
    }

    #[test]
    fn safe_names_are_short_whatever_they_are_made_from() {
        for hostile in ["\u{301}".repeat(1 << 20), "\u{fdfa}".repeat(1 << 20), "📅".repeat(1 << 20)] {
            assert!(safe_name(&hostile).chars().count() <= MAX_SAFE_NAME + 1, "{hostile:.10}");
        }
    }

    #[test]
    fn provider_names_are_checked() {
        assert_eq!(check_provider_names(["tools", "github", "größe", "天気"]), Ok(()));
        for bad in ["", "my-tools", "2x", "class", "then", "__proto__", "a b", "a\u{200d}b", "a\u{fe0f}"] {
            assert_eq!(check_provider_name(bad), Err(ProviderNameError::NotAnIdentifier(bad.into())));
        }
        assert_eq!(check_provider_name("JSON"), Err(ProviderNameError::Global("JSON".into())));
        assert_eq!(check_provider_name("console"), Err(ProviderNameError::Global("console".into())));
        assert_eq!(check_provider_names(["a", "a"]), Err(ProviderNameError::Duplicate("a".into())));
    }
}
