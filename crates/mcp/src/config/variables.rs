//! Expansion of `${…}` in the values of an entry.

use std::cell::Cell;
use std::collections::HashMap;
use std::path::{MAIN_SEPARATOR, MAIN_SEPARATOR_STR, PathBuf};

use super::input::Item;
use super::node::Node;
use super::secret::{Candidates, without_scheme};
use super::skipped::{MAX_NESTED, MAX_VALUE};
use super::{Context, SkipReason, env_file};

/// What references are resolved with, besides the variables of the entry.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) context: &'a dyn Context,
    pub(super) inputs: &'a [Item],
    /// Whether `${…}` is a reference. In files of Codex it is text.
    pub(super) expands: bool,
    /// How many bytes the values of references in the file may still have.
    pub(super) left: &'a Cell<usize>,
}

/// A variable or an input that was used.
#[derive(Debug, PartialEq, Eq)]
struct Used {
    name: String,
    value: String,
    /// Whether the value is always a secret.
    is_password: bool,
}

/// Expands references, and records the values that may be secrets.
///
/// - `${NAME}` and `${NAME:-default}`: a variable of `env` or `envFile` of the same entry, or of the environment. The default
///   is used if it is unset or empty, and may have references itself: `${A:-${B:-c}}`. In its own definition, a name is that
///   of the environment.
/// - `${env:NAME}`, the notation of VS Code and Cursor: the same, but the environment comes first.
/// - `${workspaceFolder}`, `${workspaceFolderBasename}`, `${userHome}`, `${pathSeparator}` and `${/}`.
/// - `${input:ID}`: an input.
/// - `$${` is a literal `${`; any other `$` is itself.
pub(super) struct Expander<'a> {
    scope: Scope<'a>,
    /// `env` of the entry.
    env: &'a [(&'a str, Node<'a>)],
    /// The indexes of its names.
    names: HashMap<&'a str, usize>,
    env_file: Option<&'a Node<'a>>,
    /// The variables of `envFile`, when it has been read.
    file: Option<Vec<(String, String)>>,
    /// The expanded variables of `env`.
    expanded: HashMap<&'a str, String>,
    /// The variables of `env` whose values are being expanded.
    open: Vec<&'a str>,
    /// The number of defaults that are being expanded.
    defaults: usize,
    used: Vec<Used>,
    /// Whether a reference was resolved with `env` or `envFile`.
    pub(super) used_own: bool,
    pub(super) candidates: Candidates,
}

impl<'a> Expander<'a> {
    pub(super) fn new(scope: Scope<'a>, env: &'a [(&'a str, Node<'a>)], env_file: Option<&'a Node<'a>>) -> Self {
        Self {
            scope,
            env,
            names: env.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect(),
            env_file,
            file: None,
            expanded: HashMap::new(),
            open: Vec::new(),
            defaults: 0,
            used: Vec::new(),
            used_own: false,
            candidates: Candidates::default(),
        }
    }

    /// The values that may be secrets. The names of variables come first: `${NAME}` in a redacted text then means what it means
    /// in the file.
    pub(super) fn into_candidates(self) -> Candidates {
        let mut candidates = Candidates::default();
        for Used { name, value, is_password } in &self.used {
            if *is_password { candidates.add_secret(name, value) } else { candidates.add(name, value) }
        }
        candidates.append(self.candidates);
        candidates
    }

    /// Expands the text of a node.
    pub(super) fn expand(&mut self, node: &Node<'_>) -> Result<String, SkipReason> {
        let text = node.text();
        if self.scope.expands { self.expand_text(&text, node.path()) } else { Ok(text.into_owned()) }
    }

