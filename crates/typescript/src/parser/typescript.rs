//! Statements of TypeScript: types, ambient declarations, enums and namespaces.

use super::expression::GrammarFlags;
use super::{Context, Declare, Parser, SourceLanguage, StatementKind};
use crate::Parse;
use crate::constructs::{EnumItem, Exported, Member, NamespaceItem};
use crate::lexer::{Kind, Token};
use crate::scopes::{Binding, Declaration, ScopeKind, Use};

impl Parser<'_, '_> {
    /// The TypeScript statement that the current word begins, if any. `export` is the offset of an `export` before it.
    pub(super) fn typescript_statement(&mut self, start: u32, export: Option<u32>) -> Parse<Option<StatementKind>> {
        let word = self.text_of(self.token());
        if !matches!(word, "enum" | "type" | "interface" | "namespace" | "module" | "declare" | "abstract" | "global") {
            return Ok(None);
        }
        if !self.begins_typescript_statement(word)? {
            return Ok(None);
        }
        let mut kind = StatementKind::Nothing;
        match word {
            "enum" => return self.enum_declaration(start, export).map(Some),
            "type" => self.type_alias()?,
            "interface" => self.interface()?,
            "module" if self.peek()?.kind == Kind::String => {
                self.advance()?;
                self.advance()?;
                self.ambient(|parser| {
                    if parser.is(Kind::BraceOpen) { parser.block().map(drop) } else { parser.end_statement() }
                })?;
            }
            "namespace" | "module" => return self.namespace(start, export).map(Some),
            "global" => {
                self.advance()?;
                self.block()?;
            }
            "abstract" => {
                self.erase_token()?;
                self.class_declaration()?;
                return Ok(Some(StatementKind::Declaration));
            }
            _ => {
                self.advance()?;
                kind = self.ambient(Self::statement)?.ambient();
            }
        }
        self.record.edits.erase_item(export.unwrap_or(start), self.before());
        Ok(Some(kind))
    }

    /// Whether `word`, the current token, begins a statement of TypeScript.
    fn begins_typescript_statement(&mut self, word: &str) -> Parse<bool> {
        if word == "enum" {
            return Ok(self.typescript(true));
        }
        let next = self.peek()?;
        let names = next.kind == Kind::Name && !next.on_new_line;
        let is_infix = self.token_is_word(next, "in") || self.token_is_word(next, "instanceof");
        let begins = match word {
            "type" => names && !is_infix,
            "interface" | "namespace" => names,
            "module" => (names && !is_infix) || (next.kind == Kind::String && !next.on_new_line),
            "global" => next.kind == Kind::BraceOpen && self.context.is_ambient,
            "abstract" => names && self.token_is_word(next, "class"),
            _ => names && self.begins_declaration(next),
        };
        if begins {
            self.record.note(SourceLanguage::typescript_unless(is_infix));
        }
        Ok(begins)
    }

    fn begins_declaration(&self, token: Token) -> bool {
        matches!(
            self.text_of(token),
            "var"
                | "let"
                | "const"
                | "function"
                | "async"
                | "class"
                | "abstract"
                | "enum"
                | "type"
                | "interface"
                | "namespace"
                | "module"
                | "global"
                | "using"
                | "import"
        )
    }

    /// Parses ambient declarations, which are erased.
    fn ambient<T>(&mut self, read: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        let inner = Context { is_ambient: true, is_outermost: false, ..self.context };
        let outer = std::mem::replace(&mut self.context, inner);
        let items = self.record.items.mark();
        let result = read(self)?;
        self.record.items.rewind(items);
        self.context = outer;
        Ok(result)
    }

    fn type_alias(&mut self) -> Parse<()> {
        self.advance()?;
        self.binding_name(Declare::of(Binding::Type))?;
        self.in_block(|parser| {
            if parser.is(Kind::Less) {
                parser.type_parameters()?;
            }
            parser.expect(Kind::Equals, "=")?;
            parser.type_()
        })?;
        self.end_statement()
    }

