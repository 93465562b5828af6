//! Classes: heritage, members and parameter properties.

use super::expression::GrammarFlags;
use super::{Declare, Expression, ExpressionKind, Parser, SourceLanguage};
use crate::Parse;
use crate::lexer::{Kind, Token};
use crate::scopes::Binding;

/// The words before the name of a member.
#[allow(clippy::struct_excessive_bools)] // one per keyword
#[derive(Debug, Default)]
struct Modifiers {
    is_async: bool,
    is_generator: bool,
    is_static: bool,
    is_accessor: bool,
    /// `declare` or `abstract`: the member is erased.
    is_only_declared: bool,
    /// The ranges to erase, in order.
    erased: Vec<Token>,
}

impl Parser<'_, '_> {
    pub(super) fn class_expression(&mut self, start: u32) -> Parse<Expression> {
        self.in_block(|parser| {
            parser.advance()?;
            if parser.is_binding_name() && !parser.is_word("implements") {
                parser.binding_name(Declare::of(Binding::Class))?;
            }
            parser.class_rest()
        })?;
        Ok(Expression { kind: ExpressionKind::Class, ..self.other(start) })
    }

    /// A class after its name.
    pub(super) fn class_rest(&mut self) -> Parse<()> {
        if self.typescript(self.is(Kind::Less)) {
            self.type_parameters()?;
        }
        if self.eat_word("extends")? {
            self.nested(Self::member_chain)?;
            if self.typescript(self.text_of(self.token()).starts_with('<')) {
                self.type_arguments()?;
            }
        }
        if self.typescript(self.is_word("implements")) {
            let start = self.token().start;
            self.advance()?;
            self.type_list()?;
            self.erase_from(start);
        }
        if !self.is(Kind::BraceOpen) {
            return Err(self.unexpected("expected `{`"));
        }
        let body = self.token().end;
        self.advance()?;
        self.with_constants(false, |parser| {
            while !parser.is(Kind::BraceClose) {
                if !parser.eat(Kind::Semicolon)? {
                    parser.nested(|parser| parser.member(body))?;
                }
            }
            Ok(())
        })?;
        self.advance()
    }

    /// One member of the class whose body begins at `body`.
    fn member(&mut self, body: u32) -> Parse<()> {
        let start = self.token().start;
        if self.is(Kind::At) {
            return self.refuse("decorators are not supported", start);
        }
        if self.is_word("static") && self.peek()?.kind == Kind::BraceOpen {
            return self.static_block();
        }
        let modifiers = self.modifiers()?;
        if self.options.typescript && self.is(Kind::BracketOpen) && self.index_signature()? {
            self.record.edits.erase_item(start, self.before());
            return Ok(());
        }
        let name = self.token();
        self.property_name()?;
        let stays = self.member_after_name(name, &modifiers, body)?;
        if !stays {
            self.record.edits.erase_item(start, self.before());
            return Ok(());
        }
        for token in modifiers.erased {
            // A member that loses its first word must not continue the one before it.
            if token.start == start {
                self.record.edits.erase_item(token.start, token.end);
            } else {
                self.record.edits.erase(token.start, token.end);
            }
        }
        Ok(())
    }

    /// A member after its name; false if it is erased.
    fn member_after_name(&mut self, name: Token, modifiers: &Modifiers, body: u32) -> Parse<bool> {
        let is_constructor = !modifiers.is_static
            && !modifiers.is_generator
            && matches!(self.text_of(name), "constructor" | "'constructor'" | "\"constructor\"");
        if self.typescript(matches!(self.token().kind, Kind::Question | Kind::Not)) {
            self.erase_token()?;
        }
        if self.is(Kind::ParenOpen) || self.typescript(self.is(Kind::Less)) {
            let has_body = if is_constructor {
                self.constructor(body)?
            } else {
                self.function_rest(modifiers.is_async, modifiers.is_generator)?
            };
            if !has_body {
                self.end_statement()?;
            }
            return Ok(has_body);
        }
        let is_method = modifiers.is_async || modifiers.is_generator || modifiers.is_accessor;
        if is_method && !modifiers.is_only_declared {
            return Err(self.unexpected("expected `(`"));
        }
        self.field()?;
        Ok(!modifiers.is_only_declared)
    }

    /// The rest of a field, after its name.
    fn field(&mut self) -> Parse<()> {
        self.type_annotation()?;
        if self.eat(Kind::Equals)? {
            let outer = self.enter_function(false, false);
            self.assignment(GrammarFlags::ANYWHERE)?;
            self.leave_function(outer);
        }
        self.end_statement()
    }

