//! What a guest has said and was not yet told: the part of a [`Guest`](crate::engine::Guest) that is
//! the same for every engine.
//!
//! An engine puts calls and log lines in as they happen and asks which call an answer is for. The
//! limits are kept here, as things come in: log lines beyond their limits are never stored, and calls
//! whose inputs would take more of the host's memory than the guest may have of its own are refused.

use std::collections::HashMap;

use crate::engine::{Call, CallId, Event, FunctionId, LogLevel, LogLine, Notification};
use crate::program::Limits;
use crate::text::bytes_text;
use crate::value::{Datum, Graph, Value};

/// What one pending call costs the host beside its input: its entries here and a task in the driver.
const CALL_COST: usize = 512;

/// See the [module](self).
#[derive(Debug)]
pub struct Mailbox {
    events: Vec<Event>,
    pending: HashMap<CallId, Pending>,
    calls: u64,
    /// Host memory that may still be taken by pending calls.
    call_room: usize,
    /// Host memory that may still be taken by what is told without an answer.
    told_room: usize,
    log_lines_left: usize,
    log_units_left: usize,
    /// How many bytes the host may take to read a log record.
    max_record_bytes: usize,
}

#[derive(Debug)]
struct Pending {
    handle: u32,
    cost: usize,
}

/// What the host keeps for a guest takes more of its memory than the guest may have of its own. Each of these has a budget
/// as large as the memory limit, and apart from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// The inputs of calls that are not answered.
    Calls,
    /// What the guest reported.
    Reports,
}

impl NoRoom {
    /// What is wrong, and what to do.
    pub(crate) fn message(self, limits: &Limits) -> String {
        let limit = bytes_text(limits.memory_bytes);
        match self {
            Self::Calls => {
                format!("The inputs of calls in flight exceeded their budget of {limit}; await some of them first")
            }
            Self::Reports => format!("The reports exceeded their budget of {limit}; report less"),
        }
    }
}

impl Mailbox {
    /// An empty one.
    pub fn new(limits: &Limits) -> Self {
        Self {
            events: Vec::new(),
            pending: HashMap::new(),
            calls: 0,
            call_room: limits.memory_len(),
            told_room: limits.memory_len(),
            log_lines_left: limits.max_log_lines,
            log_units_left: limits.max_log_chars,
            max_record_bytes: limits.memory_len(),
        }
    }

    /// Takes in a call. `handle` is the engine's own name for it, given back by [`settle`](Self::settle).
    ///
    /// # Errors
    /// Without room for it; the engine ends the guest [with that](crate::engine::Outcome::HostMemory).
    pub fn call(&mut self, function: FunctionId, handle: u32, input: &[u8], now: bool) -> Result<CallId, NoRoom> {
        let cost = CALL_COST + input.len();
        self.call_room = self.call_room.checked_sub(cost).ok_or(NoRoom::Calls)?;
        self.calls += 1;
        let id = CallId(self.calls);
        self.pending.insert(id, Pending { handle, cost });
        self.events.push(Event::Call(Call { id, function, input: Value::from_bytes(input), now }));
        Ok(id)
    }

