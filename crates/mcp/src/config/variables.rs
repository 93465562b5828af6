//! Expansion of `${…}` in values.

use std::path::{MAIN_SEPARATOR, PathBuf};

use super::input::Item;
use super::{Context, SkipReason};

/// The context and the inputs that references are resolved with.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) context: &'a dyn Context,
    pub(super) inputs: &'a [Item],
}

/// A variable or an input that was used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) name: String,
    pub(super) value: String,
    /// Whether the value is always a secret.
    pub(super) is_password: bool,
}

/// Replaces every reference in `text`, and adds variables and inputs to `used`.
///
/// - `${NAME}` and `${NAME:-default}`: an environment variable. The default is used if it is unset or empty.
/// - `${env:NAME}`, the notation of some clients: the same.
/// - `${workspaceFolder}`, `${workspaceFolderBasename}`, `${userHome}`, `${pathSeparator}` and `${/}`.
/// - `${input:ID}`: an input.
/// - `$${` is a literal `${`; any other `$` is itself.
///
/// `key` is the path of keys for errors.
pub(super) fn expand(text: &str, key: &str, scope: Scope<'_>, used: &mut Vec<Used>) -> Result<String, SkipReason> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            expanded += before;
            expanded += "${";
            rest = &rest[at + 2..];
            continue;
        }
        expanded += &rest[..at];
        let Some((inside, after)) = rest[at + 2..].split_once('}') else {
            return Err(SkipReason::InvalidVariable { key: key.to_owned() });
        };
        expanded += &resolve(inside, key, scope, used)?;
        rest = after;
    }
    Ok(expanded + rest)
}

fn resolve(inside: &str, key: &str, scope: Scope<'_>, used: &mut Vec<Used>) -> Result<String, SkipReason> {
    if let Some(id) = inside.strip_prefix("input:") {
        return input(id, key, scope, used);
    }
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if PREDEFINED.contains(&name) {
        let value = predefined(name, scope.context).or_else(|| default.map(str::to_owned));
        return value.ok_or_else(|| SkipReason::UnknownFolder { key: key.to_owned(), name: name.to_owned() });
    }
    let name = name.strip_prefix("env:").unwrap_or(name);
    if !is_name(name) {
        return Err(SkipReason::InvalidVariable { key: key.to_owned() });
    }
    let value = scope.context.variable(name).filter(|value| default.is_none() || !value.is_empty());
    let value = value.or_else(|| default.map(str::to_owned));
    let value = value.ok_or_else(|| SkipReason::UnsetVariable { key: key.to_owned(), name: name.to_owned() })?;
    used.push(Used { name: name.to_owned(), value: value.clone(), is_password: false });
    Ok(value)
}

/// The variables that VS Code and Cursor define.
const PREDEFINED: &[&str] = &["workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"];

/// The value of a variable of [`PREDEFINED`], if the context knows it as text.
fn predefined(name: &str, context: &dyn Context) -> Option<String> {
    let text = |path: Option<PathBuf>| path.and_then(|path| path.into_os_string().into_string().ok());
    match name {
        "workspaceFolder" => text(context.workspace_folder()),
        "workspaceFolderBasename" => {
            text(context.workspace_folder().map(|path| path.file_name().map(PathBuf::from).unwrap_or_default()))
        }
        "userHome" => text(context.user_home()),
        _ => Some(MAIN_SEPARATOR.to_string()),
    }
}

fn input(id: &str, key: &str, scope: Scope<'_>, used: &mut Vec<Used>) -> Result<String, SkipReason> {
    let (key, owned_id) = (key.to_owned(), id.to_owned());
    let input = match scope.inputs.iter().find(|item| item.id() == id) {
        Some(Item::Input(input)) => input,
        Some(Item::Unsupported { .. }) => return Err(SkipReason::UnsupportedInput { key, id: owned_id }),
        None => return Err(SkipReason::UndefinedInput { key, id: owned_id }),
    };
    let value = scope.context.input(input);
    let value = value.map_err(|reason| SkipReason::MissingInput { key, id: owned_id, reason })?;
    used.push(Used { name: id.to_owned(), value: value.clone(), is_password: input.is_password() });
    Ok(value)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::super::{Context, Input, InputKind, Unavailable};
    use super::{Item, Scope, Used, expand};

    struct Fake;

    impl Context for Fake {
        fn variable(&self, name: &str) -> Option<String> {
            match name {
                "A" | "userHome" => Some("one".to_owned()),
                "EMPTY" => Some(String::new()),
                "NESTED" => Some("${A}".to_owned()),
                _ => None,
            }
        }

        fn workspace_folder(&self) -> Option<PathBuf> {
            Some(Path::new("/work/shop").to_owned())
        }

        fn input(&self, input: &Input) -> Result<String, Unavailable> {
            Ok(format!("answer to {}", input.id))
        }
    }

    fn expanded(text: &str) -> Result<(String, Vec<Used>), super::SkipReason> {
        let input = |id: &str, password| {
            let (id, kind) = (id.to_owned(), InputKind::Prompt { password });
            Item::Input(Input { id, description: None, kind, default: None })
        };
        let inputs = [input("a b", false), input("p:-", true), Item::Unsupported { id: "c".to_owned() }];
        let mut used = Vec::new();
        expand(text, "k", Scope { context: &Fake, inputs: &inputs }, &mut used).map(|text| (text, used))
    }

    #[test]
    fn variables_are_expanded_and_recorded() {
        for (text, expected) in [
            ("plain $ $$ {A} $A", "plain $ $$ {A} $A"),
            ("<${A}${A}>", "<oneone>"),
            ("${env:A}", "one"),
            ("${EMPTY}|${EMPTY:-d}|${NONE:-d}|${NONE:-}|${A:-d}", "|d|d||one"),
            ("${NESTED}", "${A}"),
            ("$${A} ${A}", "${A} one"),
            ("${workspaceFolder}${/}x${pathSeparator}${workspaceFolderBasename}", "/work/shop/x/shop"),
            ("${userHome:-d} ${env:userHome}", "d one"),
            ("${input:a b}, ${input:p:-}", "answer to a b, answer to p:-"),
        ] {
            assert_eq!(expanded(text).unwrap().0, expected, "{text}");
        }
        for text in ["${NONE}", "${", "${A", "${}", "${A-x}", "${A:x}", "${1}", "x ${A} ${NONE}", "${userHome}"] {
            assert!(expanded(text).is_err(), "{text}");
        }
        for text in ["${input:}", "${input:none}", "${input:c}", "${env:/}", "${workspaceFolder:other}"] {
            assert!(expanded(text).is_err(), "{text}");
        }
        let (_, used) = expanded("${A} ${NONE:-d} ${workspaceFolder} ${input:a b} ${input:p:-}").unwrap();
        let used: Vec<_> = used.iter().map(|one| (one.name.as_str(), one.value.as_str(), one.is_password)).collect();
        let inputs = [("a b", "answer to a b", false), ("p:-", "answer to p:-", true)];
        assert_eq!(used, [&[("A", "one", false), ("NONE", "d", false)][..], &inputs].concat());
    }
}
