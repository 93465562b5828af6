//! Values of a JSON file with their positions: the path of keys, line and column.

use std::collections::HashSet;

use execbox_core::names::is_property_name;
use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions};

use super::{ConfigError, Problem};

/// A value and its position.
pub(super) struct Node<'a> {
    value: &'a Value<'a>,
    /// The path of keys to the value.
    path: String,
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
        Some(value) => read(Node { value, path: String::new(), text }),
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
            let member = Node { value: &property.value, path: joined(&self.path, name), text: self.text };
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

    /// The string; empty if [`string`](Self::string) fails, which callers have checked before.
    pub(super) fn text(&self) -> &'a str {
        self.string().unwrap_or_default()
    }

    /// An array of strings.
    pub(super) fn strings(&self) -> Result<Vec<Node<'a>>, ConfigError> {
        let Value::Array(array) = self.value else {
            return Err(self.wrong_type("an array of strings [\"…\", \"…\"]"));
        };
        let items = array.elements.iter().enumerate().map(|(at, value)| {
            let item = Node { value, path: format!("{}[{at}]", self.path), text: self.text };
            item.string().map(|_| item)
        });
        items.collect()
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

    pub(super) fn is_number(&self) -> bool {
        matches!(self.value, Value::NumberLit(_))
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// An error at the position of this value.
    pub(super) fn error(&self, problem: Problem) -> ConfigError {
        let before = &self.text[..self.value.start()];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        ConfigError { path: self.path.clone(), line, column, problem }
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
