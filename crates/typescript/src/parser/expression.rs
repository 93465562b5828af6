//! Expressions: where they end and what they contain; precedence matters only for constants.

use super::{Expression, ExpressionKind, Parser, SourceLanguage};
use crate::Fault;
use crate::Parse;
use crate::constructs::{Constant, Operator};
use crate::lexer::{Kind, Token};
use crate::scopes::{ScopeKind, Use};

pub(super) const PHASE: &str = "`import defer` and `import source` are not supported; use `import`";

/// The parameters of the grammar for an expression: they restrict its syntax where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GrammarFlags {
    /// Whether the expression is in the head of a `for`, where `in` is not an operator.
    no_in: bool,
    /// Whether it is between `?` and `:`, where an arrow function with a return type needs a second `:` after it.
    in_conditional: bool,
    /// Whether it is before the `:` of a `case`.
    in_case: bool,
}

impl GrammarFlags {
    pub(super) const ANYWHERE: Self = Self { no_in: false, in_conditional: false, in_case: false };
    pub(super) const FOR_HEAD: Self = Self { no_in: true, ..Self::ANYWHERE };
    pub(super) const CASE: Self = Self { in_case: true, ..Self::ANYWHERE };
    const CONDITIONAL: Self = Self { in_conditional: true, ..Self::ANYWHERE };

    pub(super) fn in_conditional(self) -> bool {
        self.in_conditional
    }

    /// Whether a `:` may follow.
    pub(super) fn precedes_colon(self) -> bool {
        self.in_conditional || self.in_case
    }
}

impl Parser<'_, '_> {
    /// An expression with commas.
    pub(super) fn expression(&mut self, flags: GrammarFlags) -> Parse<Expression> {
        let mut expression = self.assignment(flags)?;
        while self.eat(Kind::Comma)? {
            let next = self.assignment(flags)?;
            expression = Expression { end: next.end, kind: ExpressionKind::Other, constant: None, ..expression };
        }
        Ok(expression)
    }

    /// An expression without commas.
    pub(super) fn assignment(&mut self, flags: GrammarFlags) -> Parse<Expression> {
        self.nested(|parser| parser.assignment_chain(flags))
    }

    fn assignment_chain(&mut self, flags: GrammarFlags) -> Parse<Expression> {
        let start = self.token().start;
        let mut is_whole = true;
        loop {
            let found = if let Some(arrow) = self.arrow_function(flags)? {
                arrow
            } else if self.context.is_generator && self.is_word("yield") {
                self.yield_expression(flags)?
            } else {
                self.operands(flags)?
            };
            let found = if is_whole { found } else { found.within(start) };
            match self.token().kind {
                Kind::Equals | Kind::Assignment => self.advance()?,
                Kind::Question => {
                    self.advance()?;
                    self.assignment(GrammarFlags::CONDITIONAL)?;
                    self.expect(Kind::Colon, ":")?;
                }
                _ => return Ok(found),
            }
            is_whole = false;
        }
    }

    fn yield_expression(&mut self, flags: GrammarFlags) -> Parse<Expression> {
        let start = self.token().start;
        self.advance()?;
        if !self.token().on_new_line {
            let is_delegate = self.eat(Kind::Star)?;
            let ends = matches!(
                self.token().kind,
                Kind::ParenClose
                    | Kind::BracketClose
                    | Kind::BraceClose
                    | Kind::Comma
                    | Kind::Semicolon
                    | Kind::Colon
                    | Kind::End
            ) || self.is_word("in")
                || self.is_word("of");
            if is_delegate || !ends {
                self.assignment(flags)?;
            }
        }
        Ok(self.other(start))
    }

