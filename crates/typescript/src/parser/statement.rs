//! Statements and declarations.

use super::expression::Place;
use super::{Context, Declare, ExpressionKind, Language, Parse, Parser, StatementKind, Tail};
use crate::constructs::{EnumItem, Exported, Member, NamespaceItem};
use crate::lexer::{Kind, Token};
use crate::scopes::{Binding, ScopeKind, Use};

impl Parser<'_, '_> {
    /// The whole source.
    ///
    /// Returns the first two statements that are neither erased nor directives.
    pub(crate) fn source(&mut self) -> Parse<Vec<StatementKind>> {
        let mut kinds = Vec::new();
        let mut in_prologue = true;
        self.statement_list(Kind::End, true, |kind, is_string| {
            in_prologue &= is_string;
            if !in_prologue && kind != StatementKind::Nothing && kinds.len() < 2 {
                kinds.push(kind);
            }
        })?;
        if !self.is(Kind::End) {
            return Err(self.unexpected(""));
        }
        self.record.scopes.leave();
        Ok(kinds)
    }

    /// Statements up to a `}`, which is not consumed.
    pub(super) fn statements_to_brace(&mut self) -> Parse<StatementKind> {
        self.statements_or_items(false)
    }

    /// Statements up to a `}`, including imports and exports if `are_items`.
    fn statements_or_items(&mut self, are_items: bool) -> Parse<StatementKind> {
        let mut left = StatementKind::Nothing;
        self.statement_list(Kind::BraceClose, are_items, |kind, _| {
            if kind != StatementKind::Nothing {
                left = StatementKind::Other;
            }
        })?;
        if !self.is(Kind::BraceClose) {
            return Err(self.unexpected("expected `}`"));
        }
        Ok(left)
    }

    /// Statements up to `close`. Only the tails of the last statement that is not empty are kept. `each` receives the
    /// kind of each statement, and whether it is a string.
    fn statement_list(&mut self, close: Kind, are_items: bool, mut each: impl FnMut(StatementKind, bool)) -> Parse<()> {
        let first = self.record.tails.len();
        while !self.is(close) && !self.is(Kind::End) {
            let before = self.record.tails.len();
            let kind = self.nested(|parser| parser.statement_or_item(are_items))?;
            if kind != StatementKind::Nothing {
                self.record.tails.drain(first..before);
            }
            let is_string = self.record.tails.last().is_some_and(|tail| tail.kind == ExpressionKind::String);
            each(kind, kind == StatementKind::Expression && is_string);
        }
        Ok(())
    }

    pub(super) fn statement(&mut self) -> Parse<StatementKind> {
        self.nested(|parser| parser.statement_or_item(false))
    }

    /// A statement, which may be an import or export if `may_be_item`.
    fn statement_or_item(&mut self, may_be_item: bool) -> Parse<StatementKind> {
        match self.token().kind {
            Kind::BraceOpen => self.block(),
            Kind::Semicolon => self.advance().map(|()| StatementKind::Nothing),
            Kind::At => self.refuse("decorators are not supported", self.token().start),
            Kind::Name if !self.token().escaped => match self.keyword_statement(may_be_item)? {
                Some(kind) => Ok(kind),
                None => self.labelled_or_expression(),
            },
            _ => self.labelled_or_expression(),
        }
    }

    /// The statement that the word here begins, if it begins one.
    fn keyword_statement(&mut self, may_be_item: bool) -> Parse<Option<StatementKind>> {
        let start = self.token().start;
        let word = self.text_of(self.token());
        let mark = self.record.tails.len();
        let may_be_item = may_be_item || self.context.is_ambient;
        match word {
            "var" | "const" | "let" | "using" | "await" | "function" | "async" | "class" => {
                return self.declaration(word);
            }
            "if" => {
                self.advance()?;
                self.condition()?;
                self.statement()?;
                if self.eat_word("else")? {
                    self.statement()?;
                }
            }
            "for" => {
                self.for_statement()?;
                self.record.tails.truncate(mark);
            }
            "while" | "with" => {
                self.advance()?;
                self.condition()?;
                self.statement()?;
                self.record.tails.truncate(mark);
            }
            "do" => {
                self.advance()?;
                self.statement()?;
                self.expect_word("while")?;
                self.condition()?;
                self.eat(Kind::Semicolon)?;
                self.record.tails.truncate(mark);
            }
            "return" | "throw" => {
                if word == "return" && self.context.is_outermost && !self.options.script {
                    return self.refuse("`return` is only allowed in functions", start);
                }
                self.advance()?;
                if !self.may_end_statement() {
                    self.expression(Place::ANYWHERE)?;
                }
                self.end_statement()?;
            }
            "break" | "continue" => {
                self.advance()?;
                if !self.may_end_statement() {
                    self.eat(Kind::Name)?;
                }
                self.end_statement()?;
            }
            "debugger" => {
                self.advance()?;
                self.end_statement()?;
            }
            "try" => self.try_statement()?,
            "switch" => {
                self.switch_statement()?;
                self.record.tails.truncate(mark);
            }
            "import" => {
                if matches!(self.peek()?.kind, Kind::ParenOpen | Kind::Dot) {
                    return Ok(None);
                }
                self.check_item(may_be_item)?;
                return self.import_declaration().map(Some);
            }
            "export" => {
                self.check_item(may_be_item)?;
                return self.export_declaration().map(Some);
            }
            "enum" | "type" | "interface" | "namespace" | "module" | "declare" | "abstract" | "global"
                if self.options.typescript =>
            {
                return self.typescript_statement(start, None);
            }
            _ => return Ok(None),
        }
        Ok(Some(StatementKind::Other))
    }

