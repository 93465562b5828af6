//! The scopes of a source, their declarations, and the resolution of names.
//!
//! The parser records scopes, declarations and references in the order of the source; [`resolve`](Scopes::resolve)
//! then visits each once, with a stack of declarations for every name. Nothing here recurses, and a lookup takes the
//! same time however deeply scopes are nested.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::Parse;
use crate::costs::Costs;
use crate::lexer::unicode_escape;

/// The number of a name in [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NameId(u32);

/// The names of a source, each once.
#[derive(Debug, Default)]
pub(crate) struct Names<'s> {
    ids: HashMap<Cow<'s, str>, NameId, BuildHasherDefault<rustc_hash::FxHasher>>,
    texts: Vec<Cow<'s, str>>,
    /// The length of the names with escapes, which are copied.
    escaped_bytes: usize,
}

impl<'s> Names<'s> {
    /// The number of the name `text`, which contains escapes if `escaped`.
    pub(crate) fn id(&mut self, text: &'s str, escaped: bool) -> NameId {
        let text = if escaped { Cow::Owned(unescaped(text)) } else { Cow::Borrowed(text) };
        if let Some(id) = self.ids.get(&text) {
            return *id;
        }
        if escaped {
            self.escaped_bytes += text.len();
        }
        let id = NameId(self.texts.len() as u32);
        self.texts.push(text.clone());
        self.ids.insert(text, id);
        id
    }

    /// The memory of the table. Names without escapes are parts of the source.
    fn bytes(&self) -> usize {
        let entry = size_of::<(Cow<'s, str>, NameId)>() + 1;
        self.ids.capacity() * entry * 8 / 7 + self.texts.capacity() * size_of::<Cow<'s, str>>() + 2 * self.escaped_bytes
    }

    pub(crate) fn text(&self, id: NameId) -> &str {
        &self.texts[id.0 as usize]
    }

    pub(crate) fn find(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied()
    }
}

/// A name with its escapes decoded.
pub(crate) fn unescaped(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        let (character, end) = unicode_escape(text, at).unwrap_or((character, at + character.len_utf8()));
        name.push(character);
        at = end;
    }
    name
}

/// A scope, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ScopeId(pub(crate) u32);

impl ScopeId {
    /// The scope of the whole source.
    pub(crate) const OUTERMOST: Self = Self(0);
}

/// What a scope belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    /// Where `var` declares: the source, and the bodies of functions and static blocks.
    Function,
    Block,
    /// The body of a namespace: a function scope whose exports are members.
    Namespace(u32),
    /// The members of an enum.
    Enum(u32),
}

#[derive(Debug, Clone, Copy)]
struct Scope {
    parent: ScopeId,
    kind: ScopeKind,
}

/// What a declaration binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// A variable, parameter, function or class, at run time.
    Value,
    /// A `const` whose initializer may be a constant: its number in the parser's constants.
    Constant(u32),
    Function,
    Class,
    /// An enum or namespace that is an object at run time, by its number.
    Enum(u32),
    Namespace(u32),
    /// A member of an enum: the enum and the member.
    Member(u32, u32),
    /// `import a = b.c`, by its number.
    Alias(u32),
    /// A name of an import declaration, by its number.
    Import(u32),
    /// An interface, type alias or type parameter.
    Type,
    /// A declaration without a value at run time: `declare const`.
    Ambient,
}

impl Binding {
    pub(crate) fn is_value(self) -> bool {
        !matches!(self, Self::Type | Self::Ambient)
    }

    pub(crate) fn is_type(self) -> bool {
        !matches!(self, Self::Value | Self::Constant(_) | Self::Function | Self::Ambient)
    }
}

/// One declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Declaration {
    pub(crate) scope: ScopeId,
    pub(crate) name: NameId,
    /// The offset of the name.
    pub(crate) start: u32,
    pub(crate) binding: Binding,
    /// A variable that a namespace exports: a member of its object, and no variable.
    pub(crate) is_member: bool,
    /// An export of a namespace of any kind, visible in the namespace's other bodies.
    pub(crate) is_exported: bool,
}

