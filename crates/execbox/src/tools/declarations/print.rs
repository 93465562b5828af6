//! From types to text: one pass, from the leaves up.
//!
//! An object without comments that fits is one line; every other object is broken into lines. A part that is one
//! line looks the same on every level, so nothing is laid out twice.

use std::collections::HashMap;

use super::document::Definition;
use super::text::{comment, pad, property_name};
use super::types::{Member, Object, Pointer, Tuple, Type};

/// Prints types that mention the given names.
pub(super) struct Printer<'a> {
    names: &'a HashMap<Pointer, String>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(names: &'a HashMap<Pointer, String>) -> Self {
        Self { names }
    }

    /// `type NAME = …;` with its comment, as whole lines.
    pub(super) fn declaration(&self, pointer: &Pointer, definition: &Definition, indent: usize) -> String {
        let doc = comment(&definition.doc, indent);
        let (pad, name) = (pad(indent), self.name(pointer));
        format!("{doc}{pad}type {name} = {};\n", self.type_text(&definition.body, indent))
    }

    /// A type as text. The caller indents the first line; further lines are indented by `indent`.
    pub(super) fn type_text(&self, ty: &Type, indent: usize) -> String {
        match ty {
            Type::Keyword(keyword) => (*keyword).to_owned(),
            Type::Literal { text, .. } => text.clone(),
            Type::Cut { keyword, omitted } => format!("{keyword} /* … {omitted} more */"),
            Type::Named(pointer) => self.name(pointer).to_owned(),
            Type::Array(item) => self.operand(item, indent) + "[]",
            Type::Tuple(tuple) => self.tuple(tuple, indent),
            Type::Object(object) => self.object(object, indent),
            Type::Union(members) => {
                members.iter().map(|member| self.type_text(member, indent)).collect::<Vec<_>>().join(" | ")
            }
            Type::Intersection(members) => {
                members.iter().map(|member| self.operand(member, indent)).collect::<Vec<_>>().join(" & ")
            }
        }
    }

    /// A name is missing only where a type was printed without its document.
    fn name(&self, pointer: &Pointer) -> &str {
        self.names.get(pointer).map_or("unknown", String::as_str)
    }

    /// A type as the operand of `[]`, `?` or `&`, in parentheses if necessary.
    fn operand(&self, ty: &Type, indent: usize) -> String {
        let text = self.type_text(ty, indent);
        if matches!(ty, Type::Union(_) | Type::Intersection(_) | Type::Cut { .. }) { format!("({text})") } else { text }
    }

    fn tuple(&self, tuple: &Tuple, indent: usize) -> String {
        let elements = tuple.elements.iter().enumerate().map(|(at, element)| {
            if at < tuple.required { self.type_text(element, indent) } else { self.operand(element, indent) + "?" }
        });
        let rest = tuple.rest.iter().map(|rest| format!("...{}[]", self.operand(rest, indent)));
        format!("[{}]", elements.chain(rest).collect::<Vec<_>>().join(", "))
    }

    fn object(&self, object: &Object, indent: usize) -> String {
        let documented = object.members.iter().any(|member| !member.doc.is_empty());
        let parts = self.parts(object, indent + 1);
        let width: usize = parts.iter().map(|part| part.len() + 2).sum();
        if parts.is_empty() {
            "{}".to_owned()
        } else if documented || width > MAX_LINE || parts.iter().any(|part| part.contains('\n')) {
            broken(object, &parts, indent)
        } else {
            format!("{{ {} }}", parts.join("; "))
        }
    }

    /// The members and the index signature, without their comments.
    fn parts(&self, object: &Object, indent: usize) -> Vec<String> {
        let members = object.members.iter().map(|member| self.member(member, indent));
        let index = object.index.iter().map(|value| {
            let note = if object.omitted > 0 { format!("/* … {} more */ ", object.omitted) } else { String::new() };
            format!("{note}[key: string]: {}", self.type_text(value, indent))
        });
        members.chain(index).collect()
    }

    fn member(&self, member: &Member, indent: usize) -> String {
        let readonly = if member.readonly { "readonly " } else { "" };
        let mark = if member.optional { "?" } else { "" };
        format!("{readonly}{}{mark}: {}", property_name(&member.name), self.type_text(&member.value, indent))
    }
}

fn broken(object: &Object, parts: &[String], indent: usize) -> String {
    let pad = pad(indent + 1);
    let docs =
        object.members.iter().map(|member| comment(&member.doc, indent + 1)).chain(std::iter::once(String::new()));
    let lines: Vec<String> = docs.zip(parts).map(|(doc, part)| format!("{doc}{pad}{part};\n")).collect();
    format!("{{\n{}{}}}", lines.concat(), super::text::pad(indent))
}

/// The widest object, in bytes, that stays on one line.
const MAX_LINE: usize = 80;
