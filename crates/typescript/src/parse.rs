//! From text to a syntax tree: a script is JavaScript if it can be, else TypeScript; a module is what its
//! dialect says.
//!
//! A text can be read in several ways, and the first that succeeds is taken. Which errors the engine
//! would find later anyway is not looked for here. What parses and cannot run is refused here.

use execbox_core::language::Dialect;
use oxc_allocator::{Allocator, ArenaVec};
use oxc_ast::ast::{
    AccessorProperty, Decorator, Expression, ImportExpression, ImportMeta, Program, Statement, TSModuleReference,
    TaggedTemplateExpression,
};
use oxc_ast::builder::AstBuilder;
use oxc_ast_visit::{Visit, walk};
use oxc_diagnostics::{Diagnostics, OxcDiagnostic};
use oxc_parser::{ParseOptions, Parser};
use oxc_span::{GetSpan, SourceType, Span};

use crate::Fault;
use crate::weigh::{Guesses, Weight, weigh};

/// A syntax tree and what was learned while reading it.
#[derive(Debug)]
pub(crate) struct Parsed<'a> {
    pub(crate) program: Program<'a>,
    /// It needs [`erase`](crate::erase).
    pub(crate) typescript: bool,
    /// It is one function without a name that was meant as a declaration.
    pub(crate) nameless_function: bool,
}

/// Parses `text` as a script. The error is the one that got furthest; at a tie, JavaScript's.
pub(crate) fn script<'a>(arena: &'a Allocator, text: &'a str, weight: &Weight) -> Result<Parsed<'a>, Fault> {
    let javascript = Reader { arena, text, source_type: SourceType::mjs(), contract: Contract::Script };
    let fault = match javascript.read() {
        Ok(parsed) => return parsed.without_what_cannot_run(Contract::Script),
        Err(fault) => fault,
    };
    may_be_typescript(text, weight).map_err(|other| further(fault.clone(), other))?;
    let typescript = Reader { source_type: SourceType::ts().with_module(true), ..javascript };
    match typescript.read() {
        Ok(parsed) => parsed.without_what_cannot_run(Contract::Script),
        Err(other) => Err(further(fault, other)),
    }
}

/// Parses `text` as a module. What is not TypeScript may still be JavaScript, where the two differ; the
/// error is the one that got furthest, at a tie TypeScript's.
pub(crate) fn module<'a>(
    arena: &'a Allocator,
    text: &'a str,
    dialect: Dialect,
    weight: &Weight,
) -> Result<Parsed<'a>, Fault> {
    let javascript = Reader { arena, text, source_type: SourceType::mjs(), contract: Contract::Module };
    let typescript = Reader { source_type: SourceType::ts().with_module(true), ..javascript };
    let parsed = match dialect {
        Dialect::JavaScript => javascript.statements(),
        Dialect::TypeScript => may_be_typescript(text, weight)
            .and_then(|()| typescript.statements())
            .or_else(|fault| javascript.statements().map_err(|other| further(fault, other))),
    };
    parsed.map_err(|fault| explain_jsx(fault, text))?.without_what_cannot_run(Contract::Module)
}

/// Refuses a text that the TypeScript parser would guess about for too long.
fn may_be_typescript(text: &str, weight: &Weight) -> Result<(), Fault> {
    let guesses = match weight.guesses {
        Guesses::NotWeighed => weigh(text)?.guesses,
        guesses => guesses,
    };
    match guesses {
        Guesses::TooMany { at } => Err(Fault::new("types and brackets are nested too deeply here", at)),
        Guesses::Few | Guesses::NotWeighed => Ok(()),
    }
}

/// The fault that lies further on, or `first` if they tie.
fn further(first: Fault, second: Fault) -> Fault {
    if second.offset > first.offset { second } else { first }
}

/// The first place, in the order of the source, that `diagnostics` complain about.
pub(crate) fn first_fault(diagnostics: Diagnostics) -> Option<Fault> {
    first_fault_at(diagnostics, |labels| labels.first().copied())
}

/// The same, where a complaint that names two places (a bracket and what is there instead of its other
/// half, a name and its second declaration) is about the later one.
pub(crate) fn first_fault_where_it_shows(diagnostics: Diagnostics) -> Option<Fault> {
    first_fault_at(diagnostics, |labels| labels.iter().max().copied())
}

fn first_fault_at(diagnostics: Diagnostics, choose: impl Fn(&[usize]) -> Option<usize>) -> Option<Fault> {
    let fault = |diagnostic: OxcDiagnostic| {
        let labels: Vec<_> = diagnostic.labels.iter().map(|label| label.offset() as usize).collect();
        Fault::new(diagnostic.message.to_string(), choose(&labels).unwrap_or_default())
    };
    diagnostics.into_vec().into_iter().map(fault).min_by_key(|fault| fault.offset)
}

