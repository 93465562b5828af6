//! Types: where they end and which names they use. Types are not checked.

use super::expression::GrammarFlags;
use super::{Declare, Parser, SourceLanguage};
use crate::Parse;
use crate::ParseError;
use crate::lexer::{Kind, Token};
use crate::scopes::{Binding, ScopeKind, Use};

impl Parser<'_, '_> {
    /// `: T`, erased; true if there was one.
    #[inline]
    pub(super) fn type_annotation(&mut self) -> Parse<bool> {
        if !self.is(Kind::Colon) || !self.options.typescript {
            return Ok(false);
        }
        self.present_type_annotation().map(|()| true)
    }

    fn present_type_annotation(&mut self) -> Parse<()> {
        self.record.note(SourceLanguage::TypeScript);
        let colon = self.token().start;
        self.advance()?;
        self.type_()?;
        self.erase_from(colon);
        Ok(())
    }

    /// `: T` of a function, which may be a predicate. Not erased.
    pub(super) fn return_type_unerased(&mut self) -> Parse<()> {
        self.advance()?;
        self.return_type()
    }

    fn return_type(&mut self) -> Parse<()> {
        if self.is_word("asserts") {
            let next = self.peek()?;
            if next.kind == Kind::Name && !next.on_new_line && !self.token_is_word(next, "is") {
                self.advance()?;
                self.advance()?;
                if self.eat_word("is")? {
                    self.type_()?;
                }
                return Ok(());
            }
        }
        if self.is(Kind::Name) {
            let next = self.peek()?;
            if self.token_is_word(next, "is") && !next.on_new_line {
                self.advance()?;
                self.advance()?;
            }
        }
        self.type_()
    }

    /// `<T, …>` of a declaration, erased.
    pub(super) fn type_parameters(&mut self) -> Parse<()> {
        let start = self.token().start;
        self.type_parameters_unerased()?;
        self.erase_from(start);
        Ok(())
    }

    pub(super) fn type_parameters_unerased(&mut self) -> Parse<()> {
        self.advance()?;
        while !self.is(Kind::Greater) {
            while ["const", "in", "out"].iter().any(|word| self.is_word(word)) && self.peek()?.kind == Kind::Name {
                self.advance()?;
            }
            self.binding_name(Declare::of(Binding::Type))?;
            if self.eat_word("extends")? {
                self.type_()?;
            }
            if self.eat(Kind::Equals)? {
                self.type_()?;
            }
            if !self.eat(Kind::Comma)? {
                break;
            }
        }
        self.expect(Kind::Greater, ">")
    }

    /// `<T, …>` after a name, erased.
    pub(super) fn type_arguments(&mut self) -> Parse<()> {
        let start = self.token().start;
        self.type_arguments_unerased()?;
        self.erase_from(start);
        Ok(())
    }

    fn type_arguments_unerased(&mut self) -> Parse<()> {
        let start = self.token().start;
        let read = self.listed_types().and_then(|()| self.expect(Kind::Greater, ">"));
        if let Err(ParseError::Fault(_)) = read {
            self.refute(start); // in an expression, too
        }
        read
    }

    /// Whether the current token is `<`, or `<<`, which is two of them where types stand.
    pub(super) fn begins_with_less(&self) -> bool {
        match self.token().kind {
            Kind::Less => true,
            Kind::Operator | Kind::Assignment => self.text_of(self.token()).starts_with("<<"),
            _ => false,
        }
    }

    /// `<` and types separated by commas, with an optional trailing comma, up to `>`.
    fn listed_types(&mut self) -> Parse<()> {
        self.tokens.split_less();
        self.expect(Kind::Less, "<")?;
        self.type_()?;
        while self.eat(Kind::Comma)? && !self.is(Kind::Greater) {
            self.type_()?;
        }
        Ok(())
    }

