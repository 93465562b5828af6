//! Programs that allocate and free at random, compared with a model of their memory: no traps, no use beyond the limit, and
//! a peak that depends on the program alone.
//!
//! `EXECBOX_ALLOCATION_MS` is how long each program runs (default 15): 10000 for a thorough run, which takes 21 minutes.
//! In debug builds, a program that does not return all memory at its end is a fault of the engine.

mod harness;

use std::env;

use execbox_core::engine::{Engine, Outcome, Turn};
use execbox_core::program::{Limits, Program, Source};
use harness::{engine, turn};

/// A way to allocate: `make(size)` gives a value of about `size` bytes, which the engine counts as `least` × size to
/// `most` × size + `extra`, also while it is being made.
struct Kind {
    name: &'static str,
    make: &'static str,
    least: f64,
    most: f64,
    extra: f64,
}

const fn kind(name: &'static str, make: &'static str, least: f64, most: f64, extra: f64) -> Kind {
    Kind { name, make, least, most, extra }
}

const KINDS: &[Kind] = &[
    kind("strings", "size => 'x'.repeat(size)", 1.0, 1.125, 48.0),
    kind("wide strings", "size => '☺'.repeat(size / 2)", 0.9, 1.125, 48.0),
    kind(
        "ropes",
        "size => { let s = 'x'; while (s.length < size) s += 'some more text, ' + s.length; return s }",
        1.0,
        1.6,
        1400.0,
    ),
    kind(
        "flattened ropes",
        "size => { let s = 'x'; while (s.length < size) s += s + 'y'; s.charCodeAt(0); return s }",
        1.0,
        5.0,
        300.0,
    ),
    kind("parts of strings", "size => 'abcdefgh'.repeat(size / 8 + 1).slice(1, size + 1)", 0.8, 2.3, 200.0),
    kind("array literals", "size => Array.from({ length: size / 8 }, (_, i) => i)", 0.8, 2.0, 600.0),
    kind(
        "arrays that grow",
        "size => { const a = []; for (let i = 0; i < size / 8; i++) a.push(i); return a }",
        0.9,
        1.7,
        300.0,
    ),
    kind("typed arrays", "size => new Uint8Array(size)", 1.0, 1.125, 400.0),
    kind(
        "resized buffers",
        "size => { const b = new ArrayBuffer(size, { maxByteLength: 2 * size }); b.resize(2 * size); return b }",
        1.0,
        2.25,
        300.0,
    ),
    kind(
        "maps",
        "size => { const m = new Map(); for (let i = 0; i < size / 64; i++) m.set('k' + i, i); return m }",
        0.5,
        3.0,
        800.0,
    ),
    kind(
        "objects",
        "size => { const o = {}; for (let i = 0; i < size / 64; i++) o['k' + i] = i; return o }",
        0.15,
        6.0,
        800.0,
    ),
    kind(
        "lists of objects",
        "size => { let o = null; for (let i = 0; i < size / 64; i++) o = { o, i }; return o }",
        0.8,
        3.0,
        300.0,
    ),
    kind("closures", "size => Array.from({ length: size / 64 }, (_, i) => () => i)", 0.8, 5.0, 800.0),
    kind("regular expressions", "size => new RegExp('x'.repeat(size / 8))", 0.1, 4.0, 1200.0),
    kind(
        "bigints",
        "size => Array.from({ length: Math.ceil(size / 1e5) }, () => 1n << BigInt(Math.min(size, 1e5) * 8))",
        1.0,
        2.5,
        400.0,
    ),
    kind("JSON", "size => JSON.parse(JSON.stringify({ text: 'x'.repeat(size / 2), list: [size] }))", 0.4, 3.0, 1200.0),
];

/// Sizes from each of these to twice as much.
const SIZES: [u32; 8] = [8, 64, 400, 3_000, 24_000, 200_000, 1_000_000, 2_500_000];

/// The total size of the values that are kept at once.
const LIVE: u32 = 8_000_000;

fn run_ms() -> u64 {
    env::var("EXECBOX_ALLOCATION_MS").map_or(15, |ms| ms.parse().expect("EXECBOX_ALLOCATION_MS is a number"))
}