    /// Takes in a call that has no answer. The host keeps what it is told, so its cost is never given back.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn notify(&mut self, function: FunctionId, args: &[u8]) -> Result<(), NoRoom> {
        self.told_room = self.told_room.checked_sub(CALL_COST + args.len()).ok_or(NoRoom::Reports)?;
        self.events.push(Event::Notify(Notification { function, args: Value::from_bytes(args) }));
        Ok(())
    }

    /// Takes in a log record, a call that has no answer, and says how many more bytes of records will be kept: one line
    /// of the limits a record, one unit a byte. A record that is longer than what is left is cut, with a `…`, to half of
    /// that, so that later ones have room, too.
    pub fn log_record(&mut self, function: FunctionId, args: &[u8]) -> usize {
        if self.log_lines_left > 0 {
            let args = match args.len() <= self.log_units_left {
                true => Value::from_bytes(args),
                false => shortened(args, self.log_units_left / 2, self.max_record_bytes),
            };
            match self.log_units_left.checked_sub(args.as_bytes().len()) {
                Some(left) => {
                    self.log_lines_left -= 1;
                    self.log_units_left = left;
                    self.events.push(Event::Notify(Notification { function, args }));
                }
                None => self.log_units_left = 0, // No room, not even for the mark.
            }
        }
        self.log_units_left()
    }

    /// Takes in a log line as UTF-8 and says how many more UTF-16 units will be kept. At 0 the engine
    /// need not even format further lines.
    ///
    /// Cutting as lines come gives what the runner specification's two steps ("Truncation") give: the
    /// earliest lines, then their characters until they run out.
    pub fn log(&mut self, level: LogLevel, text: &[u8]) -> usize {
        if self.log_lines_left > 0 && self.log_units_left > 0 {
            self.log_lines_left -= 1;
            // UTF-8 takes at most three bytes per unit: of a longer line, this much is sure to be cut, too.
            let most = text.len().min(self.log_units_left.saturating_mul(3).saturating_add(4));
            let text = String::from_utf8_lossy(&text[..floor_char_boundary(text, most)]).into_owned();
            let text = self.clip(text);
            self.events.push(Event::Log(LogLine { level, text }));
        }
        self.log_units_left()
    }

    /// How many more UTF-16 units of log lines will be kept.
    pub fn log_units_left(&self) -> usize {
        if self.log_lines_left == 0 { 0 } else { self.log_units_left }
    }

    /// Cuts a line to the units that are left; a pair is never split.
    fn clip(&mut self, mut line: String) -> String {
        let mut left = self.log_units_left;
        let cut = line.char_indices().find_map(|(at, c)| match left.checked_sub(c.len_utf16()) {
            Some(rest) => {
                left = rest;
                None
            }
            None => Some(at),
        });
        if let Some(at) = cut {
            line.truncate(at);
            left = 0;
        }
        self.log_units_left = left;
        line
    }

    /// The engine's handle of a call that is being answered; `None` if it is not pending.
    pub fn settle(&mut self, call: CallId) -> Option<u32> {
        let pending = self.pending.remove(&call)?;
        self.call_room += pending.cost;
        Some(pending.handle)
    }

    /// Moves what came in since the last time into `events`.
    pub fn take_events(&mut self, events: &mut Vec<Event>) {
        events.append(&mut self.events);
    }
}

/// A record of a length that is kept. `budget` is how many bytes the host may take to read it.
fn shortened(args: &[u8], len: usize, budget: usize) -> Value {
    let graph = Value::from_bytes(args).to_graph("args", budget);
    let graph = graph.map(|mut graph| {
        graph.shorten(len);
        graph
    });
    let value = graph.and_then(|graph| graph.to_value("args")).ok().filter(|value| value.as_bytes().len() <= len);
    value.unwrap_or_else(|| {
        let mut mark = Graph::default();
        let root = mark.array([Datum::from("…")]);
        mark.set_root(root);
        mark.to_value("args").unwrap_or_else(|_| Value::undefined())
    })
}

