//! One engine for all tests, and a minimal driver.

#![allow(dead_code)] // each test crate uses its part

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use execbox_core::engine::{Call, Engine, Event, Guest, Outcome, Turn};
use execbox_core::program::{Limits, Module, Modules, Program, Source};
use execbox_core::value::{FunctionKind, Graph, Value};
use execbox_quickjs::QuickJs;
use serde_json::{Value as Json, json};

pub(crate) const BUDGET: usize = 1 << 30;

pub(crate) fn engine() -> &'static QuickJs {
    static ENGINE: std::sync::OnceLock<QuickJs> = std::sync::OnceLock::new();
    ENGINE.get_or_init(|| QuickJs::new().unwrap())
}

/// Polls until the guest waits or ends.
pub(crate) fn turn(guest: &mut dyn Guest) -> Turn {
    loop {
        if let Poll::Ready(turn) = guest.poll_turn(&mut Context::from_waker(Waker::noop())) {
            return turn;
        }
    }
}

pub(crate) fn events(guest: &mut dyn Guest) -> Vec<Event> {
    let mut events = Vec::new();
    guest.take_events(&mut events);
    events
}

// ---- Programs of modules -------------------------------------------------------------------------

/// A value from tagged JSON.
pub(crate) fn value(json: &Json) -> Value {
    Graph::from_tagged_json(json, "value").unwrap().to_value("value").unwrap()
}

/// A value as tagged JSON.
pub(crate) fn tagged(value: &Value) -> Json {
    value.to_graph("value", BUDGET).unwrap().to_tagged_json("value", 1 << 30).unwrap()
}

/// The host functions of the module `host`: calls of `later` and `now` are answered, those of `tell` and `log` are not.
pub(crate) fn host() -> Module {
    let mut graph = Graph::default();
    let kinds = [FunctionKind::Async, FunctionKind::Sync, FunctionKind::Notify, FunctionKind::Log];
    let names = ["later", "now", "tell", "log"];
    let members: Vec<_> =
        (0..).zip(kinds).zip(names).map(|((number, kind), name)| (name, graph.function(number, kind, name))).collect();
    let root = graph.object(members);
    graph.set_root(root);
    Module::synthetic("host", graph.to_value("host").unwrap())
}

/// A program of one module `main`, with `others`.
pub(crate) fn program(code: &str, others: Vec<Module>) -> Program {
    let mut modules = vec![Module::source("main", code), host()];
    modules.extend(others);
    let modules = Modules { entry: "main".into(), modules, export: "default".into(), args: value(&json!([])) };
    Program::new(Source::Modules(modules), Vec::new(), Limits::default())
}

pub(crate) fn modules(program: &mut Program) -> &mut Modules {
    let Source::Modules(modules) = &mut program.source else { unreachable!() };
    modules
}

/// Runs a program to its end; `host` answers calls.
pub(crate) fn run_with(program: Program, mut host: impl FnMut(&mut dyn Guest, Call)) -> (Outcome, Vec<Event>) {
    let mut guest = engine().start(program).unwrap();
    let mut notifications = Vec::new();
    loop {
        let turn = turn(&mut *guest);
        let mut moved = false;
        for event in events(&mut *guest) {
            match event {
                Event::Call(call) => {
                    moved = true;
                    host(&mut *guest, call);
                }
                other => notifications.push(other),
            }
        }
        match turn {
            Turn::Done(outcome) => return (outcome, notifications),
            Turn::Waiting => assert!(moved, "the program waits for nothing"),
        }
    }
}

/// Runs a program without calls.
pub(crate) fn run(program: Program) -> Outcome {
    run_with(program, |_, call| panic!("{call:?}")).0
}

pub(crate) fn outcome(code: &str) -> Outcome {
    run(program(code, vec![]))
}

/// The default export of `code`, as tagged JSON.
pub(crate) fn result(code: &str) -> Json {
    returned(outcome(code))
}

#[track_caller]
pub(crate) fn returned(outcome: Outcome) -> Json {
    match outcome {
        Outcome::Returned(value) => tagged(&value),
        other => panic!("{other:?}"),
    }
}

/// Name and message of what `code` throws.
#[track_caller]
pub(crate) fn thrown(outcome: Outcome) -> String {
    match outcome {
        Outcome::Threw(thrown) => format!("{}: {}", thrown.name, thrown.message),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn module(name: &str, code: &str) -> Module {
    Module::source(Arc::from(name), code)
}
