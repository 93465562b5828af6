//! From text to a syntax tree: JavaScript if it is, else TypeScript.
//!
//! A text can be read in several ways, and the first that succeeds is taken. Which errors the engine
//! would find later anyway is not looked for here.

use oxc_allocator::{Allocator, ArenaVec};
use oxc_ast::ast::{Decorator, Expression, ImportMeta, Program, Statement, TaggedTemplateExpression};
use oxc_ast::builder::AstBuilder;
use oxc_ast_visit::{Visit, walk};
use oxc_diagnostics::Diagnostics;
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan, SourceType, Span};

use crate::Fault;
use crate::weigh::{Guesses, Weight, weigh};

/// A syntax tree and what was learned while reading it.
#[derive(Debug)]
pub(crate) struct Parsed<'a> {
    pub(crate) program: Program<'a>,
    /// It needs [`erase`](crate::erase::erase).
    pub(crate) typescript: bool,
    /// It is one function without a name that was meant as a declaration.
    pub(crate) nameless_function: bool,
}

/// Parses `text`. The error is the one that got furthest; at a tie, JavaScript's.
pub(crate) fn parse<'a>(arena: &'a Allocator, text: &'a str, weight: &Weight) -> Result<Parsed<'a>, Fault> {
    let javascript = Reader { arena, text, source_type: SourceType::mjs() };
    let fault = match javascript.read() {
        Ok(parsed) => return parsed.without_what_scripts_cannot_have(),
        Err(fault) => fault,
    };
    let guesses = match weight.guesses {
        Guesses::NotWeighed => weigh(text)?.guesses,
        guesses => guesses,
    };
    if let Guesses::TooMany { at } = guesses {
        return Err(further(fault, Fault::new("types and brackets are nested too deeply here", at)));
    }
    let typescript = Reader { source_type: SourceType::ts().with_module(true), ..javascript };
    match typescript.read() {
        Ok(parsed) => parsed.without_what_scripts_cannot_have(),
        Err(other) => Err(further(fault, other)),
    }
}

/// The fault that lies further on, or `first` if they tie.
fn further(first: Fault, second: Fault) -> Fault {
    if second.offset > first.offset { second } else { first }
}

/// The first place, in the order of the source, that `diagnostics` complain about.
pub(crate) fn first_fault(diagnostics: Diagnostics) -> Option<Fault> {
    let fault = |diagnostic: oxc_diagnostics::OxcDiagnostic| {
        let offset = diagnostic.labels.first().map_or(0, |label| label.offset() as usize);
        Fault::new(diagnostic.message.to_string(), offset)
    };
    diagnostics.into_vec().into_iter().map(fault).min_by_key(|fault| fault.offset)
}

/// One text, one language, several ways to read it.
#[derive(Clone, Copy)]
struct Reader<'a> {
    arena: &'a Allocator,
    text: &'a str,
    source_type: SourceType,
}

