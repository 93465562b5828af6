//! The hostile programs and peers in the directories beside this file, against the executors and the binary.
//!
//! Every case is a test: `cargo test --test attacks -- limits/regex` runs those of one file. Each attack meets a process of
//! its own, whose memory and processor time are measured: see `measure.rs`, and `report.rs` for the bounds.

mod case;
mod expand;
mod guest;
mod host;
mod measure;
mod peer;
mod peers;
mod report;
mod site;
#[path = "../support/mod.rs"]
mod support;

use libtest_mimic::{Arguments, Failed, Trial};

use case::{Case, Place};
use report::Figures;

/// The binary under test.
const EXECBOX: &str = env!("CARGO_BIN_EXE_execbox");

/// The directories with hostile guests.
const GUESTS: [&str; 6] = ["realm", "limits", "forged-trust", "floods", "amplification", "source"];

/// The resources that an attack used, and the bounds and expectations that it violated.
type Ended = (Figures, Vec<String>);

fn main() {
    execbox_measure::allocator::return_memory_soon();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == host::HOST) {
        return host::main(&arguments[1..]);
    }
    if arguments.first().is_some_and(|first| first == peers::SERVER) {
        return peers::server_main(&arguments[1..]);
    }
    let mut arguments = Arguments::from_args();
    // Most attacks wait for a timeout or for another process. Each measures its own processes only.
    arguments.test_threads.get_or_insert(execbox_testkit::threads(3));
    // The parts that peers attack are the same with each engine.
    let peers: &[_] = if case::is_v8() { &[] } else { &case::PEERS };
    let trials: Vec<Trial> = GUESTS.iter().chain(peers).flat_map(|group| trials(group)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        eprintln!("\n{}", report::table());
    }
    conclusion.exit();
}

/// The cases in a directory.
fn trials(group: &'static str) -> Vec<Trial> {
    let mut trials = Vec::new();
    for file in case::files(group) {
        for (number, text) in file.cases.iter().enumerate() {
            let case = case::read(group, &file, text);
            let place = Place { path: file.path.clone(), number };
            trials.push(Trial::test(case.name.clone(), move || test(group, &place, &case)));
        }
    }
    trials
}

/// Runs a case on its executors, or against the binary. A violation counts only if it occurs twice, because measurements are
/// noisy on a busy machine: the second time, the executor has a host of its own.
fn attack(group: &'static str, place: &Place, case: &Case) -> Vec<(&'static str, Ended)> {
    let again = |ended: Ended, attack: &dyn Fn() -> Ended| if ended.1.is_empty() { ended } else { attack() };
    if case::PEERS.contains(&group) {
        let attack = || peers::run(group, place, case);
        return vec![(group, again(attack(), &attack))];
    }
    let run = |executors: &[&str]| guest::run(group, place, case, executors);
    let ends = case.executors.iter().zip(run(&case.executors));
    ends.map(|(executor, ended)| (*executor, again(ended, &|| run(&[*executor]).remove(0)))).collect()
}

/// Runs a case and fails if it violates anything.
fn test(group: &'static str, place: &Place, case: &Case) -> Result<(), Failed> {
    let (mut figures, mut failed) = (Vec::new(), Vec::new());
    for (executor, (used, violations)) in attack(group, place, case) {
        figures.push((used, violations.is_empty()));
        failed.extend(violations.into_iter().map(|violation| format!("{executor}: {violation}")));
    }
    report::add(group, &case.name, &case.bounds, &figures);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
}