    /// `<T, …>` after an operand, erased, unless the next token shows that it is a comparison. `is_constructor`: the operand is that
    /// of `new`, which nobody compares.
    pub(super) fn type_arguments_in_expression(&mut self, is_constructor: bool) -> Parse<Option<()>> {
        let start = self.token().start;
        if self.record.is_refuted(start) {
            return Ok(None);
        }
        let language = self.record.language;
        let may_compare = !is_constructor && self.is_spaced_less();
        let found = self.attempt(|parser| {
            parser.listed_types()?;
            if !parser.is(Kind::Greater) || parser.text()[parser.token().end as usize..].starts_with(['>', '=']) {
                return Ok(None);
            }
            parser.advance()?;
            if !parser.may_follow_type_arguments() {
                return Ok(None);
            }
            parser.erase_from(start);
            Ok(Some(()))
        })?;
        if found.is_none() {
            self.refute(start);
            return Ok(None);
        }
        // In JavaScript, `a<b>(c)` compares, which nobody means, and `a < b, c > (d)` may compare twice.
        self.record.language = language;
        if may_compare && has_separator(&self.text()[start as usize + 1..self.before() as usize - 1]) {
            self.record.note(SourceLanguage::Ambiguous);
        } else {
            self.record.language = SourceLanguage::TypeScript;
        }
        Ok(found)
    }

    /// Whether the current `<` has spaces on both sides, as comparisons have.
    fn is_spaced_less(&self) -> bool {
        let Token { start, end, .. } = self.token();
        let (before, after) = (&self.text()[..start as usize], &self.text()[end as usize..]);
        before.ends_with([' ', '\n']) && after.starts_with([' ', '\n'])
    }

