//! TypeScript declarations from JSON Schemas: what a language model reads before it writes a call.
//!
//! ```text
//!   JSON Schema ──schema──▶ Document ──names──▶ names ──print──▶ TypeScript
//!   (an outsider's)   │     (types and named    (unique in the
//!                   hints    definitions)        namespace)
//! ```
//!
//! - Reading produces a tree of types; a `$ref` becomes a named definition, read once, so no schema is ever expanded
//!   and recursion costs nothing.
//! - Names are assigned per namespace: identical definitions of two tools are one type, different ones of one
//!   name are `Node` and `Node__2`.
//! - Printing is deterministic: the same catalog produces the same bytes.
//!
//! The output always parses and type-checks, for every schema, and accepts at least what the schema accepts where
//! TypeScript cannot express it exactly. Three interpretations deviate from JSON Schema to match common intent: an object
//! without `additionalProperties` is closed, a tuple without `items` is closed, and a tuple without `minItems` is complete.
//!
//! Not supported:
//!
//! - Schemas and values are not validated. Unreadable parts become `unknown`.
//! - Nothing is fetched: a `$ref` to another document is `unknown`, and so are `$anchor` and `$dynamicRef`.
//! - `not`, `if`/`then`/`else`, `dependent…`, `unevaluated…`, `contains` and `propertyNames` are ignored.
//!
//! Schemas and descriptions are untrusted. They cannot leave their comment or string literal, cannot hide text
//! from a reader, and cannot make the output long: see the constants in `schema.rs`, `hints.rs` and
//! `text.rs` for every limit. At a limit, the type becomes wider and a comment states how much is missing.

mod document;
mod hints;
mod names;
mod outline;
mod print;
mod schema;
mod text;
mod types;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde_json::Value;

use document::Document;
use names::Names;
use print::Printer;

/// What the generator needs of one tool.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ToolSignature<'a> {
    /// The name that guest code calls. It must be an identifier.
    pub safe_name: &'a str,
    /// What the tool does, in its author's words.
    pub description: Option<&'a str>,
    /// The JSON Schema of the tool's one argument.
    pub input: Option<&'a Value>,
    /// The JSON Schema of the tool's result.
    pub output: Option<&'a Value>,
}

impl<'a> ToolSignature<'a> {
    /// A tool without a description and schemas.
    pub fn new(safe_name: &'a str) -> Self {
        Self { safe_name, description: None, input: None, output: None }
    }

    execbox_core::setters! {
        description: impl Into<Option<&'a str>>,
        input: impl Into<Option<&'a Value>>,
        output: impl Into<Option<&'a Value>>,
    }
}

/// `declare namespace NAME { … }` for a whole provider. `name` must be an identifier.
///
/// Each tool is followed by the types that it is the first to use.
pub fn namespace(name: &str, description: Option<&str>, tools: &[ToolSignature<'_>]) -> String {
    let mut namespace = Namespace::default();
    for tool in tools {
        namespace.add(tool);
    }
    namespace.finish(name, description)
}

/// A [`namespace`] tool by tool.
#[derive(Debug, Default)]
pub(crate) struct Namespace {
    names: Names,
    tools: String,
}

impl Namespace {
    /// Adds a tool. Returns the length of its declarations, in bytes.
    pub(crate) fn add(&mut self, tool: &ToolSignature<'_>) -> usize {
        let before = self.tools.len();
        self.tools += &tool_declarations(tool, &mut self.names, 1);
        self.tools.len() - before
    }

    pub(crate) fn finish(self, name: &str, description: Option<&str>) -> String {
        let doc = text::comment(&description.map(text::prose).unwrap_or_default(), 0);
        let open = if self.tools.is_empty() { "" } else { "\n" };
        format!("{doc}declare namespace {name} {{{open}{}}}", self.tools)
    }
}

/// One tool on its own: its doc comment, its `function` line, and the types that line names.
pub fn signature(tool: &ToolSignature<'_>) -> String {
    Signatures::default().add(tool, usize::MAX).unwrap_or_default()
}

/// Signatures of tools that are read together: each type is declared once, with the first tool that uses it.
#[derive(Debug, Default)]
pub struct Signatures(Names);

impl Signatures {
    /// The signature of one more tool, as [`signature`] returns it, without the types that are declared already. `None` if it
    /// has more than `room` bytes; the tool is not added then.
    pub fn add(&mut self, tool: &ToolSignature<'_>, room: usize) -> Option<String> {
        let mut names = self.0.clone();
        let mut text = tool_declarations(tool, &mut names, 0);
        text.truncate(text.trim_end().len());
        (text.len() <= room).then(|| {
            self.0 = names;
            text
        })
    }
}

/// The call of a tool on one line, for lists of tools: `get({ id: string; … }): Promise<{…}>`. It shows as much of the
/// types as fits into `max` bytes; if nothing fits, it is `get(…)`.
pub fn outline(tool: &ToolSignature<'_>, max: usize) -> String {
    outline::outline(tool, max)
}

/// A schema as one TypeScript type expression, complete in itself: what a `$ref` points to is written out in its
/// place, and `unknown` where it would contain itself.
pub fn type_of(schema: &Value) -> String {
    Printer::new(&HashMap::new()).type_text(&document::inlined(schema), 0)
}

/// A description as declarations show it, without the comment around it: capped, without characters that a person
/// would not see, and without `*/`.
pub fn prose(description: &str) -> String {
    text::prose(description).join("\n")
}

/// One tool's function and the types it is the first to use, as whole lines.
fn tool_declarations(tool: &ToolSignature<'_>, names: &mut Names, indent: usize) -> String {
    let pad = text::pad(indent);
    let mut types = String::new();
    let input = tool.input.map(|schema| {
        let document = Document::read(schema, &format!("{}_input", tool.safe_name));
        let (text, declared) = declare(&document, names, indent);
        types += &declared;
        if document::takes_nothing(schema) {
            String::new()
        } else {
            format!("input{}: {text}", document.optional_mark())
        }
    });
    let input = input.unwrap_or_else(|| "input?: unknown".to_owned());
    let output = tool.output.map(|schema| {
        let document = Document::read(schema, &format!("{}_output", tool.safe_name));
        let (text, declared) = declare(&document, names, indent);
        types += &declared;
        text
    });
    let output = output.unwrap_or_else(|| "unknown".to_owned());
    let doc = text::comment(&hints::tool_doc(tool), indent);
    format!("{doc}{pad}function {}({input}): Promise<{output}>;\n{types}", tool.safe_name)
}

/// The expression for a document's root, and the declarations of its types that are not declared yet.
fn declare(document: &Document, names: &mut Names, indent: usize) -> (String, String) {
    let (known, new) = names.assign(document);
    let printer = Printer::new(&known);
    let declared = new.iter().map(|pointer| printer.declaration(pointer, &document.definitions[pointer], indent));
    (printer.type_text(&document.root, indent), declared.collect())
}