    fn static_block(&mut self) -> Parse<()> {
        self.advance()?;
        let outer = self.enter_function(false, false);
        self.braced_body()?;
        self.leave_function(outer);
        Ok(())
    }

    fn modifiers(&mut self) -> Parse<Modifiers> {
        let mut modifiers = Modifiers::default();
        loop {
            if self.eat(Kind::Star)? {
                modifiers.is_generator = true;
                return Ok(modifiers);
            }
            if !self.is(Kind::Name) || self.token().escaped {
                return Ok(modifiers);
            }
            let word = self.text_of(self.token());
            let is_typescript =
                matches!(word, "public" | "private" | "protected" | "readonly" | "override" | "abstract" | "declare");
            let is_modifier = match word {
                "static" | "async" | "get" | "set" | "accessor" => true,
                _ => is_typescript && self.options.typescript,
            };
            if !is_modifier || !self.modifies_next(word)? {
                return Ok(modifiers);
            }
            match word {
                "static" => modifiers.is_static = true,
                "async" => modifiers.is_async = true,
                "get" | "set" => modifiers.is_accessor = true,
                "accessor" if !self.context.is_ambient => {
                    let message = "`accessor` is not supported; write a getter and a setter";
                    return self.refuse(message, self.token().start);
                }
                "abstract" | "declare" => modifiers.is_only_declared = true,
                _ => {}
            }
            let token = self.token();
            self.advance()?;
            if is_typescript {
                modifiers.erased.push(token);
                self.record.note(SourceLanguage::typescript_unless(self.token().on_new_line));
            }
        }
    }

    /// Whether `word`, the current token, is a modifier and not the name of the member.
    fn modifies_next(&mut self, word: &str) -> Parse<bool> {
        let next = self.peek()?;
        let may_end_line = matches!(word, "static" | "get" | "set");
        Ok(match next.kind {
            Kind::Star => !matches!(word, "get" | "set"),
            Kind::Name | Kind::PrivateName | Kind::String | Kind::Number | Kind::BracketOpen | Kind::BraceOpen => {
                may_end_line || !next.on_new_line
            }
            _ => false,
        })
    }

    /// `[key: T]: U`, without its modifiers; false if there is no index signature.
    fn index_signature(&mut self) -> Parse<bool> {
        let found = self.attempt(|parser| {
            parser.advance()?;
            if !parser.eat(Kind::Name)? || !parser.eat(Kind::Colon)? {
                return Ok(None);
            }
            parser.type_()?;
            parser.expect(Kind::BracketClose, "]")?;
            if parser.eat(Kind::Colon)? {
                parser.type_()?;
            }
            parser.end_statement()?;
            Ok(Some(()))
        })?;
        Ok(self.typescript(found.is_some()))
    }

    /// A constructor from its parameters on; false if it has no body.
    fn constructor(&mut self, class_body: u32) -> Parse<bool> {
        let outer = self.enter_function(false, false);
        let first = self.record.properties.len();
        self.signature(true)?;
        if self.typescript(!self.is(Kind::BraceOpen)) {
            self.leave_function(outer);
            self.record.properties.truncate(first);
            return Ok(false);
        }
        let place = self.constructor_body()?;
        self.leave_function(outer);
        if self.record.properties.len() > first {
            // As with `useDefineForClassFields`: fields are defined first, and assigned after `super()`.
            let before = &self.text()[..place as usize];
            let mut fields = String::new();
            let mut assigned = if before.ends_with([';', '{']) { String::new() } else { ";".to_owned() };
            for property in self.record.properties.drain(first..) {
                let name = &self.tokens.text()[property.start as usize..property.end as usize];
                fields += &format!(" {name};");
                assigned += &format!(" this.{name} = {name};");
            }
            self.record.edits.insert(class_body, fields);
            self.record.edits.insert(place, assigned);
        }
        Ok(true)
    }

    /// The body of a constructor; returns where properties are assigned: after `super()`, or at the start.
    fn constructor_body(&mut self) -> Parse<u32> {
        if !self.is(Kind::BraceOpen) {
            return Err(self.unexpected("expected `{`"));
        }
        self.advance()?;
        let mut place = self.before();
        let mut in_prologue = true;
        let mut found_super = false;
        while !self.is(Kind::BraceClose) {
            let is_super = !found_super && self.is_word("super") && self.peek()?.kind == Kind::ParenOpen;
            in_prologue &= self.is(Kind::String);
            self.statement()?;
            if is_super || (in_prologue && !found_super) {
                place = self.before();
            }
            found_super |= is_super;
        }
        self.advance()?;
        Ok(place)
    }
}
