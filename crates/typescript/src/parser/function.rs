//! Functions: signatures, parameters and bodies, and arrow functions, which only `=>` distinguishes from parentheses.

use super::expression::GrammarFlags;
use super::{Context, Declare, Expression, ExpressionKind, Parser, SourceLanguage};
use crate::Parse;
use crate::lexer::{Kind, Token};
use crate::scopes::{Binding, ScopeKind, Use};

/// Whether an arrow function begins here, as the first tokens suggest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
    No,
    Perhaps,
    Yes,
}

impl Parser<'_, '_> {
    // ---- arrow functions

    /// The arrow function that begins here, if one does.
    pub(super) fn arrow_function(&mut self, flags: GrammarFlags) -> Parse<Option<Expression>> {
        let start = self.token().start;
        match self.token().kind {
            Kind::Name if self.is_word("async") => {
                let next = self.peek()?;
                if next.on_new_line {
                    return self.arrow_of_name(false, flags);
                }
                match next.kind {
                    Kind::Name if !self.token_is_word(next, "function") && self.is_before_arrow(next)? => {
                        self.advance()?;
                        self.arrow_of_name(true, flags)
                    }
                    Kind::ParenOpen => self.try_arrow(start, true, Guess::Perhaps, flags),
                    Kind::Less if self.options.typescript => self.try_arrow(start, true, Guess::Perhaps, flags),
                    _ => self.arrow_of_name(false, flags),
                }
            }
            Kind::Name => self.arrow_of_name(false, flags),
            Kind::ParenOpen => {
                let guess = self.guess_arrow()?;
                self.try_arrow(start, false, guess, flags)
            }
            Kind::Less if self.options.typescript => self.try_arrow(start, false, Guess::Perhaps, flags),
            _ => Ok(None),
        }
    }

    /// Whether `=>` follows `token`.
    fn is_before_arrow(&mut self, token: Token) -> Parse<bool> {
        let rest = &self.text().as_bytes()[token.end as usize..];
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        match &rest[blanks..] {
            [b'=', b'>', ..] => Ok(true),
            [b'/', ..] => match self.token_after(token) {
                Ok(next) => Ok(next.kind == Kind::Arrow),
                Err(crate::ParseError::Fault(_)) => Ok(false),
                Err(halt) => Err(halt),
            },
            _ => Ok(false),
        }
    }

    /// `x => …`
    fn arrow_of_name(&mut self, is_async: bool, flags: GrammarFlags) -> Parse<Option<Expression>> {
        let name = self.token();
        if !self.is_before_arrow(name)? || !self.is_binding_name() {
            return Ok(None);
        }
        let start = if is_async { self.before() - 5 } else { name.start };
        let outer = self.enter_function(is_async, false);
        self.binding_name(Declare::VARIABLE)?;
        self.expect(Kind::Arrow, "=>")?;
        self.arrow_body(start, outer, flags).map(Some)
    }

    /// Guesses whether an arrow function begins here by the tokens after `(`.
    fn guess_arrow(&mut self) -> Parse<Guess> {
        let typescript = self.options.typescript;
        let second = self.peek()?;
        let third = |parser: &mut Self| -> Parse<Kind> { Ok(parser.token_after(second)?.kind) };
        Ok(match second.kind {
            Kind::ParenClose => match third(self)? {
                Kind::Arrow => Guess::Yes,
                Kind::Colon if typescript => Guess::Perhaps,
                _ => Guess::No,
            },
            Kind::BracketOpen | Kind::BraceOpen | Kind::At => Guess::Perhaps,
            Kind::Ellipsis => Guess::Yes,
            Kind::Name => match third(self)? {
                Kind::Comma | Kind::Equals | Kind::ParenClose => Guess::Perhaps,
                Kind::Colon | Kind::Question | Kind::Name if typescript => Guess::Perhaps,
                _ => Guess::No,
            },
            _ => Guess::No,
        })
    }

    fn try_arrow(
        &mut self,
        start: u32,
        is_async: bool,
        guess: Guess,
        flags: GrammarFlags,
    ) -> Parse<Option<Expression>> {
        if guess == Guess::No || self.record.is_refuted(start) {
            return Ok(None);
        }
        let outer = self.context;
        if guess == Guess::Yes {
            self.arrow_head(is_async, flags)?;
            return self.arrow_body(start, outer, flags).map(Some);
        }
        let has_return_type = self.attempt(|parser| {
            let has_return_type = parser.arrow_head(is_async, flags)?;
            if !(has_return_type && flags.in_conditional()) {
                return Ok(Some(None));
            }
            // In `a ? (b) : c => d`, the apparent return type is the other branch, unless a `:` follows.
            let arrow = parser.arrow_body(start, outer, flags)?;
            Ok(parser.is(Kind::Colon).then_some(Some(arrow)))
        })?;
        match has_return_type {
            Some(Some(arrow)) => Ok(Some(arrow)),
            Some(None) => self.arrow_body(start, outer, flags).map(Some),
            None => {
                self.refute(start);
                Ok(None)
            }
        }
    }