    /// Expands the text of a node, and `~` at its start.
    pub(super) fn path(&mut self, node: &Node<'_>) -> Result<String, SkipReason> {
        let path = self.expand(node)?;
        match path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with(MAIN_SEPARATOR)) {
            Some(rest) => Ok(self.folder("userHome", "~", node.path())? + rest),
            None => Ok(path),
        }
    }

    /// Expands a value of `env` or of `headers`. `$NAME` as the whole value, or after the scheme of an authorization, is a
    /// variable that is set, as in files of Gemini CLI.
    pub(super) fn value(&mut self, name: &str, node: &Node<'_>) -> Result<String, SkipReason> {
        let text = node.text();
        let (scheme, value) = text.split_at(text.len() - without_scheme(&text).len());
        let named = value.strip_prefix('$').filter(|name| self.scope.expands && is_constant(name));
        let value = match named {
            Some(variable) if let Some(value) = self.variable(variable, node.path())? => {
                self.charge(value.len(), node.path())?;
                self.add_used(variable, &value);
                format!("{scheme}{value}")
            }
            _ => self.expand(node)?,
        };
        self.candidates.add(name, &value);
        Ok(value)
    }

    /// The value of the environment variable that a node names, unless it is empty.
    pub(super) fn named(&mut self, node: &Node<'_>) -> Result<Option<String>, SkipReason> {
        let name = node.text();
        let value = self.scope.context.variable(&name).filter(|value| !value.is_empty());
        if let Some(value) = &value {
            self.charge(value.len(), node.path())?;
            self.add_used(&name, value);
        }
        Ok(value)
    }

    /// Whether `env` has a name.
    pub(super) fn defines(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// The variables of `env`, expanded. Those that are null are missing.
    pub(super) fn own_variables(&mut self) -> Result<Vec<(String, String)>, SkipReason> {
        let env = self.env;
        let set = env.iter().filter(|(_, node)| !node.is_null());
        set.map(|(name, node)| Ok(((*name).to_owned(), self.own_variable(name, node)?))).collect()
    }

    /// The variables of `envFile`.
    pub(super) fn file_variables(&mut self) -> Result<&[(String, String)], SkipReason> {
        if self.file.is_none() {
            self.file = Some(Vec::new()); // Its path cannot refer to its own variables.
            if let Some(node) = self.env_file {
                let variables = self.read_file(node)?;
                for (name, value) in &variables {
                    self.candidates.add(name, value);
                }
                self.file = Some(variables);
                self.expanded.clear();
            }
        }
        Ok(self.file.as_deref().unwrap_or_default())
    }

    fn read_file(&mut self, node: &Node<'_>) -> Result<Vec<(String, String)>, SkipReason> {
        let (key, file) = (node.path().to_owned(), node.text().into_owned());
        let path = PathBuf::from(self.path(node)?);
        let context = self.scope.context;
        let path = if path.is_relative() { context.workspace_folder().unwrap_or_default().join(path) } else { path };
        let text = match context.env_file(&path) {
            Ok(text) => text,
            Err(reason) => return Err(SkipReason::UnreadableEnvFile { key, file, reason }),
        };
        self.charge(text.len(), &key)?;
        env_file::parse(&text).map_err(|(line, problem)| SkipReason::InvalidEnvFile { key, file, line, problem })
    }

    fn expand_text(&mut self, text: &str, key: &str) -> Result<String, SkipReason> {
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
            let Some((inside, after)) = split_at_end(&rest[at + 2..]) else {
                return Err(SkipReason::InvalidVariable { key: key.to_owned() });
            };
            let value = self.resolve(inside, key)?;
            self.charge(value.len(), key)?;
            expanded += &value;
            if expanded.len() > MAX_VALUE {
                return Err(SkipReason::TooLong { key: key.to_owned() });
            }
            rest = after;
        }
        Ok(expanded + rest)
    }

    fn resolve(&mut self, inside: &str, key: &str) -> Result<String, SkipReason> {
        if let Some(id) = inside.strip_prefix("input:") {
            return self.input(id, key);
        }
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if PREDEFINED.contains(&name) {
            let value = self.folder(name, &format!("${{{name}}}"), key);
            return match (value, default) {
                (Err(_), Some(default)) => self.default(default, key),
                (value, _) => value,
            };
        }
        let (name, outer) = match name.strip_prefix("env:") {
            Some(name) => (name, self.scope.context.variable(name)),
            None => (name, None),
        };
        let value = if outer.is_some() { outer } else { self.variable(name, key)? };
        if value.is_none() && !is_name(name) {
            return Err(SkipReason::InvalidVariable { key: key.to_owned() });
        }
        let value = value.filter(|value| default.is_none() || !value.is_empty());
        let value = match (value, default) {
            (Some(value), _) => value,
            (None, Some(default)) => self.default(default, key)?,
            (None, None) => return Err(SkipReason::UnsetVariable { key: key.to_owned(), name: name.to_owned() }),
        };
        self.add_used(name, &value);
        Ok(value)
    }

    fn default(&mut self, text: &str, key: &str) -> Result<String, SkipReason> {
        if self.defaults == MAX_DEFAULTS {
            return Err(SkipReason::InvalidVariable { key: key.to_owned() });
        }
        self.defaults += 1;
        let expanded = self.expand_text(text, key);
        self.defaults -= 1;
        expanded
    }

    /// Charges the value of a reference to the file.
    fn charge(&self, bytes: usize, key: &str) -> Result<(), SkipReason> {
        let left = self.scope.left.get().checked_sub(bytes);
        self.scope.left.set(left.ok_or_else(|| SkipReason::ExpandsTooFar { key: key.to_owned() })?);
        Ok(())
    }

    fn add_used(&mut self, name: &str, value: &str) {
        self.used.push(Used { name: name.to_owned(), value: value.to_owned(), is_password: false });
    }

    /// The value of a variable of the entry or of the environment, if it is set.
    fn variable(&mut self, name: &str, key: &str) -> Result<Option<String>, SkipReason> {
        let is_own_definition = self.open.last().is_some_and(|open| *open == name);
        let own = if is_own_definition { None } else { self.own(name, key)? };
        self.used_own |= own.is_some();
        Ok(own.or_else(|| self.scope.context.variable(name)))
    }

    /// A variable of `env` or `envFile`.
    fn own(&mut self, name: &str, key: &str) -> Result<Option<String>, SkipReason> {
        if let Some((name, node)) = self.names.get(name).map(|at| &self.env[*at]) {
            if self.open.contains(name) || self.open.len() >= MAX_NESTED {
                return Err(SkipReason::CircularVariable { key: key.to_owned(), name: (*name).to_owned() });
            }
            return if node.is_null() { Ok(None) } else { self.own_variable(name, node).map(Some) };
        }
        let file = self.file_variables()?;
        Ok(file.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone()))
    }

    fn own_variable(&mut self, name: &'a str, node: &Node<'_>) -> Result<String, SkipReason> {
        if let Some(value) = self.expanded.get(name) {
            return Ok(value.clone());
        }
        self.open.push(name);
        let value = self.value(name, node)?;
        self.open.pop();
        self.expanded.insert(name, value.clone());
        Ok(value)
    }

    /// The value of a variable of [`PREDEFINED`]. `notation` is the reference to it, for errors.
    fn folder(&self, name: &str, notation: &str, key: &str) -> Result<String, SkipReason> {
        let context = self.scope.context;
        let path = match name {
            "workspaceFolder" => context.workspace_folder(),
            "workspaceFolderBasename" => {
                context.workspace_folder().map(|path| path.file_name().map(PathBuf::from).unwrap_or_default())
            }
            "userHome" => context.user_home(),
            _ => Some(MAIN_SEPARATOR_STR.into()),
        };
        let text = path.and_then(|path| path.into_os_string().into_string().ok());
        text.ok_or_else(|| SkipReason::UnknownFolder { key: key.to_owned(), name: notation.to_owned() })
    }

    fn input(&mut self, id: &str, key: &str) -> Result<String, SkipReason> {
        let (key, owned_id) = (key.to_owned(), id.to_owned());
        let input = match self.scope.inputs.iter().find(|item| item.is(id)) {
            Some(Item::Input(input)) => input,
            Some(Item::Unsupported { .. }) => return Err(SkipReason::UnsupportedInput { key, id: owned_id }),
            Some(Item::Invalid { error, .. }) => {
                let (file, error) = (self.scope.context.file_name(), Box::new(error.clone()));
                return Err(SkipReason::Invalid { file, error });
            }
            None => return Err(SkipReason::UndefinedInput { key, id: owned_id }),
        };
        let value = self.scope.context.input(input);
        let value = value.map_err(|reason| SkipReason::MissingInput { key, id: owned_id, reason })?;
        self.used.push(Used { name: id.to_owned(), value: value.clone(), is_password: input.is_password() });
        Ok(value)
    }
}

