//! A second engine, for tests: its programs are scripts of moves, and it has no JavaScript at all.
//!
//! The engine shows that the interface of `execbox_core::engine` fits more than one engine, and that what the contracts promise
//! does not depend on the engine. One move per line:
//!
//! ```text
//! log LEVEL TEXT          a console line
//! call NAME JSON          begins a call of a host function; in modules, NAME is its number
//! call-now NAME JSON      calls a host function and waits until it is answered
//! await                   waits for every call begun; the failure of one ends the program
//! await-catch             as `await`, but the failure is caught and kept
//! notify NUMBER JSON      notifies the host, which does not answer
//! await-promise NUMBER    waits until the host has settled that promise
//! return JSON             ends with a value; `return it`: with the last answer; `return a Date`: with one that cannot cross
//! throw NAME TEXT         ends with an uncaught error at line 1, column 1
//! forge                   ends by throwing a copy of the failure that was caught
//! compute                 computes for long, once: yields the thread
//! spin                    computes without end
//! stall                   waits for something that nothing can settle
//! exhaust                 allocates until it is refused
//! import NAME             (in modules) the moves of that module come first
//! export NAME JSON        (in modules) what the program may end with
//! ```

use std::collections::VecDeque;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use execbox_core::budget::Budget;
use execbox_core::engine::{
    Engine, Event, Frame, FunctionId, Guest, Interrupt, LogLevel, ModuleError, Outcome, Pending, Settlement,
    StartError, Thrown, Turn,
};
use execbox_core::error::ExecuteError;
use execbox_core::language::{Code, CompileError, CompileLimits, Export, Language, Module, ModuleSource, Position};
use execbox_core::mailbox::Mailbox;
use execbox_core::program::{Limits, ModuleBody, Modules, Program, Source};
use execbox_core::value::{Foreign, Value};

/// The front end of the scripted engine: the code is the source, unchanged.
pub struct Moves;

impl Language for Moves {
    fn script(&self, source: &str, _: &CompileLimits<'_>) -> Result<Code, CompileError> {
        Ok(source.into())
    }

    /// Every module has a default export.
    fn module(&self, source: ModuleSource<'_>, _: &CompileLimits<'_>) -> Result<Module, CompileError> {
        let exports = vec![Export::Local { name: "default".into(), local: "*default*".into() }];
        Ok(Module { code: source.text.into(), exports, ..Module::default() })
    }
}

/// See the [module](self).
pub struct Scripted;

impl Engine for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn start(&self, program: Program) -> Result<Box<dyn Guest>, StartError> {
        let functions = program.namespaces.iter().flat_map(|space| space.functions.clone()).collect();
        let mut guest = ScriptedGuest::new("", functions, &program.limits, program.budget.clone());
        guest.file = match &program.source {
            Source::Modules(modules) => Arc::clone(&modules.entry),
            _ => "<script>".into(),
        };
        match &program.source {
            Source::Script { code, .. } => guest.moves = moves(&code.text),
            Source::Modules(modules) => match link(modules) {
                Ok((moves, end)) => (guest.moves, guest.end) = (moves.into(), end),
                Err(error) => guest.end = Outcome::Unlinked(error),
            },
            _ => return Err(StartError::Unsupported("programs of this kind")),
        }
        Ok(Box::new(guest))
    }
}

