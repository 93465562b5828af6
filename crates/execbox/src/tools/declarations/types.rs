//! The tree between a schema and its text, and the algebra that keeps it small.
//!
//! [`union`] and [`intersection`] are the only ways to build those two: what they return is flat, without
//! repetition, and without members that say nothing.

use std::rc::Rc;

/// A TypeScript type. The reader bounds its depth, so recursion over it is safe.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Type {
    /// `string`, `unknown`, `null` …
    Keyword(&'static str),
    /// A literal type as text, and the keyword type it belongs to.
    Literal { text: String, keyword: &'static str },
    /// A placeholder for `omitted` union members that were cut off.
    Cut { keyword: &'static str, omitted: usize },
    /// A definition, by its JSON pointer.
    Named(Pointer),
    /// `T[]`
    Array(Box<Type>),
    /// `[A, B?, ...C[]]`
    Tuple(Tuple),
    /// `{ a: A; b?: B; [key: string]: C }`
    Object(Object),
    /// `A | B`, by [`union`] only.
    Union(Vec<Type>),
    /// `A & B`, by [`intersection`] only.
    Intersection(Vec<Type>),
}

/// The position of a definition in its document: a decoded JSON pointer.
pub(super) type Pointer = Rc<str>;

/// The type of an array whose first elements have types of their own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Tuple {
    pub(super) elements: Vec<Type>,
    /// How many of the elements must be present.
    pub(super) required: usize,
    pub(super) rest: Option<Box<Type>>,
}

/// The type of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Object {
    pub(super) members: Vec<Member>,
    /// The type of the values of all other keys.
    pub(super) index: Option<Box<Type>>,
    /// How many members were cut off.
    pub(super) omitted: usize,
}

/// One property of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Member {
    /// Lines of its doc comment, safe to print.
    pub(super) doc: Vec<String>,
    pub(super) readonly: bool,
    pub(super) name: String,
    pub(super) optional: bool,
    pub(super) value: Type,
}

pub(super) const UNKNOWN: Type = Type::Keyword("unknown");
pub(super) const NEVER: Type = Type::Keyword("never");
pub(super) const NULL: Type = Type::Keyword("null");

/// `{ [key: string]: VALUE }`.
pub(super) fn record(value: Type) -> Type {
    Type::Object(Object { index: Some(Box::new(value)), ..Object::default() })
}

/// The union of `parts`, simplified.
pub(super) fn union(parts: impl IntoIterator<Item = Type>) -> Type {
    let mut members = Vec::new();
    for part in parts {
        match part {
            UNKNOWN => return UNKNOWN,
            NEVER => {}
            Type::Union(inner) => inner.into_iter().for_each(|part| push_new(&mut members, part)),
            part => push_new(&mut members, part),
        }
    }
    only_or(members, NEVER, Type::Union)
}

/// The intersection of `parts`, simplified.
pub(super) fn intersection(parts: impl IntoIterator<Item = Type>) -> Type {
    let mut members = Vec::new();
    for part in parts {
        match part {
            NEVER => return NEVER,
            UNKNOWN => {}
            Type::Intersection(inner) => inner.into_iter().for_each(|part| push_new(&mut members, part)),
            part => push_new(&mut members, part),
        }
    }
    only_or(without_implied(members), UNKNOWN, Type::Intersection)
}

fn push_new(members: &mut Vec<Type>, part: Type) {
    if !members.contains(&part) {
        members.push(part);
    }
}

fn only_or(mut members: Vec<Type>, none: Type, many: fn(Vec<Type>) -> Type) -> Type {
    match members.len() {
        0 => none,
        1 => members.remove(0),
        _ => many(members),
    }
}

/// Drops every member that another one already implies: `string` beside `"a" | "b"`.
fn without_implied(mut members: Vec<Type>) -> Vec<Type> {
    let mut at = 0;
    while at < members.len() {
        let implied = members.iter().enumerate().any(|(i, other)| i != at && covers(&members[at], other));
        if implied {
            members.remove(at);
        } else {
            at += 1;
        }
    }
    members
}

/// Whether every value of `narrow` is one of `wide`. May return false negatives, but no false positives.
fn covers(wide: &Type, narrow: &Type) -> bool {
    match (wide, narrow) {
        (_, Type::Union(members)) => members.iter().all(|member| covers(wide, member)),
        (Type::Union(members), _) => members.iter().any(|member| covers(member, narrow)),
        (Type::Keyword(wide), Type::Literal { keyword, .. } | Type::Cut { keyword, .. }) => wide == keyword,
        (Type::Object(object), Type::Object(_) | Type::Named(_) | Type::Intersection(_)) => object.is_unconstrained(),
        (wide, narrow) => wide == narrow,
    }
}

impl Object {
    /// Whether this is `{ [key: string]: unknown }`: any object. It is also omitted next to a name or an
    /// intersection, because those come from schemas with types of their own.
    fn is_unconstrained(&self) -> bool {
        self.members.is_empty() && self.index.as_deref() == Some(&UNKNOWN)
    }

