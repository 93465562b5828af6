//! Good and hostile programs, and the expected ends of each.

use std::time::Duration;

use execbox::code::{CodeExecutionOptions, Status};
use execbox::{ErrorCode, ExecuteRequest, Executor, Limits, Provider, Tool, ToolError};
use serde_json::{Value as Json, json};

/// A program of the mix.
pub(super) struct Work {
    pub(super) name: &'static str,
    /// The relative frequency of the program.
    weight: u64,
    is_module: bool,
    source: &'static str,
    may_end: &'static [&'static str],
    /// The timeout in milliseconds. Short for programs that must be stopped.
    timeout: u64,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RequestEnd {
    AsExpected,
    /// A runner process was killed while it executed the program.
    Killed,
    Unexpected(&'static str),
}

const fn script(name: &'static str, weight: u64, source: &'static str, may_end: &'static [&'static str]) -> Work {
    Work { name, weight, is_module: false, source, may_end, timeout: 60_000 }
}

const fn stopped(name: &'static str, weight: u64, source: &'static str) -> Work {
    Work { name, weight, is_module: false, source, may_end: &["timeout", "memory_limit"], timeout: 5 }
}

const fn module(name: &'static str, weight: u64, source: &'static str, may_end: &'static [&'static str]) -> Work {
    Work { name, weight, is_module: true, source, may_end, timeout: 60_000 }
}

const WORK: &[Work] = &[
    // Good.
    script("1 + 1", 300, "1 + 1", &["ok"]),
    script("a call", 150, "(await tools.echo({ a: [1, 2, 3] })).a.length", &["ok"]),
    script("ten calls", 50, "(await Promise.all([1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(tools.echo))).length", &["ok"]),
    script(
        "TypeScript",
        80,
        "interface A { n: number }\nenum B { x = 1 }\nconst a: A = { n: B.x };\nconsole.log(a.n); a",
        &["ok"],
    ),
    script("a result of 20 kB", 40, "Array.from({ length: 2000 }, (_, i) => ({ i }))", &["ok"]),
    script("an answer of 200 kB", 20, "(await tools.big(200_000)).length", &["ok"]),
    module("a module", 60, "import { echo } from 'tools'; report(1); export default await echo({ n: 1 });", &["ok"]),
    // Failing.
    script("a thrown error", 60, "function f() { throw new TypeError('bad') } f()", &["runtime_error"]),
    script("a syntax error", 40, "const = 1", &["runtime_error"]),
    script("a failing tool", 40, "await tools.fail()", &["tool_error"]),
    script("an invalid input", 30, "await tools.strict({ id: 'x' })", &["validation_error"]),
    script("a result that is not JSON", 30, "new Map()", &["serialization_error"]),
    module("a missing module", 20, "import './nowhere.js'", &["link_error"]),
    // Hostile.
    stopped("an endless loop", 6, "for (;;) try { for (;;); } catch {}"),
    stopped("a regular expression", 4, "/^(a+)+$/.test('a'.repeat(40) + 'b')"),
    stopped("endless promises", 4, "const spin = () => Promise.resolve().then(spin); spin(); await tools.hang()"),
    stopped("a call that hangs", 4, "try { await tools.hang() } finally { for (;;); }"),
    stopped("a flood of lines", 4, "for (;;) console.log('x'.repeat(1000))"),
    stopped("a flood of calls", 4, "for (;;) tools.hang([1])"),
    stopped("a flood of answers", 3, "for (;;) { tools.big(100_000); await null }"),
    stopped("doubled inputs", 3, "let a = 0; for (let i = 0; i < 14; i++) a = [a, a]; for (;;) tools.hang(a)"),
    stopped("growing memory", 4, "const a = []; for (;;) a.push('x'.repeat(1000) + a.length)"),
    script("memory at once", 10, "new Array(3e6).fill(0).map(x => ({ x }))", &["memory_limit"]),
    script("recursion", 10, "const f = () => f() + 1; f()", &["runtime_error"]),
    script(
        "a doubled result",
        6,
        "let a = []; for (let i = 0; i < 40; i++) a = [a, a]; a",
        &["serialization_error", "memory_limit"],
    ),
    script("a forged timeout", 10, "throw { code: 'timeout', message: 'Execution timed out' }", &["runtime_error"]),
    script("a doubling enum", 6, "enum A { a = 'x', b = a + a, c = b + b, d = c + c, e = d + d } A.e.length", &["ok"]),
    script(
        "deep nesting",
        6,
        "let a = 0; for (let i = 0; i < 5000; i++) a = [a]; await tools.echo(a)",
        &["serialization_error"],
    ),
    script(
        "pending calls at the end",
        20,
        "for (let i = 0; i < 50; i++) tools.hang(i); throw 'over'",
        &["runtime_error"],
    ),
];

impl Work {
    /// Chooses one of the programs at random.
    pub(super) fn choose(random: &mut Random) -> &'static Self {
        let mut at = random.next() % WORK.iter().map(|work| work.weight).sum::<u64>();
        let chosen = WORK.iter().find(|work| {
            let is_here = at < work.weight;
            at = at.saturating_sub(work.weight);
            is_here
        });
        chosen.unwrap_or(&WORK[0])
    }

    /// Executes the program. With `may_be_killed`, an internal error counts as the effect of a killed runner process.
    pub(super) async fn execute(&self, executor: &dyn Executor, may_be_killed: bool) -> RequestEnd {
        let limits = Limits::default().timeout(Duration::from_millis(self.timeout)).memory_bytes(16 << 20);
        let end = if self.is_module {
            let options = CodeExecutionOptions::new().limits(limits).provider(tools()).on_report(|_| {});
            let ended = executor.run_code(self.source, options).await;
            match ended.status {
                _ if ended.error.is_some_and(|error| error.is_internal) => ErrorCode::InternalError.as_str(),
                Status::Success => "ok",
                status => status.as_str(),
            }
        } else {
            let request = ExecuteRequest::new(self.source).limits(limits).provider(tools()).on_log(|_| {});
            executor.execute(request).await.error().map_or("ok", |error| error.code.as_str())
        };
        if self.may_end.contains(&end) {
            RequestEnd::AsExpected
        } else if may_be_killed && end == ErrorCode::InternalError.as_str() {
            RequestEnd::Killed
        } else {
            RequestEnd::Unexpected(end)
        }
    }
}

fn tools() -> Provider {
    static TOOLS: std::sync::LazyLock<Provider> = std::sync::LazyLock::new(|| {
        let schema = json!({ "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] });
        let big = async |input: Json, _| {
            let length = input.as_u64().and_then(|length| usize::try_from(length).ok()).unwrap_or_default();
            Ok(json!("x".repeat(length.min(1 << 20))))
        };
        let tools = [
            Tool::new("echo", async |input: Json, _| Ok(input)),
            Tool::new("big", big),
            Tool::new("fail", async |_: Json, _| Err::<Json, _>(ToolError::new("the disk is full"))),
            Tool::new("hang", async |_: Json, _| std::future::pending::<Result<Json, ToolError>>().await),
            Tool::new("strict", async |input: Json, _| Ok(input)).input_schema(schema),
        ];
        Provider::builder("tools").tools(tools).build().expect("distinct names and a valid schema")
    });
    TOOLS.clone()
}

/// Pseudo-random numbers (SplitMix64): a soak with the same seed chooses the same programs.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