    fn interface(&mut self) -> Parse<()> {
        self.advance()?;
        self.binding_name(Declare::of(Binding::Type))?;
        self.in_block(|parser| {
            if parser.is(Kind::Less) {
                parser.type_parameters()?;
            }
            if parser.eat_word("extends")? {
                parser.type_list()?;
            }
            parser.object_type()
        })
    }

    /// An enum, from `enum` on; `start` is the offset of `enum` or of the `const` before it.
    pub(super) fn enum_declaration(&mut self, start: u32, export: Option<u32>) -> Parse<StatementKind> {
        self.need_names()?;
        self.advance()?;
        let number = self.record.lowered.enums.len() as u32;
        let exported = self.exported(export);
        let how =
            Declare { exported: matches!(exported, Exported::ByNamespace(..)), ..Declare::of(Binding::Enum(number)) };
        let scope = self.record.scopes.current();
        let name = self.binding_name(how)?;
        if !self.is(Kind::BraceOpen) {
            return Err(self.unexpected("expected `{`"));
        }
        let body_start = self.token().end;
        let name_id = self.name_id(name);
        let outer = self.context;
        self.context = Context { is_outermost: false, namespace: None, ..outer };
        let body = self.record.scopes.enter(ScopeKind::Enum(number));
        self.record.lowered.enums.push(EnumItem {
            name: (name_id, name.start, name.end),
            scope,
            body,
            exported,
            start,
            body_start,
            body_end: body_start,
            is_hoisted: self.record.scopes.is_function(scope),
            members: Vec::new(),
        });
        self.advance()?;
        self.enum_members(number)?;
        self.record.lowered.enums[number as usize].body_end = self.token().start;
        self.record.scopes.leave();
        self.context = outer;
        self.advance()?;
        let is_ambient = self.context.is_ambient;
        Ok(if is_ambient { StatementKind::Ambient } else { StatementKind::Declaration })
    }

    /// The members of an enum, up to the `}`.
    fn enum_members(&mut self, number: u32) -> Parse<()> {
        let mut count = 0;
        let mut anchor = None;
        while !self.is(Kind::BraceClose) {
            let mut member = self.enum_member(number, count)?;
            member.anchor = anchor;
            if member.value.is_some() {
                anchor = Some(count as usize);
            }
            let has_comma = self.eat(Kind::Comma)?;
            member.comma = has_comma.then(|| self.before() - 1);
            self.record.lowered.add_member(number, member);
            count += 1;
            if !has_comma {
                break;
            }
        }
        if self.is(Kind::BraceClose) { Ok(()) } else { Err(self.unexpected("expected `,` or `}`")) }
    }