impl<'a> Reader<'a> {
    /// An object literal where there is nothing else, as in every console; else statements; else a
    /// function that misses the name which a declaration needs.
    fn read(&self) -> Result<Parsed<'a>, Fault> {
        let first = first_token(self.text);
        let not_an_object = match first {
            [b'{', ..] => match self.object() {
                Ok(parsed) => return Ok(parsed),
                Err(fault) => fault,
            },
            _ => None,
        };
        let fault = match self.statements() {
            Ok(parsed) => return Ok(parsed),
            Err(fault) => fault,
        };
        if (first.starts_with(b"function") || first.starts_with(b"async"))
            && let Some(parsed) = self.nameless_function()
        {
            return Ok(parsed);
        }
        Err(match not_an_object {
            Some(other) => further(fault, other),
            None => fault,
        })
    }

    fn parser(&self, text: &'a str) -> Parser<'a> {
        Parser::new(self.arena, text, self.source_type)
            .with_options(ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() })
    }

    fn statements(&self) -> Result<Parsed<'a>, Fault> {
        let parsed = self.parser(self.text).parse();
        match first_fault(parsed.diagnostics) {
            Some(fault) => Err(fault),
            None => Ok(self.parsed(parsed.program)),
        }
    }

    /// The error is `None` if the text is an expression, but not an object literal.
    fn object(&self) -> Result<Parsed<'a>, Option<Fault>> {
        match self.parser(self.text).parse_expression() {
            Ok(object @ Expression::ObjectExpression(_)) => Ok(self.parsed(self.lone(object))),
            Ok(_) => Err(None),
            Err(diagnostics) => Err(first_fault(diagnostics)),
        }
    }

    /// `async function () { … }`, which only an expression may be. Semicolons may follow.
    fn nameless_function(&self) -> Option<Parsed<'a>> {
        let end = self.text.rfind('}')? + 1;
        let rest = self.parser(&self.text[end..]).parse();
        let empty = |statement: &Statement<'_>| matches!(statement, Statement::EmptyStatement(_));
        if !rest.diagnostics.is_empty() || !rest.program.directives.is_empty() || !rest.program.body.iter().all(empty) {
            return None;
        }
        match self.parser(&self.text[..end]).parse_expression().ok()? {
            function @ Expression::FunctionExpression(_) => {
                Some(Parsed { nameless_function: true, ..self.parsed(self.lone(function)) })
            }
            _ => None,
        }
    }

    /// A program of one expression.
    fn lone(&self, expression: Expression<'a>) -> Program<'a> {
        let builder = AstBuilder::new(self.arena);
        let statement = Statement::new_expression_statement(expression.span(), expression, &builder);
        let body = ArenaVec::from_array_in([statement], &builder);
        let span = Span::new(0, self.text.len().try_into().unwrap_or(u32::MAX));
        Program::new(span, self.source_type, self.text, [], None, [], body, &builder)
    }

    fn parsed(&self, program: Program<'a>) -> Parsed<'a> {
        Parsed { program, typescript: self.source_type.is_typescript(), nameless_function: false }
    }
}

/// `text` from its first token on.
fn first_token(text: &str) -> &[u8] {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        rest = if let Some(comment) = rest.strip_prefix("//") {
            comment.trim_start_matches(|c| !matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}'))
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else {
            return rest.as_bytes();
        };
    }
}

impl Parsed<'_> {
    /// Refuses decorators, which the engine cannot run, `import.meta`, which needs a module, and
    /// Markdown's fences, which parse as templates that call each other.
    fn without_what_scripts_cannot_have(self) -> Result<Self, Fault> {
        let text = self.program.source_text;
        if text.contains('@') || text.contains("```") || (text.contains("import") && text.contains("meta")) {
            let mut refusals = Refusals::default();
            refusals.visit_program(&self.program);
            if let Some(fault) = refusals.first {
                return Err(fault);
            }
        }
        Ok(self)
    }
}

/// The first place of what is refused although it parses.
#[derive(Default)]
struct Refusals {
    first: Option<Fault>,
}

impl Refusals {
    fn refuse(&mut self, message: &str, span: Span) {
        let offset = span.start as usize;
        if self.first.as_ref().is_none_or(|first| offset < first.offset) {
            self.first = Some(Fault::new(message, offset));
        }
    }
}

impl<'a> Visit<'a> for Refusals {
    fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
        self.refuse("decorators are not supported here", decorator.span);
    }

    fn visit_tagged_template_expression(&mut self, call: &TaggedTemplateExpression<'a>) {
        if matches!(call.tag, Expression::TemplateLiteral(_)) {
            self.refuse("a template cannot be called; is this a Markdown fence?", call.span);
        }
        walk::walk_tagged_template_expression(self, call);
    }

    fn visit_import_meta(&mut self, property: &ImportMeta) {
        self.refuse("a script is not a module and has no import.meta", property.span);
    }
}
