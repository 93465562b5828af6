//! Errors of invalid scripts, with their positions.

use execbox_core::language::{CompileLimits, Language};
use execbox_core::program::Limits;
use execbox_typescript::TypeScript;

use crate::{excerpt, snapshots, source};

#[test]
fn invalid_scripts_have_errors_with_positions() {
    snapshots("errors", |_, case| {
        let source = source(case);
        let error = TypeScript.script(&source, &CompileLimits::default()).expect_err(&case.title);
        match error.position() {
            Some(position) => format!("{position} {error}\n{}", excerpt(&source, position)),
            None => error.to_string(),
        }
    });
}

#[test]
fn a_source_that_is_too_long_is_rejected() {
    let source = " ".repeat(Limits::default().max_source_bytes + 1);
    let error = TypeScript.script(&source, &CompileLimits::default()).expect_err("the source is too long");
    assert_eq!(error.to_string(), "the source is 4194305 bytes long; the limit is 4194304");
    assert_eq!(error.position(), None);
}
