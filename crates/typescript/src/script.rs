//! The way of a script through the phases.
//!
//! Nothing is decided here: [`fences`] says which part is code, [`guard`] whether it may be parsed,
//! [`parse`] what it says, [`shape`] what its result is, [`erase`] what remains without types.
//! This file turns byte offsets into positions.

use execbox_core::language::SyntaxError;
use oxc_allocator::Allocator;

use crate::print::{Map, Printed};
use crate::weigh::Weight;
use crate::{Fault, erase, fences, guard, parse, print, shape};

/// Compiles `source`, with or without the way back.
pub(crate) fn compile(source: &str, map: Map) -> Result<Printed, SyntaxError> {
    guard::check_length(source)?;
    match fences::opening(source) {
        Err(fault) => Err(fault.within(source)),
        Ok(Some(text)) => compile_text(&text, map).map_err(|fault| fault.within(&text)),
        Ok(None) => compile_text(source, map).or_else(|fault| match fences::amid_prose(source) {
            Some(text) => compile_text(&text, map).map_err(|fault| fault.within(&text)),
            None => Err(fault.within(source)),
        }),
    }
}

/// Compiles `text`, in which only code is left.
fn compile_text(text: &str, map: Map) -> Result<Printed, Fault> {
    let weight = guard::weigh(text)?;
    guard::run(&weight, |arena| run_phases(arena, text, &weight, map))
}

/// Everything that recurses.
fn run_phases(arena: &Allocator, text: &str, weight: &Weight, map: Map) -> Result<Printed, Fault> {
    let mut parsed = parse::script(arena, text, weight)?;
    shape::shape(arena, &mut parsed)?;
    if parsed.typescript {
        erase::script(arena, &mut parsed.program)?;
    }
    Ok(print::script(&parsed.program, map))
}
