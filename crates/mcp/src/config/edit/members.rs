//! The members of a JSON object, or the items of an array, as they are written: they are moved with their comments.
//!
//! Comments in the lines before a member and after it in its line belong to it. Those after the opening bracket in its line,
//! and those in the lines before the closing bracket, belong to the container.

use std::ops::Range;

use super::{comma, line_break, line_start, quoted, remark_end};
use crate::config::Format;
use crate::config::node::Node;

/// A member or an item.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// The key of a member, or what else names an item.
    pub(super) name: String,
    /// White space and comments before it.
    lead: String,
    /// The key and the value, as they are written.
    text: String,
    /// The comments between its value and the comma, and those after the comma in its line.
    remarks: String,
}

/// An object or an array.
pub(super) struct Container<'a> {
    file: &'a str,
    /// The place of the container in the file, with its brackets.
    range: Range<usize>,
    /// Comments after the opening bracket in its line.
    head: &'a str,
    pub(super) members: Vec<Member>,
    /// White space and comments before the closing bracket.
    tail: String,
    has_trailing_comma: bool,
    pub(super) layout: Layout,
}

/// How the members of a container are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    /// The white space at the start of a member's line; `None` if the members have no lines of their own.
    indent: Option<String>,
    /// By how much a value is indented more than its key.
    unit: String,
    line_break: &'static str,
}

impl<'a> Container<'a> {
    pub(super) fn of_object(node: &Node<'a>) -> Self {
        let members = node.entries().unwrap_or_default().into_iter();
        Self::new(node, members.map(|(name, value)| (name.to_owned(), value.key_start()..value.range().end)).collect())
    }

    /// An array, whose items `name` names.
    pub(super) fn of_array(node: &Node<'a>, name: impl Fn(&Node<'a>) -> String) -> Self {
        let items = node.items("an array").unwrap_or_default();
        Self::new(node, items.iter().map(|item| (name(item), item.range())).collect())
    }

    fn new(node: &Node<'a>, places: Vec<(String, Range<usize>)>) -> Self {
        let (file, range) = (node.file_text(), node.range());
        let layout = Layout::of(file, &range, places.first().map(|(_, place)| place.start));
        let start = line_remarks_end(file, range.start + 1);
        let (mut members, mut at, mut has_trailing_comma) = (Vec::new(), start, false);
        for (name, place) in places {
            let comma = comma(file, place.end, Format::Json);
            let end = line_remarks_end(file, comma.map_or(place.end, |comma| comma + 1));
            let remarks = match comma {
                Some(comma) => format!("{}{}", file[place.end..comma].trim_end(), &file[comma + 1..end]),
                None => file[place.end..end].to_owned(),
            };
            let (lead, text) = (file[at..place.start].to_owned(), file[place.clone()].to_owned());
            members.push(Member { name, lead, text, remarks });
            has_trailing_comma = comma.is_some();
            at = end;
        }
        let (head, tail) = (&file[range.start + 1..start], file[at..range.end - 1].to_owned());
        Self { file, range, head, members, tail, has_trailing_comma, layout }
    }

    /// Removes the members that `is_taken` selects.
    pub(super) fn take(&mut self, is_taken: impl Fn(&str) -> bool) -> Vec<Member> {
        self.members.extract_if(.., |member| is_taken(&member.name)).collect()
    }

    /// Removes the members that `is_taken` selects, and leaves their comments before what follows.
    pub(super) fn remove(&mut self, is_taken: impl Fn(&str) -> bool) {
        while let Some(at) = self.members.iter().position(|member| is_taken(&member.name)) {
            let Member { lead, remarks, .. } = self.members.remove(at);
            let comments = format!("{lead}{remarks}");
            if comments.trim().is_empty() {
                continue;
            }
            let next = self.members.get_mut(at).map_or(&mut self.tail, |next| &mut next.lead);
            let line_break = if needs_line(&comments, next) { self.layout.line_break } else { "" };
            *next = format!("{comments}{line_break}{next}");
        }
    }

    /// Removes the members that `is_taken` selects, with the comments before the closing bracket.
    pub(super) fn take_with_tail(&mut self, is_taken: impl Fn(&str) -> bool) -> Vec<Member> {
        let mut members = self.take(is_taken);
        if let Some(last) = members.last_mut() {
            last.remarks += self.tail.trim_end();
        }
        members
    }

    /// Inserts members of another container at an index.
    pub(super) fn insert(&mut self, at: usize, members: Vec<Member>, from: &Layout) {
        let members: Vec<_> = members.into_iter().map(|member| self.layout.adapted(member, from)).collect();
        self.members.splice(at..at, members);
    }

    /// The place of the container in the file, with its brackets, and its new text.
    pub(super) fn edit(&self) -> (Range<usize>, String) {
        let [open, close] = [self.range.start, self.range.end - 1].map(|at| &self.file[at..=at]);
        let (mut text, mut comments) = (format!("{open}{}", self.head), self.head);
        let mut add = |comments: &str, part: &str| {
            text += if needs_line(comments, part) { self.layout.line_break } else { "" };
            text += part;
        };
        for (at, Member { lead, text, remarks, .. }) in self.members.iter().enumerate() {
            let comma = if at + 1 < self.members.len() || self.has_trailing_comma { "," } else { "" };
            add(comments, &format!("{lead}{text}{comma}{remarks}"));
            comments = remarks;
        }
        add(comments, &format!("{}{close}", self.tail));
        (self.range.clone(), text)
    }
}

