//! The script contract, over every engine behind every wall: the cases in `*.cases`, one file per section of
//! the runner specification, and in `time.rs` what needs a clock or a host of its own.
//!
//! Every case behind every wall is a test of its own: `cargo test --test contract -- worker` runs those of
//! the worker executor.

mod cases;
mod time;
mod walls;

use execbox::ExecuteRequest;
use libtest_mimic::{Arguments, Trial};

use cases::{Calls, Case, check, tools};
use walls::{RUNTIME, Speaks, Wall};

fn main() {
    execbox::serve_if_runner();
    let walls = walls::walls();
    let mut trials = time::trials(&walls);
    let cases = cases::cases();
    for wall in &walls {
        let before = trials.len();
        trials.extend(cases.iter().filter_map(|case| trial(wall, case)));
        assert!(trials.len() - before >= 10, "hardly a case can be told to {}", wall.name);
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn trial(wall: &Wall, case: &Case) -> Option<Trial> {
    let code = match wall.speaks {
        Speaks::JavaScript => case.code.clone(),
        Speaks::Moves => case.moves.clone()?,
    };
    let (wall, case) = (wall.clone(), case.clone());
    Some(Trial::test(format!("{} · {}", wall.name, case.name), move || {
        let calls = Calls::default();
        let execution = ExecuteRequest::new(code).provider(tools(&calls)).limits(case.limits);
        let result = RUNTIME.block_on(wall.executor.execute(execution));
        check(&case, &result, &calls).map_err(Into::into)
    }))
}
