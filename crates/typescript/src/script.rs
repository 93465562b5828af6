//! Compiles a script into the body of an async function that returns the result.
//!
//! | the program is | the result is |
//! |---|---|
//! | one object literal, with or without semicolons behind it | the object |
//! | one async arrow or async function expression | the result of calling it |
//! | one function declaration, with or without a name (not a generator) | the result of calling it |
//! | a program with a default export | the export, or the result of calling it if it is a function |
//! | anything else | the value of the last statement that is no declaration, if it is an expression |
//!
//! The last statement is searched for inside blocks, `if`, `try`, `catch` and labels; loops have no value. Declarations after it
//! run before the script returns. The keyword `export` is erased, because a script has no modules; imports of values are errors.
//!
//! # Languages
//!
//! A source that is JavaScript is compiled as JavaScript, and every other source as TypeScript. The source is parsed as
//! TypeScript, and the parser records whether JavaScript reads it in the same way ([`SourceLanguage`]). It is parsed again only
//!
//! - as JavaScript if it is ambiguous, as in `f(a < b, c > (d))`, which compares or calls. `f<T>(x)` is not: nobody compares so;
//! - as JavaScript for an error: of the faults in both languages, the one further on is reported;
//! - with names, from the first construct on that is lowered by them.

use std::collections::HashSet;
use std::ops::ControlFlow;

use execbox_core::language::{Code, CompileLimits, SyntaxError};

use crate::Parse;
use crate::lexer::{Kind, Lexer};
use crate::parser::{
    Call, ExportDefault, ExpressionKind, NO_MODULES, Options, Parser, SourceLanguage, StatementKind, Tail,
};
use crate::scopes::unescaped;
use crate::{Fault, ParseError, fences, lower, module, python};

/// Compiles `source`. A function that is called gets `arguments`. If there are arguments, a function that is not async is
/// called, too.
pub(crate) fn compile(
    source: &str,
    arguments: &str,
    reading: &CompileLimits<'_>,
) -> Result<Code, ParseError<SyntaxError>> {
    let within = |text: &str| {
        let text = text.to_owned();
        move |halt: ParseError| halt.map(|fault| fault.within(&text))
    };
    match fences::opening(source) {
        Err(fault) => Err(ParseError::Fault(fault.within(source))),
        Ok(Some(text)) => compile_text(&text, arguments, reading)
            .map_err(|halt| halt.map(|fault| python::explain(&text, fault)))
            .map_err(within(&text)),
        Ok(None) => match compile_text(source, arguments, reading) {
            Err(ParseError::Fault(fault)) => match fences::amid_prose(source, &fault) {
                Ok(Some(text)) => compile_text(&text, arguments, reading).map_err(within(&text)),
                Ok(None) => Err(ParseError::Fault(python::explain(source, fault).within(source))),
                Err(fault) => Err(ParseError::Fault(fault.within(source))),
            },
            other => other.map_err(within(source)),
        },
    }
}

/// Compiles `text`, which contains only code.
fn compile_text(text: &str, arguments: &str, reading: &CompileLimits<'_>) -> Parse<Code> {
    let script = Script { text, arguments, reading };
    let mut object = None;
    if begins_with_brace(text) {
        match script.attempt(Shape::Object)? {
            ControlFlow::Break(code) => return Ok(code),
            ControlFlow::Continue(attempt) => object = Some(attempt),
        }
    }
    let statements = match script.attempt(Shape::Statements)? {
        ControlFlow::Break(code) => return Ok(code),
        ControlFlow::Continue(attempt) => attempt,
    };
    // The text is not JavaScript.
    let object = match object {
        Some(object) if !matches!(object.typescript, Err(ParseError::Fault(_))) => return object.typescript,
        object => object,
    };
    let fault = script.faults(statements).and_then(|[javascript, typescript]| match object {
        Some(object) => {
            let [javascript_object, typescript_object] = script.faults(object)?;
            Ok(javascript.further(javascript_object).further(typescript.further(typescript_object)))
        }
        None => Ok(javascript.further(typescript)),
    });
    fault.map_or_else(|code| code, |fault| Err(ParseError::Fault(fault)))
}

fn begins_with_brace(text: &str) -> bool {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => true,
        // The brace may follow a comment, a hashbang or another blank.
        Some(b'/' | b'#' | 0x80..) => Lexer::new(text, true).next().is_ok_and(|token| token.kind == Kind::BraceOpen),
        _ => false,
    }
}

