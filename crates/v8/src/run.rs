//! The state that the callbacks of an isolate share while its program runs.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use execbox_core::engine::Outcome;
use execbox_core::language::{Code, Position, Shift};
use execbox_core::program::{ModuleBody, Program, Source};
use execbox_core::stack::Files;
use nix::time::{ClockId, clock_gettime};
use v8::{Function, Global, Isolate, Object, PromiseResolver, UnsafeRawIsolatePtr, Value};

use crate::functions::{NumberedNamespace, Slots};
use crate::libraries::Objects;
use crate::memory::Memory;
use crate::modules::{Graph, Import};
use crate::realm::Realm;
use crate::rejections::Rejections;
use crate::shared::{Shared, Used};
use crate::ticker::Watch;

/// Which timers are due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TimersDue {
    #[default]
    None,
    /// The first one, as the host has woken the program.
    First,
    /// Perhaps further ones.
    More,
}

/// The state of one program, in a slot of its isolate.
pub(crate) struct Run {
    pub(crate) shared: Arc<Shared>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) watch: Watch,
    pub(crate) realm: Realm,
    pub(crate) files: Files,
    shifts: HashMap<String, Vec<Shift>>,
    /// Whether the program consists of modules: values of every kind cross, and there is no built-in console.
    pub(crate) has_modules: bool,
    /// See [`Program::waits_for_calls`].
    pub(crate) waits_for_calls: bool,
    /// The number of UTF-16 units of logs that the host still keeps.
    pub(crate) log_units: Cell<usize>,
    pub(crate) slots: RefCell<Slots>,
    pub(crate) libraries: RefCell<Objects>,
    /// Timers are due: the host has woken the program, or not all have been called since.
    pub(crate) timers: Cell<TimersDue>,
    /// The namespaces of a script.
    pub(crate) namespaces: RefCell<Vec<NumberedNamespace>>,
    pub(crate) made_namespaces: RefCell<HashMap<u32, Global<Object>>>,
    /// The functions of a script that were read, by their number.
    pub(crate) made_functions: RefCell<HashMap<u32, Global<Function>>>,
    /// Promises of the host that are not settled, by number.
    pub(crate) host_promises: RefCell<HashMap<u32, Global<PromiseResolver>>>,
    pub(crate) rejections: RefCell<Rejections>,
    /// The last thrown value that is not an error, and its stack.
    pub(crate) last_thrown: RefCell<Option<(Global<Value>, String)>>,
    pub(crate) graph: RefCell<Graph>,
    pub(crate) imports: RefCell<Vec<Import>>,
    /// The calls that the program did not await are reported.
    pub(crate) has_reported: Cell<bool>,
    /// Set when the promise of the current step is settled.
    pub(crate) settled: Cell<bool>,
    end: RefCell<Option<Outcome>>,
    /// The CPU time of this thread when the program began.
    began: Duration,
    /// The maximum size of one message to the host, in bytes.
    pub(crate) max_message: usize,
}

impl Run {
    pub(crate) fn new(program: &Program, shared: Arc<Shared>, memory: Arc<Memory>, watch: Watch, realm: Realm) -> Self {
        let mut shifts = HashMap::new();
        let mut add = |name: &str, code: &Code| {
            if !code.shifts.is_empty() {
                shifts.insert(name.to_owned(), code.shifts.clone());
            }
        };
        for function in program.namespaces.iter().flat_map(|namespace| &namespace.own) {
            add(&function.file, &function.code);
        }
        match &program.source {
            Source::Script { name, code } => add(name, code),
            Source::Modules(modules) => {
                for module in &modules.modules {
                    if let ModuleBody::Source(code) = &module.body {
                        add(&module.name, code);
                    }
                }
            }
            _ => {}
        }
        let limit = program.limits.memory_len();
        let log_units = shared.lock().mailbox.log_units_left();
        Self {
            shared,
            memory,
            watch,
            realm,
            files: Files::of(program),
            shifts,
            has_modules: matches!(program.source, Source::Modules(_)),
            waits_for_calls: program.waits_for_calls,
            log_units: Cell::new(log_units),
            slots: RefCell::default(),
            libraries: RefCell::default(),
            timers: Cell::default(),
            namespaces: RefCell::default(),
            made_namespaces: RefCell::default(),
            made_functions: RefCell::default(),
            host_promises: RefCell::default(),
            rejections: RefCell::default(),
            last_thrown: RefCell::default(),
            graph: RefCell::default(),
            imports: RefCell::default(),
            has_reported: Cell::new(false),
            settled: Cell::new(false),
            end: RefCell::default(),
            began: thread_cpu_time(),
            max_message: limit.saturating_add(limit / 2).saturating_add(16 << 20),
        }
    }

    /// The state of the program that runs in this isolate.
    pub(crate) fn of(isolate: &Isolate) -> Rc<Self> {
        Rc::clone(isolate.get_slot::<Rc<Self>>().expect("the state is there while the program runs"))
    }

    /// Whether a script that has returned waits for its calls.
    pub(crate) fn awaits_calls(&self) -> bool {
        self.waits_for_calls && self.slots.borrow().len() > 0
    }

    /// Ends the program with this outcome. No more of its code runs.
    pub(crate) fn stop(&self, isolate: &Isolate, outcome: Outcome) {
        self.end.borrow_mut().get_or_insert(outcome);
        isolate.terminate_execution();
    }

    /// Ends the program, which has exceeded its memory.
    pub(crate) fn stop_out_of_memory(&self, isolate: &Isolate) {
        self.stop(isolate, Outcome::OutOfMemory);
    }

    /// The outcome of a program that was ended from outside or by [`stop`](Self::stop).
    pub(crate) fn stopped(&self) -> Option<Outcome> {
        if self.memory.is_exceeded() {
            return Some(Outcome::OutOfMemory);
        }
        let end = self.end.borrow_mut().take();
        end.or_else(|| self.shared.is_stopped().then_some(Outcome::Interrupted))
    }

    /// The CPU time that the program has used.
    pub(crate) fn cpu_time(&self) -> Duration {
        thread_cpu_time().saturating_sub(self.began)
    }

    /// What the program has used, for one that is about to wait: it may be ended there.
    pub(crate) fn used(&self, isolate: &mut Isolate) -> Used {
        self.memory.measure(isolate);
        Used { cpu_time: self.cpu_time(), peak_memory_bytes: self.memory.peak() }
    }

    /// The position in the source that corresponds to a position in the code of a file.
    pub(crate) fn source_position(&self, file: &str, at: Position) -> Position {
        self.shifts.get(file).map_or(at, |shifts| Code::position_by(shifts, at))
    }
}

/// Called by V8 on the program's thread, at ticks while it computes.
pub(crate) unsafe extern "C" fn on_tick(mut isolate: UnsafeRawIsolatePtr, _: *mut std::ffi::c_void) {
    // SAFETY: V8 passes the isolate that it interrupts, which is entered on this thread.
    let isolate = unsafe { Isolate::ref_from_raw_isolate_ptr_mut(&mut isolate) };
    let Some(run) = isolate.get_slot::<Rc<Run>>().cloned() else { return };
    run.watch.served();
    run.memory.check(isolate);
    let peak_memory_bytes = run.memory.peak();
    run.shared.note(Used { cpu_time: run.cpu_time(), peak_memory_bytes });
}

/// The CPU time of this thread; zero where the system does not report it.
pub(crate) fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}
