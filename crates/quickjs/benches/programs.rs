//! The cost of programs in the guest: time, peak bytes in use and peak resident memory of programs that compute or allocate.
//!
//! `cargo bench -p execbox-quickjs --bench programs` prints a table; `-- TEXT…` only the rows whose name contains one of
//! the texts. Results vary with the load of the machine. To compare two guests (allocators, options of compilers), build
//! this program with each of them, and run the two alternately.

use std::fs;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use execbox_core::engine::{Engine, Outcome, Turn};
use execbox_core::program::{Limits, Program, Source};
use execbox_quickjs::QuickJs;

/// Name, runs, program.
const PROGRAMS: &[(&str, usize, &str)] = &[
    ("1 + 1", 5000, "return 1 + 1"),
    ("fib(25)", 7, "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) } return fib(25)"),
    ("loop: 5e6 additions", 5, "let s = 0; for (let i = 0; i < 5e6; i++) s += i; return s"),
    (
        "loop: 2e6 in numbers with fractions",
        5,
        "let x = 0.5; for (let i = 0; i < 2e6; i++) x = x * 1.0000001 + 0.25 / (1 + x); return x",
    ),
    (
        "object: 1e6 reads and writes of fields",
        5,
        "const p = { x: 1, y: 2, z: 3 }; for (let i = 0; i < 1e6; i++) { p.x += p.y; p.z = p.x } return p.z",
    ),
    (
        "call: 1e6 of methods and closures",
        5,
        "class A { constructor() { this.n = 0 } add(k) { this.n += k; return this } } const a = new A(); const f = k => a.add(k); \
         for (let i = 0; i < 5e5; i++) f(i); return a.n",
    ),
    (
        "array: sieve of 1e6",
        5,
        "const n = 1e6, s = new Uint8Array(n + 1); let c = 0; for (let i = 2; i <= n; i++) { if (s[i]) continue; c++; \
         for (let k = i * 2; k <= n; k += i) s[k] = 1 } return c",
    ),
    (
        "array: map, filter, reduce of 3e5",
        5,
        "const a = Array.from({ length: 3e5 }, (_, i) => i); return a.map(x => x * 3).filter(x => x % 2).reduce((x, y) => x + y, 0)",
    ),
    (
        "array: sort of 1e5 by a function",
        5,
        "let x = 1; const a = []; for (let i = 0; i < 1e5; i++) a.push(x = x * 1103515245 + 12345 & 0x7fffffff); a.sort((p, q) => p - q); return a[0]",
    ),
    (
        "regular expression: 1e5 lines",
        5,
        "let n = 0; for (let i = 0; i < 1e5; i++) n += /^(\\w+)-(\\d+):\\s*(.*)$/.exec(`item-${i}: some text`)[2].length; return n",
    ),
    (
        "string: 1 MB, each character",
        5,
        "const s = 'abcdefghij'.repeat(1e5); let h = 0; for (let i = 0; i < s.length; i++) h = (h * 31 + s.charCodeAt(i)) | 0; return h",
    ),
    (
        "string: 1e6 times 12 characters",
        7,
        "let s = ''; for (let i = 0; i < 1e6; i++) s += 'xxxxxxxxxxxx'; return s.length",
    ),
    (
        "string: 60 000 times 1 000",
        3,
        "let s = ''; for (let i = 0; i < 60000; i++) s += 'x'.repeat(1000); return s.length",
    ),
    (
        "string: 100 000 lines, read",
        5,
        "let s = ''; for (let i = 0; i < 1e5; i++) s += `line ${i}\\n`; return s.split('\\n').length",
    ),
    (
        "string: join of 300 000",
        5,
        "const a = []; for (let i = 0; i < 3e5; i++) a.push('item ' + i); return a.join().length",
    ),
    (
        "JSON: 1 MB both ways",
        7,
        "const a = []; for (let i = 0; i < 9000; i++) a.push({ id: i, name: 'item ' + i, tags: ['a', 'b'], v: i * 1.5, ok: true, \
         nested: { x: i, y: null, z: 'some text here' } }); return JSON.parse(JSON.stringify(a)).length",
    ),
    (
        "JSON: 1 KB, 50 000 times",
        5,
        "let r; for (let i = 0; i < 5e4; i++) r = JSON.parse(JSON.stringify({ a: 'q'.repeat(900 + i % 100), b: [1, 2, 3] })); \
         return r.b.length",
    ),
    ("array: 2e6 pushes", 5, "const a = []; for (let i = 0; i < 2e6; i++) a.push(i); return a.length"),
    (
        "array: 200 of 3 000 objects with strings",
        5,
        "let a; for (let k = 0; k < 200; k++) { a = []; for (let i = 0; i < 3000; i++) a.push({ k, i, s: 'v'.repeat(i % 700) }) } \
         return a.length",
    ),
    (
        "map: 200 000 entries, then deleted",
        5,
        "const m = new Map(); for (let i = 0; i < 2e5; i++) m.set('k' + i, { i }); for (const k of m.keys()) m.delete(k); return m.size",
    ),
    (
        "map: 100 000 look-ups of 1 500 numbers",
        5,
        "const m = new Map(); for (let i = 0; i < 1500; i++) m.set(i, i); let n = 0; for (let i = 0; i < 1e5; i++) n += m.has(i % 3000); return n",
    ),
    (
        "map: 100 000 objects, multiples of 1 024, bigints",
        5,
        "const m = new Map(); for (let i = 0; i < 1e5; i++) m.set({}, i).set(i * 1024, i).set(BigInt(i), i); return m.size",
    ),
    (
        "array: 200 000 rows, spliced by 1 000",
        5,
        "const a = Array.from({ length: 2e5 }, (_, i) => i); let n = 0; while (a.length) n += a.splice(0, 1000).length; return n",
    ),
    (
        "array: 10 000 elements, spliced in and out",
        3,
        "const a = Array.from({ length: 1e4 }, (_, i) => i); for (let i = 0; i < 1e4; i++) { a.splice(i, 0, i, i); a.splice(i + 1, 1) } return a.length",
    ),
    (
        "array: 5 000 times unshift of 3",
        3,
        "const a = []; for (let i = 0; i < 5000; i++) a.unshift(i, i, i); return a.length",
    ),
    (
        "string: 150 KB searched 100 times",
        5,
        "const s = 'abc'.repeat(5e4) + 'needle'; let n = 0; for (let i = 0; i < 100; i++) n += s.indexOf('needle') + s.includes('no'); return n",
    ),
    (
        "object: 100 000 keys",
        5,
        "const o = {}; for (let i = 0; i < 1e5; i++) o['k' + i] = i; return Object.keys(o).length",
    ),
    (
        "churn: blocks of 1 B to 64 KB at random",
        5,
        "let x = 1; const r = n => (x = x * 1103515245 + 12345 & 0x7fffffff) % n; const live = []; let n = 0; \
         for (let i = 0; i < 2e5; i++) { const len = 1 << r(17); live[r(512)] = i % 3 ? 'y'.repeat(len) : new Uint8Array(len); n += len } return n",
    ),
    (
        "churn: arrays that grow beside each other",
        5,
        "let n = 0; for (let k = 0; k < 20; k++) { const a = Array.from({ length: 50 }, () => []); for (let i = 0; i < 1e5; i++) a[i % 50].push(i); n += a.length } return n",
    ),
];