    /// Operands and the operators between them.
    fn operands(&mut self, flags: GrammarFlags) -> Parse<Expression> {
        let start = self.token().start;
        let first = self.operand()?;
        let mut constant = first.constant;
        let mut wanted = self.context.constants_wanted;
        let sum = self.record.lowered.begin_sum();
        let mut count = 1;
        loop {
            let is_operator = match self.token().kind {
                Kind::Operator | Kind::Plus | Kind::Minus | Kind::Star | Kind::And | Kind::Or => true,
                Kind::Greater | Kind::Slash | Kind::Less => {
                    self.tokens.join_operator();
                    self.is(Kind::Operator)
                }
                Kind::Name if self.is_word("instanceof") => true,
                Kind::Name if self.is_word("in") => !flags.no_in,
                Kind::Name if self.options.typescript && !self.token().on_new_line => {
                    if self.is_word("as") || self.is_word("satisfies") {
                        self.type_operator()?;
                        wanted = false;
                        count += 1;
                        continue;
                    }
                    false
                }
                _ => false,
            };
            if !is_operator {
                break;
            }
            if wanted {
                let operator = Operator::of(self.text_of(self.token()));
                self.record.lowered.add_operator(&sum, constant, operator);
            }
            self.advance()?;
            constant = self.operand()?.constant;
            count += 1;
        }
        if count == 1 {
            return Ok(first);
        }
        let constant = self.record.lowered.end_sum(&sum, constant).filter(|_| wanted);
        Ok(Expression { constant, ..self.other(start) })
    }

    /// `as T` or `satisfies T`, erased. On a new line behind it, what would continue the operand is another statement.
    fn type_operator(&mut self) -> Parse<()> {
        self.record.note(SourceLanguage::TypeScript);
        let start = self.token().start;
        self.advance()?;
        if self.is_word("const") {
            self.advance()?;
        } else {
            self.type_()?;
        }
        let continues =
            matches!(self.token().kind, Kind::ParenOpen | Kind::BracketOpen | Kind::Template | Kind::TemplateHead);
        if continues && self.token().on_new_line {
            self.record.edits.erase_item(start, self.before());
        } else {
            self.erase_from(start);
        }
        Ok(())
    }

    /// An operand with its prefix and postfix operators.
    fn operand(&mut self) -> Parse<Expression> {
        let start = self.token().start;
        let mut prefixes = Prefixes::default();
        loop {
            match self.token().kind {
                Kind::Plus | Kind::Minus | Kind::Tilde | Kind::Not | Kind::Step => {
                    prefixes.push(self.text_of(self.token()), self.context.constants_wanted);
                    self.advance()?;
                }
                Kind::Name if !self.token().escaped && self.is_prefix_word() => {
                    prefixes.push("", self.context.constants_wanted);
                    self.advance()?;
                }
                Kind::Less if self.options.typescript => {
                    prefixes.push("", self.context.constants_wanted);
                    self.type_assertion(&mut prefixes)?;
                }
                _ => break,
            }
        }
        let mut operand = self.member_chain()?;
        if self.is(Kind::Step) && !self.token().on_new_line {
            self.advance()?;
            operand = self.other(start);
        }
        for _ in 0..prefixes.open {
            self.record.edits.insert(self.before(), ")");
        }
        if prefixes.count == 0 {
            return Ok(operand);
        }
        let constant = prefixes.apply(operand.constant, &mut self.record.lowered);
        Ok(Expression { constant, ..self.other(start) })
    }

    fn is_prefix_word(&self) -> bool {
        match self.text_of(self.token()) {
            "typeof" | "void" | "delete" => true,
            "await" => self.context.is_async,
            _ => false,
        }
    }

    /// `<T>` before an operand, which gets parentheses where it would mean something else without the type: a line end in
    /// `<T>` must not end a `return`.
    fn type_assertion(&mut self, prefixes: &mut Prefixes) -> Parse<()> {
        self.record.note(SourceLanguage::TypeScript);
        let start = self.token().start;
        self.advance()?;
        let read = if self.is_word("const") { self.advance() } else { self.type_() };
        let close = self.token().start;
        let read = read.and_then(|()| self.expect(Kind::Greater, ">"));
        read.map_err(|halt| self.explain_less(halt, start))?;
        // Without the type, a brace would open a block, and a function would be declared.
        let changes = self.is(Kind::BraceOpen) || self.is_word("function") || self.is_word("class");
        if changes || self.token().on_new_line || self.has_line_end(start, close) {
            self.record.edits.erase_opening(start, close + 1);
            prefixes.open += 1;
        } else {
            self.record.edits.erase(start, close + 1);
        }
        Ok(())
    }