    /// Everything up to `=>`, in the scope of the function, which remains open; true if there is a return type.
    fn arrow_head(&mut self, is_async: bool, flags: GrammarFlags) -> Parse<bool> {
        self.enter_function(is_async, false);
        if is_async {
            self.advance()?;
        }
        if self.is(Kind::Less) {
            let less = self.token().start;
            self.record.note(SourceLanguage::typescript_unless(is_async)); // `async<T>(x)` compares
            self.type_parameters_unerased()?;
            let (end, paren) = (self.before(), self.token());
            if paren.kind == Kind::ParenOpen && self.has_line_end(less, paren.start) {
                // No line may end before the `(` of an async arrow function, or after `return`.
                self.record.edits.erase_opening(less, end);
                self.record.edits.erase(paren.start, paren.end);
            } else {
                self.record.edits.erase(less, end);
            }
        }
        if !self.is(Kind::ParenOpen) {
            return Err(self.unexpected("expected `(`"));
        }
        self.parameters(false)?;
        let close = self.before() - 1;
        let has_return_type = self.options.typescript && self.is(Kind::Colon);
        if has_return_type {
            let colon = self.token().start;
            self.record.note(SourceLanguage::typescript_unless(flags.precedes_colon()));
            self.return_type_unerased()?;
            if self.has_line_end(close, self.token().start) {
                // No line may end before `=>`.
                self.record.edits.erase(close, close + 1);
                self.record.edits.erase_closing(colon, self.before());
            } else {
                self.erase_from(colon);
            }
        } else if self.token().on_new_line {
            return Err(self.unexpected("expected `=>` on the same line"));
        }
        self.expect(Kind::Arrow, "=>")?;
        Ok(has_return_type)
    }

    /// The body after `=>`; closes the scope of the function. `outer` is the enclosing function.
    fn arrow_body(&mut self, start: u32, outer: Context, flags: GrammarFlags) -> Parse<Expression> {
        let is_async = self.context.is_async;
        if self.is(Kind::BraceOpen) {
            self.braced_body()?;
        } else {
            self.assignment(flags)?;
        }
        self.leave_function(outer);
        let kind = ExpressionKind::Function { is_async, is_generator: false, is_arrow: true };
        Ok(Expression { kind, ..self.other(start) })
    }

    // ---- other functions

    /// `function …`, from that word on, after `async` if there is one.
    pub(super) fn function_expression(&mut self, start: u32, is_async: bool) -> Parse<Expression> {
        self.expect_word("function")?;
        let is_generator = self.eat(Kind::Star)?;
        let outer = self.enter_function(is_async, is_generator);
        if self.is_binding_name() {
            self.binding_name(Declare::of(Binding::Function))?;
        }
        self.signature(false)?;
        self.braced_body()?;
        self.leave_function(outer);
        let kind = ExpressionKind::Function { is_async, is_generator, is_arrow: false };
        Ok(Expression { kind, ..self.other(start) })
    }

    /// A function declaration after its name. An overload, which has no body, is erased from `start` on; false then.
    pub(super) fn declared_function(&mut self, start: u32, is_async: bool, is_generator: bool) -> Parse<bool> {
        let has_body = self.function_rest(is_async, is_generator)?;
        if !has_body {
            self.end_statement()?;
            self.record.edits.erase_item(start, self.before());
        }
        Ok(has_body)
    }

    /// Type parameters, parameters, return type and body; false if there is no body, as in overloads.
    pub(super) fn function_rest(&mut self, is_async: bool, is_generator: bool) -> Parse<bool> {
        let outer = self.enter_function(is_async, is_generator);
        self.signature(false)?;
        let has_body = !self.typescript(!self.is(Kind::BraceOpen));
        if has_body {
            self.braced_body()?;
        }
        self.leave_function(outer);
        Ok(has_body)
    }

    /// Type parameters, parameters and return type, with TypeScript erased.
    pub(super) fn signature(&mut self, of_constructor: bool) -> Parse<()> {
        if self.typescript(self.is(Kind::Less)) {
            self.type_parameters()?;
        }
        if !self.is(Kind::ParenOpen) {
            return Err(self.unexpected("expected `(`"));
        }
        self.parameters(of_constructor)?;
        if self.typescript(self.is(Kind::Colon)) {
            let colon = self.token().start;
            self.return_type_unerased()?;
            self.erase_from(colon);
        }
        Ok(())
    }

    /// Begins a function, and returns the enclosing one for [`leave_function`](Self::leave_function).
    pub(super) fn enter_function(&mut self, is_async: bool, is_generator: bool) -> Context {
        let inner = Context { is_async, is_generator, is_outermost: false, namespace: None, ..self.context };
        self.record.scopes.enter(ScopeKind::Function);
        std::mem::replace(&mut self.context, inner)
    }

    pub(super) fn leave_function(&mut self, outer: Context) {
        self.record.scopes.leave();
        self.context = outer;
    }

    /// `{ … }` with the statements of a function.
    pub(super) fn braced_body(&mut self) -> Parse<()> {
        if !self.is(Kind::BraceOpen) {
            return Err(self.unexpected("expected `{`"));
        }
        self.with_constants(false, |parser| {
            parser.advance()?;
            parser.statements_to_brace()?;
            parser.advance()
        })
    }

