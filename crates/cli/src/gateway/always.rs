//! "Always" as an answer about a call: adds its tool to `alwaysAllow` in the file of its server, after the change was shown.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use execbox_mcp::config::{Config, Context as _, EditError, Edited, SkipReason, always_allow};
use execbox_mcp::server::{AlwaysAllow, Proposal};
use serde::{Deserialize, Serialize};

use crate::config::context::{FileContext, Placeholders};
use crate::config::files::Files;
use crate::error::CliError;
use crate::files::rewrite::{Rewrite, RewriteError};
use crate::files::source;
use crate::gateway::watch::Lines;
use crate::options::servers::Loaded;
use crate::output::path::shown;
use crate::prompt::{Attended, Terminal};

/// The entries of the servers of this process, and the tools that were added to them.
#[derive(Default)]
pub(crate) struct Always {
    entries: Mutex<HashMap<String, Result<Entry, NoEntry>>>,
    /// The tools that were added since the configuration was read, as `namespace.tool`.
    added: Mutex<HashSet<String>>,
}

/// An entry of a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// An absolute path.
    file: PathBuf,
    /// The workspace folder with which the file was read.
    workspace: Option<PathBuf>,
    server: String,
}

/// A tool, and the entry that decides about its calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    entry: Entry,
    /// The tool with its namespace: `shop.delete_order`.
    tool: String,
    /// The names of the tool on its server and in code.
    names: [String; 2],
}

/// Why a tool has no entry that can be changed.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub(crate) enum NoEntry {
    #[error("its server is in no file of --config")]
    Option,
    #[error("{file} is a pipe")]
    Pipe { file: String },
    #[error("several entries for the server {server:?} are equal")]
    Equal { server: String },
}

/// The error for a tool without an entry.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[error("cannot write that {tool} is always allowed: {reason}; start the gateway with `--always-allow {tool}` instead")]
pub(crate) struct NoTarget {
    tool: String,
    reason: NoEntry,
}

impl CliError for NoTarget {}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AlwaysError {
    #[error("{}:{error}", file.display())]
    Config { file: PathBuf, error: EditError },
    #[error("{}: {error}", file.display())]
    Edit { file: PathBuf, error: EditError },
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    #[error("there is no terminal to ask at; use --yes to write this without a question")]
    NoTerminal,
    #[error("nothing is written")]
    Declined,
}

impl CliError for AlwaysError {}

impl Always {
    pub(crate) fn new(loaded: &Loaded) -> Arc<Self> {
        let always = Self::default();
        always.set(loaded);
        Arc::new(always)
    }

    /// Replaces the entries by those of a configuration that was read again, which has the tools that were added.
    pub(crate) fn set(&self, loaded: &Loaded) {
        let namespaces = loaded.config.namespaces().into_iter();
        let entries = loaded.config.servers.iter().zip(&loaded.sources).map(|(server, file)| {
            let is_equal = |reason: &SkipReason| matches!(reason, SkipReason::Duplicate);
            let mut skipped = loaded.config.skipped.iter();
            match file {
                None => Err(NoEntry::Option),
                Some(file) if source::is_descriptor(file) => Err(NoEntry::Pipe { file: file.display().to_string() }),
                Some(_) if skipped.any(|skipped| skipped.name == server.name && is_equal(&skipped.reason)) => {
                    Err(NoEntry::Equal { server: server.name.clone() })
                }
                Some(file) => Ok(Entry::new(file, &server.name)),
            }
        });
        *lock(&self.entries) = namespaces.zip(entries).collect();
        lock(&self.added).clear();
    }

    /// The entry for a tool. `names` are its names on its server and in code.
    pub(crate) fn target(&self, namespace: &str, names: [&str; 2]) -> Result<Target, NoTarget> {
        let tool = format!("{namespace}.{}", names[1]);
        match lock(&self.entries).get(namespace).cloned().unwrap_or(Err(NoEntry::Option)) {
            Ok(entry) => Ok(Target { entry, tool, names: names.map(str::to_owned) }),
            Err(reason) => Err(NoTarget { tool, reason }),
        }
    }

    /// Exempts a tool that was added to its entry, until the configuration is read again.
    pub(crate) fn add(&self, tool: &str) {
        lock(&self.added).insert(tool.to_owned());
    }

    /// Whether a tool was added since the configuration was read.
    pub(crate) fn has(&self, tool: &str) -> bool {
        lock(&self.added).contains(tool)
    }

