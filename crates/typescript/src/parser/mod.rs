//! A parser that reads a source once, in order, and builds no tree.
//!
//! The parser follows the grammar as far as necessary to classify tokens. The [`Recorder`] keeps the TypeScript to erase
//! ([`Edits`](crate::edits::Edits)), the names ([`Scopes`]), the constructs to lower (enums, namespaces, parameter properties),
//! the possible results of a script ([`Tail`]), and the imports and exports of a module. The parser accepts all valid source
//! and much that is invalid: the engine parses the result again and checks every rule.
//!
//! # Languages
//!
//! Where TypeScript is accepted that is not valid JavaScript, a rule asks [`Parser::typescript`], or notes in the recorder
//! whether JavaScript may read the same text in another way. So the first such place is known, and a source without one is
//! JavaScript.
//!
//! # Untrusted source
//!
//! The parser recurses with the nesting of the source. [`Parser::nested`] counts the levels, fails above [`MAX_DEPTH`], and
//! continues on a new segment of stack when the current one is nearly used up. Where one token of lookahead is not enough
//! (arrow functions, type arguments), the parser tries one reading and backtracks if it fails. [`Tokens`] counts every token
//! that is read, for the first time or again, with its length, and charges the records, so that no rule needs to do so
//! ([`Costs`]).

mod class;
mod expression;
mod function;
mod module;
mod recorder;
mod statement;
mod tails;
mod tokens;
mod types;
mod typescript;

use execbox_core::language::{Code, CompileLimits};

use crate::constructs::Constant;
use crate::costs::Costs;
use crate::edits::ends_line;
use crate::lexer::{Kind, Lexer, Token};
use crate::scopes::{Binding, Declaration, NameId, Reference, ScopeKind, Scopes, Use};
use crate::{Fault, Parse, ParseError};

use tokens::Tokens;

pub(crate) use recorder::{Recorder, SourceLanguage};
pub(crate) use tails::{Tail, Tails};

pub(crate) use module::{Call, ExportDefault, ExportItem, ModuleItems, NO_MODULES};

/// The maximum number of nested constructs in a source.
pub const MAX_DEPTH: u32 = 2_000;

/// The stack that remains before a new segment is allocated, several times the use of one level, and the size of a
/// segment, in bytes.
const STACK_RESERVE: usize = 128 * 1024;
const STACK_PIECE: usize = 2 * 1024 * 1024;

/// The accepted syntax, and what is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// TypeScript syntax is accepted, and erased or lowered.
    pub(crate) typescript: bool,
    /// The source is a script, not a module.
    pub(crate) script: bool,
    /// Names are recorded.
    pub(crate) scopes: bool,
}

/// An expression.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expression {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) kind: ExpressionKind,
    /// The constant of the expression, if constants are recorded here.
    constant: Option<u32>,
}

/// The kinds of expressions that are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpressionKind {
    Name,
    String,
    Template,
    Class,
    Function { is_async: bool, is_generator: bool, is_arrow: bool },
    Other,
}

/// The kinds of statements that are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementKind {
    /// An empty or erased statement.
    Nothing,
    /// The erased declaration of a value, which makes a namespace around it an object.
    Ambient,
    /// A function declaration.
    Function {
        name: Option<NameId>,
        is_generator: bool,
        start: u32,
        end: u32,
    },
    /// Another declaration.
    Declaration,
    Expression,
    Other,
}

impl StatementKind {
    /// Whether nothing of the statement remains.
    pub(crate) fn is_erased(self) -> bool {
        matches!(self, Self::Nothing | Self::Ambient)
    }

    /// The kind of a declaration that is erased.
    fn ambient(self) -> Self {
        if self == Self::Nothing { self } else { Self::Ambient }
    }
}

/// The parser of one source in one language.
pub(crate) struct Parser<'s, 'b> {
    pub(crate) tokens: Tokens<'s, 'b>,
    pub(crate) record: Recorder<'s>,
    pub(crate) options: Options,
    context: Context,
    depth: u32,
}

