//! The calls, notifications and log lines of a guest that its driver has not taken yet: the part of a
//! [`Guest`](crate::engine::Guest) that is the same for every engine.
//!
//! An engine adds calls and log lines as they happen and asks which call an answer is for. The limits are applied when
//! something is added: log lines beyond their limits are never stored, and calls and notifications are charged to the
//! program's [budget](crate::program::Program::budget) before they are stored.

use std::collections::HashMap;
use std::time::Duration;

use crate::budget::{Budget, Charge};
use crate::engine::{Call, CallId, Event, FunctionId, LogLevel, NoRoom, Notification, UnawaitedCall};
use crate::logs::LogLimiter;
use crate::program::Limits;
use crate::value::Value;

/// What a pending call or a notification costs the host beside its arguments, in bytes: its entries in tables, and a task
/// in the driver.
pub(crate) const CALL_COST: usize = 512;

/// See the [module](self).
#[derive(Debug)]
pub struct Mailbox {
    events: Vec<Event>,
    pending: HashMap<CallId, Pending>,
    calls: u64,
    budget: Budget,
    logs: LogLimiter,
    /// How many dropped lines were reported.
    reported_dropped: u64,
    /// The last [`Event::Timer`] since the events were taken.
    timer: Option<Event>,
}

#[derive(Debug)]
struct Pending {
    handle: u32,
    /// The charge for the call's entries in tables and its input, until it is settled.
    _charge: Charge,
}

impl Mailbox {
    /// An empty mailbox for a guest with these limits. What it stores is charged to `budget`.
    pub fn new(limits: &Limits, budget: Budget) -> Self {
        Self {
            events: Vec::new(),
            pending: HashMap::new(),
            calls: 0,
            budget,
            logs: LogLimiter::new(limits),
            reported_dropped: 0,
            timer: None,
        }
    }

    /// Adds a call. `handle` is the engine's own identifier of the call, returned by [`settle`](Self::settle).
    ///
    /// # Errors
    /// The budget is exhausted. The engine ends the guest with
    /// [`Outcome::HostMemory`](crate::engine::Outcome::HostMemory).
    pub fn call(&mut self, function: FunctionId, handle: u32, input: &[u8], now: bool) -> Result<CallId, NoRoom> {
        let charge = self.budget.charge(CALL_COST + input.len()).map_err(|_| NoRoom::Calls)?;
        self.calls += 1;
        let id = CallId(self.calls);
        self.pending.insert(id, Pending { handle, _charge: charge });
        self.events.push(Event::Call(Call { id, function, input: Value::from_bytes(input), now }));
        Ok(id)
    }

