//! Values of a JSON file with their positions: the path of keys, line and column.

use std::collections::HashSet;

use execbox::core::names::is_property_name;
use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions};

use super::{ConfigError, Problem};

/// A value and its position.
pub(super) struct Node<'a> {
    value: &'a Value<'a>,
    /// The path of keys to the value.
    path: String,
    /// The offset of the value's key in the file, in bytes; of the value itself if it has no key.
    key: usize,
    /// The whole file.
    text: &'a str,
}

/// Parses JSON with comments and trailing commas, and calls `read` with its value.
pub(super) fn parse<T>(text: &str, read: impl FnOnce(Node<'_>) -> Result<T, ConfigError>) -> Result<T, ConfigError> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| {
        let problem = Problem::Syntax(error.kind().to_string().to_lowercase());
        ConfigError { path: String::new(), line: error.line_display(), column: error.column_display(), problem }
    })?;
    match &parsed.value {
        Some(value) => read(Node { value, path: String::new(), key: value.start(), text }),
        None => Err(ConfigError { path: String::new(), line: 1, column: 1, problem: Problem::Empty }),
    }
}

impl<'a> Node<'a> {
    /// The members of an object, in order.
    pub(super) fn members(&self) -> Result<Vec<(&'a str, Node<'a>)>, ConfigError> {
        let Value::Object(object) = self.value else { return Err(self.wrong_type("an object `{ … }`")) };
        let mut names = HashSet::new();
        let mut members = Vec::with_capacity(object.properties.len());
        for property in &object.properties {
            let name = property.name.as_str();
            let key = property.name.start();
            let member = Node { value: &property.value, path: joined(&self.path, name), key, text: self.text };
            if !names.insert(name) {
                return Err(member.error(Problem::DuplicateKey));
            }
            members.push((name, member));
        }
        Ok(members)
    }

    pub(super) fn string(&self) -> Result<&'a str, ConfigError> {
        match self.value {
            Value::StringLit(string) => Ok(&string.value),
            Value::NumberLit(number) => Err(self.wrong_type(&format!("the string \"{}\"", number.value))),
            Value::BooleanLit(boolean) => Err(self.wrong_type(&format!("the string \"{}\"", boolean.value))),
            _ => Err(self.wrong_type("a string")),
        }
    }

    /// The text of a number.
    pub(super) fn number(&self) -> Result<&'a str, ConfigError> {
        match self.value {
            Value::NumberLit(number) => Ok(number.value),
            _ => Err(self.wrong_type("a number")),
        }
    }

    /// The string; empty if [`string`](Self::string) fails, which callers have checked before.
    pub(super) fn text(&self) -> &'a str {
        self.string().unwrap_or_default()
    }

    /// The items of an array. `expected` describes the array in the error for a value of another type.
    pub(super) fn items(&self, expected: &str) -> Result<Vec<Node<'a>>, ConfigError> {
        let Value::Array(array) = self.value else { return Err(self.wrong_type(expected)) };
        let items = array.elements.iter().enumerate().map(|(at, value)| {
            let path = format!("{}[{at}]", self.path);
            Node { value, path, key: value.start(), text: self.text }
        });
        Ok(items.collect())
    }

    /// An array of strings.
    pub(super) fn strings(&self) -> Result<Vec<Node<'a>>, ConfigError> {
        let items = self.items("an array of strings [\"…\", \"…\"]")?;
        items.iter().try_for_each(|item| item.string().map(drop))?;
        Ok(items)
    }

    pub(super) fn boolean(&self) -> Result<bool, ConfigError> {
        match self.value {
            Value::BooleanLit(boolean) => Ok(boolean.value),
            _ => Err(self.wrong_type("true or false")),
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value, Value::NullKeyword(_))
    }

    pub(super) fn is_string(&self) -> bool {
        matches!(self.value, Value::StringLit(_))
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self.value, Value::NumberLit(_))
    }

    /// Whether this is an object or an array without content.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Value::Object(object) => object.properties.is_empty(),
            Value::Array(array) => array.elements.is_empty(),
            _ => false,
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// An error at the position of this value.
    pub(super) fn error(&self, problem: Problem) -> ConfigError {
        let (line, column) = self.position(self.value.start());
        ConfigError { path: self.path.clone(), line, column, problem }
    }

    /// The line and the column of the key, in characters, from 1.
    pub(super) fn key_position(&self) -> (usize, usize) {
        self.position(self.key)
    }

    fn position(&self, at: usize) -> (usize, usize) {
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }

    fn wrong_type(&self, expected: &str) -> ConfigError {
        let found = match self.value {
            Value::StringLit(_) => "a string",
            Value::NumberLit(_) => "a number",
            Value::BooleanLit(_) => "a boolean",
            Value::Object(_) => "an object",
            Value::Array(_) => "an array",
            Value::NullKeyword(_) => "null",
        };
        self.error(Problem::WrongType { found, expected: expected.to_owned() })
    }
}

fn joined(path: &str, name: &str) -> String {
    match (path, is_property_name(name)) {
        ("", true) => name.to_owned(),
        (path, true) => format!("{path}.{name}"),
        (path, false) => format!("{path}[{name:?}]"),
    }
}