    /// Lets the user of a client add tools. `lines` receives what is written.
    pub(crate) fn for_client(self: &Arc<Self>, lines: Lines) -> AlwaysAllow {
        let always = Arc::clone(self);
        AlwaysAllow::new(move |namespace, names| {
            let change = always.target(namespace, names).ok()?.change().ok()??;
            let (title, always, lines) = (format!("Always: {}", change.summary()), Arc::clone(&always), lines.clone());
            Some(Proposal::new(title, move || match change.write() {
                Ok(()) => {
                    always.add(&change.target.tool);
                    lines.add(&format!("the user of the client {}", change.summary()), false);
                    true
                }
                Err(error) => {
                    lines.add(&format!("{} is not always allowed: {error}", change.target.tool), true);
                    false
                }
            }))
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    fn new(file: &Path, server: &str) -> Self {
        let workspace = FileContext::new(file, Attended::Never, Files::default()).workspace_folder();
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        Self { file, workspace, server: server.to_owned() }
    }

    fn context(&self) -> Placeholders {
        Placeholders { file: self.file.clone(), workspace: self.workspace.clone() }
    }
}

impl Target {
    pub(crate) fn tool(&self) -> &str {
        &self.tool
    }

    /// The file of the entry, as text for a person.
    pub(crate) fn file(&self) -> String {
        shown(&self.entry.file)
    }

    /// The change of the file that adds the tool. `None` if the file allows it already.
    pub(crate) fn change(&self) -> Result<Option<Change>, AlwaysError> {
        let rewrite = Rewrite::read(&self.entry.file)?;
        let [original, safe] = &self.names;
        let edited = always_allow(rewrite.text(), &self.entry.context(), &self.entry.server, [original, safe]);
        let edited = edited.map_err(|error| {
            let file = self.entry.file.clone();
            match error {
                EditError::Invalid(_) => AlwaysError::Config { file, error },
                error => AlwaysError::Edit { file, error },
            }
        })?;
        Ok(edited.map(|edited| Change { target: self.clone(), rewrite, edited }))
    }

    /// Shows the change at a terminal, and writes it if the user agrees. Returns whether the file allows the tool now.
    pub(crate) fn write_at(&self, terminal: &mut Terminal) -> bool {
        let written = self.change().and_then(|change| match change {
            Some(change) => change.write_if_confirmed(terminal),
            None => Ok(()),
        });
        if let Err(error) = &written {
            let _ = terminal.note(&error.to_string());
        }
        written.is_ok()
    }
}

/// A change of a file, which is not written yet.
pub(crate) struct Change {
    target: Target,
    rewrite: Rewrite,
    edited: Edited,
}

impl Change {
    /// What is added, and where.
    fn summary(&self) -> String {
        let Edited { pattern, key, .. } = &self.edited;
        format!("adds {pattern:?} to {key:?} of {:?} in {}", self.target.entry.server, self.target.file())
    }

    /// The file and its lines that change, without secrets.
    pub(crate) fn text(&self) -> String {
        let (file, real) = (self.target.file(), shown(self.rewrite.path()));
        let link = if file == real { String::new() } else { format!(" -> {real}") };
        let secrets = Config::secrets(self.rewrite.text(), &self.target.entry.context());
        // Redacted as a whole: of a secret that is cut, a part would remain.
        let [old, new] = [self.rewrite.text(), &self.edited.text].map(|text| secrets.redact(text.to_owned()));
        format!("{file}{link}\n{}", changed_lines(&old, &new))
    }

    pub(crate) fn write_if_confirmed(&self, terminal: &mut Terminal) -> Result<(), AlwaysError> {
        match terminal.choose(&format!("\n{}", self.text()), "Write this? y/n: ", "yn") {
            Ok('y') => self.write(),
            Ok(_) | Err(_) => Err(AlwaysError::Declined),
        }
    }

    /// Writes the file, if it still has the text that the change is about.
    pub(crate) fn write(&self) -> Result<(), AlwaysError> {
        Ok(self.rewrite.replace(&self.edited.text)?)
    }
}

/// The lines that differ, with their numbers: `12 - old` and `12 + new`. Of a long line, the part that differs is shown.
fn changed_lines(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let first = common(old.iter(), new.iter());
    let last = common(old[first..].iter().rev(), new[first..].iter().rev());
    let (removed, added) = (&old[first..old.len() - last], &new[first..new.len() - last]);
    let width = (first + added.len()).to_string().len();
    let part = |lines: &[&str], others: &[&str], sign| {
        let line = |(at, line): (usize, &&str)| {
            let other = others.get(at).copied().unwrap_or_default();
            format!("{:width$} {sign} {}", first + at + 1, different_part(line, other))
        };
        lines.iter().enumerate().map(line).collect::<Vec<_>>()
    };
    [part(removed, added, '-'), part(added, removed, '+')].concat().join("\n")
}

/// How many items two sequences have in common at their beginning.
fn common<T: PartialEq>(a: impl Iterator<Item = T>, b: impl Iterator<Item = T>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

/// A line with at most [`MAX_AROUND`] characters before and after what differs from another one.
fn different_part(line: &str, other: &str) -> String {
    let (line, other): (Vec<char>, Vec<char>) = (line.chars().collect(), other.chars().collect());
    let start = common(line.iter(), other.iter());
    let end = line.len() - common(line[start..].iter().rev(), other[start.min(other.len())..].iter().rev());
    let (from, to) = (start.saturating_sub(MAX_AROUND), (end + MAX_AROUND).min(line.len()));
    let mark = |is_cut| if is_cut { "…" } else { "" };
    let part: String = line[from..to].iter().collect();
    format!("{}{}{}", mark(from > 0), part.replace('\t', "    "), mark(to < line.len()))
}

/// The number of characters of a line that are shown before and after what differs.
const MAX_AROUND: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_with_their_numbers() {
        for (old, new, expected) in [
            ("a\nb\nc\n", "a\nx\nb\nc\n", "2 + x"),
            ("a\n\tb\nc", "a\n\tb,\n\tx\nc", "2 -     b\n2 +     b,\n3 +     x"),
            ("a", "ax", "1 - a\n1 + ax"),
            ("x\n\u{20}]", "x,\n\"y\"\n\u{20}]", "1 - x\n1 + x,\n2 + \"y\""),
        ] {
            assert_eq!(changed_lines(old, new), expected);
        }
    }

    #[test]
    fn of_long_lines_the_part_that_differs_is_shown() {
        let (before, after) = ("b".repeat(5_000), "c".repeat(5_000));
        let (old, new) = (format!("{before}{after}"), format!("{before}{}{after}", "new".repeat(500)));
        let around = ("b".repeat(MAX_AROUND), "c".repeat(MAX_AROUND));
        let expected = format!("1 - …{0}{1}…\n1 + …{0}{2}{1}…", around.0, around.1, "new".repeat(500));
        assert_eq!(changed_lines(&old, &new), expected);
    }
}