/// The context of the current token.
#[allow(clippy::struct_excessive_bools)] // independent properties
#[derive(Debug, Clone, Copy)]
struct Context {
    /// Whether `await` is an operator.
    is_async: bool,
    /// Whether `yield` is an operator.
    is_generator: bool,
    /// Whether the statements are those of the source itself, whose last one has a value.
    is_outermost: bool,
    /// The enclosing namespace, whose members the exports are; `None` inside of functions.
    namespace: Option<u32>,
    /// Whether the token is in an ambient declaration, which is erased.
    is_ambient: bool,
    /// Whether values are recorded as [`Constant`]s.
    constants_wanted: bool,
    /// Whether the type follows the `extends` of a conditional type, so that an `extends` in it constrains an `infer`.
    in_extends: bool,
    /// Whether an [`attempt`](Parser::attempt) is running.
    is_attempt: bool,
}

/// A state of the parser to return to.
#[derive(Clone, Copy)]
struct Mark {
    tokens: tokens::Mark,
    record: recorder::Mark,
    context: Context,
    depth: u32,
}

impl<'s, 'b> Parser<'s, 'b> {
    #[inline]
    pub(crate) fn new(text: &'s str, options: Options, reading: &CompileLimits<'b>) -> Parse<Self> {
        let mut costs = Costs::new(text.len(), reading)?;
        if !options.script {
            costs.keep(text.len())?; // specifiers and names of exports
        }
        Self::begin(text, options, costs)
    }

    /// The same parser at the start of the source, with names. The costs so far remain charged.
    pub(crate) fn with_names(self) -> Parse<Self> {
        Self::begin(self.text(), Options { scopes: true, ..self.options }, self.tokens.costs)
    }

    #[inline]
    fn begin(text: &'s str, options: Options, costs: Costs<'b>) -> Parse<Self> {
        let tokens = Tokens::new(Lexer::new(text, options.script), costs)?;
        let context = Context {
            is_async: true,
            is_generator: false,
            is_outermost: true,
            namespace: None,
            is_ambient: false,
            constants_wanted: false,
            in_extends: false,
            is_attempt: false,
        };
        Ok(Self { tokens, record: Recorder::new(Scopes::new(options.scopes)), options, context, depth: 0 })
    }

    // ---- tokens

    fn token(&self) -> Token {
        self.tokens.current()
    }

    /// The end of the token before the current one.
    fn before(&self) -> u32 {
        self.tokens.before()
    }

    /// Consumes the current token.
    fn advance(&mut self) -> Parse<()> {
        if self.tokens.advance()? { self.tokens.costs.charge_records(self.record.bytes()) } else { Ok(()) }
    }

    /// The token after the current one.
    fn peek(&mut self) -> Parse<Token> {
        self.tokens.after(self.token())
    }

