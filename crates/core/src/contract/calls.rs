//! The calls of a script, for what its result and its errors say about them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cause::{CallsSoFar, Unanswered};
use crate::contract::answers::{Answer, Answers};
use crate::contract::stop::Stop;
use crate::engine::{CallId, MAX_UNAWAITED, Outcome};
use crate::error::StackFrame;
use crate::program::Namespace;
use crate::unawaited::{CallPlace, UnawaitedCalls};
use crate::value::Value;

/// The calls of one script.
#[derive(Debug)]
pub(super) struct Calls {
    /// The namespaces of the providers.
    namespaces: Vec<Arc<Namespace>>,
    /// The calls that are not answered.
    pending: BTreeMap<CallId, PendingCall>,
    answered: u64,
    answers: Answers,
    left: LeftCalls,
}

/// The calls that were unanswered when the result of a program was settled.
#[derive(Debug, Default)]
pub(super) struct LeftCalls {
    count: u64,
    /// Where the first of them were made.
    places: Vec<CallPlace>,
}

impl LeftCalls {
    /// Records one of `count` calls.
    pub(super) fn add(&mut self, count: u64, call: CallPlace) {
        self.count = count;
        if self.places.len() < MAX_UNAWAITED {
            self.places.push(call);
        }
    }

    /// The unawaited calls of a program that has ended. What the host has answered does not count, as the guest may not have
    /// seen it, unless the host stopped the program. `pending` are those that the host has not answered.
    pub(super) fn end(
        &mut self,
        end: &Result<Outcome, Stop>,
        waits: bool,
        pending: impl ExactSizeIterator<Item = CallPlace>,
    ) -> Option<UnawaitedCalls> {
        let count = pending.len() as u64;
        let (waited_for, unanswered) = match end {
            Ok(Outcome::Returned(_)) if waits => (self.count, 0),
            Ok(_) => (0, self.count),
            Err(_) => (self.count.saturating_sub(count), count),
        };
        let mut places = std::mem::take(&mut self.places);
        if places.is_empty() {
            places.extend(pending);
        }
        UnawaitedCalls::new(waited_for, unanswered, places)
    }
}

#[derive(Debug)]
struct PendingCall {
    provider: usize,
    tool: usize,
    /// When the call was made, as the time since the program was accepted.
    made: Duration,
}

impl Calls {
    pub(super) fn new(namespaces: Vec<Arc<Namespace>>) -> Self {
        Self {
            namespaces,
            pending: BTreeMap::new(),
            answered: 0,
            answers: Answers::default(),
            left: LeftCalls::default(),
        }
    }

    /// The namespaces of the providers.
    pub(super) fn namespaces(&self) -> &[Arc<Namespace>] {
        &self.namespaces
    }

    pub(super) fn begin(&mut self, call: CallId, provider: usize, tool: usize, made: Duration) {
        self.pending.insert(call, PendingCall { provider, tool, made });
    }

    /// The number of calls that are not answered.
    pub(super) fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Records that a call is answered, and with what, if it succeeded.
    pub(super) fn answer(&mut self, call: CallId, answer: Option<&Value>) {
        let Some(PendingCall { provider, tool, .. }) = self.pending.remove(&call) else { return };
        self.answered += 1;
        if let Some(answer) = answer {
            self.answers.keep((provider, tool), answer);
        }
    }

    /// The last answers of the tools.
    pub(super) fn answers(&self) -> Vec<Answer> {
        self.answers.named(|provider, tool| self.place(provider, tool).to_string())
    }

    /// Records a call that is unanswered when the result of the script is settled, one of `count`.
    pub(super) fn leave(&mut self, count: u64, provider: usize, tool: usize, at: Option<StackFrame>) {
        let call = CallPlace { at, ..self.place(provider, tool) };
        self.left.add(count, call);
    }

    /// The unawaited calls of a script that has ended.
    pub(super) fn unawaited(&mut self, end: &Result<Outcome, Stop>, waits: bool) -> Option<UnawaitedCalls> {
        let Self { namespaces, pending, left, .. } = self;
        left.end(end, waits, pending.values().map(|call| place(namespaces, call.provider, call.tool)))
    }

    /// The calls so far, for the error of a script that its timeout stops.
    pub(super) fn so_far(&self, now: Duration) -> CallsSoFar {
        let first = self.pending.values().next().map(|call| {
            let CallPlace { provider, tool, .. } = self.place(call.provider, call.tool);
            let ms = u64::try_from(now.saturating_sub(call.made).as_millis()).unwrap_or(u64::MAX);
            Unanswered { provider, tool, ms }
        });
        CallsSoFar { answered: self.answered, unanswered: self.in_flight() as u64, first }
    }

    /// The name of the first call that is not answered, for example `shop.list`.
    pub(super) fn first_unanswered(&self) -> Option<String> {
        self.pending.values().next().map(|call| self.place(call.provider, call.tool).to_string())
    }

    /// A call of the tool, without its place.
    fn place(&self, provider: usize, tool: usize) -> CallPlace {
        place(&self.namespaces, provider, tool)
    }
}

fn place(namespaces: &[Arc<Namespace>], provider: usize, tool: usize) -> CallPlace {
    let namespace = &namespaces[provider];
    let (provider, tool) = (namespace.name.clone(), namespace.functions[tool].clone());
    CallPlace { provider, tool, at: None, calls: 1 }
}