    // ---- parameters and patterns

    /// `( … )`. Names with modifiers are properties if they are parameters `of_constructor`.
    pub(super) fn parameters(&mut self, of_constructor: bool) -> Parse<()> {
        self.advance()?;
        while !self.is(Kind::ParenClose) {
            if self.is(Kind::At) {
                return self.refuse("decorators are not supported", self.token().start);
            }
            if self.options.typescript && self.is_word("this") {
                self.this_parameter()?;
                continue;
            }
            let is_property = self.parameter_modifiers()?;
            self.eat(Kind::Ellipsis)?;
            let name = self.token();
            self.binding(Declare::VARIABLE)?;
            if is_property && of_constructor {
                self.record.properties.push(name);
            }
            if self.typescript(self.is(Kind::Question)) {
                self.erase_token()?;
            }
            self.type_annotation()?;
            if self.eat(Kind::Equals)? {
                self.assignment(GrammarFlags::ANYWHERE)?;
            }
            if !self.eat(Kind::Comma)? {
                break;
            }
        }
        self.expect(Kind::ParenClose, ")").map_err(|_| self.unexpected("expected `,` or `)`"))
    }

    /// `this: T`, erased with its comma.
    fn this_parameter(&mut self) -> Parse<()> {
        let start = self.token().start;
        self.advance()?;
        self.record.note(SourceLanguage::typescript_unless(!self.is(Kind::Colon))); // `(this)` is an expression
        if self.eat(Kind::Colon)? {
            self.type_()?;
        }
        if !self.eat(Kind::Comma)? && !self.is(Kind::ParenClose) {
            return Err(self.unexpected("expected `,` or `)`"));
        }
        self.erase_from(start);
        Ok(())
    }

    /// The modifiers that make a parameter a property, erased; true if there are any. They are accepted in any
    /// function.
    pub(super) fn parameter_modifiers(&mut self) -> Parse<bool> {
        let mut found = false;
        while self.options.typescript && self.is_parameter_modifier() {
            let next = self.peek()?;
            let is_modifier =
                matches!(next.kind, Kind::Name | Kind::BraceOpen | Kind::BracketOpen | Kind::String | Kind::Number);
            if !is_modifier {
                break;
            }
            self.record.note(SourceLanguage::typescript_unless(next.kind == Kind::BracketOpen)); // `readonly [0]` is a member
            self.erase_token()?;
            found = true;
        }
        Ok(found)
    }

    fn is_parameter_modifier(&self) -> bool {
        let token = self.token();
        token.kind == Kind::Name
            && !token.escaped
            && matches!(self.text_of(token), "public" | "private" | "protected" | "readonly" | "override")
    }

    /// A name, or a pattern of names.
    pub(super) fn binding(&mut self, how: Declare) -> Parse<()> {
        match self.token().kind {
            Kind::BracketOpen => self.nested(|parser| parser.array_pattern(how)),
            Kind::BraceOpen => self.nested(|parser| parser.object_pattern(how)),
            _ => {
                let name = self.binding_name(how)?;
                self.refer_to_member(name, Use::Value, how);
                Ok(())
            }
        }
    }

    /// A variable that a namespace exports is a member of it, which its declaration assigns.
    fn refer_to_member(&mut self, name: Token, use_: Use, how: Declare) {
        if how.exported {
            self.refer(name, use_);
        }
    }

    fn array_pattern(&mut self, how: Declare) -> Parse<()> {
        self.advance()?;
        while !self.is(Kind::BracketClose) {
            if self.eat(Kind::Comma)? {
                continue;
            }
            self.eat(Kind::Ellipsis)?;
            self.binding(how)?;
            self.initializer()?;
            if !self.is(Kind::BracketClose) && !self.is(Kind::Comma) {
                return Err(self.unexpected("expected `,` or `]`"));
            }
        }
        self.advance()
    }

    fn object_pattern(&mut self, how: Declare) -> Parse<()> {
        self.advance()?;
        while !self.is(Kind::BraceClose) {
            if self.eat(Kind::Ellipsis)? {
                self.binding(how)?;
            } else {
                let is_name = self.is_binding_name();
                let next = self.peek()?.kind;
                if is_name && matches!(next, Kind::Comma | Kind::BraceClose | Kind::Equals) {
                    let name = self.binding_name(how)?;
                    self.refer_to_member(name, Use::Shorthand, how);
                } else {
                    self.property_name()?;
                    self.expect(Kind::Colon, ":")?;
                    self.binding(how)?;
                }
                self.initializer()?;
            }
            if !self.eat(Kind::Comma)? {
                break;
            }
        }
        self.expect(Kind::BraceClose, "}").map_err(|_| self.unexpected("expected `,` or `}`"))
    }

    fn initializer(&mut self) -> Parse<()> {
        if self.eat(Kind::Equals)? {
            self.assignment(GrammarFlags::ANYWHERE)?;
        }
        Ok(())
    }
}