    pub(super) fn has_line_end(&self, start: u32, end: u32) -> bool {
        self.text()[start as usize..end as usize].contains(crate::edits::ends_line)
    }

    // ---- members and calls

    pub(super) fn member_chain(&mut self) -> Parse<Expression> {
        let start = self.token().start;
        let mut expression = self.primary()?;
        loop {
            match self.token().kind {
                Kind::Dot => {
                    self.advance()?;
                    let constant = self.member_name(&expression)?;
                    expression = Expression { constant, ..self.other(start) };
                    continue;
                }
                Kind::OptionalChain => self.optional_chain(&expression)?,
                Kind::BracketOpen => {
                    let constant = self.index(&expression)?;
                    expression = Expression { constant, ..self.other(start) };
                    continue;
                }
                Kind::ParenOpen => self.arguments()?,
                Kind::Template | Kind::TemplateHead => {
                    self.check_tag(&expression)?;
                    self.template().map(drop)?;
                }
                Kind::Not if !self.token().on_new_line && self.typescript(true) => {
                    self.erase_token()?;
                    expression.constant = None;
                    continue;
                }
                Kind::Less | Kind::Operator if self.may_be_type_arguments() => {
                    if self.type_arguments_in_expression(false)?.is_none() {
                        break;
                    }
                }
                _ => break,
            }
            expression = self.other(start);
        }
        Ok(expression)
    }

    /// Fails if the template here, after `tag`, is a Markdown fence: of a template that is called with another one, or of an
    /// empty template before another one.
    fn check_tag(&self, tag: &Expression) -> Parse<()> {
        let is_called = tag.kind == ExpressionKind::Template && self.text().contains("```");
        if is_called || self.text()[self.token().start as usize..].starts_with("```") {
            return self.refuse("a template cannot be called; is this a Markdown fence?", tag.start);
        }
        Ok(())
    }

    /// `?.` and what follows it.
    fn optional_chain(&mut self, object: &Expression) -> Parse<()> {
        self.advance()?;
        match self.token().kind {
            Kind::ParenOpen => self.arguments(),
            Kind::BracketOpen => self.index(object).map(drop),
            Kind::Less | Kind::Operator if self.options.typescript => {
                self.record.note(SourceLanguage::TypeScript);
                match self.type_arguments_in_expression(false)? {
                    Some(()) => Ok(()),
                    None => Err(self.unexpected("expected a name")),
                }
            }
            Kind::Template | Kind::TemplateHead => Ok(()),
            _ => self.member_name(object).map(drop),
        }
    }

    /// The name after a dot.
    fn member_name(&mut self, object: &Expression) -> Parse<Option<u32>> {
        match self.token().kind {
            Kind::Name => {
                let constant = match object.constant {
                    Some(object) => {
                        let name = self.name_id(self.token());
                        self.constant(Constant::Member { object, name })
                    }
                    None => None,
                };
                self.advance()?;
                Ok(constant)
            }
            Kind::PrivateName => self.advance().map(|()| None),
            _ => Err(self.unexpected("expected a name")),
        }
    }

    /// `[…]` after an operand.
    fn index(&mut self, object: &Expression) -> Parse<Option<u32>> {
        self.advance()?;
        let key = self.token();
        let index = self.expression(GrammarFlags::ANYWHERE)?;
        self.expect(Kind::BracketClose, "]")?;
        let is_string = index.kind == ExpressionKind::String && index.end == key.end;
        Ok(match object.constant {
            Some(object) if is_string => {
                let text = &self.text()[key.start as usize + 1..key.end as usize - 1];
                let name = self.record.scopes.names.id(text, false);
                self.constant(Constant::Member { object, name })
            }
            _ => None,
        })
    }