/// Whether a text after comments would be a part of a comment to the end of the line.
fn needs_line(comments: &str, text: &str) -> bool {
    let begins_line = text.trim_start_matches([' ', '\t']).starts_with(['\n', '\r']);
    comments.contains("//") && !comments.ends_with('\n') && !begins_line
}

impl Member {
    /// A new member: an object whose members have these values, in JSON.
    pub(super) fn object(name: &str, members: &[(&str, String)], layout: &Layout) -> Self {
        let Layout { indent, unit, line_break } = layout;
        let members = members.iter().map(|(key, value)| format!("\"{key}\": {value}"));
        let value = match indent {
            Some(indent) => {
                let lines = members.map(|member| format!("{line_break}{indent}{unit}{member}"));
                format!("{{{}{line_break}{indent}}}", lines.collect::<Vec<_>>().join(","))
            }
            None => format!("{{ {} }}", members.collect::<Vec<_>>().join(", ")),
        };
        Self::new(name, &value, layout)
    }

    /// A new member with a value in JSON.
    pub(super) fn new(name: &str, value: &str, layout: &Layout) -> Self {
        let lead = layout.indent.as_ref().map_or(" ".to_owned(), |indent| format!("{}{indent}", layout.line_break));
        Self { name: name.to_owned(), lead, text: format!("{}: {value}", quoted(name)), remarks: String::new() }
    }

    /// This member with the key and the value of another one.
    pub(super) fn with_text(self, other: Self) -> Self {
        Self { text: other.text, ..self }
    }
}

impl Layout {
    /// The layout of a container, whose first member begins at `first`.
    fn of(file: &str, range: &Range<usize>, first: Option<usize>) -> Self {
        let indent_at = |at: usize| {
            let before = &file[line_start(file, at)..at];
            before.trim().is_empty().then(|| before.to_owned())
        };
        let line = &file[line_start(file, range.start)..range.start];
        let outer = &line[..line.len() - line.trim_start().len()];
        let has_lines = file[range.clone()].contains('\n');
        let unit = |indent: &str| indent.strip_prefix(outer).filter(|unit| !unit.is_empty()).map(str::to_owned);
        let default = || if outer.starts_with('\t') { "\t" } else { "  " }.to_owned();
        let indent = match first {
            Some(first) => indent_at(first).filter(|_| has_lines),
            None => has_lines.then(|| format!("{outer}{}", default())),
        };
        let unit = indent.as_deref().and_then(unit).unwrap_or_else(default);
        Self { indent, unit, line_break: line_break(file) }
    }

    /// A member with the indentation and the line breaks of this layout instead of those of another one.
    fn adapted(&self, member: Member, from: &Self) -> Member {
        if self == from {
            return member;
        }
        let (old, new) = (from.indent.as_deref().unwrap_or_default(), self.indent.as_deref().unwrap_or_default());
        let line = |line: &str| match line.strip_prefix(old) {
            Some(rest) => format!("{new}{rest}"),
            None => line.to_owned(),
        };
        let lines = |text: &str| {
            let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
            let first = lines.next().unwrap_or_default().to_owned();
            std::iter::once(first).chain(lines.map(line)).collect::<Vec<_>>().join(self.line_break)
        };
        let (mut lead, text, remarks) = (lines(&member.lead), lines(&member.text), lines(&member.remarks));
        let begins_line = lead.trim_start_matches([' ', '\t']).starts_with(['\n', '\r']);
        if self.indent.is_none() && lead.trim().is_empty() {
            " ".clone_into(&mut lead);
        } else if self.indent.is_some() && !begins_line {
            lead = format!("{}{new}{}", self.line_break, lead.trim_start());
        }
        Member { lead, text, remarks, ..member }
    }
}

/// The end of the comments that follow `at` in its line, if nothing else follows there; otherwise `at`.
fn line_remarks_end(file: &str, at: usize) -> usize {
    let end = remark_end(file, at, Format::Json);
    let rest = file[end..].trim_start_matches([' ', '\t', '\r']);
    if rest.starts_with('\n') || rest.is_empty() { end } else { at }
}