    /// Adds a call that has no answer. The host keeps notifications, so their cost is never given back.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn notify(&mut self, function: FunctionId, args: &[u8]) -> Result<(), NoRoom> {
        self.budget.spend(CALL_COST + args.len()).map_err(|_| NoRoom::Reports)?;
        self.events.push(Event::Notify(Notification { function, args: Value::from_bytes(args) }));
        Ok(())
    }

    /// Adds a log record, a call that has no answer, cut to the log limits. Returns how many more bytes of records will be
    /// kept; at 0 the engine need not encode further records, and adds empty ones, which are counted.
    pub fn log_record(&mut self, function: FunctionId, args: &[u8]) -> usize {
        let record = self.logs.record(args);
        self.events.extend(record.map(|args| Event::Notify(Notification { function, args })));
        self.logs.units_left()
    }

    /// Adds a log line, cut to the log limits. `text` is UTF-8. Returns how many more UTF-16 units will be kept; at 0 the
    /// engine need not even format further lines, and adds empty ones, which are counted.
    pub fn log(&mut self, level: LogLevel, text: &[u8]) -> usize {
        self.events.extend(self.logs.line(level, text).map(Event::Log));
        self.logs.units_left()
    }

    /// Adds a call that is unanswered when the result of the script is settled.
    pub fn unawaited(&mut self, call: UnawaitedCall) {
        self.events.push(Event::Unawaited(call));
    }

    /// Asks to wake the guest after this time, in place of what it asked before; `None` takes that back.
    pub fn timer(&mut self, after: Option<Duration>) {
        self.timer = Some(Event::Timer(after));
    }

    /// How many more UTF-16 units of log lines will be kept.
    pub fn log_units_left(&self) -> usize {
        self.logs.units_left()
    }

    /// Removes a pending call that is being answered and returns the engine's handle of it; `None` if it is not pending.
    pub fn settle(&mut self, call: CallId) -> Option<u32> {
        self.pending.remove(&call).map(|pending| pending.handle)
    }

    /// Whether something was added that [`take_events`](Self::take_events) has not taken.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty() || self.timer.is_some() || self.logs.dropped() > self.reported_dropped
    }

    /// Moves everything added since the last time into `events`, in order, and then the number of dropped lines and the timer.
    pub fn take_events(&mut self, events: &mut Vec<Event>) {
        events.append(&mut self.events);
        if self.logs.dropped() > self.reported_dropped {
            self.reported_dropped = self.logs.dropped();
            events.push(Event::DroppedLogs(self.reported_dropped));
        }
        events.extend(self.timer.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox() -> Mailbox {
        Mailbox::new(&Limits::default(), Budget::new(4096))
    }

    #[test]
    fn pending_calls_are_bounded_and_answering_makes_room() {
        let mut mailbox = mailbox();
        let input = [0; 512];
        let ids: Vec<_> = (0..4).map(|handle| mailbox.call(FunctionId(0), handle, &input, false).unwrap()).collect();
        assert_eq!(mailbox.call(FunctionId(0), 9, &input, false), Err(NoRoom::Calls));
        assert_eq!(mailbox.notify(FunctionId(3), &input), Err(NoRoom::Reports), "the budget is one");
        assert_eq!(mailbox.settle(ids[2]), Some(2));
        assert_eq!(mailbox.settle(ids[2]), None, "once");
        assert!(mailbox.call(FunctionId(0), 9, &input, false).is_ok());
    }

    #[test]
    fn notifications_are_bounded_and_never_make_room_again() {
        let mut mailbox = mailbox();
        let rejected = (0..8).find(|_| mailbox.notify(FunctionId(3), &[0; 512]) == Err(NoRoom::Reports));
        assert_eq!(rejected, Some(4));
    }

    #[test]
    fn calls_lines_and_records_keep_their_order() {
        let mut mailbox = mailbox();
        mailbox.log(LogLevel::Warn, b"line");
        mailbox.call(FunctionId(1), 0, &[0], false).unwrap();
        mailbox.log_record(FunctionId(2), &[0]);
        mailbox.notify(FunctionId(3), &[0]).unwrap();
        let mut events = Vec::new();
        assert!(mailbox.has_events());
        mailbox.take_events(&mut events);
        assert!(!mailbox.has_events());
        let functions = events.iter().map(|event| match event {
            Event::Log(_) => 0,
            Event::Call(call) => call.function.0,
            Event::Notify(notification) => notification.function.0,
            Event::Unawaited(_) | Event::DroppedLogs(_) | Event::Timer(_) => 9,
        });
        assert_eq!(functions.collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn dropped_lines_and_records_are_counted_and_reported_when_there_are_more() {
        let limits = Limits { max_log_lines: 2, ..Limits::default() };
        let mut mailbox = Mailbox::new(&limits, Budget::new(4096));
        let taken = |mailbox: &mut Mailbox| {
            let mut events = Vec::new();
            mailbox.take_events(&mut events);
            events.into_iter().find_map(|event| if let Event::DroppedLogs(count) = event { Some(count) } else { None })
        };
        for _ in 0..3 {
            mailbox.log(LogLevel::Log, b"line");
        }
        mailbox.log_record(FunctionId(2), &[]);
        assert_eq!((taken(&mut mailbox), taken(&mut mailbox)), (Some(2), None));
        assert!(!mailbox.has_events());
        mailbox.log(LogLevel::Log, b"");
        assert!(mailbox.has_events());
        assert_eq!(taken(&mut mailbox), Some(3));
    }
}
