//! Values of a JSON or TOML file with their positions: the path of keys, line and column.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use execbox_core::names::is_property_name;
use jsonc_parser::ast::Value as JsonValue;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions};
use toml::Spanned;
use toml::de::{DeTable, DeValue as TomlValue};

use super::{ConfigError, Format, Problem};

/// A value and its position.
pub(super) struct Node<'a> {
    value: Value<'a>,
    /// The path of keys to the value.
    path: String,
    /// The offset of the value's key in the file, in bytes; of the value itself if it has no key.
    key: usize,
    places: &'a Places<'a>,
}

/// A value in one of the two languages.
#[derive(Clone, Copy)]
enum Value<'a> {
    Json(&'a JsonValue<'a>),
    Toml(&'a Spanned<TomlValue<'a>>),
}

/// What a value is, in both languages.
#[derive(Clone, Copy)]
enum Kind<'a> {
    Null,
    Boolean(bool),
    /// The digits as they are written.
    Number(&'a str),
    String(&'a str),
    Array,
    Object,
    /// What only TOML has, which no key accepts: its description, with an article.
    Other(&'static str),
}

/// Parses a file, and calls `read` with its value. JSON may have comments and trailing commas.
pub(super) fn parse<T, E: From<ConfigError>>(
    text: &str,
    format: Format,
    read: impl FnOnce(Node<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let places = Places::new(text);
    let root = |value, key| Node { value, path: String::new(), key, places: &places };
    match format {
        Format::Json => {
            let value = parse_json(text)?;
            read(root(Value::Json(&value), value.start()))
        }
        Format::Toml => {
            let table = DeTable::parse(text).map_err(|error| toml_error(&places, &error))?;
            let value = Spanned::new(0..0, TomlValue::Table(table.into_inner()));
            read(root(Value::Toml(&value), 0))
        }
    }
}

fn parse_json(text: &str) -> Result<JsonValue<'_>, ConfigError> {
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
        let problem = Problem::Syntax { format: Format::Json, message: error.kind().to_string().to_lowercase() };
        ConfigError { path: String::new(), line: error.line_display(), column: error.column_display(), problem }
    })?;
    parsed.value.ok_or(ConfigError { path: String::new(), line: 1, column: 1, problem: Problem::Empty })
}

fn toml_error(places: &Places<'_>, error: &toml::de::Error) -> ConfigError {
    let (line, column) = places.of(error.span().map_or(0, |span| span.start));
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    let problem = Problem::Syntax { format: Format::Toml, message };
    ConfigError { path: String::new(), line, column, problem }
}

