//! Compiled modules: the code for the engine, followed by the records for linking. There are three globals.

use std::collections::BTreeSet;
use std::fmt::Write;

use execbox_core::language::{CompileError, CompileLimits, Dialect, Language, Module, ModuleSource};
use execbox_core::program::Limits;
use execbox_typescript::TypeScript;

use crate::{snapshots, source};

fn compile(text: &str, dialect: Dialect) -> Result<Module, CompileError> {
    let globals = BTreeSet::from(["console", "getMessage", "input"].map(str::to_owned));
    TypeScript.module(ModuleSource { text, dialect, globals: &globals }, &CompileLimits::default())
}

#[test]
fn modules_are_compiled_with_their_records() {
    snapshots("modules", |_, case| {
        let (title, source) = (&case.title, source(case) + "\n");
        let module = compile(&source, Dialect::TypeScript).unwrap_or_else(|error| panic!("{title}: {error:?}"));
        let shown = shown(&module);
        if case.head.lines().any(|line| line == "language: both") {
            assert_eq!(compile(&source, Dialect::JavaScript), Ok(module), "{title}: the same in both dialects");
        }
        shown
    });
}

fn shown(module: &Module) -> String {
    let mut shown = module.code.text.clone();
    let mut line = |text: String| write!(shown, "\n{text}").expect("a string takes text");
    line("---".to_owned());
    module.requests.iter().for_each(|request| line(format!("asks for {} at {}", request.specifier, request.position)));
    module.imports.iter().for_each(|import| {
        let from = &module.requests[import.request].specifier;
        line(format!("imports {:?} as {} from {from} at {}", import.imported, import.local, import.position));
    });
    module.exports.iter().for_each(|export| line(format!("exports {export:?}")));
    if !module.types.is_empty() {
        line(format!("exports types {}", module.types.join(", ")));
    }
    shown
}

#[test]
fn the_dialect_decides_ambiguous_source() {
    let compiled = |dialect| compile("export default f<a>(b);", dialect).expect("it is both").code.text;
    assert_eq!(compiled(Dialect::TypeScript), "export default f   (b);");
    assert_eq!(compiled(Dialect::JavaScript), "export default f<a>(b);");
}

#[test]
fn a_source_that_is_too_long_is_rejected() {
    let source = " ".repeat(Limits::default().max_source_bytes + 1);
    let error = compile(&source, Dialect::TypeScript).expect_err("it is too long");
    assert_eq!(error.to_string(), "the source is 4194305 bytes long; the limit is 4194304");
}
