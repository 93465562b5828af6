//! The two messages to a guest, which `guest_start` and `guest_advance` in guest.c read.
//!
//! Numbers are little-endian. Text has its length first, and ends with a NUL that the length does not count.

use std::cell::RefCell;

use execbox_core::engine::Settlement;
use execbox_core::language::Code;
use execbox_core::libraries::Globals;
use execbox_core::program::{Function, Module, ModuleBody, Modules, Namespace, Program, Source};
use execbox_core::value::Value;

use crate::boundary::{ModuleFlag, SHIFT_INSERTED, ScriptFlag, Settle, Settles, Start};

/// The highest memory limit in bytes: what a guest can address, less room for its image.
const MAX_MEMORY: u32 = 0xf000_0000;

/// The length of a shift in bytes.
const SHIFT_LEN: usize = 12;

/// The first message: limits, seed, code and namespaces. `None` if the source is of another kind.
pub(crate) fn start(program: &Program, log_units: usize) -> Option<Vec<u8>> {
    let mut message = Vec::with_capacity(256 + source_len(&program.source));
    message.extend_from_slice(&seed());
    put_u32(&mut message, u32::try_from(program.limits.memory_bytes).unwrap_or(u32::MAX).min(MAX_MEMORY));
    put_u32(&mut message, u32::try_from(log_units).unwrap_or(u32::MAX));
    match &program.source {
        Source::Script { name, code } => {
            message.push(Start::Script as u8);
            put_text(&mut message, name);
            put_code(&mut message, code);
            message.push(script_flags(program));
            put_namespaces(&mut message, &program.namespaces);
        }
        Source::Modules(modules) => {
            message.push(Start::Modules as u8);
            put_modules(&mut message, modules);
        }
        _ => return None,
    }
    Some(message)
}

fn script_flags(program: &Program) -> u8 {
    let Globals { common, timers } = program.globals;
    let flags = [
        (program.waits_for_calls, ScriptFlag::WaitsForCalls),
        (common, ScriptFlag::CommonGlobals),
        (timers, ScriptFlag::Timers),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag as u8).sum()
}

/// A seed of `Math.random`. It cannot be guessed from the numbers of other guests.
fn seed() -> [u8; 8] {
    thread_local! {
        /// Seeds that are not used yet: one system call for many short programs.
        static SEEDS: RefCell<Vec<[u8; 8]>> = const { RefCell::new(Vec::new()) };
    }
    SEEDS.with_borrow_mut(|seeds| {
        seeds.pop().unwrap_or_else(|| {
            let mut random = [[0; 8]; 32];
            getrandom::fill(random.as_flattened_mut()).expect("the system has random numbers");
            seeds.extend_from_slice(&random[1..]);
            random[0]
        })
    })
}

fn source_len(source: &Source) -> usize {
    match source {
        Source::Script { code, .. } => code_len(code),
        Source::Modules(modules) => {
            modules.modules.iter().map(|module| 32 + module.name.len() + body_len(module)).sum()
        }
        _ => 0,
    }
}

fn body_len(module: &Module) -> usize {
    match &module.body {
        ModuleBody::Source(code) => code_len(code),
        ModuleBody::Synthetic(exports) => exports.as_bytes().len(),
    }
}

fn code_len(code: &Code) -> usize {
    text_len(&code.text) + 4 + code.shifts.len() * SHIFT_LEN
}

/// The text, and its shifts, with which the guest converts columns to those of the source.
fn put_code(message: &mut Vec<u8>, code: &Code) {
    put_text(message, &code.text);
    put_u32(message, code.shifts.len() as u32);
    for shift in &code.shifts {
        put_u32(message, shift.line);
        put_u32(message, shift.column);
        put_u32(message, shift.source_column | if shift.inserted { SHIFT_INSERTED } else { 0 });
    }
}

fn put_namespaces(message: &mut Vec<u8>, namespaces: &[impl AsRef<Namespace>]) {
    put_u32(message, namespaces.len() as u32);
    for namespace in namespaces.iter().map(AsRef::as_ref) {
        put_text(message, &namespace.name);
        put_u32(message, namespace.functions.len() as u32);
        // The length of the members: the guest skips them until it needs them.
        put_u32(message, members_len(namespace) as u32);
        for function in &namespace.functions {
            put_text(message, function);
        }
        for Function { name, file, code } in &namespace.own {
            put_text(message, name);
            put_text(message, file);
            put_code(message, code);
        }
    }
}

fn members_len(namespace: &Namespace) -> usize {
    let names = namespace.functions.iter().map(|function| text_len(function));
    let own = namespace.own.iter();
    names.sum::<usize>() + own.map(|own| text_len(&own.name) + text_len(&own.file) + code_len(&own.code)).sum::<usize>()
}

fn put_modules(message: &mut Vec<u8>, program: &Modules) {
    let entry = program.modules.iter().position(|module| module.name == program.entry);
    put_u32(message, entry.unwrap_or_default() as u32);
    put_text(message, &program.export);
    put_u32(message, program.modules.len() as u32);
    for module in &program.modules {
        let importable = if module.importable { ModuleFlag::Importable as u8 } else { 0 };
        match &module.body {
            ModuleBody::Source(code) => {
                message.push(importable);
                put_text(message, &module.name);
                put_code(message, code);
            }
            ModuleBody::Synthetic(exports) => {
                message.push(importable | ModuleFlag::Synthetic as u8);
                put_text(message, &module.name);
                put_value(message, exports);
            }
        }
    }
    put_value(message, &program.args);
}

/// What a settlement settles.
#[derive(Clone, Copy)]
pub(crate) enum Settled {
    /// The call in this slot.
    Call(u32),
    /// The promise of the host with this number.
    Promise(u32),
    /// The timer.
    Timer,
}

pub(crate) fn put_settled(message: &mut Vec<u8>, settled: Settled) {
    let (settles, number) = match settled {
        Settled::Call(slot) => (Settles::Call, slot),
        Settled::Promise(number) => (Settles::Promise, number),
        Settled::Timer => (Settles::Timer, 0),
    };
    message.push(settles as u8);
    put_u32(message, number);
}

pub(crate) fn put_settlement(message: &mut Vec<u8>, settlement: &Settlement) {
    match settlement {
        Settlement::Fulfilled(value) => {
            message.push(Settle::Fulfilled as u8);
            message.extend_from_slice(value.as_bytes());
        }
        Settlement::Rejected(value) => {
            message.push(Settle::Rejected as u8);
            message.extend_from_slice(value.as_bytes());
        }
        Settlement::Failed(error) => {
            message.push(Settle::Failed as u8);
            let (code, cause) = error.to_parts();
            put_text(message, code);
            put_text(message, &error.message);
            put_text(message, &cause);
        }
    }
}

fn put_value(message: &mut Vec<u8>, value: &Value) {
    put_u32(message, value.as_bytes().len() as u32);
    message.extend_from_slice(value.as_bytes());
}

fn put_u32(message: &mut Vec<u8>, value: u32) {
    message.extend_from_slice(&value.to_le_bytes());
}

/// The length of what [`put_text`] writes.
fn text_len(text: &str) -> usize {
    4 + text.len() + 1
}

fn put_text(message: &mut Vec<u8>, text: &str) {
    put_u32(message, text.len() as u32);
    message.extend_from_slice(text.as_bytes());
    message.push(0);
}