fn moves(code: &str) -> VecDeque<String> {
    code.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

/// The moves of a module graph: each module's where it is first imported; and the outcome, from the export.
fn link(program: &Modules) -> Result<(Vec<String>, Outcome), ModuleError> {
    let mut moves = Vec::new();
    let mut end = Outcome::Unlinked(ModuleError::Export { export: program.export.clone() });
    let mut linked = Vec::new();
    let mut open = vec![(&*program.entry, &program.entry)];
    while let Some((name, importer)) = open.pop() {
        if linked.contains(&name) {
            continue;
        }
        linked.push(name);
        let Some(module) = program.modules.iter().find(|module| &*module.name == name) else {
            return Err(ModuleError::Specifier { module: Arc::clone(importer), specifier: name.to_owned() });
        };
        let ModuleBody::Source(code) = &module.body else { continue };
        let mut own = Vec::new();
        for line in code.text.lines() {
            match line.trim().split_once(' ') {
                Some(("import", imported)) => open.push((imported, &module.name)),
                Some(("export", what)) => {
                    if let (true, Some((export, json))) = (module.name == program.entry, what.split_once(' '))
                        && export == program.export
                    {
                        end = Outcome::Returned(value(json));
                    }
                }
                _ => own.push(line.trim().to_owned()),
            }
        }
        moves.splice(0..0, own); // what is imported runs first
    }
    moves.retain(|line| !line.is_empty());
    Ok((moves, end))
}

/// A guest of [`Scripted`].
pub struct ScriptedGuest {
    moves: VecDeque<String>,
    functions: Vec<String>,
    /// The file that its errors are in.
    file: Arc<str>,
    mailbox: Mailbox,
    interrupt: Interrupt,
    /// The number of calls that are not answered.
    pending: u32,
    /// The guest is suspended inside a synchronous call.
    stands: bool,
    settlements: Vec<Settlement>,
    /// The promises that the host has settled.
    settled: Vec<u32>,
    it: Value,
    caught: Option<ExecuteError>,
    /// The outcome when no moves are left.
    end: Outcome,
}

impl ScriptedGuest {
    fn new(code: &str, functions: Vec<String>, limits: &Limits, budget: Budget) -> Self {
        Self {
            moves: moves(code),
            functions,
            file: "<script>".into(),
            mailbox: Mailbox::new(limits, budget),
            interrupt: Interrupt::new(),
            pending: 0,
            stands: false,
            settlements: Vec::new(),
            settled: Vec::new(),
            it: Value::undefined(),
            caught: None,
            end: Outcome::Returned(Value::undefined()),
        }
    }

    /// A guest from the [image](Guest::image) of another: it continues where that one waited. The calls that are pending there
    /// keep their numbers, and the next call has the next number.
    pub fn from_image(image: &[u8], limits: &Limits) -> Self {
        let text = String::from_utf8(image.to_vec()).unwrap();
        let mut lines = text.lines();
        let functions = lines.next().unwrap().split(' ').map(str::to_owned).collect();
        let pending: u32 = lines.next().unwrap().parse().unwrap();
        let budget = Budget::new(limits.memory_len());
        let mut guest = Self::new(&lines.collect::<Vec<_>>().join("\n"), functions, limits, budget);
        for handle in 0..pending {
            guest.mailbox.call(FunctionId(0), handle, &[0], false).unwrap();
        }
        guest.mailbox.take_events(&mut Vec::new()); // they were handed out before
        guest.pending = pending;
        guest
    }

    fn call(&mut self, rest: &str, now: bool) -> Option<Outcome> {
        let (name, input) = rest.split_once(' ').unwrap_or((rest, ""));
        let index = self.functions.iter().position(|function| function == name);
        let function = FunctionId(index.map_or_else(|| name.parse().unwrap(), |index| index.try_into().unwrap()));
        let input = value(input);
        self.pending += 1;
        self.stands = now;
        self.mailbox.call(function, self.pending, input.as_bytes(), now).err().map(Outcome::HostMemory)
    }

    /// Takes the settlements in. Returns the first failure among them.
    fn take_settlements(&mut self) -> Option<ExecuteError> {
        let mut failure = None;
        for settlement in self.settlements.drain(..) {
            let error = match settlement {
                Settlement::Fulfilled(value) => {
                    self.it = value;
                    continue;
                }
                Settlement::Rejected(value) => ExecuteError::tool(format!("{value:?}")),
                Settlement::Failed(error) => error,
            };
            failure.get_or_insert(error);
        }
        failure
    }

    fn step(&mut self, line: &str, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "log" => {
                let (level, text) = rest.split_once(' ').unwrap_or((rest, ""));
                self.mailbox.log(LogLevel::from_name(level).unwrap(), text.as_bytes());
            }
            "call" => return Poll::Ready(self.call(rest, false)),
            "call-now" => return Poll::Ready(self.call(rest, true)),
            "notify" => {
                let (function, args) = rest.split_once(' ').unwrap();
                let notified = self.mailbox.notify(FunctionId(function.parse().unwrap()), value(args).as_bytes());
                return Poll::Ready(notified.err().map(Outcome::HostMemory));
            }
            "await" => return Poll::Ready(self.take_settlements().map(failed)),
            "await-catch" => self.caught = self.take_settlements(),
            "return" if rest == "it" => return Poll::Ready(Some(Outcome::Returned(self.it.clone()))),
            "return" => return Poll::Ready(Some(Outcome::Returned(value(rest)))),
            "throw" => {
                let (name, message) = rest.split_once(' ').unwrap();
                return Poll::Ready(Some(threw(&self.file, name, message)));
            }
            "forge" => {
                let caught = self.caught.take().unwrap();
                return Poll::Ready(Some(threw(&self.file, "", &format!("{}: {}", caught.code, caught.message))));
            }
            "compute" => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            "spin" => {
                self.moves.push_front("spin".into());
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            "exhaust" => return Poll::Ready(Some(Outcome::OutOfMemory)),
            other => panic!("no such move: {other}"),
        }
        Poll::Ready(None)
    }
}

impl Guest for ScriptedGuest {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        loop {
            if self.interrupt.is_triggered() {
                return Poll::Ready(Turn::Done(Outcome::Interrupted));
            }
            let Some(line) = self.moves.front() else {
                return Poll::Ready(Turn::Done(self.end.clone()));
            };
            if let Some(promise) = line.strip_prefix("await-promise ") {
                if !self.settled.contains(&promise.parse().unwrap()) {
                    return Poll::Ready(Turn::Waiting);
                }
                self.moves.pop_front();
                if let Some(error) = self.take_settlements() {
                    return Poll::Ready(Turn::Done(failed(error)));
                }
                continue;
            }
            let awaits = line.starts_with("await") || self.stands;
            if line == "stall" || (awaits && self.pending > 0) {
                return Poll::Ready(Turn::Waiting);
            }
            let line = self.moves.pop_front().unwrap();
            match self.step(&line, cx) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(outcome)) => return Poll::Ready(Turn::Done(outcome)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn take_events(&mut self, events: &mut Vec<Event>) {
        self.mailbox.take_events(events);
    }

    fn settle(&mut self, pending: Pending, settlement: Settlement) {
        match pending {
            Pending::Call(call) if self.mailbox.settle(call).is_none() => return,
            Pending::Call(_) => {
                self.pending -= 1;
                self.stands = false;
            }
            Pending::Promise(promise) => self.settled.push(promise),
        }
        self.settlements.push(settlement);
    }

    /// Always 0: the guest takes in all settlements at its next move.
    fn unread_bytes(&self) -> usize {
        0
    }

    fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    fn peak_memory_bytes(&mut self) -> Option<u64> {
        Some(4096)
    }

    fn image(&mut self) -> Option<Vec<u8>> {
        if self.pending == 0 || self.stands {
            return None;
        }
        let moves: Vec<&str> = self.moves.iter().map(String::as_str).collect();
        Some(format!("{}\n{}\n{}", self.functions.join(" "), self.pending, moves.join("\n")).into_bytes())
    }
}

fn failed(error: ExecuteError) -> Outcome {
    Outcome::Failed { error, frames: Vec::new() }
}

fn value(text: &str) -> Value {
    match text {
        "" | "undefined" => Value::undefined(),
        "a Date" => Value::from_bytes([11, Foreign::Date as u8]),
        json => Value::from_json(Some(&serde_json::from_str(json).unwrap()), "value").unwrap(),
    }
}

fn threw(file: &Arc<str>, name: &str, message: &str) -> Outcome {
    let position = Position { line: 1, column: 1 };
    Outcome::Threw(Thrown {
        name: name.into(),
        message: message.into(),
        frames: vec![Frame { function: None, file: Arc::clone(file), position }],
        native: None,
    })
}

/// Any engine, bound to threads: each guest runs on a thread of its own from its first turn to its last, and the task that
/// drives it is woken when a turn has ended.
pub struct ThreadBound<E>(pub Arc<E>);

impl<E: Engine + 'static> Engine for ThreadBound<E> {
    fn name(&self) -> &'static str {
        "thread-bound"
    }

    fn start(&self, program: Program) -> Result<Box<dyn Guest>, StartError> {
        let (to_guest, orders) = mpsc::channel();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (seen, engine, interrupt) = (Arc::clone(&shared), Arc::clone(&self.0), Interrupt::new());
        let outer_interrupt = interrupt.clone();
        thread::spawn(move || live(&*engine, program, &orders, &seen, &outer_interrupt));
        Ok(Box::new(Remote { to_guest, shared, interrupt, asked: false, stale: false }))
    }
}

