//! Arbitrary text as a script: it compiles or fails with a message, and every line of the code maps to that line of the
//! source.

#![no_main]

use execbox_core::language::{CompileLimits, Language, Position};
use execbox_typescript::TypeScript;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    match TypeScript.script(source, &CompileLimits::default()) {
        Ok(compiled) => {
            for line in 1..=compiled.text.lines().count() as u32 {
                assert_eq!(compiled.source_position(Position { line, column: 1 }).line, line);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