/// The same fault; if it looks as if it were about JSX, said so.
fn explain_jsx(fault: Fault, text: &str) -> Fault {
    let in_name = |c: char| c.is_ascii_alphanumeric() || "_$.-".contains(c);
    // Where the parser gives up: in `<a b="c">`, `<a />` and `<>` after the name, in `</a>` after the `<`.
    let Some((before, after)) = text.split_at_checked(fault.offset) else { return fault };
    let before = before.trim_end().trim_end_matches(in_name);
    let is_element = before.strip_suffix('<').is_some_and(|left| {
        let left = left.trim_end_matches(' ');
        let compares = left.ends_with(|c: char| in_name(c) || matches!(c, ')' | ']' | '"' | '\'' | '`'));
        !compares || left.ends_with("return") || after.starts_with('/')
    });
    if fault.message == "Unexpected JSX expression" || is_element {
        let offset = if is_element { before.len() - 1 } else { fault.offset };
        return Fault::new("JSX is not supported here; return data, not elements", offset);
    }
    fault
}

/// One text, one language, several ways to read it.
#[derive(Clone, Copy)]
struct Reader<'a> {
    arena: &'a Allocator,
    text: &'a str,
    source_type: SourceType,
    contract: Contract,
}

/// What a text is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contract {
    Script,
    Module,
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
        let allow_return_outside_function = self.contract == Contract::Script;
        Parser::new(self.arena, text, self.source_type)
            .with_options(ParseOptions { allow_return_outside_function, ..ParseOptions::default() })
    }

    fn statements(&self) -> Result<Parsed<'a>, Fault> {
        let parsed = self.parser(self.text).parse();
        let fault = match self.contract {
            Contract::Script => first_fault(parsed.diagnostics),
            Contract::Module => first_fault_where_it_shows(parsed.diagnostics),
        };
        match fault {
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
    /// Refuses what parses and the engine cannot run.
    fn without_what_cannot_run(self, contract: Contract) -> Result<Self, Fault> {
        let has = |word| self.program.source_text.contains(word);
        let look_everywhere = match contract {
            _ if has("@") || has("```") => true,
            Contract::Script => has("import") && has("meta"),
            Contract::Module => has("import.") || has("accessor"),
        };
        let mut refusals = Refusals { contract, first: None };
        if look_everywhere {
            refusals.visit_program(&self.program);
        }
        if contract == Contract::Module {
            self.program.body.iter().for_each(|statement| refusals.check_module_item(statement));
        }
        match refusals.first {
            Some(fault) => Err(fault),
            None => Ok(self),
        }
    }
}

const PHASE: &str = "`import defer` and `import source` are not supported here; write `import`";

/// The first place of what is refused although it parses: decorators and what belongs to them, which the
/// engine cannot run; Markdown's fences, which parse as templates that call each other; in scripts
/// `import.meta`, which needs a module; in modules what makes one of another kind.
struct Refusals {
    contract: Contract,
    first: Option<Fault>,
}

impl Refusals {
    /// What only the items of a module can be.
    fn check_module_item(&mut self, item: &Statement<'_>) {
        let attributes = match item {
            Statement::ImportDeclaration(import) => {
                if import.phase.is_some() {
                    self.refuse(PHASE, import.span);
                }
                &import.with_clause
            }
            Statement::ExportFromDeclaration(export) => &export.with_clause,
            Statement::ExportAllDeclaration(export) => &export.with_clause,
            Statement::TSImportEqualsDeclaration(import) if import.import_kind.is_value() => {
                if matches!(import.module_reference, TSModuleReference::ExternalModuleReference(_)) {
                    let message = "`import … = require(…)` is not for ES modules; write `import … from …`";
                    self.refuse(message, import.span);
                }
                return;
            }
            Statement::TSExportAssignment(export) => {
                return self.refuse("`export =` is not for ES modules; write `export default`", export.span);
            }
            _ => return,
        };
        if let Some(attributes) = attributes.as_ref().filter(|attributes| !attributes.with_entries.is_empty()) {
            let message = "import attributes are not supported here: every module is JavaScript or TypeScript";
            self.refuse(message, attributes.span);
        }
    }

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
        if self.contract == Contract::Script {
            self.refuse("a script is not a module and has no import.meta", property.span);
        }
    }

    fn visit_import_expression(&mut self, import: &ImportExpression<'a>) {
        if self.contract == Contract::Module && import.phase.is_some() {
            self.refuse(PHASE, import.span);
        }
        walk::walk_import_expression(self, import);
    }

    fn visit_accessor_property(&mut self, property: &AccessorProperty<'a>) {
        if self.contract == Contract::Module {
            self.refuse("`accessor` is not supported here; write a getter and a setter", property.span);
        }
        walk::walk_accessor_property(self, property);
    }
}
