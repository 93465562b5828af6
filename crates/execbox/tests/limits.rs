//! Limits that are set one by one replace those that are set together, in any order.

use std::future::pending;
use std::time::Duration;

use execbox::code::{CodeExecutionOptions, HostValue};
use execbox::{ExecuteRequest, Executor, InlineExecutor, Limits, Provider, Tool};

const SECOND: Duration = Duration::from_secs(1);

/// Limits that differ from the defaults, and from those that the tests set alone.
fn together() -> Limits {
    Limits::default().timeout(7 * SECOND).cpu_time(3 * SECOND).memory_bytes(32 << 20).max_calls(9).max_log_lines(7)
}

/// A limit that is set alone, before the limits that are set together, and after them.
macro_rules! orders {
    ($new:expr, $($set:tt)+) => {
        [$new.$($set)+, $new.$($set)+.limits(together()), $new.limits(together()).$($set)+]
    };
}

fn script(code: &str) -> ExecuteRequest {
    let never = Tool::new("never", async |_, _| pending().await);
    let now = Tool::new("now", async |input, _| Ok(input));
    ExecuteRequest::new(code).provider(Provider::builder("tools").tools([never, now]).build().unwrap())
}

/// Executes a script. Returns the message of its error, and its log.
async fn execute(request: ExecuteRequest) -> (String, Vec<String>) {
    let result = InlineExecutor::new().unwrap().execute(request).await;
    (result.outcome.err().map_or_else(String::new, |error| error.message), result.logs)
}

fn options() -> CodeExecutionOptions {
    CodeExecutionOptions::new()
        .global("never", HostValue::promise(pending()))
        .global("now", HostValue::function("now", |_| Ok(HostValue::from(1.0))))
}

/// Runs a module. Returns the message of its error, and the number of its log lines.
async fn run(source: &str, options: CodeExecutionOptions) -> (String, usize) {
    let result = InlineExecutor::new().unwrap().run_code(source, options).await;
    (result.error.map_or_else(String::new, |error| error.message), result.logs.len())
}

#[tokio::test(start_paused = true)]
async fn a_timeout_that_is_set_alone_applies_in_any_order() {
    for request in orders!(script("await tools.never()"), timeout(2 * SECOND)) {
        let message = execute(request).await.0;
        assert_eq!(message, "Execution timed out after 2000 ms; tools.never has not answered for 2000 ms");
    }
    for options in orders!(options(), timeout(2 * SECOND)) {
        assert_eq!(run("await never", options).await.0, "The run was stopped by the safety cap of 2 s");
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_limits_that_are_set_together_applies_unless_it_is_set_alone() {
    let request = script("await tools.never()").limits(together()).memory_bytes(16 << 20);
    let message = execute(request).await.0;
    assert_eq!(message, "Execution timed out after 7000 ms; tools.never has not answered for 7000 ms");
    for (options, seconds) in [
        (options().memory_bytes(16 << 20), 300),
        (options().limits(CodeExecutionOptions::default_limits()), 300),
        (options().limits(together()).memory_bytes(16 << 20), 7),
        (options().limits(Limits::default()), 5),
    ] {
        let message = format!("The run was stopped by the safety cap of {seconds} s");
        assert_eq!(run("await never", options).await.0, message);
    }
}

#[tokio::test]
async fn other_limits_that_are_set_alone_apply_in_any_order() {
    const TICK: Duration = Duration::from_millis(20);
    const GROW: &str = "const all = []; for (;;) all.push(new Array(1000).fill(all.length));";
    const LOG: &str = "for (let i = 0; i < 20; i++) console.log(i);";
    let messages = [
        (orders!(script("for (;;);"), cpu_time(TICK)), "its limit is 20 ms: "),
        (orders!(script(GROW), memory_bytes(2 << 20)), "memory limit of 2 MiB"),
        (orders!(script("for (;;) await tools.now(1)"), max_calls(2)), "its limit is 2: "),
    ];
    for (request, expected) in messages.into_iter().flat_map(|(requests, text)| requests.map(|one| (one, text))) {
        let message = execute(request).await.0;
        assert!(message.contains(expected), "{expected}: {message}");
    }
    for request in orders!(script(LOG), max_log_lines(3)) {
        assert_eq!(execute(request).await.1, ["0", "1", "2"]);
    }

    let messages = [
        ("for (;;);", orders!(options(), cpu_time(TICK)), "its limit is 20 ms: "),
        (GROW, orders!(options(), memory_bytes(2 << 20)), "memory limit of 2 MiB"),
        ("for (;;) now()", orders!(options(), max_calls(2)), "its limit is 2: "),
    ];
    for (source, all, expected) in messages {
        for options in all {
            let message = run(source, options).await.0;
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }
    for options in orders!(options(), max_log_lines(3)) {
        assert_eq!(run(&format!("{LOG} export default 1"), options).await, (String::new(), 3));
    }
}
