//! TypeScript out of the tree; everything else stays as it was written.
//!
//! Enums, namespaces and parameter properties become the JavaScript they stand for, types vanish.
//! Newer JavaScript is not rewritten into older: the engine is new enough. Modules are gone before
//! this runs (see [`shape`](crate::shape)), and so are decorators.

use std::path::Path;

use oxc_allocator::Allocator;
use oxc_ast::ast::Program;
use oxc_semantic::SemanticBuilder;
use oxc_transformer::{TransformOptions, Transformer};

use crate::{Fault, parse};

/// Erases TypeScript from `program`.
pub(crate) fn erase<'a>(arena: &'a Allocator, program: &mut Program<'a>) -> Result<(), Fault> {
    // The statements end up in a function in sloppy mode, so names follow the rules of scripts. It
    // also keeps the eraser from adding `export {}`.
    program.source_type = program.source_type.with_script(true);
    let analysed = SemanticBuilder::new().with_enum_eval(true).build(program);
    let scoping = analysed.semantic.into_scoping();
    let erased = Transformer::new(arena, Path::new("script.ts"), &TransformOptions::default())
        .build_with_scoping(scoping, program);
    match parse::first_fault(erased.diagnostics) {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}