struct Script<'r, 'b> {
    text: &'r str,
    arguments: &'r str,
    reading: &'r CompileLimits<'b>,
}

/// The form that a text is parsed as.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// One object literal.
    Object,
    Statements,
}

/// An attempt to parse a text, which is not JavaScript in this shape.
struct Attempt {
    shape: Shape,
    /// The fault as JavaScript, if known.
    javascript: Option<Fault>,
    typescript: Parse<Code>,
}

impl Script<'_, '_> {
    /// Reads the text in one shape: as TypeScript, and again as JavaScript if the text is ambiguous. Returns the code if it is
    /// JavaScript.
    fn attempt(&self, shape: Shape) -> Parse<ControlFlow<Code, Attempt>> {
        let (typescript, language) = self.read(shape, true);
        let javascript = match (&typescript, language) {
            (Err(ParseError::Fault(fault)), SourceLanguage::Either) => Some(fault.clone()),
            (Ok(_), SourceLanguage::Either) | (Err(ParseError::Exhausted(_) | ParseError::Stopped), _) => {
                return typescript.map(ControlFlow::Break);
            }
            (Ok(_) | Err(ParseError::Fault(_)), SourceLanguage::TypeScript) => None,
            _ => match self.read(shape, false).0 {
                Err(ParseError::Fault(fault)) => Some(fault),
                other => return other.map(ControlFlow::Break),
            },
        };
        Ok(ControlFlow::Continue(Attempt { shape, javascript, typescript }))
    }

    /// The faults of the text in one shape, as JavaScript and as TypeScript. Fails with the code, if the text is valid, or with
    /// an error that is not a fault.
    fn faults(&self, attempt: Attempt) -> Result<[Fault; 2], Parse<Code>> {
        let fault = |code| match code {
            Err(ParseError::Fault(fault)) => Ok(fault),
            other => Err(other),
        };
        let typescript = fault(attempt.typescript)?;
        let javascript = attempt.javascript.map_or_else(|| fault(self.read(attempt.shape, false).0), Ok)?;
        Ok([javascript, typescript])
    }

    /// Parses the text in one shape and language. Also returns what was recorded about its language.
    fn read(&self, shape: Shape, typescript: bool) -> (Parse<Code>, SourceLanguage) {
        let options = Options { typescript, script: true, scopes: false };
        let mut parser = match Parser::new(self.text, options, self.reading) {
            Ok(parser) => parser,
            Err(halt) => return (Err(halt), SourceLanguage::Either),
        };
        let mut code = self.compile(shape, &mut parser);
        if let Err(ParseError::NamesNeeded) = code {
            parser = match parser.with_names() {
                Ok(parser) => parser,
                Err(halt) => return (Err(halt), SourceLanguage::Either),
            };
            code = self.compile(shape, &mut parser);
        }
        (code, parser.record.language)
    }

    fn compile(&self, shape: Shape, parser: &mut Parser<'_, '_>) -> Parse<Code> {
        match shape {
            Shape::Object => object(parser),
            Shape::Statements => statements(parser, self.arguments),
        }
    }
}

fn object(parser: &mut Parser<'_, '_>) -> Parse<Code> {
    let (start, end) = parser.object_alone()?;
    parser.record.edits.insert(start, "return (");
    parser.record.edits.insert(end, ")");
    finish(parser, "")
}

fn statements(parser: &mut Parser<'_, '_>, arguments: &str) -> Parse<Code> {
    let mut lasting = parser.source()?.into_iter();
    let only = match (lasting.next(), lasting.next()) {
        (only, None) => only,
        _ => None,
    };
    if let (None, Some(at)) = (only, parser.record.nameless_function) {
        return Err(ParseError::fault("expected a name for the function", at));
    }
    if let Some(default) = parser.record.items.default {
        let result = export_result(parser, default, arguments);
        return finish(parser, &result);
    }
    if let Some(StatementKind::Function { name, is_generator, start, end }) = only {
        return match name {
            Some(_) if is_generator => finish(parser, ""),
            Some(name) => {
                let call = format!("\nreturn {}({arguments});", parser.record.scopes.names.text(name));
                finish(parser, &call)
            }
            None => {
                parser.record.edits.insert(start, "return (");
                let call = format!(")({arguments})");
                parser.record.edits.insert(end, if is_generator { ")" } else { &call });
                finish(parser, "")
            }
        };
    }
    let after = return_tails(parser, matches!(only, Some(StatementKind::Expression)), arguments);
    finish(parser, &after)
}

