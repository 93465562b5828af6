//! Calls that a program began and did not await, as its result reports them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::error::{SCRIPT_NAME, StackFrame};
use crate::text::OneLine;

/// The most places in [`UnawaitedCalls`].
pub const MAX_PLACES: usize = 8;

/// The calls that had no answer when a program returned, threw or was stopped. At least one.
///
/// [`Display`](fmt::Display) writes a sentence for the author of the program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UnawaitedCalls {
    /// The number of calls that were answered after a script had returned, which it waited for. Runs do not wait.
    pub waited_for: u64,
    /// The number of calls that had no answer when the program ended. They were cancelled.
    pub unanswered: u64,
    /// The lines with the calls, in the order of the first call on each; at most [`MAX_PLACES`].
    pub places: Vec<CallPlace>,
}

/// A tool, or a function of the host, and a line of the program that called it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallPlace {
    /// The name of the provider. In a run, the specifier of the bridged module; empty for a global.
    pub provider: String,
    /// The name of the tool in guest code. In a run, that of the function: `get`, `state.get`; empty if no import and no
    /// global has the function, as answers can have functions, too.
    pub tool: String,
    /// The place of the first call on the line. `None` if the host stopped the program, and from runners that do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<StackFrame>,
    /// The number of calls on the line, among those whose places are known.
    pub calls: u64,
}

impl UnawaitedCalls {
    /// The calls, if there are any. `places` has one entry for each call.
    pub(crate) fn new(waited_for: u64, unanswered: u64, calls: impl IntoIterator<Item = CallPlace>) -> Option<Self> {
        if waited_for + unanswered == 0 {
            return None;
        }
        let mut places: Vec<CallPlace> = Vec::new();
        for call in calls {
            let known = places.iter_mut().find(|place| place.is_same(&call));
            if let Some(place) = known {
                place.calls += call.calls;
            } else if places.len() < MAX_PLACES {
                places.push(call);
            }
        }
        Some(Self { waited_for, unanswered, places })
    }

    /// A sentence for the author of the program, with the remedy if it returned. `None` if the cause of its failure describes
    /// the calls.
    pub(crate) fn text(&self, has_returned: bool, cause: Option<&Cause>) -> Option<String> {
        let is_described = match cause {
            Some(Cause::Limit(limit)) => limit.calls.as_ref().is_some_and(|calls| calls.unanswered > 0),
            _ => false,
        };
        let text = || if has_returned { format!("{self}; {}", self.remedy()) } else { self.to_string() };
        (!is_described).then(text)
    }

    /// What the author of a program that returned should write.
    fn remedy(&self) -> &'static str {
        match (self.waited_for, self.unanswered) {
            (1, 0) => "`await` it to use the result and to see an error",
            (_, 0) => "`await` them to use the results and to see errors",
            (0, 1) => "`await` it",
            _ => "`await` them",
        }
    }
}

impl CallPlace {
    /// Whether the other call is of the same tool on the same line.
    fn is_same(&self, other: &Self) -> bool {
        let line = |place: &Self| place.at.as_ref().map(|at| (at.file.clone(), at.line));
        (&self.provider, &self.tool) == (&other.provider, &other.tool) && line(self) == line(other)
    }
}

