//! The progress of a long command, on a terminal.

use std::io::{self, IsTerminal as _, Write as _};

use crate::output::terminal::safe_line;

/// One line on standard error that is overwritten. Nothing is written if standard error is not a terminal.
pub(crate) struct Progress {
    is_shown: bool,
    done: usize,
    all: usize,
}

impl Progress {
    /// Begins a command of `all` steps.
    pub(crate) fn new(all: usize) -> Self {
        let is_shown = io::stderr().is_terminal();
        Self { is_shown, done: 0, all }
    }

    /// Shows that the next step has begun or ended.
    pub(crate) fn show(&mut self, name: &str) {
        self.done += 1;
        self.write(&format!("{}/{} {name}", self.done, self.all));
    }

    /// Replaces the line.
    pub(crate) fn write(&self, line: &str) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K{}", safe_line(line));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