/// Makes the script return its tails. Returns the text after it. A script that `is_expression` is called if it is a function.
fn return_tails(parser: &mut Parser<'_, '_>, is_expression: bool, arguments: &str) -> String {
    let tails = std::mem::take(&mut parser.record.tails);
    let mut after = String::new();
    let mut kept = String::new();
    if tails.are_kept() {
        let name = unused_name(parser.text());
        after = format!("\nreturn {name};");
        kept = format!("var {name} = (");
    }
    for (Tail { start, end, kind }, is_kept) in tails.into_iter() {
        let is_called = is_expression
            && matches!(kind, ExpressionKind::Function { is_async, is_generator: false, .. } if is_async || !arguments.is_empty());
        let (before, behind) = match (is_called, is_kept) {
            (true, _) => ("return (", format!(")({arguments})")),
            (false, true) => (kept.as_str(), ")".to_owned()),
            (false, false) => ("return ", String::new()),
        };
        parser.record.edits.insert(start, before);
        if !behind.is_empty() {
            parser.record.edits.insert(end, behind);
        }
    }
    after
}

/// The text after a script with a default export, which returns the export.
fn export_result(parser: &mut Parser<'_, '_>, default: ExportDefault, arguments: &str) -> String {
    let text = parser.text();
    let (name, call) = if let Some((start, end)) = default.name {
        let name = &text[start as usize..end as usize];
        (name.to_owned(), if is_class(parser, name) { Call::Never } else { default.call })
    } else {
        let name = unused_name(text);
        if let Some(start) = parser.record.lowered.default_export {
            parser.record.edits.replace(start, start + export_length(text, start), format!("const {name} ="));
        }
        let exported = parser.record.lowered.default_value.map(|(start, end)| &text[start as usize..end as usize]);
        let is_class = exported.is_some_and(|exported| is_class(parser, exported));
        (name, if is_class { Call::Never } else { default.call })
    };
    match call {
        Call::Always => format!("\nreturn {name}({arguments});"),
        Call::Never => format!("\nreturn {name};"),
        Call::IfFunction => format!("\nreturn typeof {name} === \"function\" ? {name}({arguments}) : {name};"),
    }
}

/// A name that does not occur in `text`.
fn unused_name(text: &str) -> String {
    let name = "$result";
    let numbers: HashSet<&str> = text
        .match_indices(name)
        .map(|(at, _)| {
            let rest = &text[at + name.len()..];
            &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())]
        })
        .collect();
    if numbers.is_empty() {
        return name.to_owned();
    }
    let mut number = 2_u64;
    while numbers.contains(number.to_string().as_str()) {
        number += 1;
    }
    format!("{name}{number}")
}

/// The length of `export default` or `export =`.
fn export_length(text: &str, start: u32) -> u32 {
    let behind = &text[start as usize + "export".len()..];
    let end = match (behind.find("default"), behind.find('=')) {
        (Some(at), Some(equals)) if equals < at => equals + 1,
        (Some(at), _) => at + "default".len(),
        (None, Some(equals)) => equals + 1,
        (None, None) => 0,
    };
    ("export".len() + end) as u32
}

fn is_class(parser: &Parser<'_, '_>, name: &str) -> bool {
    let name = unescaped(name);
    parser.record.items.classes.iter().any(|class| parser.record.scopes.names.text(*class) == name)
}

/// Lowers TypeScript, and applies all edits.
fn finish(parser: &mut Parser<'_, '_>, after: &str) -> Parse<Code> {
    if parser.record.scopes.with_names() {
        let uses = lower::lower(parser)?;
        // Imports that are used only as types are erased; a script cannot have others.
        let kept = module::keep_imports(parser, &uses);
        let mut imports = parser.record.items.imports.iter().zip(&kept.imports);
        if let Some(import) = imports.find_map(|(import, kept)| kept.map(|_| import)) {
            return Err(ParseError::Fault(Fault {
                reached: parser.text().len(),
                ..Fault::new(NO_MODULES, import.start as usize)
            }));
        }
    }
    parser.apply_edits(after)
}