    /// Whether type arguments may begin here in an expression. The bytes after most comparisons with words show that none do:
    /// `a < b.c;`.
    pub(super) fn may_be_type_arguments(&self) -> bool {
        if !self.options.typescript || !self.begins_with_less() {
            return false;
        }
        let rest = &self.text().as_bytes()[self.token().start as usize + 1..];
        let is_word = |byte: &u8| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$' | b'.' | b' ');
        let words = rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len());
        match &rest[words..] {
            [b';' | b':' | b')' | b'}' | b'+' | b'-' | b'*' | b'%' | b'=' | b'!', ..] => words == 0,
            [b'&', b'&', ..] | [b'|', b'|', ..] | [] => false,
            _ => true,
        }
    }

    fn may_follow_type_arguments(&self) -> bool {
        match self.token().kind {
            Kind::ParenOpen | Kind::Template | Kind::TemplateHead => true,
            Kind::Less | Kind::Greater | Kind::Plus | Kind::Minus => false,
            _ if self.token().on_new_line => true,
            Kind::Name => ["in", "instanceof", "as", "satisfies"].iter().any(|word| self.is_word(word)),
            Kind::Number
            | Kind::String
            | Kind::PrivateName
            | Kind::BraceOpen
            | Kind::BracketOpen
            | Kind::Not
            | Kind::Tilde
            | Kind::Step
            | Kind::At => false,
            _ => true,
        }
    }

    /// Types with commas between them.
    pub(super) fn type_list(&mut self) -> Parse<()> {
        self.type_()?;
        while self.eat(Kind::Comma)? {
            self.type_()?;
        }
        Ok(())
    }

    /// One type.
    pub(super) fn type_(&mut self) -> Parse<()> {
        self.nested(Self::conditional_types)
    }

    fn conditional_types(&mut self) -> Parse<()> {
        loop {
            if self.function_type()? {
                return Ok(());
            }
            self.union_type()?;
            if !self.is_word("extends") || self.token().on_new_line || self.context.in_extends {
                return Ok(());
            }
            self.advance()?;
            self.in_block(|parser| {
                parser.extends_type()?;
                parser.expect(Kind::Question, "?")?;
                parser.type_()
            })?;
            self.expect(Kind::Colon, ":")?;
        }
    }

    /// The type after `extends`, in which a further `extends` can only belong to an `infer`.
    fn extends_type(&mut self) -> Parse<()> {
        self.nested(|parser| {
            parser.with_extends(true, |parser| if parser.function_type()? { Ok(()) } else { parser.union_type() })
        })
    }

    /// A function or constructor type, if one begins here.
    fn function_type(&mut self) -> Parse<bool> {
        if self.is_word("abstract") {
            let next = self.peek()?;
            if !self.token_is_word(next, "new") {
                return Ok(false);
            }
            self.advance()?;
        }
        if self.is_word("new") {
            self.advance()?;
        } else if self.is(Kind::ParenOpen) {
            if !self.begins_function_type()? {
                return Ok(false);
            }
        } else if !self.is(Kind::Less) {
            return Ok(false);
        }
        self.in_scope(ScopeKind::Function, |parser| {
            parser.type_signature()?;
            parser.expect(Kind::Arrow, "=>")?;
            parser.return_type()
        })?;
        Ok(true)
    }

    /// Whether the `(` here opens parameters, and not a type in parentheses.
    fn begins_function_type(&mut self) -> Parse<bool> {
        let second = self.peek()?;
        match second.kind {
            Kind::ParenClose | Kind::Ellipsis => Ok(true),
            Kind::Name if super::is_reserved(self.text_of(second)) && !self.token_is_word(second, "this") => Ok(false),
            Kind::Name => {
                let third = self.token_after(second)?;
                Ok(match third.kind {
                    Kind::Colon | Kind::Comma | Kind::Question | Kind::Equals => true,
                    Kind::ParenClose => self.token_after(third)?.kind == Kind::Arrow,
                    _ => false,
                })
            }
            Kind::BraceOpen | Kind::BracketOpen => {
                let start = self.token().start;
                if self.record.is_refuted(start) {
                    return Ok(false);
                }
                let is_function = self.looks_ahead(|parser| {
                    parser.parameters(false)?;
                    Ok(parser.is(Kind::Arrow))
                })?;
                if !is_function {
                    self.refute(start);
                }
                Ok(is_function)
            }
            _ => Ok(false),
        }
    }

    /// `|` and `&` between types.
    fn union_type(&mut self) -> Parse<()> {
        if matches!(self.token().kind, Kind::Or | Kind::And) {
            self.advance()?;
        }
        loop {
            if !self.function_type()? {
                self.postfix_type()?;
            }
            if !self.eat(Kind::Or)? && !self.eat(Kind::And)? {
                return Ok(());
            }
        }
    }

    fn postfix_type(&mut self) -> Parse<()> {
        loop {
            let is_operator = self.is_word("keyof") || self.is_word("unique") || self.is_word("readonly");
            if is_operator && self.begins_type_next()? {
                self.advance()?;
                continue;
            }
            if self.is_word("infer") && self.peek()?.kind == Kind::Name {
                return self.infer_type();
            }
            break;
        }
        self.with_extends(false, Self::primary_type)?;
        loop {
            if self.token().on_new_line {
                return Ok(());
            }
            match self.token().kind {
                Kind::BracketOpen => {
                    self.advance()?;
                    if !self.is(Kind::BracketClose) {
                        self.type_()?;
                    }
                    self.expect(Kind::BracketClose, "]")?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn begins_type_next(&mut self) -> Parse<bool> {
        let next = self.peek()?;
        Ok(match next.kind {
            Kind::Name => !self.token_is_word(next, "extends") && !self.token_is_word(next, "is"),
            Kind::BracketOpen => {
                !next.on_new_line && !self.is_word("keyof") || self.is_word("readonly") || self.is_word("keyof")
            }
            Kind::ParenOpen | Kind::BraceOpen | Kind::String | Kind::Number | Kind::Template | Kind::TemplateHead => {
                true
            }
            _ => false,
        })
    }

    /// `infer T`, perhaps with a constraint. Where a conditional type may begin, what looks like a constraint may be its
    /// `extends`.
    fn infer_type(&mut self) -> Parse<()> {
        self.advance()?;
        self.binding_name(Declare::of(Binding::Type))?;
        if !self.is_word("extends") {
            return Ok(());
        }
        self.attempt(|parser| {
            parser.advance()?;
            parser.extends_type()?;
            Ok((parser.context.in_extends || !parser.is(Kind::Question)).then_some(()))
        })?;
        Ok(())
    }

    fn primary_type(&mut self) -> Parse<()> {
        match self.token().kind {
            Kind::ParenOpen => {
                self.advance()?;
                self.type_()?;
                self.expect(Kind::ParenClose, ")")
            }
            Kind::BracketOpen => self.nested(Self::tuple_type),
            Kind::BraceOpen => self.nested(Self::object_type),
            Kind::String | Kind::Number | Kind::Template => self.advance(),
            Kind::TemplateHead => self.nested(Self::template_type),
            Kind::Minus => {
                self.advance()?;
                self.expect(Kind::Number, "a number")
            }
            Kind::Name => self.named_type(),
            Kind::At => self.refuse("decorators are not supported", self.token().start),
            _ => Err(self.unexpected("expected a type")),
        }
    }

    fn named_type(&mut self) -> Parse<()> {
        if self.is_word("typeof") {
            self.advance()?;
            if self.is_word("import") {
                return self.import_type();
            }
            self.entity_name(Use::TypeOf)?;
        } else if self.is_word("import") {
            return self.import_type();
        } else if self.is(Kind::Name) && is_type_keyword(self.text_of(self.token())) && self.peek()?.kind != Kind::Dot {
            return self.advance(); // takes no type arguments: `x as number < y` compares
        } else if self.is_binding_name() {
            self.entity_name(Use::Type)?;
        } else {
            return Err(self.unexpected("expected a type"));
        }
        if self.begins_with_less() && !self.token().on_new_line {
            self.type_arguments_unerased()?;
        }
        Ok(())
    }

    /// `import("…").a.b<T>`
    fn import_type(&mut self) -> Parse<()> {
        self.advance()?;
        if !self.is(Kind::ParenOpen) {
            return Err(self.unexpected("expected `(`"));
        }
        self.advance()?;
        self.type_()?;
        if self.eat(Kind::Comma)? && !self.is(Kind::ParenClose) {
            self.assignment(GrammarFlags::ANYWHERE)?;
            self.eat(Kind::Comma)?;
        }
        self.expect(Kind::ParenClose, ")")?;
        while self.eat(Kind::Dot)? {
            self.expect(Kind::Name, "a name")?;
        }
        if self.begins_with_less() && !self.token().on_new_line {
            self.type_arguments_unerased()?;
        }
        Ok(())
    }

    fn template_type(&mut self) -> Parse<()> {
        loop {
            self.advance()?;
            self.type_()?;
            if !self.is(Kind::BraceClose) {
                return Err(self.unexpected("expected `}`"));
            }
            if !self.tokens.join_template()? {
                return self.advance();
            }
        }
    }

    fn tuple_type(&mut self) -> Parse<()> {
        self.advance()?;
        while !self.is(Kind::BracketClose) {
            self.eat(Kind::Ellipsis)?;
            if self.is(Kind::Name) {
                let second = self.peek()?;
                let is_label = second.kind == Kind::Colon
                    || (second.kind == Kind::Question && self.token_after(second)?.kind == Kind::Colon);
                if is_label {
                    self.advance()?;
                    self.eat(Kind::Question)?;
                    self.advance()?;
                }
            }
            self.type_()?;
            self.eat(Kind::Question)?;
            if !self.eat(Kind::Comma)? {
                break;
            }
        }
        self.expect(Kind::BracketClose, "]")
    }

    /// `{ … }` with members, or a mapped type.
    pub(super) fn object_type(&mut self) -> Parse<()> {
        if !self.is(Kind::BraceOpen) {
            return Err(self.unexpected("expected `{`"));
        }
        self.advance()?;
        self.in_block(|parser| {
            while !parser.is(Kind::BraceClose) {
                parser.type_member()?;
                if !parser.eat(Kind::Semicolon)? && !parser.eat(Kind::Comma)? && !parser.may_end_statement() {
                    return Err(parser.unexpected("expected `;` or `}`"));
                }
            }
            Ok(())
        })?;
        self.advance()
    }

    fn type_member(&mut self) -> Parse<()> {
        if matches!(self.token().kind, Kind::Plus | Kind::Minus) {
            self.advance()?; // of a mapped type: `+readonly`
        }
        if self.is_word("new") && matches!(self.peek()?.kind, Kind::ParenOpen | Kind::Less) {
            self.advance()?;
        }
        if matches!(self.token().kind, Kind::ParenOpen | Kind::Less) {
            return self.method_type();
        }
        while ["readonly", "get", "set", "static", "public", "private", "protected"]
            .iter()
            .any(|word| self.is_word(word))
        {
            let next = self.peek()?;
            let is_modifier =
                matches!(next.kind, Kind::Name | Kind::String | Kind::Number | Kind::BracketOpen | Kind::PrivateName)
                    && !next.on_new_line;
            if !is_modifier {
                break;
            }
            self.advance()?;
        }
        if self.is(Kind::BracketOpen) {
            self.type_member_in_brackets()?;
        } else {
            self.property_name()?;
        }
        if matches!(self.token().kind, Kind::Plus | Kind::Minus) {
            self.advance()?;
        }
        self.eat(Kind::Question)?;
        if matches!(self.token().kind, Kind::ParenOpen | Kind::Less) {
            return self.method_type();
        }
        if self.eat(Kind::Colon)? {
            self.type_()?;
        }
        Ok(())
    }

    /// `[key: T]`, `[K in T as U]` or `[expression]`.
    fn type_member_in_brackets(&mut self) -> Parse<()> {
        let second = self.peek()?;
        let third = self.token_after(second)?;
        let is_mapped = second.kind == Kind::Name && self.token_is_word(third, "in");
        let is_index = second.kind == Kind::Name && third.kind == Kind::Colon;
        if !is_mapped && !is_index {
            self.advance()?;
            let mark = self.record.scopes.mark();
            self.assignment(GrammarFlags::ANYWHERE)?;
            // What is used in a computed name of a type is used as a type.
            self.record.scopes.rewind(mark);
            return self.expect(Kind::BracketClose, "]");
        }
        self.advance()?;
        if is_mapped {
            self.binding_name(Declare::of(Binding::Type))?;
        } else {
            self.advance()?;
        }
        self.advance()?;
        self.type_()?;
        if self.eat_word("as")? {
            self.type_()?;
        }
        self.expect(Kind::BracketClose, "]")
    }

    fn method_type(&mut self) -> Parse<()> {
        self.in_scope(ScopeKind::Function, |parser| {
            parser.type_signature()?;
            if parser.is(Kind::Colon) {
                parser.return_type_unerased()?;
            }
            Ok(())
        })
    }

    /// The type parameters and the parameters of a function or method type.
    fn type_signature(&mut self) -> Parse<()> {
        if self.is(Kind::Less) {
            self.type_parameters_unerased()?;
        }
        if !self.is(Kind::ParenOpen) {
            return Err(self.unexpected("expected `(`"));
        }
        self.with_extends(false, |parser| parser.parameters(false))
    }
}

/// Whether the text of type arguments has a `,`, `|` or `&` outside of brackets: as an expression, the text is not the operand
/// of a comparison.
fn has_separator(text: &str) -> bool {
    let mut depth = 0_u32;
    text.bytes().any(|byte| {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(byte, b',' | b'|' | b'&')
    })
}

/// Names of primitive types.
fn is_type_keyword(word: &str) -> bool {
    matches!(
        word,
        "any"
            | "bigint"
            | "boolean"
            | "false"
            | "never"
            | "null"
            | "number"
            | "object"
            | "string"
            | "symbol"
            | "this"
            | "true"
            | "undefined"
            | "unknown"
            | "void"
    )
}