/// A part of a file, without its place, comments and white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Token<'a> {
    Key(&'a str),
    /// The beginning of an object or an array.
    Open,
    Close,
    /// Another value, as it is written.
    Scalar(&'a str),
}

impl<'a> Value<'a> {
    fn kind(self) -> Kind<'a> {
        match self {
            Self::Json(value) => match value {
                JsonValue::NullKeyword(_) => Kind::Null,
                JsonValue::BooleanLit(boolean) => Kind::Boolean(boolean.value),
                JsonValue::NumberLit(number) => Kind::Number(number.value),
                JsonValue::StringLit(string) => Kind::String(&string.value),
                JsonValue::Array(_) => Kind::Array,
                JsonValue::Object(_) => Kind::Object,
            },
            Self::Toml(value) => match value.get_ref() {
                TomlValue::Boolean(boolean) => Kind::Boolean(*boolean),
                TomlValue::Integer(number) if number.radix() == 10 => Kind::Number(number.as_str()),
                TomlValue::Integer(_) => Kind::Other("a number that is not decimal"),
                TomlValue::Float(number) => Kind::Number(number.as_str()),
                TomlValue::String(string) => Kind::String(string),
                TomlValue::Array(_) => Kind::Array,
                TomlValue::Table(_) => Kind::Object,
                TomlValue::Datetime(_) => Kind::Other("a date or a time"),
            },
        }
    }

    fn range(self) -> Range<usize> {
        match self {
            Self::Json(value) => value.start()..value.end(),
            Self::Toml(value) => value.span(),
        }
    }

    fn start(self) -> usize {
        self.range().start
    }

    /// The items of an array, otherwise none.
    fn items(self) -> Vec<Self> {
        match self {
            Self::Json(JsonValue::Array(array)) => array.elements.iter().map(Self::Json).collect(),
            Self::Toml(value) => match value.get_ref() {
                TomlValue::Array(array) => array.iter().map(Self::Toml).collect(),
                _ => Vec::new(),
            },
            Self::Json(_) => Vec::new(),
        }
    }

    /// The names of the members of an object, their offsets and their values, in the order of the file; otherwise none.
    fn members(self) -> Vec<(&'a str, usize, Self)> {
        match self {
            Self::Json(JsonValue::Object(object)) => {
                let members = object.properties.iter();
                members.map(|member| (member.name.as_str(), member.name.start(), Self::Json(&member.value))).collect()
            }
            Self::Toml(value) => {
                let TomlValue::Table(table) = value.get_ref() else { return Vec::new() };
                let members =
                    table.iter().map(|(name, value)| (&**name.get_ref(), name.span().start, Self::Toml(value)));
                let mut members: Vec<_> = members.collect();
                members.sort_by_key(|(_, at, _)| *at);
                members
            }
            Self::Json(_) => Vec::new(),
        }
    }
}

impl<'a> Value<'a> {
    /// Recurses as deep as the file is nested, which the parsers limit.
    fn visit_strings(self, key: &'a str, visit: &mut dyn FnMut(&'a str, &[&'a str])) {
        let string = |value: &Self| match value.kind() {
            Kind::String(text) => Some(text),
            _ => None,
        };
        let items = self.items();
        let strings: Vec<_> = string(&self).into_iter().chain(items.iter().filter_map(string)).collect();
        if !strings.is_empty() {
            visit(key, &strings);
        }
        items.into_iter().filter(|item| string(item).is_none()).for_each(|item| item.visit_strings(key, visit));
        self.members().into_iter().for_each(|(name, _, member)| member.visit_strings(name, visit));
    }

    /// Recurses as deep as the file is nested, which the parsers limit.
    fn add_tokens(self, text: &'a str, tokens: &mut Vec<Token<'a>>) {
        if !matches!(self.kind(), Kind::Array | Kind::Object) {
            return tokens.push(Token::Scalar(text.get(self.range()).unwrap_or_default()));
        }
        tokens.push(Token::Open);
        self.items().into_iter().for_each(|item| item.add_tokens(text, tokens));
        for (name, _, member) in self.members() {
            tokens.push(Token::Key(name));
            member.add_tokens(text, tokens);
        }
        tokens.push(Token::Close);
    }
}

impl<'a> Node<'a> {
    /// The members of an object, in the order of the file. A name may occur more than once.
    pub(super) fn entries(&self) -> Result<Vec<(&'a str, Self)>, ConfigError> {
        if !self.is_object() {
            return Err(self.wrong_type("an object `{ … }`"));
        }
        let members = self.value.members().into_iter();
        Ok(members
            .map(|(name, key, value)| (name, Node { value, path: joined(&self.path, name), key, places: self.places }))
            .collect())
    }

    /// The members of an object without those that are null, in the order of the file. A name must not occur twice.
    pub(super) fn members(&self) -> Result<Vec<(&'a str, Self)>, ConfigError> {
        let mut members = self.entries()?;
        let mut names = HashSet::new();
        if let Some((_, member)) = members.iter().find(|(name, _)| !names.insert(*name)) {
            return Err(member.key_error(Problem::DuplicateKey));
        }
        members.retain(|(_, value)| !value.is_null());
        Ok(members)
    }

