//! The text of a result: its value or its error, the calls that were not awaited, and the log.

use execbox_core::text::{Keep, escape, escape_json, make_visible, shown, truncate};
use serde_json::Value as Json;

use super::outline::outline;
use crate::{ExecuteError, ExecuteResult};

/// A result as a model reads it. Hidden characters are escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The text.
    pub text: String,
    /// What the text shows in place of a value that is too large.
    pub outline: Option<Outline>,
    /// The lines of the log that the text shows.
    pub logs: Vec<String>,
    /// How many lines of the log are not shown.
    pub dropped_logs: u64,
}

/// The outline of a value that is too large to show.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outline {
    /// The length of the value as text, in characters.
    pub characters: usize,
    /// The first items of long lists, the beginnings of long texts, and how much is missing.
    pub text: String,
}

impl Answer {
    /// The text of `result`, of about `max` characters: an outline of a longer value has half of them, and the log has at
    /// least a quarter.
    pub fn new(result: &ExecuteResult, max: usize) -> Self {
        Self::keeping(result, max, "", || None)
    }

    /// [`new`](Self::new) for a host that keeps values. `keep` is called if the value is too large, and returns how later code
    /// can read it, in JavaScript. `log_hint` follows the number of lines that the log limits dropped: ` (…)`.
    pub fn keeping(result: &ExecuteResult, max: usize, log_hint: &str, keep: impl FnOnce() -> Option<String>) -> Self {
        let mut logs = result.logs.clone();
        logs.iter_mut().for_each(make_visible);
        let log_chars = logs.iter().map(|line| line.chars().count() + 1).sum::<usize>();
        let (mut text, outline) = match &result.outcome {
            Ok(None) => ("(no result; use `return`, and `await` for calls)".to_owned(), None),
            Ok(Some(value)) => show(value, max, max.saturating_sub(log_chars.min(max / 4)), keep),
            Err(error) => (show_error(error, max), None),
        };
        if let Some(calls) = result.unawaited_text() {
            text += &format!("\n\n({calls})");
        }
        let mut dropped_logs = result.dropped_logs;
        if !logs.is_empty() || dropped_logs > 0 {
            let room = max.saturating_sub(text.chars().count()).max(max / 4);
            let cut = keep_lines(&mut logs, room);
            dropped_logs = dropped_logs.saturating_add(cut as u64);
            text += "\n\nLogs:";
            for line in &logs {
                text.extend(["\n", line]);
            }
            if dropped_logs > 0 {
                let lines = if dropped_logs == 1 { "line" } else { "lines" };
                let hint = if cut > 0 { NO_ROOM } else { log_hint };
                text += &format!("\n… {dropped_logs} more {lines}{hint}");
            }
        }
        Self { text, outline, logs, dropped_logs }
    }
}

/// A value of at most `room` characters, or its outline of half of `max`.
fn show(value: &Json, max: usize, room: usize, keep: impl FnOnce() -> Option<String>) -> (String, Option<Outline>) {
    let text = if let Json::String(text) = value { text.clone() } else { value.to_string() };
    let is_long = |text: &str| text.chars().nth(room).is_some();
    if !is_long(&text) {
        let visible = match value {
            Json::String(_) => escape(&text, Keep::Lines),
            _ => escape_json(&text, Keep::Joiners),
        };
        if !is_long(&visible) {
            return (visible.into_owned(), None);
        }
    }
    let characters = text.chars().count();
    let max = max / 2;
    let outline = match value {
        Json::String(_) => shown(text, max),
        value => truncate(escape_json(&outline(value, max), Keep::Joiners).into_owned(), max),
    };
    let text = match keep() {
        Some(read) => format!(
            "{outline}\n\n(this is an outline: the result has {characters} characters. Later code can read it: `{read}`)"
        ),
        None => format!("{outline}\n\n(the result has {characters} characters: return less)"),
    };
    (text, Some(Outline { characters, text: outline }))
}

fn show_error(error: &ExecuteError, max: usize) -> String {
    let mut error = error.clone();
    error.message = shown(std::mem::take(&mut error.message), max);
    truncate(error.to_string(), max)
}

/// Keeps the first lines, of at most `max` characters together, and at least the beginning of the first one. Returns how
/// many lines are dropped.
fn keep_lines(lines: &mut Vec<String>, max: usize) -> usize {
    let mut room = max;
    let whole = lines.iter().take_while(|line| {
        let length = line.chars().count() + 1;
        let fits = length <= room;
        room -= if fits { length } else { 0 };
        fits
    });
    let whole = whole.count();
    let dropped = lines.len() - whole;
    if let Some(next) = lines.get_mut(whole)
        && whole == 0
    {
        *next = truncate(std::mem::take(next), room);
        lines.truncate(1);
        return dropped - 1;
    }
    lines.truncate(whole);
    dropped
}

/// The hint for a log that fills its room in the text.
const NO_ROOM: &str = " (the answer has no room for more: print less, or return the data)";