    /// The token after `token`.
    fn token_after(&mut self, token: Token) -> Parse<Token> {
        self.tokens.after(token)
    }

    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.token().kind == kind
    }

    /// Whether the current token is the keyword `word`.
    fn is_word(&self, word: &str) -> bool {
        self.token_is_word(self.token(), word)
    }

    fn token_is_word(&self, token: Token, word: &str) -> bool {
        let length = (token.end - token.start) as usize;
        token.kind == Kind::Name && length == word.len() && !token.escaped && self.text_of(token) == word
    }

    fn text_of(&self, token: Token) -> &'s str {
        &self.text()[token.start as usize..token.end as usize]
    }

    /// Consumes the current token if it is of that kind.
    fn eat(&mut self, kind: Kind) -> Parse<bool> {
        let found = self.is(kind);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn eat_word(&mut self, word: &str) -> Parse<bool> {
        let found = self.is_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, kind: Kind, written: &str) -> Parse<()> {
        if self.eat(kind)? { Ok(()) } else { Err(self.unexpected(&format!("expected `{written}`"))) }
    }

    fn expect_word(&mut self, word: &str) -> Parse<()> {
        if self.eat_word(word)? { Ok(()) } else { Err(self.unexpected(&format!("expected `{word}`"))) }
    }

    /// Ends a statement: with a semicolon, or where one may be left out.
    fn end_statement(&mut self) -> Parse<()> {
        if self.eat(Kind::Semicolon)? || self.may_end_statement() {
            return Ok(());
        }
        if self.text()[..self.before() as usize].ends_with("await") {
            let message = "`await` is only allowed in async functions; write `async` before the function around it";
            return Err(ParseError::fault(message, self.before() - 5));
        }
        Err(self.unexpected("expected `;` or a new line"))
    }

    fn may_end_statement(&self) -> bool {
        self.token().on_new_line || matches!(self.token().kind, Kind::BraceClose | Kind::End | Kind::Semicolon)
    }

    /// The fault that the current token is unexpected.
    fn unexpected(&self, expected: &str) -> ParseError {
        let found = match self.token().kind {
            Kind::End if expected.is_empty() => "end of the source".to_owned(),
            Kind::End => "the end of the source".to_owned(),
            _ => {
                let text = self.text_of(self.token());
                let shown = text.char_indices().nth(30).map_or(text, |(end, _)| &text[..end]);
                format!("`{}`", shown.escape_debug())
            }
        };
        let message =
            if expected.is_empty() { format!("unexpected {found}") } else { format!("{expected}, found {found}") };
        ParseError::fault(message, self.token().start)
    }

    fn refuse<T>(&self, message: &str, at: u32) -> Parse<T> {
        let reached = self.token().start as usize;
        Err(ParseError::Fault(Fault { reached, ..Fault::new(message, at as usize) }))
    }

    // ---- depth and backtracking

    /// Parses with `read` one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= MAX_DEPTH {
            let message = format!("nesting deeper than {MAX_DEPTH} levels");
            return Err(ParseError::Fatal(Fault::new(message, self.token().start as usize)));
        }
        self.depth += 1;
        let result = stacker::maybe_grow(STACK_RESERVE, STACK_PIECE, || read(self));
        self.depth -= 1;
        result
    }

    /// Parses with `read`, or returns to this token if that fails.
    fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Parse<Option<T>>) -> Parse<Option<T>> {
        let mark = self.mark();
        self.context.is_attempt = true;
        match read(self) {
            Ok(Some(found)) => {
                self.context.is_attempt = mark.context.is_attempt;
                Ok(Some(found))
            }
            Ok(None) | Err(ParseError::Fault(_)) => {
                self.rewind(mark);
                Ok(None)
            }
            Err(halt) => Err(halt),
        }
    }

    /// Parses with `read` and returns to this token; false if that fails.
    fn looks_ahead(&mut self, read: impl FnOnce(&mut Self) -> Parse<bool>) -> Parse<bool> {
        let mark = self.mark();
        self.context.is_attempt = true;
        let found = read(self);
        self.rewind(mark);
        match found {
            Ok(found) => Ok(found),
            Err(ParseError::Fault(_)) => Ok(false),
            Err(halt) => Err(halt),
        }
    }

    fn refute(&mut self, start: u32) {
        self.record.refute(start, self.context.is_attempt);
    }

    fn mark(&self) -> Mark {
        let (tokens, record) = (self.tokens.mark(), self.record.mark());
        Mark { tokens, record, context: self.context, depth: self.depth }
    }

    fn rewind(&mut self, mark: Mark) {
        self.tokens.rewind(mark.tokens);
        self.record.rewind(mark.record);
        self.context = mark.context;
        self.depth = mark.depth;
    }

    /// Parses with `read`, and records constants if `wanted`.
    #[inline]
    fn with_constants<T>(&mut self, wanted: bool, read: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        let outer = std::mem::replace(&mut self.context.constants_wanted, wanted);
        let result = read(self)?;
        self.context.constants_wanted = outer;
        Ok(result)
    }

    /// Parses with `read` after the `extends` of a conditional type, or where no such `extends` is open.
    fn with_extends<T>(&mut self, in_extends: bool, read: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        let outer = std::mem::replace(&mut self.context.in_extends, in_extends);
        let result = read(self)?;
        self.context.in_extends = outer;
        Ok(result)
    }

    // ---- languages

    /// Whether `found`, which is not valid JavaScript here, is read as TypeScript.
    fn typescript(&mut self, found: bool) -> bool {
        let is_read = found && self.options.typescript;
        if is_read {
            self.record.note(SourceLanguage::TypeScript);
        }
        is_read
    }

    /// Ends the parse if names are needed and are not recorded.
    fn need_names(&self) -> Parse<()> {
        if self.record.scopes.with_names() { Ok(()) } else { Err(ParseError::NamesNeeded) }
    }

    /// Whether the constants of variables are recorded, which only members of enums use.
    fn record_constants(&self) -> bool {
        self.options.typescript && self.record.scopes.with_names()
    }

    // ---- names

    /// Whether the current token is a name that can be bound.
    fn is_binding_name(&self) -> bool {
        self.is(Kind::Name) && (self.token().escaped || !is_reserved(self.text_of(self.token())))
    }

    /// Reads a name that is bound, and declares it.
    fn binding_name(&mut self, how: Declare) -> Parse<Token> {
        if !self.is_binding_name() {
            return Err(self.unexpected("expected a name"));
        }
        let token = self.token();
        self.declare(token, how);
        self.advance()?;
        Ok(token)
    }

    fn name_id(&mut self, token: Token) -> NameId {
        self.record.scopes.names.id(self.text_of(token), token.escaped)
    }

    fn declare(&mut self, token: Token, how: Declare) {
        if !self.record.scopes.with_names() {
            return;
        }
        let name = self.name_id(token);
        let current = self.record.scopes.current();
        let scope = if how.hoisted { self.record.scopes.function_scope(current) } else { current };
        let binding = match how.binding {
            binding if self.context.is_ambient && binding != Binding::Type => Binding::Ambient,
            binding => binding,
        };
        let is_member = how.exported && how.is_variable;
        let (start, is_exported) = (token.start, how.exported);
        self.record.scopes.declare(Declaration { scope, name, start, binding, is_member, is_exported });
    }

    /// Records that a name is used.
    fn refer(&mut self, token: Token, how: Use) {
        if self.record.scopes.with_names() {
            let name = self.name_id(token);
            self.record.scopes.refer(Reference { name, start: token.start, end: token.end, how });
        }
    }

    /// Parses with `read` in a new scope.
    fn in_scope<T>(&mut self, kind: ScopeKind, read: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        self.record.scopes.enter(kind);
        let result = read(self)?;
        self.record.scopes.leave();
        Ok(result)
    }

    /// Records a constant, if constants are recorded here.
    fn constant(&mut self, constant: Constant) -> Option<u32> {
        self.context.constants_wanted.then(|| self.record.lowered.add_constant(constant))
    }

    /// Parses an object literal with nothing after it except semicolons. Returns its start and end.
    pub(crate) fn object_alone(&mut self) -> Parse<(u32, u32)> {
        let start = self.token().start;
        self.context.is_outermost = false;
        self.object()?;
        let end = self.before();
        while self.eat(Kind::Semicolon)? {}
        if !self.is(Kind::End) {
            return self.refuse("expected the end of the source after the object", 0);
        }
        self.record.scopes.leave();
        Ok((start, end))
    }

    /// The source with all edits applied, without a hashbang, followed by `after`.
    pub(crate) fn apply_edits(&mut self, after: &str) -> Parse<Code> {
        let text = self.text();
        if text.starts_with("#!") {
            let end = text.find(ends_line).unwrap_or(text.len());
            self.record.edits.erase(0, end as u32);
        }
        self.tokens.costs.keep(self.record.edits.bytes_to_apply(text, after))?;
        Ok(std::mem::take(&mut self.record.edits).apply(text, after))
    }

    /// Erases from `start` to the current token.
    fn erase_from(&mut self, start: u32) {
        self.record.edits.erase(start, self.before());
    }

    /// Erases the current token, and consumes it.
    fn erase_token(&mut self) -> Parse<()> {
        let token = self.token();
        self.record.edits.erase(token.start, token.end);
        self.advance()
    }

    pub(crate) fn text(&self) -> &'s str {
        self.tokens.text()
    }
}