/// How a name is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Value,
    /// A name in an object literal or pattern, for property and value at once.
    Shorthand,
    Type,
    /// A value in the place of a type: `typeof x`.
    TypeOf,
}

/// One use of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) name: NameId,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) how: Use,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Enter(ScopeId),
    Leave,
    Refer(Reference),
}

/// The scopes, declarations and references of a source.
#[derive(Debug, Default)]
pub(crate) struct Scopes<'s> {
    pub(crate) names: Names<'s>,
    /// Whether names are recorded. Otherwise, there is only the outermost scope, and nothing is declared in it.
    with_names: bool,
    list: Vec<Scope>,
    declarations: Vec<Declaration>,
    events: Vec<Event>,
    /// The current scope; `None` stands for the outermost.
    current: Option<ScopeId>,
}

/// The number of recorded items, to rewind to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    scopes: usize,
    declarations: usize,
    events: usize,
    current: Option<ScopeId>,
}

impl Scopes<'_> {
    /// Makes the outermost scope. Scopes, declarations and references are recorded if `with_names`.
    #[inline]
    pub(crate) fn new(with_names: bool) -> Self {
        let mut scopes = Self { with_names, ..Self::default() };
        scopes.enter(ScopeKind::Function);
        scopes
    }

    pub(crate) fn with_names(&self) -> bool {
        self.with_names
    }

    /// The memory of the records.
    pub(crate) fn bytes(&self) -> usize {
        self.names.bytes()
            + self.list.capacity() * size_of::<Scope>()
            + self.declarations.capacity() * size_of::<Declaration>()
            + self.events.capacity() * size_of::<Event>()
    }

    /// The memory that [`resolve`](Self::resolve) takes.
    fn bytes_to_resolve(&self) -> usize {
        // For every name two lists; a list that is not empty has room for four entries or twice as many as it has.
        let (declarations, names) = (self.declarations.len(), self.names.texts.len());
        let lists = names * 2 * size_of::<Vec<Found>>();
        let entries = (2 * declarations + 4 * names.min(declarations)) * size_of::<Found>();
        declarations * size_of::<usize>() + lists + entries
    }

    pub(crate) fn mark(&self) -> Mark {
        let (scopes, declarations, events) = (self.list.len(), self.declarations.len(), self.events.len());
        Mark { scopes, declarations, events, current: self.current }
    }

    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.list.truncate(mark.scopes);
        self.declarations.truncate(mark.declarations);
        self.events.truncate(mark.events);
        self.current = mark.current;
    }

    pub(crate) fn current(&self) -> ScopeId {
        self.current.unwrap_or(ScopeId::OUTERMOST)
    }

    pub(crate) fn enter(&mut self, kind: ScopeKind) -> ScopeId {
        if !self.with_names {
            return ScopeId::OUTERMOST;
        }
        let id = ScopeId(self.list.len() as u32);
        self.list.push(Scope { parent: self.current(), kind });
        self.events.push(Event::Enter(id));
        self.current = Some(id);
        id
    }

    pub(crate) fn leave(&mut self) {
        if !self.with_names {
            return;
        }
        self.current = Some(self.list[self.current().0 as usize].parent);
        self.events.push(Event::Leave);
    }

    fn kind(&self, scope: ScopeId) -> ScopeKind {
        self.list[scope.0 as usize].kind
    }

    /// The scope that `var` declares in, from `scope` on outwards.
    pub(crate) fn function_scope(&self, mut scope: ScopeId) -> ScopeId {
        while scope != ScopeId::OUTERMOST && matches!(self.kind(scope), ScopeKind::Block) {
            scope = self.list[scope.0 as usize].parent;
        }
        scope
    }

    /// Whether `var` declares in `scope` itself, and outside of namespaces.
    pub(crate) fn is_function(&self, scope: ScopeId) -> bool {
        self.list.get(scope.0 as usize).is_none_or(|scope| scope.kind == ScopeKind::Function)
    }

    pub(crate) fn set_binding(&mut self, declaration: usize, binding: Binding) {
        if let Some(declaration) = self.declarations.get_mut(declaration)
            && (declaration.binding != Binding::Ambient || binding == Binding::Type)
        {
            declaration.binding = binding;
        }
    }

    /// Makes a declaration an export of the namespace around it.
    pub(crate) fn set_exported(&mut self, declaration: usize) {
        if let Some(declaration) = self.declarations.get_mut(declaration) {
            declaration.is_exported = true;
        }
    }

    pub(crate) fn declare(&mut self, declaration: Declaration) {
        self.declarations.push(declaration);
    }

    pub(crate) fn refer(&mut self, reference: Reference) {
        self.events.push(Event::Refer(reference));
    }

    pub(crate) fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }

    /// Calls `each` with every reference, in the order of the source, and the declaration that it refers to.
    ///
    /// `merged` are declarations that are visible in a further scope: the members of an enum or the exports of a
    /// namespace in another of its bodies.
    pub(crate) fn resolve(
        &self,
        merged: &HashMap<ScopeId, Vec<usize>>,
        costs: &mut Costs<'_>,
        mut each: impl FnMut(&Reference, Option<Found>, &mut Costs<'_>) -> Parse<()>,
    ) -> Parse<()> {
        costs.keep(self.bytes_to_resolve())?;
        let mut by_scope: Vec<usize> = (0..self.declarations.len()).collect();
        by_scope.sort_by_key(|&number| self.declarations[number].scope);
        let of_scope = |scope: ScopeId| {
            let first = by_scope.partition_point(|&number| self.declarations[number].scope < scope);
            let own = by_scope[first..].iter().take_while(move |&&number| self.declarations[number].scope == scope);
            merged.get(&scope).into_iter().flatten().chain(own).copied()
        };
        let mut visible = Visible::new(self.names.texts.len());
        let mut open: Vec<ScopeId> = Vec::new();
        for event in &self.events {
            costs.steps(1)?;
            match event {
                Event::Enter(scope) => {
                    for declaration in of_scope(*scope) {
                        costs.steps(1)?;
                        visible.push(Found { declaration, scope: *scope }, &self.declarations[declaration]);
                    }
                    open.push(*scope);
                }
                Event::Leave => {
                    let scope = open.pop().unwrap_or(ScopeId::OUTERMOST);
                    of_scope(scope).for_each(|number| visible.pop(&self.declarations[number]));
                }
                Event::Refer(reference) => each(reference, visible.find(reference), costs)?,
            }
        }
        Ok(())
    }
}