    /// The declaration that `word`, the current token, begins, if it begins one.
    fn declaration(&mut self, word: &str) -> Parse<Option<StatementKind>> {
        let start = self.token().start;
        match word {
            "var" => self.variables()?,
            "const" => {
                let next = self.peek()?;
                if self.typescript(self.token_is_word(next, "enum")) {
                    self.advance()?;
                    return self.enum_declaration(start, None).map(Some);
                }
                self.variables()?;
            }
            "let" => {
                let next = self.peek()?;
                let declares = matches!(next.kind, Kind::BracketOpen | Kind::BraceOpen)
                    || (next.kind == Kind::Name
                        && !self.token_is_word(next, "in")
                        && !self.token_is_word(next, "instanceof"));
                if !declares {
                    return Ok(None);
                }
                self.variables()?;
            }
            "using" => {
                let next = self.peek()?;
                if next.kind != Kind::Name || next.on_new_line || self.token_is_word(next, "in") {
                    return Ok(None);
                }
                self.variables()?;
            }
            "await" => {
                let next = self.peek()?;
                if !self.token_is_word(next, "using") || next.on_new_line || !self.is_before_name(next)? {
                    return Ok(None);
                }
                self.advance()?;
                self.variables()?;
            }
            "function" => return self.function_declaration(start, false).map(Some),
            "async" => {
                let next = self.peek()?;
                if !self.token_is_word(next, "function") || next.on_new_line {
                    return Ok(None);
                }
                self.advance()?;
                return self.function_declaration(start, true).map(Some);
            }
            "class" => self.class_declaration()?,
            _ => return Ok(None),
        }
        Ok(Some(StatementKind::Other))
    }

    fn check_item(&self, may_be_item: bool) -> Parse<()> {
        if may_be_item {
            return Ok(());
        }
        self.refuse("`import` and `export` are only allowed at the top level", self.token().start)
    }

    /// Whether a name follows `token` on its line, and no operator.
    fn is_before_name(&mut self, token: Token) -> Parse<bool> {
        match self.token_after(token) {
            Ok(next) => Ok(next.kind == Kind::Name && !next.on_new_line && !self.token_is_word(next, "in")),
            Err(crate::Halt::Fault(_)) => Ok(false),
            Err(halt) => Err(halt),
        }
    }

    fn labelled_or_expression(&mut self) -> Parse<StatementKind> {
        if self.is_binding_name() && self.peek()?.kind == Kind::Colon {
            self.advance()?;
            self.advance()?;
            return match self.statement()? {
                StatementKind::Nothing => Ok(StatementKind::Nothing),
                _ => Ok(StatementKind::Other),
            };
        }
        let found = self.expression(Place::ANYWHERE)?;
        if self.context.is_outermost {
            self.record.tails.push(Tail { start: found.start, end: found.end, kind: found.kind });
        }
        self.end_statement()?;
        Ok(StatementKind::Expression)
    }

    fn block(&mut self) -> Parse<StatementKind> {
        self.advance()?;
        self.in_block(Self::statements_to_brace)?;
        self.advance()?;
        Ok(StatementKind::Other)
    }

    fn condition(&mut self) -> Parse<()> {
        self.expect(Kind::ParenOpen, "(")?;
        self.expression(Place::ANYWHERE)?;
        self.expect(Kind::ParenClose, ")")
    }

