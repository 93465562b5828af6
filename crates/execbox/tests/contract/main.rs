//! The script contract on every executor: the cases in `*.cases`, one file per section of the runner specification, in
//! `time.rs` tests that need a clock or a special host, in `approvals.rs` those of policies, and in `events.rs` those of
//! observers.
//!
//! Each case is a separate test on each executor: `cargo test --test contract -- worker` runs those of
//! the worker executor.

mod approvals;
mod cases;
mod events;
mod executors;
mod time;

use std::sync::Arc;

use execbox::{ExecuteRequest, Executor};
use libtest_mimic::{Arguments, Trial};

use cases::{Calls, Case, check, tools};
use executors::{Accepts, NamedExecutor, RUNTIME};

fn main() {
    execbox::serve_if_runner();
    let executors = executors::all();
    let mut trials = time::trials(&executors);
    trials.extend(approvals::trials(&executors));
    trials.extend(events::trials(&executors));
    for named in &executors {
        let before = trials.len();
        trials.extend(cases::cases(named.engine).iter().filter_map(|case| trial(named, case)));
        assert!(trials.len() - before >= 10, "too few cases for {}", named.name);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(execbox_testkit::threads(8));
    libtest_mimic::run(&arguments, trials).exit();
}

/// A test that runs on each executor.
type Test = fn(&Arc<dyn Executor>, Accepts);

/// Each of these tests on each executor.
fn trials(executors: &[NamedExecutor], tests: &[(&str, Test)]) -> Vec<Trial> {
    let trials = executors.iter().flat_map(|named| {
        tests.iter().map(|&(name, test)| {
            let (executor, accepts) = (Arc::clone(&named.executor), named.accepts);
            Trial::test(format!("{} · {name}", named.name), move || {
                test(&executor, accepts);
                Ok(())
            })
        })
    });
    trials.collect()
}

fn trial(named: &NamedExecutor, case: &Case) -> Option<Trial> {
    let code = match named.accepts {
        Accepts::JavaScript => case.code.clone(),
        Accepts::Moves => case.moves.clone()?,
    };
    let (named, case) = (named.clone(), case.clone());
    Some(Trial::test(format!("{} · {}", named.name, case.name), move || {
        let calls = Calls::default();
        let execution = ExecuteRequest::new(code).functions(case.functions.clone()).wait_for_calls(case.waits);
        let execution = execution.timers(case.timers).common_globals(case.globals);
        let execution = execution.provider(tools(&calls)).limits(case.limits);
        let result = RUNTIME.block_on(named.executor.execute(execution));
        check(&case, &result, &calls).map_err(Into::into)
    }))
}