    pub(super) fn arguments(&mut self) -> Parse<()> {
        self.list(Kind::ParenOpen, Kind::ParenClose, ")", |parser| {
            parser.eat(Kind::Ellipsis)?;
            parser.assignment(GrammarFlags::ANYWHERE).map(drop)
        })
    }

    /// Items between brackets, separated by commas, with an optional trailing comma.
    fn list(
        &mut self,
        open: Kind,
        close: Kind,
        written: &str,
        mut item: impl FnMut(&mut Self) -> Parse<()>,
    ) -> Parse<()> {
        debug_assert!(self.is(open));
        self.advance()?;
        while !self.is(close) {
            item(self)?;
            if !self.eat(Kind::Comma)? {
                break;
            }
        }
        self.expect(close, written).map_err(|halt| match halt {
            crate::ParseError::Fault(fault) => {
                let message = fault.message.replacen("expected ", "expected `,` or ", 1);
                crate::ParseError::fault(message, fault.offset as u32)
            }
            halt => halt,
        })
    }

    /// A template, from its first token on. Returns its constant, if constants are recorded here.
    fn template(&mut self) -> Parse<Option<u32>> {
        let mut constant = self.constant(Constant::String);
        if self.is(Kind::Template) {
            self.advance()?;
            return Ok(constant);
        }
        loop {
            self.advance()?;
            let value = self.expression(GrammarFlags::ANYWHERE)?.constant;
            if let Some(before) = constant {
                constant = self.constant(Constant::Template { before, value });
            }
            if !self.is(Kind::BraceClose) {
                return Err(self.unexpected("expected `}`"));
            }
            if !self.tokens.join_template()? {
                self.advance()?;
                return Ok(constant);
            }
        }
    }

    // ---- operands

    fn primary(&mut self) -> Parse<Expression> {
        let token = self.token();
        let start = token.start;
        match token.kind {
            Kind::Name => self.name_or_keyword(token),
            Kind::Number => {
                self.advance()?;
                let constant = self.constant(Constant::Number);
                Ok(Expression { constant, ..self.other(start) })
            }
            Kind::String => {
                self.advance()?;
                let constant = self.constant(Constant::String);
                Ok(Expression { kind: ExpressionKind::String, constant, ..self.other(start) })
            }
            Kind::Template | Kind::TemplateHead => {
                let constant = self.template()?;
                Ok(Expression { kind: ExpressionKind::Template, constant, ..self.other(start) })
            }
            Kind::ParenOpen => self.parenthesized(),
            Kind::BracketOpen => {
                self.array()?;
                Ok(self.other(start))
            }
            Kind::BraceOpen => {
                self.object()?;
                Ok(self.other(start))
            }
            Kind::Slash => {
                self.tokens.join_regex()?;
                self.advance()?;
                Ok(self.other(start))
            }
            Kind::PrivateName => {
                self.advance()?;
                if !self.is_word("in") {
                    return Err(self.unexpected("expected `in`"));
                }
                Ok(self.other(start))
            }
            Kind::At => self.refuse("decorators are not supported", start),
            Kind::Less => Err(self.explain_less(self.unexpected(""), start)),
            _ => Err(self.unexpected("")),
        }
    }

    fn name_or_keyword(&mut self, token: Token) -> Parse<Expression> {
        let start = token.start;
        if !token.escaped {
            match self.text_of(token) {
                "function" => return self.function_expression(start, false),
                "class" => return self.class_expression(start),
                "new" => return self.new_expression(start),
                "import" => return self.import_expression(start),
                "this" | "null" | "true" | "false" | "super" => {
                    self.advance()?;
                    return Ok(self.other(start));
                }
                "async" => {
                    let next = self.peek()?;
                    if self.token_is_word(next, "function") && !next.on_new_line {
                        self.advance()?;
                        return self.function_expression(start, true);
                    }
                }
                word if super::is_reserved(word) => return Err(self.unexpected("")),
                _ => {}
            }
        }
        self.refer(token, Use::Value);
        self.advance()?;
        let constant = if self.context.constants_wanted {
            let name = self.name_id(token);
            self.constant(Constant::Name { name, at: start })
        } else {
            None
        };
        Ok(Expression { kind: ExpressionKind::Name, constant, ..self.other(start) })
    }