/// How a name is declared.
#[derive(Debug, Clone, Copy)]
struct Declare {
    binding: Binding,
    /// Whether the name is declared in the enclosing function, as by `var`.
    hoisted: bool,
    /// Whether the enclosing namespace exports the name.
    exported: bool,
    /// Whether the name is a variable: one that a namespace exports is only a member of the namespace.
    is_variable: bool,
}

impl Declare {
    const VARIABLE: Self = Self { binding: Binding::Value, hoisted: false, exported: false, is_variable: true };

    fn of(binding: Binding) -> Self {
        Self { binding, hoisted: false, exported: false, is_variable: false }
    }
}

/// Words that cannot be bound in any mode of the language.
fn is_reserved(word: &str) -> bool {
    matches!(
        word,
        "break"
            | "case"
            | "catch"
            | "class"
            | "const"
            | "continue"
            | "debugger"
            | "default"
            | "delete"
            | "do"
            | "else"
            | "enum"
            | "export"
            | "extends"
            | "false"
            | "finally"
            | "for"
            | "function"
            | "if"
            | "import"
            | "in"
            | "instanceof"
            | "new"
            | "null"
            | "return"
            | "super"
            | "switch"
            | "this"
            | "throw"
            | "true"
            | "try"
            | "typeof"
            | "var"
            | "void"
            | "while"
            | "with"
    )
}
