//! Cuts what a guest logs to its limits, as it comes.

use crate::engine::{LogLevel, LogLine};
use crate::program::Limits;
use crate::value::{Datum, Graph, Value};

/// Applies [`max_log_lines`](Limits::max_log_lines) and [`max_log_chars`](Limits::max_log_chars) to log lines or records.
///
/// Cutting each line as it comes gives the result of the two steps of the runner specification ("Truncation"): keep the
/// earliest lines, then keep their characters until the limit is reached.
#[derive(Debug)]
pub(crate) struct LogLimiter {
    lines_left: usize,
    units_left: usize,
    /// How many lines or records were dropped.
    dropped: u64,
    /// How many bytes the host may use to read a record.
    max_record_bytes: usize,
}

impl LogLimiter {
    /// A limiter that has seen no line.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            lines_left: limits.max_log_lines,
            units_left: limits.max_log_chars,
            dropped: 0,
            max_record_bytes: limits.memory_len(),
        }
    }

    /// How many more UTF-16 units of lines will be kept, or bytes of records.
    pub(crate) fn units_left(&self) -> usize {
        if self.lines_left == 0 { 0 } else { self.units_left }
    }

    /// How many lines or records were dropped. One that was cut is none of them.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The line as far as it is kept; `None` if nothing of it is. `text` is UTF-8; invalid sequences become U+FFFD.
    pub(crate) fn line(&mut self, level: LogLevel, text: &[u8]) -> Option<LogLine> {
        if self.units_left() == 0 {
            self.dropped += 1;
            return None;
        }
        self.lines_left -= 1;
        // UTF-8 takes at most three bytes per unit: what is behind these bytes is beyond the limit anyway.
        let len = text.len().min(self.units_left.saturating_mul(3).saturating_add(4));
        let text = String::from_utf8_lossy(&text[..floor_char_boundary(text, len)]).into_owned();
        Some(LogLine { level, text: self.clip(text) })
    }

    /// The record (the arguments of a log call) as far as it is kept; `None` if nothing of it is. A record counts as one
    /// line, and each of its bytes as one unit.
    ///
    /// A record that is longer than what is left is cut, with a `…`, to half of that, so that later ones have room, too.
    pub(crate) fn record(&mut self, args: &[u8]) -> Option<Value> {
        if self.units_left() == 0 {
            self.dropped += 1;
            return None;
        }
        let args = match args.len() <= self.units_left {
            true => Value::from_bytes(args),
            false => shortened(args, self.units_left / 2, self.max_record_bytes),
        };
        let Some(left) = self.units_left.checked_sub(args.as_bytes().len()) else {
            self.units_left = 0; // There is no room for the mark.
            self.dropped += 1;
            return None;
        };
        self.lines_left -= 1;
        self.units_left = left;
        Some(args)
    }

    /// Cuts a line to the units that are left. A surrogate pair is never split.
    fn clip(&mut self, mut line: String) -> String {
        let mut left = self.units_left;
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
        self.units_left = left;
        line
    }
}

/// A record cut to `len` bytes. `budget` is how many bytes the host may use to read it.
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

    fn limiter(lines: usize, units: usize) -> LogLimiter {
        LogLimiter::new(&Limits { max_log_lines: lines, max_log_chars: units, ..Limits::default() })
    }

    fn kept(mut limiter: LogLimiter, lines: &[&str]) -> Vec<String> {
        lines.iter().filter_map(|line| Some(limiter.line(LogLevel::Log, line.as_bytes())?.text)).collect()
    }

    /// Runner specification, "Truncation", as it is written: two steps over all the lines. `None` if
    /// it would split a surrogate pair.
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
        assert_eq!(kept(limiter(2, 100), &["a", "b", "c"]), ["a", "b"]);
        assert_eq!(kept(limiter(9, 4), &["abc", "def", "g"]), ["abc", "d"]);
        assert_eq!(kept(limiter(9, 3), &["abc", "d"]), ["abc"]);
        assert!(kept(limiter(0, 100), &["a"]).is_empty());
        assert!(kept(limiter(9, 0), &["a"]).is_empty());
    }

    #[test]
    fn a_surrogate_pair_is_never_split_and_nothing_follows_a_line_that_was_cut() {
        assert_eq!(kept(limiter(9, 1), &["😀", "b"]), [""]);
        assert_eq!(kept(limiter(9, 2), &["a😀b", "c"]), ["a"]);
        assert_eq!(kept(limiter(9, 3), &["a😀b", "c"]), ["a😀"]);
    }

    #[test]
    fn a_huge_line_is_not_copied_whole() {
        let line = "é".repeat(1 << 20);
        assert_eq!(kept(limiter(9, 5), &[&line]), ["ééééé"]);
    }

    #[test]
    fn a_record_that_is_too_long_is_cut_and_later_ones_are_kept() {
        let record = |json: serde_json::Value| Value::from_json(Some(&json), "args").unwrap();
        let mut limiter = limiter(9, 400);
        let rows: Vec<_> = (0..1000).map(|id| json!({"id": id, "name": "n".repeat(20)})).collect();
        let records = [json!(["one"]), json!([rows]), json!(["é".repeat(1000), "end"]), json!(["two"])].map(record);
        let unreadable = [7; 1000]; // The record is cut to the mark.
        let records = records.iter().map(Value::as_bytes).chain([&unreadable[..]]);
        let kept = records.map(|args| limiter.record(args).unwrap().to_json("args", 1 << 20).unwrap().unwrap());
        let kept: Vec<_> = kept.collect();
        assert!(limiter.units_left() > 0);
        assert_eq!((&kept[0], &kept[3], &kept[4]), (&json!(["one"]), &json!(["two"]), &json!(["…"])));
        let items = kept[1][0].as_array().unwrap();
        assert!(items.len() > 1 && items.last() == Some(&json!("…")), "{items:?}");
        let text = kept[2][0].as_str().unwrap();
        assert!(text.starts_with("éé") && text.ends_with("é…") && kept[2][1] == "…", "{}", kept[2]);
    }

    #[test]
    fn records_are_counted_and_dropped_without_room_for_the_mark() {
        let mut few = limiter(1, 10);
        assert!(few.record(&[0]).is_some() && few.record(&[0]).is_none());
        assert_eq!((few.units_left(), few.dropped()), (0, 1));
        let mut small = limiter(9, 3);
        assert!(small.record(&[7; 10]).is_none());
        assert!(small.record(&[]).is_none(), "which only counts");
        assert_eq!((small.units_left(), small.dropped()), (0, 2));
        let mut enough = limiter(2, 10);
        assert!(enough.record(&[0]).is_some());
        assert_eq!(enough.units_left(), 9);
    }

    proptest! {
        #[test]
        fn cutting_lines_as_they_come_equals_the_two_steps(
            lines in prop::collection::vec("[a-cé😀]{0,6}", 0..8), max_lines in 0_usize..8, max_chars in 0_usize..20,
        ) {
            let given: Vec<&str> = lines.iter().map(String::as_str).collect();
            let actual = kept(limiter(max_lines, max_chars), &given);
            match two_steps(&lines, max_lines, max_chars) {
                Some(expected) => prop_assert_eq!(actual, expected),
                None => prop_assert!(actual.iter().map(|l| l.encode_utf16().count()).sum::<usize>() < max_chars),
            }
        }
    }
}
