//! Any text as a script: compiled or refused with a place inside it, and positions find their way back.

#![no_main]

use execbox_core::language::{Language, Position, Reading};
use execbox_typescript::TypeScript;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    match TypeScript.script(source, &Reading::UNHURRIED) {
        Ok(compiled) => {
            let places: Vec<Position> = (1..=compiled.lines().count() as u32).map(|line| Position { line, column: 1 }).collect();
            assert_eq!(TypeScript.original_positions(source, &places).len(), places.len());
        }
        Err(error) => assert!(!error.message.is_empty()),
    }
});