    fn parenthesized(&mut self) -> Parse<Expression> {
        let start = self.token().start;
        self.advance()?;
        let inner = self.expression(GrammarFlags::ANYWHERE)?;
        self.expect(Kind::ParenClose, ")")?;
        // A function in parentheses is still a function, but a string in them is not a directive.
        let kind = match inner.kind {
            ExpressionKind::Function { .. } | ExpressionKind::Class => inner.kind,
            _ => ExpressionKind::Other,
        };
        Ok(Expression { kind, constant: inner.constant, ..self.other(start) })
    }

    fn new_expression(&mut self, start: u32) -> Parse<Expression> {
        self.advance()?;
        if self.eat(Kind::Dot)? {
            self.expect_word("target")?;
            return Ok(self.other(start));
        }
        self.nested(|parser| {
            let mut callee = parser.primary()?;
            loop {
                match parser.token().kind {
                    Kind::Dot => {
                        parser.advance()?;
                        parser.member_name(&callee)?;
                    }
                    Kind::BracketOpen => parser.index(&callee).map(drop)?,
                    Kind::Template | Kind::TemplateHead => parser.template().map(drop)?,
                    Kind::Not if !parser.token().on_new_line && parser.typescript(true) => {
                        parser.erase_token()?;
                    }
                    Kind::Less | Kind::Operator if parser.may_be_type_arguments() => {
                        if parser.type_arguments_in_expression(true)?.is_none() {
                            break;
                        }
                    }
                    _ => break,
                }
                callee = parser.other(start);
            }
            Ok(())
        })?;
        if self.is(Kind::ParenOpen) {
            self.arguments()?;
        }
        Ok(self.other(start))
    }

    /// `import(…)` or `import.meta`.
    fn import_expression(&mut self, start: u32) -> Parse<Expression> {
        self.advance()?;
        if self.eat(Kind::Dot)? {
            if self.is_word("defer") || self.is_word("source") {
                return self.refuse(PHASE, start);
            }
            self.expect_word("meta")?;
            if self.options.script {
                return self.refuse("`import.meta` is not supported in scripts", start);
            }
            return Ok(self.other(start));
        }
        if !self.is(Kind::ParenOpen) {
            return Err(self.unexpected("expected `(`"));
        }
        self.arguments()?;
        Ok(self.other(start))
    }

    fn array(&mut self) -> Parse<()> {
        self.advance()?;
        while !self.is(Kind::BracketClose) {
            if self.eat(Kind::Comma)? {
                continue;
            }
            self.eat(Kind::Ellipsis)?;
            self.assignment(GrammarFlags::ANYWHERE)?;
            if !self.is(Kind::BracketClose) && !self.is(Kind::Comma) {
                return Err(self.unexpected("expected `,` or `]`"));
            }
        }
        self.advance()
    }

    /// An object literal, or a pattern that looks like one.
    pub(super) fn object(&mut self) -> Parse<()> {
        self.list(Kind::BraceOpen, Kind::BraceClose, "}", Self::property)
    }

    fn property(&mut self) -> Parse<()> {
        if self.eat(Kind::Ellipsis)? {
            return self.assignment(GrammarFlags::ANYWHERE).map(drop);
        }
        self.parameter_modifiers()?;
        let head = self.method_head()?;
        if head.is_method() || matches!(self.token().kind, Kind::ParenOpen | Kind::Less) {
            return self.function_rest(head.is_async, head.is_generator).map(drop);
        }
        if self.eat(Kind::Colon)? {
            return self.assignment(GrammarFlags::ANYWHERE).map(drop);
        }
        let Some(name) = head.name.filter(|name| name.escaped || !super::is_reserved(self.text_of(*name))) else {
            return Err(self.unexpected("expected `:`"));
        };
        self.refer(name, Use::Shorthand);
        if self.eat(Kind::Equals)? {
            self.assignment(GrammarFlags::ANYWHERE)?;
        }
        Ok(())
    }

