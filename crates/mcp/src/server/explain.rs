//! Adds to the error of a program what only the gateway knows: why a name is missing, and where a call failed.

use std::fmt;

use execbox::{Cause, ExecuteError, MemberPath, Provider};
use execbox_core::error::SCRIPT_NAME;

use super::{AbsentTool, CodeServer, state};

/// The providers and snippets that a program was run with.
pub(super) struct Explainer<'a> {
    pub(super) server: &'a CodeServer,
    /// The providers of servers.
    pub(super) granted: &'a [Provider],
    /// The providers of this server.
    pub(super) own: Vec<Provider>,
    /// Whether the program could call snippets.
    pub(super) has_snippets: bool,
}

/// Why a program does not have a name.
enum Absence {
    /// The namespace has become available since.
    Newer,
    /// The server has the tool, but it cannot be called.
    Tool(AbsentTool),
    /// No snippet of this name was saved when the program started.
    Unsaved,
}

impl Explainer<'_> {
    pub(super) fn explain(&self, error: &mut ExecuteError) {
        match error.cause.as_deref() {
            Some(Cause::NotDefined { name }) if !has(self.granted, name) => {
                let source = &self.server.inner.source;
                if let Some(missing) = source.unavailable().into_iter().find(|missing| missing.name == *name) {
                    error.message = missing.to_string();
                } else if has(&source.providers(), name) {
                    error.message = Absence::Newer.message(name);
                }
            }
            Some(Cause::NotAFunction { path } | Cause::PropertyOfNothing { path }) => {
                let member = MemberPath(path.0.iter().take(2).cloned().collect());
                match self.member(&member) {
                    Some(Absence::Unsaved) => error.message += &format!("; {}", Absence::Unsaved),
                    Some(absence) => error.message = absence.message(member),
                    None => {}
                }
            }
            Some(Cause::FailedCall { provider, tool, .. }) => {
                if let Some(called) = self.granted.iter().chain(&self.own).find(|known| known.name() == provider) {
                    let message = called.bare_message(tool, &error.message);
                    error.message = format!("{provider}.{tool} failed{}: {message}", place(error));
                }
            }
            _ => {}
        }
    }

    /// Why a member of a namespace is missing.
    fn member(&self, path: &MemberPath) -> Option<Absence> {
        let [namespace, tool] = &*path.0 else { return None };
        if self.has_snippets && namespace == state::SNIPPETS {
            return Some(Absence::Unsaved);
        }
        self.server.inner.source.absent_tool(namespace, tool).map(Absence::Tool)
    }
}

impl Absence {
    fn message(&self, name: impl fmt::Display) -> String {
        format!("{name} {self}")
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer => f.write_str("was not available when the program started; try again"),
            Self::Tool(absent) => absent.fmt(f),
            Self::Unsaved => f.write_str("programs can call the snippets that were saved before they started"),
        }
    }
}

fn has(providers: &[Provider], name: &str) -> bool {
    providers.iter().any(|provider| provider.name() == name)
}

/// Where a call failed: ` (line 3)`, ` (line 2 of snippets.total)`.
fn place(error: &ExecuteError) -> String {
    match error.stack.first() {
        Some(frame) if frame.file != SCRIPT_NAME => format!(" (line {} of {})", frame.line, frame.file),
        frame => frame.map_or_else(String::new, |frame| format!(" (line {})", frame.line)),
    }
}