    /// Widens the index signature until it admits every member, as TypeScript requires.
    ///
    /// Only short types go into that union; beside any other the index is `unknown`, because repeating an object
    /// type on every level would double the text with each.
    pub(super) fn reconcile(&mut self) {
        if self.members.is_empty() {
            return;
        }
        let Some(index) = self.index.take() else { return };
        if *index == NEVER {
            return;
        }
        let parts = std::iter::once(widened(&index)).chain(self.members.iter().map(Member::widened));
        let wide = union(parts.map(|part| part.unwrap_or(UNKNOWN)));
        let short = !matches!(&wide, Type::Union(members) if members.len() > MAX_INDEX_MEMBERS);
        self.index = Some(Box::new(if short { wide } else { UNKNOWN }));
    }
}

impl Member {
    fn widened(&self) -> Option<Type> {
        let value = widened(&self.value)?;
        Some(if self.optional { union([value, Type::Keyword("undefined")]) } else { value })
    }
}

/// A short type that admits all of `ty`, if there is one.
fn widened(ty: &Type) -> Option<Type> {
    match ty {
        Type::Keyword(_) | Type::Named(_) => Some(ty.clone()),
        Type::Literal { keyword, .. } | Type::Cut { keyword, .. } => Some(Type::Keyword(keyword)),
        Type::Array(item) => Some(Type::Array(Box::new(widened(item)?))),
        Type::Union(members) => members.iter().map(widened).collect::<Option<Vec<_>>>().map(union),
        Type::Tuple(_) | Type::Object(_) | Type::Intersection(_) => None,
    }
}

/// The most alternatives in an index signature: more tell a reader nothing.
const MAX_INDEX_MEMBERS: usize = 6;

impl Type {
    /// Every name this type mentions, in order of appearance, repeated as it is repeated.
    pub(super) fn names(&self) -> Vec<&Pointer> {
        let mut names = Vec::new();
        self.collect(Reach::Everything, &mut names);
        names
    }

    /// The names that TypeScript must resolve to know what this type *is*. A cycle of these is an error to tsc.
    pub(super) fn bare_names(&self) -> Vec<&Pointer> {
        let mut names = Vec::new();
        self.collect(Reach::Bare, &mut names);
        names
    }

    fn collect<'a>(&'a self, reach: Reach, names: &mut Vec<&'a Pointer>) {
        if let Type::Named(pointer) = self {
            names.push(pointer);
        }
        let Some(reach) = reach.into_parts_of(self) else { return };
        match self {
            Type::Keyword(_) | Type::Literal { .. } | Type::Cut { .. } | Type::Named(_) => {}
            Type::Array(item) => item.collect(reach, names),
            Type::Tuple(tuple) => {
                tuple.elements.iter().chain(tuple.rest.as_deref()).for_each(|part| part.collect(reach, names));
            }
            Type::Object(object) => {
                let values = object.members.iter().map(|member| &member.value);
                values.chain(object.index.as_deref()).for_each(|part| part.collect(reach, names));
            }
            Type::Union(members) | Type::Intersection(members) => {
                for part in members {
                    part.collect(reach, names);
                }
            }
        }
    }

    /// This type with `unknown` for the bare name `pointer`.
    pub(super) fn without_bare(self, pointer: &Pointer) -> Type {
        self.without(Reach::Bare, pointer)
    }

    fn without(self, reach: Reach, pointer: &Pointer) -> Type {
        let Some(inner) = reach.into_parts_of(&self) else { return self };
        let without = |part: Type| part.without(inner, pointer);
        match self {
            Type::Named(name) if name == *pointer => UNKNOWN,
            Type::Union(members) => union(members.into_iter().map(without)),
            Type::Intersection(members) => intersection(members.into_iter().map(without)),
            Type::Array(item) => Type::Array(Box::new(without(*item))),
            Type::Tuple(Tuple { elements, required, rest }) => Type::Tuple(Tuple {
                elements: elements.into_iter().map(without).collect(),
                required,
                rest: rest.map(|rest| Box::new(without(*rest))),
            }),
            other => other,
        }
    }
}

/// How far a search for names goes into a type.
#[derive(Clone, Copy)]
enum Reach {
    /// Into every part.
    Everything,
    /// Into every part but properties and elements: TypeScript resolves those later.
    Bare,
    /// Into every part but properties. An intersection multiplies out the unions in it, and resolves their arrays and tuples
    /// meanwhile.
    BareInIntersection,
}

impl Reach {
    /// How far to search the parts of `ty`, if at all.
    fn into_parts_of(self, ty: &Type) -> Option<Self> {
        match (self, ty) {
            (Reach::Everything, _) => Some(self),
            (_, Type::Object(_)) | (Reach::Bare, Type::Array(_) | Type::Tuple(_)) => None,
            (_, Type::Intersection(_)) => Some(Reach::BareInIntersection),
            _ => Some(self),
        }
    }
}
