//! The module contract (code-execution specification), on every executor.
//!
//! - `*.cases`, one file per section of the specification: results of runs. `cases.rs` documents the format.
//! - `failures/*.cases` and the snapshots beside them: the whole error of every kind of failure.
//! - `handle.rs`: §2.2, the handle of a run. `handles.rs`: functions and promises by numbers. `values.rs`: §3.5, random values. `options.rs`: §3, options as data.
//!
//! Each case is a separate test on each executor: `cargo test --test code -- worker` runs those of the worker executor.

mod cases;
#[path = "../contract/executors.rs"]
mod executors;
mod failures;
mod handle;
mod handles;
mod host;
mod options;
mod values;

use std::sync::Arc;

use execbox::Executor;
use libtest_mimic::{Arguments, Trial};

use executors::{Accepts, NamedExecutor};

/// A test of one executor.
type Test = fn(&Arc<dyn Executor>);

fn main() {
    execbox::serve_if_runner();
    let executors = executors::all();
    let tests = [handle::TESTS, handles::TESTS, values::TESTS].concat();
    let mut trials = options::trials();
    for named in executors.iter().filter(|named| named.accepts == Accepts::JavaScript) {
        let engine = named.engine;
        trials.extend(
            cases::cases("tests/code", engine)
                .into_iter()
                .map(|case| trial(named, &case.name.clone(), move |executor| case.check(executor))),
        );
        let failures = cases::cases("tests/code/failures", engine);
        trials.extend(failures::files(&failures).into_iter().map(|(file, cases)| {
            let name = format!("failures: {file}");
            trial(named, &name, move |executor| failures::check(executor, engine, &file, &cases))
        }));
        trials.extend(tests.iter().map(|(name, test)| trial(named, name, *test)));
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(execbox_testkit::threads(8));
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(named: &NamedExecutor, name: &str, test: impl FnOnce(&Arc<dyn Executor>) + Send + 'static) -> Trial {
    let executor = Arc::clone(&named.executor);
    Trial::test(format!("{} · {name}", named.name), move || {
        test(&executor);
        Ok(())
    })
}
