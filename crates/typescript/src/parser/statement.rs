//! Statements and declarations.

use super::expression::GrammarFlags;
use super::{Declare, Expression, ExpressionKind, Parser, SourceLanguage, StatementKind, Tail};
use crate::Parse;
use crate::lexer::{Kind, Token};
use crate::scopes::Binding;

impl Parser<'_, '_> {
    /// The whole source.
    ///
    /// Returns the first two statements that are neither erased nor directives.
    pub(crate) fn source(&mut self) -> Parse<Vec<StatementKind>> {
        let mut kinds = Vec::new();
        let mut in_prologue = true;
        self.statement_list(Kind::End, true, |kind, is_string| {
            in_prologue &= is_string;
            if !in_prologue && !kind.is_erased() && kinds.len() < 2 {
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
    pub(super) fn statements_or_items(&mut self, are_items: bool) -> Parse<StatementKind> {
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

    /// Statements up to `close`. Only the tails of the last statement that is neither empty nor a declaration are kept. `each`
    /// receives the kind of each statement, and whether it is a string.
    fn statement_list(&mut self, close: Kind, are_items: bool, mut each: impl FnMut(StatementKind, bool)) -> Parse<()> {
        let first = self.record.tails.len();
        while !self.is(close) && !self.is(Kind::End) {
            let before = self.record.tails.len();
            let kind = self.nested(|parser| parser.statement_or_item(are_items))?;
            match kind {
                StatementKind::Nothing | StatementKind::Ambient => {}
                StatementKind::Function { .. } => self.record.tails.keep(first, false),
                StatementKind::Declaration => self.record.tails.keep(first, true),
                _ => self.record.tails.replace(first, before),
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
                None => self.labeled_or_expression(),
            },
            _ => self.labeled_or_expression(),
        }
    }

    /// The statement that the word here begins, if it begins one.
    fn keyword_statement(&mut self, may_be_item: bool) -> Parse<Option<StatementKind>> {
        let start = self.token().start;
        let word = self.text_of(self.token());
        let may_be_item = may_be_item || self.context.is_ambient;
        match word {
            "var" | "const" | "let" | "using" | "await" | "function" | "async" | "class" => {
                return self.declaration(word);
            }
            "if" | "try" | "for" | "while" | "with" | "do" | "switch" => self.compound_statement(word)?,
            "return" | "throw" | "break" | "continue" | "debugger" => self.jump_statement(word)?,
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

    /// The statement with other statements in it that `word` begins. Loops and `switch` have no value.
    fn compound_statement(&mut self, word: &str) -> Parse<()> {
        let mark = self.record.tails.len();
        match word {
            "if" => {
                self.advance()?;
                self.condition()?;
                self.statement()?;
                if self.eat_word("else")? {
                    self.statement()?;
                }
                return Ok(());
            }
            "try" => return self.try_statement(),
            "for" => self.for_statement()?,
            "switch" => self.switch_statement()?,
            "do" => {
                self.advance()?;
                self.statement()?;
                self.expect_word("while")?;
                self.condition()?;
                self.eat(Kind::Semicolon)?;
            }
            _ => {
                self.advance()?;
                self.condition()?;
                self.statement()?;
            }
        }
        self.record.tails.truncate(mark);
        Ok(())
    }

    fn jump_statement(&mut self, word: &str) -> Parse<()> {
        if word == "return" && self.context.is_outermost && !self.options.script {
            return self.refuse("`return` is only allowed in functions", self.token().start);
        }
        self.advance()?;
        if !self.may_end_statement() {
            match word {
                "return" | "throw" => drop(self.expression(GrammarFlags::ANYWHERE)?),
                "break" | "continue" => drop(self.eat(Kind::Name)?),
                _ => {}
            }
        }
        self.end_statement()
    }

    /// The declaration that `word`, the current token, begins, if it begins one.
    pub(super) fn declaration(&mut self, word: &str) -> Parse<Option<StatementKind>> {
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
        Ok(Some(StatementKind::Declaration))
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
            Err(crate::ParseError::Fault(_)) => Ok(false),
            Err(halt) => Err(halt),
        }
    }

    fn labeled_or_expression(&mut self) -> Parse<StatementKind> {
        if self.is_binding_name() && self.peek()?.kind == Kind::Colon {
            self.advance()?;
            self.advance()?;
            return match self.statement()? {
                kind @ (StatementKind::Nothing | StatementKind::Ambient) => Ok(kind),
                StatementKind::Function { .. } | StatementKind::Declaration => Ok(StatementKind::Declaration),
                _ => Ok(StatementKind::Other),
            };
        }
        let found = self.expression(GrammarFlags::ANYWHERE)?;
        if self.context.is_outermost {
            let Expression { start, end, kind, .. } = found;
            self.record.tails.push(Tail { start, end, kind });
        }
        self.end_statement()?;
        Ok(StatementKind::Expression)
    }

    pub(super) fn block(&mut self) -> Parse<StatementKind> {
        self.advance()?;
        self.in_block(Self::statements_to_brace)?;
        self.advance()?;
        Ok(StatementKind::Other)
    }

    fn condition(&mut self) -> Parse<()> {
        self.expect(Kind::ParenOpen, "(")?;
        self.expression(GrammarFlags::ANYWHERE)?;
        self.expect(Kind::ParenClose, ")")
    }

    fn for_statement(&mut self) -> Parse<()> {
        self.advance()?;
        self.eat_word("await")?;
        self.expect(Kind::ParenOpen, "(")?;
        self.in_block(|parser| {
            parser.for_head()?;
            if parser.is_word("of") || parser.is_word("in") {
                parser.advance()?;
                parser.expression(GrammarFlags::ANYWHERE)?;
            } else {
                for _ in 0..2 {
                    parser.expect(Kind::Semicolon, ";")?;
                    if !matches!(parser.token().kind, Kind::Semicolon | Kind::ParenClose) {
                        parser.expression(GrammarFlags::ANYWHERE)?;
                    }
                }
            }
            parser.expect(Kind::ParenClose, ")")?;
            parser.statement().map(drop)
        })
    }

    /// The declaration or expression before the `of`, `in` or first `;` of a `for`.
    fn for_head(&mut self) -> Parse<()> {
        let word = if self.token().escaped { "" } else { self.text_of(self.token()) };
        let next = self.peek()?;
        let names = matches!(next.kind, Kind::Name | Kind::BracketOpen | Kind::BraceOpen);
        let declares = match word {
            "var" | "const" => true,
            "let" => names && !self.token_is_word(next, "in") && !self.token_is_word(next, "of"),
            "using" if self.token_is_word(next, "of") => self.token_after(next)?.kind == Kind::Equals,
            "using" => next.kind == Kind::Name && !self.token_is_word(next, "in"),
            "await" => self.token_is_word(next, "using"),
            _ => false,
        };
        if declares {
            if word == "await" {
                self.advance()?;
            }
            self.advance()?;
            self.declarators(word, GrammarFlags::FOR_HEAD, false)?;
        } else if !self.is(Kind::Semicolon) {
            self.expression(GrammarFlags::FOR_HEAD)?;
        }
        Ok(())
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
                    parser.expression(GrammarFlags::CASE)?;
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
        self.declarators(word, GrammarFlags::ANYWHERE, false)?;
        self.end_statement()
    }

    /// The variables that a namespace exports, from `const` on. `start` is the offset of `export`.
    pub(super) fn exported_members(&mut self, start: u32) -> Parse<()> {
        let word = self.text_of(self.token());
        self.advance()?;
        self.record.edits.erase_item(start, self.token().start);
        self.declarators(word, GrammarFlags::ANYWHERE, true)?;
        let end = self.before();
        self.end_statement()?;
        if self.before() == end {
            self.record.edits.insert(end, ";");
        }
        Ok(())
    }

    /// The names that `word` declares, and their values. `are_members`: the enclosing namespace exports them.
    fn declarators(&mut self, word: &str, flags: GrammarFlags, are_members: bool) -> Parse<()> {
        let how = Declare { hoisted: word == "var", exported: are_members, ..Declare::VARIABLE };
        loop {
            let number = self.record.scopes.declarations().len();
            let is_pattern = !self.is(Kind::Name);
            if is_pattern && are_members {
                self.record.edits.insert(self.token().start, "(");
            }
            self.binding(how)?;
            if self.options.typescript && self.is(Kind::Not) {
                self.record.note(SourceLanguage::typescript_unless(self.token().on_new_line));
                self.erase_token()?;
            }
            let is_typed = self.type_annotation()?;
            if self.eat(Kind::Equals)? {
                let may_be_constant = word == "const" && self.record_constants() && !is_pattern && !is_typed;
                let value = self.with_constants(may_be_constant, |parser| parser.assignment(flags))?;
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
            return Ok(StatementKind::Ambient);
        }
        Ok(StatementKind::Function { name, is_generator, start, end: self.before() })
    }

    pub(super) fn class_declaration(&mut self) -> Parse<()> {
        self.advance()?;
        let name = self.binding_name(Declare::of(Binding::Class))?;
        if self.options.script && self.context.is_outermost {
            let name = self.name_id(name);
            self.record.items.classes.push(name);
        }
        self.in_block(Self::class_rest)
    }
}