/// The result of the program, and its peak memory in bytes.
fn run(body: &str, limits: Limits) -> Result<(Vec<f64>, f64), Box<Outcome>> {
    let source = Source::Script { name: "<script>".into(), code: body.into() };
    let mut guest = engine().start(Program::new(source, Vec::new(), limits)).unwrap();
    match turn(&mut *guest) {
        Turn::Done(Outcome::Returned(value)) => {
            let numbers = value.to_json("result", 1 << 16).unwrap().unwrap();
            let numbers = numbers.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect();
            Ok((numbers, f64::from(u32::try_from(guest.peak_memory_bytes().unwrap()).unwrap())))
        }
        Turn::Done(other) => Err(Box::new(other)),
        Turn::Waiting => panic!("it waits for nothing"),
    }
}

/// Replaces values at random for `ms` milliseconds; returns how many were created, and the peak of their total size.
fn churn(make: &str, sizes: &str, slots: u32, ms: u64) -> String {
    format!(
        "const make = {make}; let seed = 1;
         const random = n => (seed = Math.imul(seed, 1103515245) + 12345 >>> 0, (seed >>> 4) % n);
         const live = Array({slots}), size_of = Array({slots}).fill(0), end = Date.now() + {ms};
         let in_use = 0, most = 0, made = 0;
         do {{
             const at = random({slots}), size = {sizes};
             in_use += size; most = Math.max(most, in_use);
             live[at] = make(size);
             in_use -= size_of[at]; size_of[at] = size; made++;
         }} while (Date.now() < end);
         live.length = 0;"
    )
}

