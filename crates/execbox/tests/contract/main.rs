//! The script contract on every executor: the cases in `*.cases`, one file per section of
//! the runner specification, and in `time.rs` tests that need a clock or a special host.
//!
//! Each case is a separate test on each executor: `cargo test --test contract -- worker` runs those of
//! the worker executor.

mod cases;
mod executors;
mod time;

use execbox::ExecuteRequest;
use libtest_mimic::{Arguments, Trial};

use cases::{Calls, Case, check, tools};
use executors::{Accepts, NamedExecutor, RUNTIME};

fn main() {
    execbox::serve_if_runner();
    let executors = executors::all();
    let mut trials = time::trials(&executors);
    let cases = cases::cases();
    for named in &executors {
        let before = trials.len();
        trials.extend(cases.iter().filter_map(|case| trial(named, case)));
        assert!(trials.len() - before >= 10, "too few cases for {}", named.name);
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial(named: &NamedExecutor, case: &Case) -> Option<Trial> {
    let code = match named.accepts {
        Accepts::JavaScript => case.code.clone(),
        Accepts::Moves => case.moves.clone()?,
    };
    let (named, case) = (named.clone(), case.clone());
    Some(Trial::test(format!("{} · {}", named.name, case.name), move || {
        let calls = Calls::default();
        let execution = ExecuteRequest::new(code).provider(tools(&calls)).limits(case.limits);
        let result = RUNTIME.block_on(named.executor.execute(execution));
        check(&case, &result, &calls).map_err(Into::into)
    }))
}
