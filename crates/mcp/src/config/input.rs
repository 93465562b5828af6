//! `inputs`: values that a user is asked for, as VS Code defines them.

use super::node::Node;
use super::{ConfigError, Problem};

/// A value that a user is asked for, which `${input:ID}` refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Input {
    /// The `ID` in `${input:ID}`.
    pub id: String,
    /// The text that describes the value to the user.
    pub description: Option<String>,
    /// The kind of question.
    pub kind: InputKind,
    /// The value of an empty answer.
    pub default: Option<String>,
}

/// How a user is asked for a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputKind {
    /// `promptString`: any text.
    Prompt {
        /// Whether the answer must not be shown.
        password: bool,
    },
    /// `pickString`: one of these, at least one.
    Pick(Vec<InputOption>),
}

/// An option of `pickString`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputOption {
    /// The text that the user sees.
    pub label: String,
    /// The value of the input if the user picks this option.
    pub value: String,
}

impl InputOption {
    /// An option that the user sees as `label`.
    pub fn new(label: impl Into<String>, value: impl Into<String>) -> Self {
        Self { label: label.into(), value: value.into() }
    }
}

impl Input {
    /// An input without a description and a default.
    pub fn new(id: impl Into<String>, kind: InputKind) -> Self {
        Self { id: id.into(), description: None, kind, default: None }
    }

    execbox_core::setters! {
        description: impl Into<Option<String>>,
        default: impl Into<Option<String>>,
    }

    /// Whether the input can have this value: one of the options, or any text. Empty text is accepted only if `default` is
    /// empty text.
    pub fn accepts(&self, value: &str) -> bool {
        match &self.kind {
            InputKind::Prompt { .. } => !value.is_empty() || self.default.as_deref() == Some(""),
            InputKind::Pick(options) => options.iter().any(|option| option.value == value),
        }
    }

    pub(super) fn is_password(&self) -> bool {
        matches!(self.kind, InputKind::Prompt { password: true })
    }
}

/// An item of `inputs`: an input, or one that cannot be used.
#[derive(Debug)]
pub(super) enum Item {
    Input(Input),
    /// The type is not supported.
    Unsupported {
        id: String,
    },
    /// The item has a mistake. Without an id, any reference may mean it.
    Invalid {
        id: Option<String>,
        error: ConfigError,
    },
}

impl Item {
    /// Whether `${input:ID}` with this id means the item.
    pub(super) fn is(&self, other: &str) -> bool {
        match self {
            Self::Input(Input { id, .. }) | Self::Unsupported { id } | Self::Invalid { id: Some(id), .. } => {
                id == other
            }
            Self::Invalid { id: None, .. } => true,
        }
    }
}

/// Reads `inputs`.
pub(super) fn read(node: &Node<'_>) -> Vec<Item> {
    let items = match node.items("an array of inputs [{ … }]") {
        Ok(items) => items,
        Err(error) => return vec![Item::Invalid { id: None, error }],
    };
    let invalid = |node: &Node<'_>, error| {
        let members = node.entries().unwrap_or_default();
        let id = members.iter().find_map(|(key, value)| if *key == "id" { value.string().ok() } else { None });
        Item::Invalid { id: id.map(str::to_owned), error }
    };
    items.iter().map(|node| item(node).unwrap_or_else(|error| invalid(node, error))).collect()
}

fn item(node: &Node<'_>) -> Result<Item, ConfigError> {
    let (mut id, mut kind, mut description, mut default) = (None, None, None, None);
    let (mut password, mut options) = (false, Vec::new());
    for (key, value) in node.members()? {
        match key {
            "id" => id = Some(value.string()?.to_owned()),
            "type" => kind = Some(value.string()?),
            "description" => description = Some(value.string()?.to_owned()),
            "default" => default = Some(value.string()?.to_owned()),
            "password" => password = value.boolean()?,
            "options" => options = value.items("an array of options")?.iter().map(option).collect::<Result<_, _>>()?,
            _ => {}
        }
    }
    let id = id.ok_or_else(|| node.error(Problem::MissingInputId))?;
    let kind = match kind {
        Some("promptString") => InputKind::Prompt { password },
        Some("pickString") if options.is_empty() => return Err(node.error(Problem::MissingInputOptions)),
        Some("pickString") => InputKind::Pick(options),
        _ => return Ok(Item::Unsupported { id }),
    };
    Ok(Item::Input(Input { id, description, kind, default }))
}

/// Reads an option: a string, or `{ "label": …, "value": … }`.
fn option(node: &Node<'_>) -> Result<InputOption, ConfigError> {
    if node.is_string() {
        let value = node.string()?;
        return Ok(InputOption { label: value.to_owned(), value: value.to_owned() });
    }
    let (mut label, mut value) = (None, None);
    for (key, member) in node.members()? {
        match key {
            "label" => label = Some(member.string()?.to_owned()),
            "value" => value = Some(member.string()?.to_owned()),
            _ => {}
        }
    }
    let value = value.or_else(|| label.clone()).ok_or_else(|| node.error(Problem::MissingInputOptions))?;
    Ok(InputOption { label: label.unwrap_or_else(|| value.clone()), value })
}