#[derive(Default)]
struct Shared {
    turn: Option<Turn>,
    events: Vec<Event>,
    waker: Option<Waker>,
}

enum Order {
    Turn,
    Settle(Pending, Settlement),
}

struct Remote {
    to_guest: mpsc::Sender<Order>,
    shared: Arc<Mutex<Shared>>,
    interrupt: Interrupt,
    asked: bool,
    /// A call was settled after the turn was requested, so a result of `Waiting` is outdated.
    stale: bool,
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a guest on the current thread until its driver drops it.
fn live(
    engine: &dyn Engine,
    program: Program,
    orders: &mpsc::Receiver<Order>,
    shared: &Mutex<Shared>,
    outer_interrupt: &Interrupt,
) {
    let mut guest = engine.start(program).unwrap();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    for order in orders {
        match order {
            Order::Turn => {}
            Order::Settle(pending, settlement) => {
                guest.settle(pending, settlement);
                continue;
            }
        }
        let turn = loop {
            if outer_interrupt.is_triggered() {
                guest.interrupt().trigger();
            }
            match guest.poll_turn(&mut Context::from_waker(&waker)) {
                Poll::Ready(turn) => break turn,
                Poll::Pending => thread::park_timeout(std::time::Duration::from_millis(1)),
            }
        };
        let mut shared = shared.lock().unwrap();
        guest.take_events(&mut shared.events);
        shared.turn = Some(turn);
        if let Some(waker) = shared.waker.take() {
            waker.wake();
        }
    }
}

impl Guest for Remote {
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        let mut shared = self.shared.lock().unwrap();
        if let Some(turn) = shared.turn.take() {
            self.asked = false;
            if !(self.stale && turn == Turn::Waiting) {
                return Poll::Ready(turn);
            }
        }
        shared.waker = Some(cx.waker().clone());
        if !self.asked {
            (self.asked, self.stale) = (true, false);
            self.to_guest.send(Order::Turn).unwrap();
        }
        Poll::Pending
    }

    fn take_events(&mut self, events: &mut Vec<Event>) {
        events.append(&mut self.shared.lock().unwrap().events);
    }

    fn settle(&mut self, pending: Pending, settlement: Settlement) {
        self.stale = self.asked;
        self.to_guest.send(Order::Settle(pending, settlement)).unwrap();
    }

    fn unread_bytes(&self) -> usize {
        0
    }

    fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }
}

/// Interrupts the guest, so that its thread ends.
impl Drop for Remote {
    fn drop(&mut self) {
        self.interrupt.trigger();
    }
}
