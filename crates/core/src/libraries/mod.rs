//! JavaScript that an engine evaluates in the realm of a script when the script first uses it: what other hosts of JavaScript
//! have beside ECMAScript.
//!
//! A library is an expression: a strict function that takes functions of the engine and returns an object with functions and
//! classes. Its first lines say which. It runs once, as code of the guest: guest code may have changed every built-in before, which
//! harms only the guest. A program that uses no library pays for none.
//!
//! An engine has each member as a property that gets its value when it is first read. Libraries hold nothing that a guest must
//! not have, and serve both engines. What guest code must not influence is not a library: it is native code of the engine, or uses
//! intrinsics that were taken before guest code ran.
//!
//! Timers are a list in the guest. The guest asks the host for the time of the first one only
//! ([`Event::Timer`](crate::engine::Event::Timer)), which the [`Execution`](crate::execution::Execution) keeps.

/// A library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Library {
    /// `TextEncoder`, `TextDecoder`, `atob`, `btoa`, `self` and an `eval` that evaluates nothing.
    Text,
    /// The functions of `console` that are not `log`, `info`, `warn`, `error` or `debug`, and lines with placeholders.
    Console,
    /// `setTimeout` and the like.
    Timers,
}

impl Library {
    /// The number of libraries.
    pub const COUNT: usize = 3;

    /// The source.
    pub fn source(self) -> &'static str {
        match self {
            Self::Text => include_str!("text.js"),
            Self::Console => include_str!("console.js"),
            Self::Timers => include_str!("timers.js"),
        }
    }

    /// The members that are globals, or functions of `console`.
    pub fn members(self) -> &'static [&'static str] {
        match self {
            Self::Text => &["TextDecoder", "TextEncoder", "atob", "btoa", "eval", "self"],
            Self::Console => &[
                "assert",
                "count",
                "countReset",
                "dir",
                "dirxml",
                "group",
                "groupCollapsed",
                "groupEnd",
                "table",
                "time",
                "timeEnd",
                "timeLog",
                "trace",
            ],
            Self::Timers => {
                &["clearImmediate", "clearInterval", "clearTimeout", "setImmediate", "setInterval", "setTimeout"]
            }
        }
    }
}

/// Globals of a script that are not ECMAScript's, beside `console`, `structuredClone` and `queueMicrotask`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Globals {
    /// What other hosts of JavaScript have in common and gives a program no power: the members of [`Library::Text`], and `Intl`.
    pub common: bool,
    /// The members of [`Library::Timers`].
    pub timers: bool,
}

impl Globals {
    /// The libraries whose members are globals.
    pub fn libraries(self) -> impl Iterator<Item = Library> {
        let common = self.common.then_some(Library::Text);
        common.into_iter().chain(self.timers.then_some(Library::Timers))
    }
}