/// `2 calls were unanswered when the program ended, and cancelled: shop.close (line 3, 2 calls)`
impl fmt::Display for UnawaitedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waited_for, unanswered, places } = self;
        let are = |count: &u64| if *count == 1 { "call was" } else { "calls were" };
        match (waited_for, unanswered) {
            (0, count) => {
                write!(f, "{count} {} unanswered when the program ended, and cancelled", are(count))?;
            }
            (count, 0) => {
                write!(f, "the program returned before {count} {} answered, and waited", are(count))?;
            }
            (waited_for, count) => {
                let total = waited_for + count;
                write!(
                    f,
                    "the program returned before {total} {} answered; it waited for {waited_for}, and {count} {} cancelled",
                    are(&total),
                    if *count == 1 { "was" } else { "were" }
                )?;
            }
        }
        // The places of many calls are not known: counts that do not add up would be misleading.
        let are_complete = places.iter().map(|place| place.calls).sum::<u64>() == waited_for + unanswered;
        for (number, place) in places.iter().enumerate() {
            let calls = if are_complete { place.calls } else { 1 };
            let place = CallPlace { calls, ..place.clone() };
            write!(f, "{} {place}", if number == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

/// `shop.close (line 3, 2 calls)`
impl fmt::Display for CallPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, tool, at, calls } = self;
        match (provider.as_str(), tool.as_str()) {
            (_, "") => write!(f, "a function of the host")?,
            ("", tool) => write!(f, "{}", OneLine(tool))?,
            (provider, tool) => write!(f, "{}.{}", OneLine(provider), OneLine(tool))?,
        }
        let place = at.as_ref().map(|at| match at.file.as_str() {
            SCRIPT_NAME => format!("line {}", at.line),
            file => format!("{} line {}", OneLine(file), at.line),
        });
        let times = (*calls > 1).then(|| format!("{calls} calls"));
        match (place, times) {
            (None, None) => Ok(()),
            (Some(text), None) | (None, Some(text)) => write!(f, " ({text})"),
            (Some(place), Some(times)) => write!(f, " ({place}, {times})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(tool: &str, line: u32) -> CallPlace {
        let at = StackFrame { function: None, file: SCRIPT_NAME.to_owned(), line, column: 1 };
        CallPlace { provider: "shop".to_owned(), tool: tool.to_owned(), at: Some(at), calls: 1 }
    }

    #[test]
    fn calls_are_counted_by_place() {
        let calls = [place("close", 3), place("open", 4), place("close", 3), place("close", 5)];
        let unawaited = UnawaitedCalls::new(0, 4, calls).unwrap();
        let counts: Vec<_> = unawaited.places.iter().map(|place| place.calls).collect();
        assert_eq!(counts, [2, 1, 1], "by line");
        assert_eq!(UnawaitedCalls::new(0, 0, []), None);
        let many = (0..100).map(|line| place("close", line));
        assert_eq!(UnawaitedCalls::new(0, 100, many).unwrap().places.len(), MAX_PLACES);
    }

    #[test]
    fn calls_are_described_in_one_sentence() {
        let text = |waited_for, unanswered, places: &[CallPlace]| {
            UnawaitedCalls { waited_for, unanswered, places: places.to_vec() }.to_string()
        };
        let unplaced = CallPlace { at: None, ..place("close", 1) };
        let elsewhere = |file: &str| StackFrame { file: file.to_owned(), ..place("open", 7).at.unwrap() };
        let in_function = CallPlace { at: Some(elsewhere("lib.total")), ..place("open", 1) };
        let two = CallPlace { calls: 2, ..place("close", 3) };
        for (described, expected) in [
            (
                text(0, 1, &[place("close", 3)]),
                "1 call was unanswered when the program ended, and cancelled: shop.close (line 3)",
            ),
            (
                text(0, 3, &[two, place("open", 4)]),
                "3 calls were unanswered when the program ended, and cancelled: shop.close (line 3, 2 calls), \
                 shop.open (line 4)",
            ),
            (
                text(1, 0, &[place("close", 3)]),
                "the program returned before 1 call was answered, and waited: shop.close (line 3)",
            ),
            (
                text(2, 1, &[CallPlace { calls: 3, ..unplaced }]),
                "the program returned before 3 calls were answered; it waited for 2, and 1 was cancelled: shop.close \
                 (3 calls)",
            ),
            (
                text(0, 1, &[in_function]),
                "1 call was unanswered when the program ended, and cancelled: shop.open (lib.total line 7)",
            ),
            (
                text(0, 900, &[CallPlace { calls: 16, ..place("close", 3) }]),
                "900 calls were unanswered when the program ended, and cancelled: shop.close (line 3)",
            ),
            (text(0, 900, &[]), "900 calls were unanswered when the program ended, and cancelled"),
        ] {
            assert_eq!(described, expected);
        }
    }
}