    /// The name of a property or method: a name, string, number, private name, or `[…]`.
    pub(super) fn property_name(&mut self) -> Parse<Option<Token>> {
        let token = self.token();
        match token.kind {
            Kind::Name => self.advance().map(|()| Some(token)),
            Kind::String | Kind::Number | Kind::PrivateName => self.advance().map(|()| None),
            Kind::BracketOpen => {
                self.advance()?;
                self.assignment(GrammarFlags::ANYWHERE)?;
                self.expect(Kind::BracketClose, "]")?;
                Ok(None)
            }
            _ => Err(self.unexpected("expected a property name")),
        }
    }

    /// The words before the name of a property or method, and the name.
    fn method_head(&mut self) -> Parse<MethodHead> {
        let mut head = MethodHead::default();
        loop {
            if self.eat(Kind::Star)? {
                head.is_generator = true;
                continue;
            }
            let is_word = self.is_word("async") || self.is_word("get") || self.is_word("set");
            if !is_word || head.is_generator {
                break;
            }
            let next = self.peek()?;
            let is_name = matches!(
                next.kind,
                Kind::ParenOpen | Kind::Comma | Kind::Colon | Kind::BraceClose | Kind::Equals | Kind::Less
            );
            if is_name {
                break;
            }
            if self.is_word("async") {
                head.is_async = true;
            } else {
                head.is_accessor = true;
            }
            self.advance()?;
        }
        head.name = self.property_name()?;
        Ok(head)
    }

    // ---- helpers

    /// The expression from `start` to here, of no special kind.
    pub(super) fn other(&self, start: u32) -> Expression {
        Expression { start, end: self.before(), kind: ExpressionKind::Other, constant: None }
    }

    /// The same fault, with an explanation if the `<` at `less` looks like the beginning of JSX or an HTML comment.
    fn explain_less(&self, halt: crate::ParseError, less: u32) -> crate::ParseError {
        let rest = &self.text()[less as usize + 1..];
        if rest.starts_with("!--") {
            return crate::ParseError::fault(crate::lexer::NO_HTML_COMMENTS, less);
        }
        let begins_element = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '>');
        if begins_element && (rest.contains("</") || rest.contains("/>")) {
            let fault = Fault::new("JSX is not supported; return data instead of elements", less as usize);
            return crate::ParseError::Fault(Fault { reached: usize::MAX, ..fault });
        }
        halt
    }

    /// Reads a body in a block scope.
    pub(super) fn in_block<T>(&mut self, read: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        self.in_scope(ScopeKind::Block, read)
    }
}

impl Expression {
    /// Makes this expression the end of one that begins at `start`.
    fn within(self, start: u32) -> Self {
        Self { start, kind: ExpressionKind::Other, constant: None, ..self }
    }
}

/// The tokens before the parameters of a method.
#[derive(Debug, Default)]
struct MethodHead {
    is_async: bool,
    is_generator: bool,
    is_accessor: bool,
    name: Option<Token>,
}

impl MethodHead {
    fn is_method(&self) -> bool {
        self.is_async || self.is_generator || self.is_accessor
    }
}

/// Operators before an operand, as far as constants need them.
#[derive(Default)]
struct Prefixes {
    count: usize,
    /// Parentheses to close after the operand.
    open: usize,
    signs: Vec<bool>,
}

impl Prefixes {
    fn push(&mut self, operator: &str, wanted: bool) {
        self.count += 1;
        if wanted {
            self.signs.push(matches!(operator, "+" | "-" | "~"));
        }
    }

    /// The constant of the operand with the operators.
    fn apply(self, operand: Option<u32>, lowered: &mut crate::constructs::Lowered) -> Option<u32> {
        let are_signs = !self.signs.is_empty() && self.signs.iter().all(|is_sign| *is_sign);
        operand.filter(|_| are_signs).map(|operand| lowered.add_constant(Constant::Sign(operand)))
    }
}