const MEMORY: u64 = 256 << 20;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let engine = QuickJs::shared().expect("the engine loads");
    println!("{:45} {:>10} {:>10} {:>12} {:>12}", "", "median", "least", "in use", "resident");
    for (name, runs, body) in PROGRAMS {
        if !words.is_empty() && !words.iter().any(|word| name.contains(word)) {
            continue;
        }
        let (mut taken, mut in_use, mut resident) = (Vec::new(), 0, 0);
        for _ in 0..*runs {
            let before = forget_peak();
            let started = Instant::now();
            in_use = run(&engine, body);
            taken.push(started.elapsed());
            resident = resident_peak().saturating_sub(before);
        }
        taken.sort();
        println!("{name:45} {:>10} {:>10} {in_use:>8} KiB {resident:>8} KiB", show(taken[runs / 2]), show(taken[0]));
    }
}

fn show(time: Duration) -> String {
    format!("{time:.1?}")
}

/// Runs a program to its end, and returns its peak memory in KiB.
fn run(engine: &QuickJs, body: &str) -> u64 {
    let source = Source::Script { name: "<script>".into(), code: body.into() };
    let limits = Limits::default().memory_bytes(MEMORY);
    let mut guest = engine.start(Program::new(source, Vec::new(), limits)).expect("there is room");
    let turn = loop {
        if let Poll::Ready(turn) = guest.poll_turn(&mut Context::from_waker(Waker::noop())) {
            break turn;
        }
    };
    match turn {
        Turn::Done(Outcome::Returned(_)) => guest.peak_memory_bytes().unwrap_or(0) >> 10,
        other => {
            println!("{other:?}");
            0
        }
    }
}

/// Resets the peak of resident memory, where the system can, and returns the resident memory in KiB.
fn forget_peak() -> u64 {
    let _ = fs::write("/proc/self/clear_refs", "5");
    status("VmRSS:")
}

fn resident_peak() -> u64 {
    status("VmHWM:")
}

fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(0)
}
