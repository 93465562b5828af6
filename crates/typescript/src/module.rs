//! The way of a module through the phases.
//!
//! Nothing is decided here: [`guard`] says whether it may be parsed, [`parse`] what it says, [`erase`] what
//! remains without types, [`globals`] which names it has from outside, [`records`] how it is tied to
//! other modules. Modules come from programs and not from chats, so nothing is stripped around them.

use execbox_core::language::{Dialect, Module, ModuleSource, SyntaxError};
use oxc_allocator::Allocator;

use crate::positions::SourceMap;
use crate::print::Map;
use crate::weigh::Weight;
use crate::{Fault, erase, globals, guard, parse, print, records};

/// A module, and the way back from its code if it was wanted (else empty).
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) module: Module,
    pub(crate) map: SourceMap,
}

/// Compiles `source`, with or without the way back, and takes from `work` what that may cost.
pub(crate) fn compile(source: ModuleSource<'_>, map: Map, work: &mut u64) -> Result<Compiled, SyntaxError> {
    guard::check_length(source.text)?;
    let compiled = guard::weigh(source.text).and_then(|weight| {
        *work = work.checked_sub(weight.work).ok_or_else(|| {
            let message = "the modules are too long together, or this one is nested too deeply after the others";
            Fault::new(message, 0)
        })?;
        guard::run(&weight, |arena| run_phases(arena, source, &weight, map))
    });
    compiled.map_err(|fault| fault.within(source.text))
}

/// Everything that recurses. What is not JavaScript, but would be TypeScript, is told so.
fn run_phases(arena: &Allocator, source: ModuleSource<'_>, weight: &Weight, map: Map) -> Result<Compiled, Fault> {
    let fault = match compile_as(source.dialect, arena, source, weight, map) {
        Err(fault) if source.dialect == Dialect::JavaScript => fault,
        other => return other,
    };
    match compile_as(Dialect::TypeScript, arena, source, weight, Map::Omit) {
        Ok(_) => {
            let message = fault.message.trim_end_matches('.');
            Err(Fault::new(format!("{message}; this is TypeScript, and the language is JavaScript"), fault.offset))
        }
        Err(_) => Err(fault),
    }
}

fn compile_as(
    dialect: Dialect,
    arena: &Allocator,
    source: ModuleSource<'_>,
    weight: &Weight,
    map: Map,
) -> Result<Compiled, Fault> {
    let mut parsed = parse::module(arena, source.text, dialect, weight)?;
    let program = &mut parsed.program;
    program.hashbang = None;
    program.comments.clear();
    let types = records::type_names(program);
    if parsed.typescript {
        erase::module(arena, program)?;
    }
    let used = globals::used(program, source.globals)?;
    let mut module = records::read(program, types)?;
    globals::import(arena, program, &used);
    let printed = print::module(program, map);
    module.code = printed.code.into();
    Ok(Compiled { module, map: printed.map })
}
