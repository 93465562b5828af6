//! Compiles a script into the body of an async function that returns the result.
//!
//! | the program is | the result is |
//! |---|---|
//! | one object literal, with or without semicolons behind it | the object |
//! | one async arrow or async function expression | the result of calling it |
//! | one function declaration, with or without a name (not a generator) | the result of calling it |
//! | a program with a default export | the export, or the result of calling it if it is a function |
//! | anything else | the value of the last statement, if it is an expression |
//!
//! The last statement is searched for inside blocks, `if`, `try`, `catch` and labels; loops have no value. The keyword
//! `export` is erased, because a script has no modules; imports of values are errors. The source is parsed as JavaScript
//! and, if that fails, as TypeScript; of the two faults, the one further on is reported.

use std::collections::HashSet;

use execbox_core::language::{Code, Reading, SyntaxError};

use crate::lexer::Kind;
use crate::parser::{Call, ExportDefault, ExpressionKind, NO_MODULES, Options, Parse, Parser, StatementKind, Tail};
use crate::scopes::unescaped;
use crate::{Fault, Halt, fences, lower, module};

/// Compiles `source`. A function that is called gets `arguments`; with arguments, one that is not async is called, too.
pub(crate) fn compile(source: &str, arguments: &str, reading: &Reading<'_>) -> Result<Code, Halt<SyntaxError>> {
    let within = |text: &str| {
        let text = text.to_owned();
        move |halt: Halt| halt.map(|fault| fault.within(&text))
    };
    match fences::opening(source) {
        Err(fault) => Err(Halt::Fault(fault.within(source))),
        Ok(Some(text)) => compile_text(&text, arguments, reading).map_err(within(&text)),
        Ok(None) => match compile_text(source, arguments, reading) {
            Err(Halt::Fault(fault)) => match fences::amid_prose(source) {
                Some(text) => compile_text(&text, arguments, reading).map_err(within(&text)),
                None => Err(Halt::Fault(fault.within(source))),
            },
            other => other.map_err(within(source)),
        },
    }
}

/// Compiles `text`, which contains only code.
fn compile_text(text: &str, arguments: &str, reading: &Reading<'_>) -> Parse<Code> {
    let javascript = Options { typescript: false, script: true, scopes: false };
    let typescript = Options { typescript: true, script: true, scopes: true };
    let first = match read(text, arguments, javascript, reading) {
        Err(Halt::Fault(fault)) => fault,
        other => return other,
    };
    match read(text, arguments, typescript, reading) {
        Err(Halt::Fault(second)) => Err(Halt::Fault(first.further(second))),
        other => other,
    }
}

/// Parses `text` in one language: as an object literal if possible, otherwise as statements.
fn read(text: &str, arguments: &str, options: Options, reading: &Reading<'_>) -> Parse<Code> {
    let mut parser = Parser::new(text, options, reading)?;
    if !parser.is(Kind::BraceOpen) {
        return statements(parser, arguments);
    }
    let object = match object(parser) {
        Err(Halt::Fault(fault)) => fault,
        other => return other,
    };
    parser = Parser::new(text, options, reading)?;
    match statements(parser, arguments) {
        Err(Halt::Fault(fault)) => Err(Halt::Fault(fault.further(object))),
        other => other,
    }
}

fn object(mut parser: Parser<'_, '_>) -> Parse<Code> {
    let (start, end) = parser.object_alone()?;
    parser.record.edits.insert(start, "return (");
    parser.record.edits.insert(end, ")");
    finish(parser, "")
}

fn statements(mut parser: Parser<'_, '_>, arguments: &str) -> Parse<Code> {
    let mut lasting = parser.source()?.into_iter();
    let only = match (lasting.next(), lasting.next()) {
        (only, None) => only,
        _ => None,
    };
    if let (None, Some(at)) = (only, parser.record.nameless_function) {
        return Err(Halt::fault("expected a name for the function", at));
    }
    if let Some(default) = parser.record.items.default {
        let result = export_result(&mut parser, default, arguments);
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
    for Tail { start, end, kind } in std::mem::take(&mut parser.record.tails) {
        let is_called = matches!(only, Some(StatementKind::Expression))
            && matches!(kind, ExpressionKind::Function { is_async, is_generator: false, .. } if is_async || !arguments.is_empty());
        parser.record.edits.insert(start, if is_called { "return (" } else { "return " });
        if is_called {
            parser.record.edits.insert(end, format!(")({arguments})"));
        }
    }
    finish(parser, "")
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
fn finish(mut parser: Parser<'_, '_>, after: &str) -> Parse<Code> {
    if parser.options.typescript {
        let uses = lower::lower(&mut parser)?;
        // Imports that are used only as types are erased; a script cannot have others.
        let kept = module::keep_imports(&mut parser, &uses);
        if let Some(import) =
            parser.record.items.imports.iter().zip(&kept.imports).find_map(|(import, kept)| kept.map(|_| import))
        {
            return Err(Halt::Fault(Fault {
                reached: parser.text().len(),
                ..Fault::new(NO_MODULES, import.start as usize)
            }));
        }
    }
    parser.apply_edits(after)
}
