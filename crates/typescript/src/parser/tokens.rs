//! The source of tokens: the lexer, the current token, and what reading costs.

use super::Parse;
use crate::Fault;
use crate::costs::Costs;
use crate::lexer::{Kind, Lexer, Token};

/// The tokens of a source. Every token that is read, for the first time or again, is charged with its length.
pub(crate) struct Tokens<'s, 'b> {
    lexer: Lexer<'s>,
    current: Token,
    /// The end of the token before the current one.
    before: u32,
    pub(crate) costs: Costs<'b>,
}

/// A token to return to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    current: Token,
    before: u32,
}

impl<'s, 'b> Tokens<'s, 'b> {
    pub(super) fn new(mut lexer: Lexer<'s>, costs: Costs<'b>) -> Result<Self, Fault> {
        let current = lexer.next()?;
        Ok(Self { lexer, current, before: 0, costs })
    }

    pub(super) fn text(&self) -> &'s str {
        self.lexer.text()
    }

    pub(super) fn current(&self) -> Token {
        self.current
    }

    pub(super) fn before(&self) -> u32 {
        self.before
    }

    /// Consumes the current token. Returns whether it is time to charge the records of the parser.
    #[inline]
    pub(super) fn advance(&mut self) -> Parse<bool> {
        let token = self.current;
        self.before = token.end;
        self.current = self.read(token.end, token.start)?;
        Ok(self.costs.consume())
    }

    /// The token after `token`.
    pub(super) fn after(&mut self, token: Token) -> Parse<Token> {
        self.read(token.end, token.end)
    }

    /// Reads the token at byte `at`. The bytes from `from` to its end are charged.
    #[inline]
    fn read(&mut self, at: u32, from: u32) -> Parse<Token> {
        self.lexer.seek(at);
        match self.lexer.next() {
            Ok(next) => {
                self.costs.look((next.end - from) as usize, at)?;
                Ok(next)
            }
            Err(fault) => {
                // What is read before a fault is at most the rest of the text.
                self.costs.look(self.text().len() - from as usize, at)?;
                Err(fault.into())
            }
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { current: self.current, before: self.before }
    }

    pub(super) fn rewind(&mut self, Mark { current, before }: Mark) {
        (self.current, self.before) = (current, before);
    }

    // ---- tokens that depend on the context

    /// Makes the current `<`, `>` or `/` the whole operator that begins with it.
    pub(super) fn join_operator(&mut self) {
        self.current = self.lexer.operator(self.current);
    }

    /// Makes the current `/` the regular expression that begins with it.
    pub(super) fn join_regex(&mut self) -> Result<(), Fault> {
        self.current = self.lexer.regex(self.current)?;
        Ok(())
    }

    /// Makes the current `}` the part of a template that begins with it; true if another `${` ends it.
    pub(super) fn join_template(&mut self) -> Result<bool, Fault> {
        let continues = self.lexer.template_rest(self.current)?;
        self.current.end = self.lexer.position();
        Ok(continues)
    }

    /// Makes the current `<<` the `<` that it begins with.
    pub(super) fn split_less(&mut self) {
        let Token { kind, start, end, .. } = self.current;
        let text = &self.text()[start as usize..end as usize];
        if matches!(kind, Kind::Operator | Kind::Assignment) && text.starts_with("<<") {
            self.current = Token { kind: Kind::Less, end: start + 1, ..self.current };
        }
    }
}
