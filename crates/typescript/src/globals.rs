//! Globals at module scope (module contract, §3.4): a module imports those that it uses.
//!
//! An identifier that no scope of the module binds is free. A free one that names a global gets bound by
//! an import, so that it is there for the module, and for nobody who looks at `globalThis`. To assign to
//! it is what assigning to an import is, a `TypeError`.

use std::collections::BTreeSet;

use execbox_core::language::GLOBALS_MODULE;
use oxc_allocator::{Allocator, ArenaVec};
use oxc_ast::ast::{
    BindingIdentifier, Ident, ImportDeclarationSpecifier, ImportOrExportKind, ModuleExportName, Program, Statement,
    StringLiteral,
};
use oxc_ast::builder::AstBuilder;
use oxc_semantic::SemanticBuilder;
use oxc_span::SPAN;

use crate::{Fault, parse};

/// Those of `globals` that are free in `program`, from which types are gone: what they alone declare
/// (`declare const input: string[]`) does not bind anything.
///
/// This pass over the scopes also finds the early errors that take one, such as a name declared twice.
pub(crate) fn used<'g>(program: &Program<'_>, globals: &'g BTreeSet<String>) -> Result<Vec<&'g str>, Fault> {
    let analysed = SemanticBuilder::new_compiler().build(program);
    if let Some(fault) = parse::first_fault_where_it_shows(analysed.diagnostics) {
        return Err(fault);
    }
    let free = analysed.semantic.scoping().root_unresolved_references();
    Ok(globals.iter().map(String::as_str).filter(|name| free.contains_key(*name)).collect())
}

/// Puts `import { … } from "execbox:globals"` with `names` before the rest of `program`.
pub(crate) fn import<'a>(arena: &'a Allocator, program: &mut Program<'a>, names: &[&str]) {
    if names.is_empty() {
        return;
    }
    let builder = &AstBuilder::new(arena);
    let specifiers = names.iter().map(|name| {
        let name = Ident::from_str_in(name, builder);
        let imported = ModuleExportName::new_identifier_name(SPAN, name, builder);
        let local = BindingIdentifier::new(SPAN, name, builder);
        ImportDeclarationSpecifier::new_import_specifier(SPAN, imported, local, ImportOrExportKind::Value, builder)
    });
    let specifiers = ArenaVec::from_iter_in(specifiers, builder);
    let source = StringLiteral::new(SPAN, GLOBALS_MODULE, None, builder);
    let kind = ImportOrExportKind::Value;
    let import = Statement::new_import_declaration(SPAN, Some(specifiers), source, None, None, kind, builder);
    program.body.insert(0, import);
}
