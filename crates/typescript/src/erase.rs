//! TypeScript out of the tree; everything else stays as it was written.
//!
//! Enums, namespaces and parameter properties become the JavaScript they stand for, types vanish.
//! Newer JavaScript is not rewritten into older: the engine is new enough. What is refused is gone
//! before this runs: from scripts modules (see [`shape`](crate::shape)), from both decorators.

use std::collections::HashMap;
use std::path::Path;

use oxc_allocator::Allocator;
use oxc_ast::ast::{ImportDeclarationSpecifier, Program, Statement, TSEnumDeclaration};
use oxc_ast_visit::{Visit, walk};
use oxc_semantic::{NodeId, Reference, ReferenceFlags, Scoping, SemanticBuilder, SymbolFlags};
use oxc_transformer::{TransformOptions, Transformer};

use crate::{Fault, parse};

/// Erases TypeScript from what will be the body of a function.
pub(crate) fn script<'a>(arena: &'a Allocator, program: &mut Program<'a>) -> Result<(), Fault> {
    // The statements end up in a function in sloppy mode, so names follow the rules of scripts. It
    // also keeps the eraser from adding `export {}`.
    program.source_type = program.source_type.with_script(true);
    let scoping = scoping(program)?;
    transform(arena, program, scoping)
}

/// Erases TypeScript from a module. Imports that only types refer to vanish, and with the last of its
/// names the whole declaration.
pub(crate) fn module<'a>(arena: &'a Allocator, program: &mut Program<'a>) -> Result<(), Fault> {
    let mut scoping = scoping(program)?;
    keep_unused_imports(program, &mut scoping)?;
    transform(arena, program, scoping)
}

fn scoping(program: &Program<'_>) -> Result<Scoping, Fault> {
    if program.source_text.matches("enum").count() > MAX_ENUM_DECLARATIONS {
        let mut enums = Enums::default();
        enums.visit_program(program);
        if let Some(fault) = enums.too_many {
            return Err(fault);
        }
    }
    Ok(SemanticBuilder::new().with_enum_eval(true).build(program).semantic.into_scoping())
}

/// How often an enum of one name may be declared. Members are looked for in every declaration of their
/// enum, so fifty thousand short ones took half a minute.
const MAX_ENUM_DECLARATIONS: usize = 256;

/// Counts the declarations of enums, by name.
#[derive(Default)]
struct Enums<'a> {
    declared: HashMap<&'a str, usize>,
    too_many: Option<Fault>,
}

impl<'a> Visit<'a> for Enums<'a> {
    fn visit_ts_enum_declaration(&mut self, declaration: &TSEnumDeclaration<'a>) {
        let declared = self.declared.entry(declaration.id.name.as_str()).or_default();
        *declared += 1;
        if *declared > MAX_ENUM_DECLARATIONS {
            let message = format!("an enum of this name is declared more than {MAX_ENUM_DECLARATIONS} times");
            self.too_many.get_or_insert(Fault::new(message, declaration.id.span.start as usize));
        }
        walk::walk_ts_enum_declaration(self, declaration);
    }
}

fn transform<'a>(arena: &'a Allocator, program: &mut Program<'a>, scoping: Scoping) -> Result<(), Fault> {
    let erased = Transformer::new(arena, Path::new("source.ts"), &TransformOptions::default())
        .build_with_scoping(scoping, program);
    match parse::first_fault(erased.diagnostics) {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

/// The eraser takes an import that nothing refers to for a type. It may as well be a value, whose
/// absence is an error (module contract, §3.2), so it gets a reference here.
fn keep_unused_imports(program: &Program<'_>, scoping: &mut Scoping) -> Result<(), Fault> {
    for statement in &program.body {
        let Statement::ImportDeclaration(import) = statement else { continue };
        for specifier in import.specifiers.iter().flatten() {
            let is_type = match specifier {
                ImportDeclarationSpecifier::ImportSpecifier(named) => named.import_kind.is_type(),
                _ => false,
            };
            if is_type || import.import_kind.is_type() {
                continue;
            }
            let local = specifier.local();
            let symbol = local.symbol_id();
            let others = scoping.symbol_flags(symbol) - SymbolFlags::Import;
            if others.is_value() && !others.is_ambient() {
                let places = scoping.symbol_redeclarations(symbol).iter().map(|place| place.span.start);
                let message = format!("Identifier `{}` has already been declared", local.name);
                return Err(Fault::new(message, places.fold(local.span.start, u32::max) as usize));
            }
            if scoping.get_resolved_reference_ids(symbol).is_empty() {
                let scope = scoping.root_scope_id();
                let used = Reference::new_with_symbol_id(NodeId::DUMMY, symbol, scope, ReferenceFlags::Read);
                let used = scoping.create_reference(used);
                scoping.add_resolved_reference(symbol, used);
            }
        }
    }
    Ok(())
}