    fn enum_member(&mut self, number: u32, member: u32) -> Parse<Member> {
        let token = self.token();
        let how = Declare::of(Binding::Member(number, member));
        match token.kind {
            Kind::Name => self.declare(token, how),
            Kind::String => {
                let text = &self.text()[token.start as usize + 1..token.end as usize - 1];
                let (name, scope) =
                    (self.record.scopes.names.id(text, text.contains("\\u")), self.record.scopes.current());
                if text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_' || b == b'$' || b >= 0x80) {
                    let binding = if self.context.is_ambient { Binding::Ambient } else { how.binding };
                    self.record.scopes.declare(Declaration {
                        scope,
                        name,
                        start: token.start,
                        binding,
                        is_member: false,
                        is_exported: true,
                    });
                }
            }
            Kind::BracketOpen => {
                let inner = self.peek()?;
                if !matches!(inner.kind, Kind::String | Kind::Template) {
                    return self.refuse("computed names are not allowed in an enum", inner.start);
                }
                self.advance()?;
                self.advance()?;
                if !self.is(Kind::BracketClose) {
                    return Err(self.unexpected("expected `]`"));
                }
                self.advance()?;
                return self.enum_value(Member::new((token.start, self.before()), (inner.start, inner.end)));
            }
            _ => return Err(self.unexpected("expected a member name")),
        }
        self.advance()?;
        self.enum_value(Member::new((token.start, token.end), (token.start, token.end)))
    }

    fn enum_value(&mut self, mut member: Member) -> Parse<Member> {
        if self.eat(Kind::Equals)? {
            let value = self.with_constants(true, |parser| parser.assignment(GrammarFlags::ANYWHERE))?;
            member.value = Some((value.constant, self.before()));
        }
        Ok(member)
    }

    /// What exports a declaration at this place, after an optional `export`.
    fn exported(&self, export: Option<u32>) -> Exported {
        match (export, self.context.namespace) {
            (None, _) => Exported::No,
            (Some(export), Some(namespace)) => Exported::ByNamespace(namespace, export),
            (Some(export), None) => Exported::ByModule(export),
        }
    }

    /// `namespace A.B { … }`, from that word on.
    fn namespace(&mut self, start: u32, export: Option<u32>) -> Parse<StatementKind> {
        self.need_names()?;
        self.advance()?;
        let outer = self.context;
        let first = self.record.lowered.namespaces.len();
        self.namespace_name(start, self.exported(export), false)?;
        while self.eat(Kind::Dot)? {
            let outside = self.record.lowered.namespaces.len() as u32 - 1;
            self.namespace_name(start, Exported::ByNamespace(outside, self.before()), true)?;
        }
        let last = self.record.lowered.namespaces.len();
        if !self.is(Kind::BraceOpen) {
            return Err(self.unexpected("expected `{`"));
        }
        let body_start = self.token().end;
        self.advance()?;
        let left = self.nested(|parser| parser.statements_or_items(true))?;
        let body_end = self.token().start;
        for item in &mut self.record.lowered.namespaces[first..last] {
            (item.body_start, item.body_end) = (body_start, body_end);
        }
        self.advance()?;
        (first..last).for_each(|_| self.record.scopes.leave());
        self.context = outer;
        if left != StatementKind::Nothing && !outer.is_ambient {
            return Ok(StatementKind::Declaration);
        }
        // A namespace with only types has no value at run time.
        for item in &mut self.record.lowered.namespaces[first..last] {
            item.is_type = true;
            if left == StatementKind::Nothing {
                self.record.scopes.set_binding(item.declaration, Binding::Type);
            }
        }
        self.record.edits.erase_item(export.unwrap_or(start), self.before());
        Ok(left.ambient())
    }

    /// Reads one name of `A.B`, and makes its body the context.
    fn namespace_name(&mut self, start: u32, exported: Exported, is_inner: bool) -> Parse<()> {
        let number = self.record.lowered.namespaces.len() as u32;
        let scope = self.record.scopes.current();
        let how = Declare {
            exported: matches!(exported, Exported::ByNamespace(..)),
            ..Declare::of(Binding::Namespace(number))
        };
        let declaration = self.record.scopes.declarations().len();
        let name = self.binding_name(how)?;
        let name_id = self.name_id(name);
        self.record.lowered.namespaces.push(NamespaceItem {
            name: (name_id, name.start, name.end),
            scope,
            body: self.record.scopes.enter(ScopeKind::Namespace(number)),
            exported,
            start,
            body_start: 0,
            body_end: 0,
            is_hoisted: self.record.scopes.is_function(scope),
            declaration,
            is_type: false,
            is_inner,
        });
        let inner = Context { is_async: false, is_generator: false, is_outermost: false, ..self.context };
        self.context = Context { namespace: Some(number), ..inner };
        Ok(())
    }

    /// The value references of `a.b.c`, of which only the first is a name in scope.
    pub(super) fn entity_name(&mut self, how: Use) -> Parse<()> {
        if !self.is(Kind::Name) {
            return Err(self.unexpected("expected a name"));
        }
        if !self.is_word("this") {
            self.refer(self.token(), how);
        }
        self.advance()?;
        while self.is(Kind::Dot) {
            self.advance()?;
            if !matches!(self.token().kind, Kind::Name | Kind::PrivateName) {
                return Err(self.unexpected("expected a name"));
            }
            self.advance()?;
        }
        Ok(())
    }
}