    pub(super) fn string(&self) -> Result<&'a str, ConfigError> {
        match self.value.kind() {
            Kind::String(string) => Ok(string),
            Kind::Number(number) => Err(self.wrong_type(&format!("the string \"{number}\""))),
            Kind::Boolean(boolean) => Err(self.wrong_type(&format!("the string \"{boolean}\""))),
            _ => Err(self.wrong_type("a string")),
        }
    }

    /// A number of at least zero.
    pub(super) fn number(&self) -> Result<f64, ConfigError> {
        let Kind::Number(number) = self.value.kind() else { return Err(self.wrong_type("a number")) };
        let number = number.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| self.error(Problem::InvalidValue { expected: "a number of at least 0" }))
    }

    /// Fails unless this is a string, a number or a boolean.
    pub(super) fn scalar(self) -> Result<Self, ConfigError> {
        match self.value.kind() {
            Kind::String(_) | Kind::Number(_) | Kind::Boolean(_) => Ok(self),
            _ => Err(self.wrong_type("a string")),
        }
    }

    /// The text of a string, a number or a boolean, as JavaScript has it; otherwise empty.
    pub(super) fn text(&self) -> Cow<'a, str> {
        match self.value.kind() {
            Kind::String(string) => string.into(),
            Kind::Boolean(boolean) => boolean.to_string().into(),
            Kind::Number(number) => match number.parse::<f64>() {
                // Beyond, the digits as they are written are better than others.
                Ok(value) if number.contains(['.', 'e', 'E']) && value.abs() < 1e21 => value.to_string().into(),
                _ => number.into(),
            },
            _ => "".into(),
        }
    }

    /// The items of an array. `expected` describes the array in the error for a value of another type.
    pub(super) fn items(&self, expected: &str) -> Result<Vec<Self>, ConfigError> {
        if !matches!(self.value.kind(), Kind::Array) {
            return Err(self.wrong_type(expected));
        }
        let items = self.value.items().into_iter().enumerate().map(|(at, value)| {
            let path = format!("{}[{at}]", self.path);
            Node { value, path, key: value.start(), places: self.places }
        });
        Ok(items.collect())
    }

    /// An array of strings. Numbers and booleans count as their text.
    pub(super) fn strings(&self) -> Result<Vec<Self>, ConfigError> {
        self.items("an array of strings [\"…\", \"…\"]")?.into_iter().map(Self::scalar).collect()
    }

    pub(super) fn boolean(&self) -> Result<bool, ConfigError> {
        match self.value.kind() {
            Kind::Boolean(boolean) => Ok(boolean),
            _ => Err(self.wrong_type("true or false")),
        }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value.kind(), Kind::Null)
    }

    pub(super) fn is_string(&self) -> bool {
        matches!(self.value.kind(), Kind::String(_))
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self.value.kind(), Kind::Number(_))
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self.value.kind(), Kind::Object)
    }

    /// Whether this is a string without text, or an object or an array without content.
    pub(super) fn is_empty(&self) -> bool {
        match self.value.kind() {
            Kind::String(string) => string.trim().is_empty(),
            Kind::Object => self.value.members().is_empty(),
            Kind::Array => self.value.items().is_empty(),
            _ => false,
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The text of the file, without a byte order mark.
    pub(super) fn file_text(&self) -> &'a str {
        self.places.text
    }

    /// The place of the value in the file, in bytes. Of a table of TOML, that of its first header or key.
    pub(super) fn range(&self) -> Range<usize> {
        self.value.range()
    }

    /// The offset of the value's key in the file, in bytes.
    pub(super) fn key_start(&self) -> usize {
        self.key
    }

    /// The keys and values in this one, in the order of the file.
    pub(super) fn tokens(&self) -> Vec<Token<'a>> {
        let mut tokens = Vec::new();
        self.value.add_tokens(self.places.text, &mut tokens);
        tokens
    }

    /// Calls `visit` with each string, and with the strings of each array, and the key to which they belong.
    pub(super) fn visit_strings(&self, visit: &mut dyn FnMut(&'a str, &[&'a str])) {
        self.value.visit_strings("", visit);
    }

    /// As [`tokens`](Self::tokens), with the objects at some paths as if they were empty.
    pub(super) fn tokens_without(&self, paths: &[&str]) -> Vec<Token<'a>> {
        let mut tokens = Vec::new();
        self.add_tokens_without(paths, &mut tokens);
        tokens
    }

    /// Recurses as deep as the file is nested, which the parsers limit.
    fn add_tokens_without(&self, paths: &[&str], tokens: &mut Vec<Token<'a>>) {
        let Ok(members) = self.entries() else { return self.value.add_tokens(self.places.text, tokens) };
        tokens.push(Token::Open);
        for (name, member) in members.into_iter().filter(|_| !paths.contains(&self.path())) {
            tokens.push(Token::Key(name));
            member.add_tokens_without(paths, tokens);
        }
        tokens.push(Token::Close);
    }

    /// An error at the position of this value.
    pub(super) fn error(&self, problem: Problem) -> ConfigError {
        self.error_at(self.value.start(), problem)
    }

    /// An error at the position of the key of this value.
    pub(super) fn key_error(&self, problem: Problem) -> ConfigError {
        self.error_at(self.key, problem)
    }

    fn error_at(&self, at: usize, problem: Problem) -> ConfigError {
        let (line, column) = self.places.of(at);
        ConfigError { path: self.path.clone(), line, column, problem }
    }

    /// The line and the column of the value, in characters, from 1.
    pub(super) fn position(&self) -> (usize, usize) {
        self.places.of(self.value.start())
    }

    /// The line and the column of the key, in characters, from 1.
    pub(super) fn key_position(&self) -> (usize, usize) {
        self.places.of(self.key)
    }

    fn wrong_type(&self, expected: &str) -> ConfigError {
        let found = match self.value.kind() {
            Kind::String(_) => "a string",
            Kind::Number(_) => "a number",
            Kind::Boolean(_) => "a boolean",
            Kind::Object => "an object",
            Kind::Array => "an array",
            Kind::Null => "null",
            Kind::Other(description) => description,
        };
        self.error(Problem::WrongType { found, expected: expected.to_owned() })
    }
}