/// The last character boundary of valid UTF-8 at or before `at`.
fn floor_char_boundary(text: &[u8], at: usize) -> usize {
    let is_continuation = |&byte: &u8| byte & 0xc0 == 0x80;
    (0..=at).rev().find(|&i| !text.get(i).is_some_and(is_continuation)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn mailbox(lines: usize, chars: usize) -> Mailbox {
        Mailbox::new(&Limits { max_log_lines: lines, max_log_chars: chars, memory_bytes: 4096, ..Limits::default() })
    }

    fn kept(mut mailbox: Mailbox, lines: &[&str]) -> Vec<String> {
        for line in lines {
            mailbox.log(LogLevel::Log, line.as_bytes());
        }
        let mut events = Vec::new();
        mailbox.take_events(&mut events);
        events.into_iter().map(|e| if let Event::Log(line) = e { line.text } else { unreachable!() }).collect()
    }

    /// Runner specification, "Truncation", as it is written: two steps over all the lines. `None` where
    /// it would split a pair.
    fn two_steps(lines: &[String], max_lines: usize, max_chars: usize) -> Option<Vec<String>> {
        let mut left = max_chars;
        let mut kept = Vec::new();
        for line in lines.iter().take(max_lines) {
            if left == 0 {
                break;
            }
            let units: Vec<u16> = line.encode_utf16().collect();
            let take = units.len().min(left);
            left -= take;
            kept.push(String::from_utf16(&units[..take]).ok()?);
        }
        Some(kept)
    }

    #[test]
    fn the_earliest_lines_are_kept_and_the_last_is_clipped() {
        assert_eq!(kept(mailbox(2, 100), &["a", "b", "c"]), ["a", "b"]);
        assert_eq!(kept(mailbox(9, 4), &["abc", "def", "g"]), ["abc", "d"]);
        assert_eq!(kept(mailbox(9, 3), &["abc", "d"]), ["abc"]);
        assert!(kept(mailbox(0, 100), &["a"]).is_empty());
        assert!(kept(mailbox(9, 0), &["a"]).is_empty());
    }

    #[test]
    fn a_surrogate_pair_is_never_split_and_nothing_follows_a_line_that_was_cut() {
        assert_eq!(kept(mailbox(9, 1), &["😀", "b"]), [""]);
        assert_eq!(kept(mailbox(9, 2), &["a😀b", "c"]), ["a"]);
        assert_eq!(kept(mailbox(9, 3), &["a😀b", "c"]), ["a😀"]);
    }

    #[test]
    fn a_huge_line_is_not_copied_whole() {
        let line = "é".repeat(1 << 20);
        assert_eq!(kept(mailbox(9, 5), &[&line]), ["ééééé"]);
    }

    #[test]
    fn calls_that_wait_are_bounded_and_answering_makes_room() {
        let mut mailbox = mailbox(0, 0);
        let input = [0; 512];
        let ids: Vec<_> = (0..4).map(|handle| mailbox.call(FunctionId(0), handle, &input, false).unwrap()).collect();
        assert_eq!(mailbox.call(FunctionId(0), 9, &input, false), Err(NoRoom::Calls));
        assert!(mailbox.notify(FunctionId(3), &input).is_ok(), "reports have a budget of their own");
        assert_eq!(mailbox.settle(ids[2]), Some(2));
        assert_eq!(mailbox.settle(ids[2]), None, "once");
        assert!(mailbox.call(FunctionId(0), 9, &input, false).is_ok());
    }

    #[test]
    fn a_record_that_is_too_long_is_cut_and_later_ones_are_kept() {
        let record = |json: serde_json::Value| Value::from_json(Some(&json), "args").unwrap();
        let limits = Limits { max_log_lines: 9, max_log_chars: 400, ..Limits::default() };
        let mut logged = Mailbox::new(&limits);
        let rows: Vec<_> = (0..1000).map(|id| json!({"id": id, "name": "n".repeat(20)})).collect();
        for args in [json!(["one"]), json!([rows]), json!(["é".repeat(1000), "end"]), json!(["two"])] {
            assert!(logged.log_record(FunctionId(3), record(args).as_bytes()) > 0);
        }
        // What cannot be read is cut to the mark.
        assert!(logged.log_record(FunctionId(3), &[7; 1000]) > 0);
        let mut events = Vec::new();
        logged.take_events(&mut events);
        let kept = events.into_iter().map(|event| match event {
            Event::Notify(Notification { args, .. }) => args.to_json("args", 1 << 20).unwrap().unwrap(),
            other => panic!("{other:?}"),
        });
        let kept: Vec<_> = kept.collect();
        assert_eq!((&kept[0], &kept[3], &kept[4]), (&json!(["one"]), &json!(["two"]), &json!(["…"])));
        let items = kept[1][0].as_array().unwrap();
        assert!(items.len() > 1 && items.last() == Some(&json!("…")), "{items:?}");
        let text = kept[2][0].as_str().unwrap();
        assert!(text.starts_with("éé") && text.ends_with("é…") && kept[2][1] == "…", "{}", kept[2]);
        assert_eq!(mailbox(9, 3).log_record(FunctionId(3), record(json!(["long"])).as_bytes()), 0, "not even the mark");
    }

    #[test]
    fn notifications_are_paid_for_for_good_and_records_are_counted() {
        let mut told = mailbox(0, 0);
        assert_eq!((0..8).find(|_| told.notify(FunctionId(3), &[0; 512]) == Err(NoRoom::Reports)), Some(4));
        assert_eq!([1, 1, 1].map(|len| mailbox(2, 10).log_record(FunctionId(3), &vec![0; len])), [9, 9, 9]);
        let mut few = mailbox(1, 10);
        assert_eq!([few.log_record(FunctionId(3), &[0]), few.log_record(FunctionId(3), &[0])], [0, 0]);
    }

    proptest! {
        #[test]
        fn cutting_as_lines_come_is_the_two_steps(
            lines in prop::collection::vec("[a-cé😀]{0,6}", 0..8), max_lines in 0_usize..8, max_chars in 0_usize..20,
        ) {
            let given: Vec<&str> = lines.iter().map(String::as_str).collect();
            let actual = kept(mailbox(max_lines, max_chars), &given);
            match two_steps(&lines, max_lines, max_chars) {
                Some(expected) => prop_assert_eq!(actual, expected),
                None => prop_assert!(actual.iter().map(|l| l.encode_utf16().count()).sum::<usize>() < max_chars),
            }
        }
    }
}