/// The variables that VS Code and Cursor define.
const PREDEFINED: &[&str] = &["workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/"];

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether a name is one that environment variables usually have: `API_KEY`.
fn is_constant(name: &str) -> bool {
    is_name(name) && !name.contains(|c: char| c.is_ascii_lowercase())
}

/// Splits the text behind `${` at the `}` that ends this reference, and not one in its default.
fn split_at_end(text: &str) -> Option<(&str, &str)> {
    let (mut open, mut at) = (0, 0);
    loop {
        let rest = &text[at..];
        let next = rest.find(['$', '}'])?;
        at += next + 1;
        match &rest[next..] {
            rest if rest.starts_with("${") => (open, at) = (open + 1, at + 1),
            rest if rest.starts_with('$') => {}
            _ if open > 0 => open -= 1,
            _ => return Some((&text[..at - 1], &text[at..])),
        }
    }
}

/// How many defaults are nested in one another at most.
const MAX_DEFAULTS: usize = 8;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::path::{Path, PathBuf};

    use super::super::{Context, Input, InputKind, Unavailable};
    use super::{Expander, Item, MAX_DEFAULTS, Scope, Used};

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
        let left = Cell::new(1_000);
        let scope = Scope { context: &Fake, inputs: &inputs, expands: true, left: &left };
        let mut expander = Expander::new(scope, &[], None);
        expander.expand_text(text, "k").map(|text| (text, expander.used))
    }

    #[test]
    fn variables_are_expanded_and_recorded() {
        for (text, expected) in [
            ("plain $ $$ {A} $A", "plain $ $$ {A} $A"),
            ("<${A}${A}>", "<oneone>"),
            ("${env:A}", "one"),
            ("${EMPTY}|${EMPTY:-d}|${NONE:-d}|${NONE:-}|${A:-d}", "|d|d||one"),
            ("${NESTED}", "${A}"),
            ("${A:-${NONE}}|${NONE:-${A}}|${NONE:-<${EMPTY:-${NONE:-d}}${A}>}|${userHome:-${A}}", "one|one|<done>|one"),
            ("${NONE:-$${A}}", "${A}"),
            ("$${A} ${A}", "${A} one"),
            ("${workspaceFolder}${/}x${pathSeparator}${workspaceFolderBasename}", "/work/shop/x/shop"),
            ("${userHome:-d} ${env:userHome}", "d one"),
            ("${input:a b}, ${input:p:-}", "answer to a b, answer to p:-"),
        ] {
            assert_eq!(expanded(text).unwrap().0, expected, "{text}");
        }
        for text in [
            "${NONE}",
            "${",
            "${A",
            "${}",
            "${A-x}",
            "${A:x}",
            "${1}",
            "x ${A} ${NONE}",
            "${userHome}",
            "${NONE:-${NONE}}",
            "${A:-${A}",
        ] {
            assert!(expanded(text).is_err(), "{text}");
        }
        for text in ["${input:}", "${input:none}", "${input:c}", "${env:/}", "${workspaceFolder:other}"] {
            assert!(expanded(text).is_err(), "{text}");
        }
        let nested = |count: usize| format!("{}d{}", "${NONE:-".repeat(count), "}".repeat(count));
        assert_eq!(expanded(&nested(MAX_DEFAULTS)).unwrap().0, "d");
        assert!(expanded(&nested(MAX_DEFAULTS + 1)).is_err() && expanded(&nested(100_000)).is_err());
        let (_, used) = expanded("${A} ${NONE:-d} ${workspaceFolder} ${input:a b} ${input:p:-}").unwrap();
        let used: Vec<_> = used.iter().map(|one| (one.name.as_str(), one.value.as_str(), one.is_password)).collect();
        let inputs = [("a b", "answer to a b", false), ("p:-", "answer to p:-", true)];
        assert_eq!(used, [&[("A", "one", false), ("NONE", "d", false)][..], &inputs].concat());
    }
}