/// The lines and columns of a text. Those of every [`STEP`]th byte are known, so that a file with many mistakes is not read as
/// often.
struct Places<'a> {
    text: &'a str,
    known: Vec<(usize, usize)>,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        let mut known = vec![(1, 1)];
        for block in text.as_bytes().chunks(STEP) {
            known.push(advanced(known[known.len() - 1], block));
        }
        Self { text, known }
    }

    /// The line and the column of an offset, in characters, from 1.
    fn of(&self, at: usize) -> (usize, usize) {
        let at = at.min(self.text.len());
        let block = at / STEP;
        advanced(self.known[block], &self.text.as_bytes()[block * STEP..at])
    }
}

/// The place after some bytes. The bytes that continue a character are no columns.
fn advanced((line, column): (usize, usize), bytes: &[u8]) -> (usize, usize) {
    let columns = |bytes: &[u8]| bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = (line, column + columns(lines.next().unwrap_or_default()));
    lines.fold(first, |(line, _), next| (line + 1, 1 + columns(next)))
}

const STEP: usize = 1 << 10;

fn joined(path: &str, name: &str) -> String {
    match (path, is_property_name(name)) {
        ("", true) => name.to_owned(),
        (path, true) => format!("{path}.{name}"),
        (path, false) => format!("{path}[{name:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Places, STEP};

    proptest! {
        #[test]
        fn every_character_has_its_line_and_column(text in "(a{0,400}|é|\n|😀){0,40}") {
            let places = Places::new(&text);
            let (mut line, mut column) = (1, 1);
            for (at, character) in text.char_indices() {
                prop_assert_eq!(places.of(at), (line, column));
                (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
            }
            prop_assert_eq!(places.of(text.len()), (line, column));
            prop_assert_eq!(places.of(text.len() + STEP), (line, column));
        }
    }
}
