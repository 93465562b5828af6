//! The two messages that go into a guest. The other end is `guest_start` and `guest_advance` in guest.c.
//!
//! Little-endian, length-prefixed; strings of the first message end with a NUL that the length does not count.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use execbox_core::engine::Answer;
use execbox_core::program::Namespace;

/// The most that a guest can address, less what its image takes: larger memory limits come to this.
const MOST_MEMORY: u32 = 0xf000_0000;

/// What to run, with what, within what.
pub(crate) fn start(
    name: &str,
    code: &str,
    namespaces: &[impl AsRef<Namespace>],
    memory_bytes: u64,
    log_units: usize,
) -> Vec<u8> {
    let mut message = Vec::with_capacity(64 + name.len() + code.len());
    message.extend_from_slice(&seed().to_le_bytes());
    put_u32(&mut message, u32::try_from(memory_bytes).unwrap_or(u32::MAX).min(MOST_MEMORY));
    put_u32(&mut message, u32::try_from(log_units).unwrap_or(u32::MAX));
    put_text(&mut message, name);
    put_text(&mut message, code);
    put_u32(&mut message, namespaces.len() as u32);
    for namespace in namespaces.iter().map(AsRef::as_ref) {
        put_text(&mut message, &namespace.name);
        put_u32(&mut message, namespace.functions.len() as u32);
        for function in &namespace.functions {
            put_text(&mut message, function);
        }
    }
    message
}

/// Appends the answer to the call that waits in `slot`.
pub(crate) fn put_answer(message: &mut Vec<u8>, slot: u32, answer: &Answer) {
    put_u32(message, slot);
    match answer {
        Ok(value) => {
            message.push(1);
            message.extend_from_slice(value.as_bytes());
        }
        Err(error) => {
            message.push(0);
            put_string(message, error.code.as_str());
            put_string(message, &error.message);
        }
    }
}

fn put_u32(message: &mut Vec<u8>, value: u32) {
    message.extend_from_slice(&value.to_le_bytes());
}

fn put_text(message: &mut Vec<u8>, text: &str) {
    put_u32(message, text.len() as u32);
    message.extend_from_slice(text.as_bytes());
    message.push(0);
}

/// As strings are in values: a varint length first.
fn put_string(message: &mut Vec<u8>, text: &str) {
    let mut len = text.len() as u32;
    while len >= 0x80 {
        message.push((len & 0x7f) as u8 | 0x80);
        len >>= 7;
    }
    message.push(len as u8);
    message.extend_from_slice(text.as_bytes());
}

/// A seed for `Math.random` that no guest can guess from another's numbers: a keyed hash of a counter.
fn seed() -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    KEY.get_or_init(RandomState::new).hash_one(COUNT.fetch_add(1, Ordering::Relaxed))
}