/// The number of the declaration that a reference refers to, and the scope in which it is visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) declaration: usize,
    pub(crate) scope: ScopeId,
}

/// For every name, what is visible of it, innermost last: as values and as types.
struct Visible {
    values: Vec<Vec<Found>>,
    types: Vec<Vec<Found>>,
}

impl Visible {
    fn new(names: usize) -> Self {
        Self { values: vec![Vec::new(); names], types: vec![Vec::new(); names] }
    }

    fn push(&mut self, found: Found, declaration: &Declaration) {
        let name = declaration.name.0 as usize;
        if declaration.binding.is_value() || declaration.is_member {
            self.values[name].push(found);
        }
        if declaration.binding.is_type() {
            self.types[name].push(found);
        }
    }

    fn pop(&mut self, declaration: &Declaration) {
        let name = declaration.name.0 as usize;
        if declaration.binding.is_value() || declaration.is_member {
            self.values[name].pop();
        }
        if declaration.binding.is_type() {
            self.types[name].pop();
        }
    }

    fn find(&self, reference: &Reference) -> Option<Found> {
        let found = match reference.how {
            Use::Type => &self.types,
            Use::Value | Use::Shorthand | Use::TypeOf => &self.values,
        };
        found[reference.name.0 as usize].last().copied()
    }
}