#[test]
fn peak_memory_stays_within_what_the_values_need() {
    let limits = Limits::default().memory_bytes(128 << 20);
    let mut faults = Vec::new();
    for kind in KINDS {
        for size in SIZES {
            let slots = (LIVE / size).clamp(2, 500);
            let body = churn(kind.make, &format!("{size} + random({size})"), slots, run_ms());
            let (name, slots) = (kind.name, f64::from(slots));
            match run(&format!("{body} return [made, most]"), limits) {
                Ok((numbers, peak)) => {
                    let [made, most] = numbers[..] else { panic!("{numbers:?}") };
                    // A value that grows may take its size twice.
                    let making = f64::from(2 * size) * kind.most;
                    let bounds = (most - f64::from(2 * size)) * kind.least
                        ..most * kind.most + making + slots * (kind.extra + 32.0) + 10_000.0;
                    if !bounds.contains(&peak) {
                        faults
                            .push(format!("{name} of {size}: {peak} bytes in use, expected {bounds:?} ({made} made)"));
                    }
                }
                Err(outcome) => faults.push(format!("{name} of {size}: {outcome:?}")),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn freed_memory_is_reused() {
    let makes: Vec<_> = KINDS.iter().map(|kind| kind.make).collect();
    let make = format!("(makes => size => makes[random(makes.length)](size))([{}])", makes.join(", "));
    // Sizes of every order of magnitude, equally likely.
    let body = churn(&make, "1 << 3 + random(16)", 100, run_ms() * 4);
    let limits = Limits::default().memory_bytes(64 << 20);
    // Three quarters of the limit in one block, repeatedly, with fragmented memory in between.
    let body = format!("{body} for (let i = 0; i < 3; i++) new Uint8Array(48 << 20).fill(1); return [made]");
    let (numbers, peak) = run(&body, limits).unwrap_or_else(|outcome| panic!("{outcome:?}"));
    assert!(numbers[0] > 10.0 && peak > f64::from(48 << 20) && peak <= f64::from(64 << 20), "{numbers:?}, {peak}");
}

#[test]
fn the_memory_limit_holds_for_allocations_of_every_kind() {
    for kind in KINDS {
        let body = format!(
            "const make = {}; const all = []; for (let size = 64;; size = size * 5 % 300007) all.push(make(size))",
            kind.make
        );
        let outcome = run(&body, Limits::default().memory_bytes(8 << 20));
        assert_eq!(*outcome.unwrap_err(), Outcome::OutOfMemory, "{}", kind.name);
    }
}

/// Regression: the counted size of a block changed while it was in use, which was a trap.
#[test]
fn blocks_are_counted_with_the_same_size_when_allocated_and_freed() {
    for body in [
        "let s = ''; for (let i = 0; i < 200000; i++) s += 'xxxxxxxxxxxx'; return [s.length]",
        "let r = []; for (let i = 0; i < 20000; i++) r = JSON.parse(JSON.stringify({ a: 'q'.repeat(900 + i % 100), b: [1, 2, 3] })); return [r.b.length]",
        "let a = []; for (let k = 0; k < 20; k++) { a = []; for (let i = 0; i < 3000; i++) a.push({ k, i, s: 'v'.repeat(i % 700) }) } return [a.length]",
    ] {
        let (numbers, peak) = run(body, Limits::default()).unwrap_or_else(|outcome| panic!("{body}: {outcome:?}"));
        assert!(numbers[0] >= 3.0 && peak < f64::from(8 << 20), "{body}: {numbers:?}, {peak}");
    }
}

/// Regression: these made a property of each element, which takes three times the memory, and later accesses twice the time.
#[test]
fn arrays_stay_compact_when_elements_are_inserted_and_removed() {
    for change in [
        "a.splice(5, 1)",
        "a.splice(5, 3, 1)",
        "a.splice(-1)",
        "a.splice(5, 0, 1, 2)",
        "a.unshift(1, 2)",
        "delete a[a.length - 1]",
    ] {
        let body = format!("const a = Array.from({{ length: 5e5 }}, (_, i) => i); {change}; return [a.length]");
        let (numbers, peak) = run(&body, Limits::default()).unwrap_or_else(|outcome| panic!("{change}: {outcome:?}"));
        assert!(numbers[0] > 499_990.0 && peak < f64::from(10 << 20), "{change}: {numbers:?}, {peak}");
    }
}

/// Regression: appending and prepending took quadratic time, because every few dozen pieces rebalanced the whole rope.
#[test]
fn strings_grow_in_linear_time() {
    let limits = Limits::default().memory_bytes(256 << 20);
    for body in [
        "let s = ''; for (let i = 0; i < 60000; i++) s += 'x'.repeat(1000); return [s.length]",
        "let s = ''; for (let i = 0; i < 60000; i++) s = 'x'.repeat(1000) + s; return [s.length]",
        "let s = ''; const add = text => { s += text }; for (let i = 0; i < 60000; i++) add('x'.repeat(1000)); return [s.length]",
    ] {
        let started = std::time::Instant::now();
        let (numbers, _) = run(body, limits).unwrap_or_else(|outcome| panic!("{body}: {outcome:?}"));
        assert_eq!(numbers, [60e6], "{body}");
        assert!(started.elapsed().as_secs() < 5, "{body}: {:?}", started.elapsed());
    }
}

#[test]
fn ropes_equal_the_concatenation_of_their_pieces() {
    let body = "
        let seed = 7;
        const random = n => (seed = Math.imul(seed, 1103515245) + 12345 >>> 0, (seed >>> 4) % n);
        const kinds = ['a', 'bc', 'é', '☺', '😀', 'x'.repeat(100), 'y'.repeat(600), '☺'.repeat(600), 'z'.repeat(9000)];
        for (let round = 0; round < 60; round++) {
            const pieces = [], kept = []; let s = '';
            for (let i = 0; i < 400; i++) {
                const piece = kinds[random(round % 3 ? kinds.length : 5)] + i;
                if (random(5)) { pieces.push(piece); s += piece } else { pieces.unshift(piece); s = piece + s }
                if (random(50) === 0) kept.push([s, pieces.join('')]);
                if (random(90) === 0) s.charCodeAt(0);
                if (random(120) === 0) { pieces.push(...pieces); s += s }
                if (pieces.length > 4000) break;
            }
            kept.push([s, pieces.join('')]);
            for (const [made, expected] of kept) if (made !== expected || made.length !== expected.length) return [round, made.length, expected.length];
        }
        return []";
    assert_eq!(run(body, Limits::default().memory_bytes(256 << 20)).unwrap().0, [0.0; 0]);
}
