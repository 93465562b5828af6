//! Signatures on one line, for lists of tools: no comments, and less detail where a type is long.

use super::ToolSignature;
use super::document;
use super::text::property_name;
use super::types::{Member, Object, Tuple, Type, UNKNOWN};

/// The call of a tool on one line, with as much of its types as fits into `max` bytes: first the depth is reduced,
/// then optional members are left out, then everything. `{…}` is an object whose members are left out, `…` is more of
/// them.
pub(super) fn outline(tool: &ToolSignature<'_>, max: usize) -> String {
    let input = tool.input.map_or(UNKNOWN, document::inlined);
    let output = tool.output.map_or(UNKNOWN, document::inlined);
    let line = |depth: usize, output_depth: usize, optional: usize| {
        let input = match &input {
            &UNKNOWN => "input?: unknown".to_owned(),
            _ if tool.input.is_some_and(document::takes_nothing) => String::new(),
            input => Outline { depth, optional }.text(input, 0),
        };
        let output = Outline { depth: output_depth, optional: usize::MAX }.text(&output, 0);
        format!("{}({input}): Promise<{output}>", tool.safe_name)
    };
    let depths = [(3, 3), (2, 2), (2, 1), (1, 1), (1, 0)];
    let members = [usize::MAX, 8, 4, 2, 0];
    let depths = depths.into_iter().map(|(depth, output)| line(depth, output, members[0]));
    let fewer = members.into_iter().skip(1).map(|optional| line(1, 0, optional));
    let lines = depths.chain(fewer).chain(std::iter::once_with(|| line(0, 0, 0)));
    lines.into_iter().find(|line| line.len() <= max).unwrap_or_else(|| format!("{}(…)", tool.safe_name))
}

/// How much of a type is printed.
struct Outline {
    /// The number of nested objects whose members are printed.
    depth: usize,
    /// The maximum number of optional members of each object.
    optional: usize,
}

impl Outline {
    fn text(&self, ty: &Type, depth: usize) -> String {
        match ty {
            Type::Keyword(keyword) | Type::Cut { keyword, .. } => (*keyword).to_owned(),
            Type::Literal { text, .. } => text.clone(),
            // References are written out in their places.
            Type::Named(_) => "unknown".to_owned(),
            Type::Array(item) => self.operand(item, depth) + "[]",
            Type::Tuple(tuple) => self.tuple(tuple, depth),
            Type::Object(object) => self.object(object, depth),
            Type::Union(members) => joined(members, " | ", |member| self.text(member, depth)),
            Type::Intersection(members) => joined(members, " & ", |member| self.operand(member, depth)),
        }
    }

    fn operand(&self, ty: &Type, depth: usize) -> String {
        let text = self.text(ty, depth);
        if matches!(ty, Type::Union(_) | Type::Intersection(_)) { format!("({text})") } else { text }
    }

    fn tuple(&self, tuple: &Tuple, depth: usize) -> String {
        let elements = tuple.elements.iter().enumerate();
        let elements = elements.map(|(at, element)| match at < tuple.required {
            true => self.text(element, depth),
            false => self.operand(element, depth) + "?",
        });
        let rest = tuple.rest.iter().map(|rest| format!("...{}[]", self.operand(rest, depth)));
        format!("[{}]", elements.chain(rest).collect::<Vec<_>>().join(", "))
    }

    fn object(&self, object: &Object, depth: usize) -> String {
        if object.members.is_empty() && object.index.is_none() {
            return "{}".to_owned();
        }
        if depth >= self.depth {
            return "{…}".to_owned();
        }
        let (mut left, mut parts, mut is_cut) = (self.optional, Vec::new(), object.omitted > 0);
        for Member { name, optional, value, .. } in &object.members {
            if *optional && left == 0 {
                is_cut = true;
                continue;
            }
            left -= usize::from(*optional);
            let mark = if *optional { "?" } else { "" };
            parts.push(format!("{}{mark}: {}", property_name(name), self.text(value, depth + 1)));
        }
        if let Some(value) = &object.index
            && object.omitted == 0
        {
            parts.push(format!("[key: string]: {}", self.text(value, depth + 1)));
        }
        if is_cut {
            parts.push("…".to_owned());
        }
        format!("{{ {} }}", parts.join("; "))
    }
}

/// The first members, of which equal neighbors are one: `{…} | {…}`.
fn joined(members: &[Type], between: &str, print: impl Fn(&Type) -> String) -> String {
    let mut texts: Vec<String> = members.iter().take(MAX_MEMBERS).map(print).collect();
    texts.dedup();
    if members.len() > MAX_MEMBERS {
        texts.push("…".to_owned());
    }
    texts.join(between)
}

/// The maximum number of members of a union that are printed.
const MAX_MEMBERS: usize = 12;