    fn for_statement(&mut self) -> Parse<()> {
        self.advance()?;
        self.eat_word("await")?;
        self.expect(Kind::ParenOpen, "(")?;
        self.in_block(|parser| {
            let word = if parser.token().escaped { "" } else { parser.text_of(parser.token()) };
            let next = parser.peek()?;
            let names = matches!(next.kind, Kind::Name | Kind::BracketOpen | Kind::BraceOpen);
            let declares = match word {
                "var" | "const" => true,
                "let" => names && !parser.token_is_word(next, "in") && !parser.token_is_word(next, "of"),
                "using" => {
                    next.kind == Kind::Name && !parser.token_is_word(next, "of") && !parser.token_is_word(next, "in")
                }
                "await" => parser.token_is_word(next, "using"),
                _ => false,
            };
            if declares {
                if word == "await" {
                    parser.advance()?;
                }
                parser.advance()?;
                parser.declarators(word, Place::FOR_HEAD, false)?;
            } else if !parser.is(Kind::Semicolon) {
                parser.expression(Place::FOR_HEAD)?;
            }
            if parser.is_word("of") || parser.is_word("in") {
                parser.advance()?;
                parser.expression(Place::ANYWHERE)?;
            } else {
                for _ in 0..2 {
                    parser.expect(Kind::Semicolon, ";")?;
                    if !matches!(parser.token().kind, Kind::Semicolon | Kind::ParenClose) {
                        parser.expression(Place::ANYWHERE)?;
                    }
                }
            }
            parser.expect(Kind::ParenClose, ")")?;
            parser.statement().map(drop)
        })
    }

    fn try_statement(&mut self) -> Parse<()> {
        self.advance()?;
        self.expect_block()?;
        if self.eat_word("catch")? {
            self.in_block(|parser| {
                if parser.eat(Kind::ParenOpen)? {
                    parser.binding(Declare::VARIABLE)?;
                    parser.type_annotation()?;
                    parser.expect(Kind::ParenClose, ")")?;
                }
                parser.expect_block()
            })?;
        }
        let mark = self.record.tails.len();
        if self.eat_word("finally")? {
            self.expect_block()?;
            self.record.tails.truncate(mark);
        }
        Ok(())
    }

    fn expect_block(&mut self) -> Parse<()> {
        if self.is(Kind::BraceOpen) { self.block().map(drop) } else { Err(self.unexpected("expected `{`")) }
    }

    fn switch_statement(&mut self) -> Parse<()> {
        self.advance()?;
        self.condition()?;
        self.expect(Kind::BraceOpen, "{")?;
        self.in_block(|parser| {
            while !parser.is(Kind::BraceClose) {
                if parser.eat_word("case")? {
                    parser.expression(Place::CASE)?;
                    parser.expect(Kind::Colon, ":")?;
                } else if parser.is_word("default") {
                    parser.advance()?;
                    parser.expect(Kind::Colon, ":")?;
                } else if parser.is(Kind::End) {
                    return Err(parser.unexpected("expected `}`"));
                } else {
                    parser.statement()?;
                }
            }
            Ok(())
        })?;
        self.advance()
    }

    // ---- declarations

    /// `var`, `let`, `const` or `using`, which is the current token, with its declarators.
    fn variables(&mut self) -> Parse<()> {
        let word = self.text_of(self.token());
        self.advance()?;
        self.declarators(word, Place::ANYWHERE, false)?;
        self.end_statement()
    }

    /// The variables that a namespace exports, from `const` on. `start` is the offset of `export`.
    pub(super) fn exported_members(&mut self, start: u32) -> Parse<()> {
        let word = self.text_of(self.token());
        self.advance()?;
        self.record.edits.erase_item(start, self.token().start);
        self.declarators(word, Place::ANYWHERE, true)?;
        let end = self.before();
        self.end_statement()?;
        if self.before() == end {
            self.record.edits.insert(end, ";");
        }
        Ok(())
    }

    /// The names that `word` declares, and their values. `are_members`: the enclosing namespace exports them.
    fn declarators(&mut self, word: &str, place: Place, are_members: bool) -> Parse<()> {
        let how = Declare { hoisted: word == "var", exported: are_members, ..Declare::VARIABLE };
        loop {
            let number = self.record.scopes.declarations().len();
            let is_pattern = !self.is(Kind::Name);
            if is_pattern && are_members {
                self.record.edits.insert(self.token().start, "(");
            }
            self.binding(how)?;
            if self.options.typescript && self.is(Kind::Not) {
                self.record.note(Language::unless(self.token().on_new_line));
                self.erase_token()?;
            }
            let is_typed = self.type_annotation()?;
            if self.eat(Kind::Equals)? {
                let may_be_constant = word == "const" && self.record_constants() && !is_pattern && !is_typed;
                let value = self.with_constants(may_be_constant, |parser| parser.assignment(place))?;
                if let Some(constant) = value.constant {
                    self.record.scopes.set_binding(number, Binding::Constant(constant));
                }
            }
            if is_pattern && are_members {
                self.record.edits.insert(self.before(), ")");
            }
            if !self.eat(Kind::Comma)? {
                return Ok(());
            }
        }
    }

    fn function_declaration(&mut self, start: u32, is_async: bool) -> Parse<StatementKind> {
        self.expect_word("function")?;
        let is_generator = self.eat(Kind::Star)?;
        let mut name = None;
        if self.is_binding_name() {
            let token = self.binding_name(Declare::of(Binding::Function))?;
            name = Some(self.name_id(token));
        } else if self.options.script && self.context.is_outermost {
            self.record.nameless_function = Some(self.token().start);
        } else {
            return Err(self.unexpected("expected a name for the function"));
        }
        if !self.declared_function(start, is_async, is_generator)? {
            return Ok(StatementKind::Nothing);
        }
        Ok(StatementKind::Function { name, is_generator, start, end: self.before() })
    }

    fn class_declaration(&mut self) -> Parse<()> {
        self.advance()?;
        let name = self.binding_name(Declare::of(Binding::Class))?;
        if self.options.script && self.context.is_outermost {
            let name = self.name_id(name);
            self.record.items.classes.push(name);
        }
        self.in_block(Self::class_rest)
    }

    // ---- TypeScript

    /// The TypeScript statement that the current word begins, if any. `export` is the offset of an `export` before it.
    pub(super) fn typescript_statement(&mut self, start: u32, export: Option<u32>) -> Parse<Option<StatementKind>> {
        let word = self.text_of(self.token());
        if !matches!(word, "enum" | "type" | "interface" | "namespace" | "module" | "declare" | "abstract" | "global") {
            return Ok(None);
        }
        if !self.begins_typescript_statement(word)? {
            return Ok(None);
        }
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
                return Ok(Some(StatementKind::Other));
            }
            _ => {
                self.advance()?;
                self.ambient(|parser| parser.statement().map(drop))?;
            }
        }
        self.record.edits.erase_item(export.unwrap_or(start), self.before());
        Ok(Some(StatementKind::Nothing))
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
            self.record.note(Language::unless(is_infix));
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
    fn enum_declaration(&mut self, start: u32, export: Option<u32>) -> Parse<StatementKind> {
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
        Ok(if is_ambient { StatementKind::Nothing } else { StatementKind::Other })
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
                    self.record.scopes.declare(crate::scopes::Declaration {
                        scope,
                        name,
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
            let value = self.with_constants(true, |parser| parser.assignment(Place::ANYWHERE))?;
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
        let mut exported = self.exported(export);
        loop {
            let number = self.record.lowered.namespaces.len() as u32;
            let scope = self.record.scopes.current();
            let how = Declare {
                exported: matches!(exported, Exported::ByNamespace(..)),
                ..Declare::of(Binding::Namespace(number))
            };
            let declaration = self.record.scopes.declarations().len();
            let name = self.binding_name(how)?;
            let name_id = self.name_id(name);
            let is_hoisted = self.record.scopes.is_function(scope);
            let body = self.record.scopes.enter(ScopeKind::Namespace(number));
            let name = (name_id, name.start, name.end);
            let (body_start, body_end) = (0, 0);
            self.record.lowered.namespaces.push(NamespaceItem {
                name,
                scope,
                body,
                exported,
                start,
                body_start,
                body_end,
                is_hoisted,
                declaration,
                is_type: false,
                is_inner: number as usize > first,
            });
            self.context =
                Context { is_async: false, is_generator: false, is_outermost: false, namespace: Some(number), ..outer };
            exported = Exported::ByNamespace(number, self.token().start);
            if !self.eat(Kind::Dot)? {
                break;
            }
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
            return Ok(StatementKind::Other);
        }
        // A namespace with only types has no value at run time.
        for number in first..last {
            let declaration = self.record.lowered.namespaces[number].declaration;
            self.record.lowered.namespaces[number].is_type = true;
            if left == StatementKind::Nothing {
                self.record.scopes.set_binding(declaration, Binding::Type);
            }
        }
        self.record.edits.erase_item(export.unwrap_or(start), self.before());
        Ok(StatementKind::Nothing)
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
