//! Bridges: what of a thread the caller grants to guest code (code-execution specification §9 and §11).
//!
//! Nothing is granted but what is named, and each grant can be narrowed. Here is what can be said; [`calls`] is what happens
//! when a guest calls, [`args`] checks what it calls with, [`types`] writes the declarations for models.

mod args;
mod calls;
mod types;

use std::sync::Arc;

use execbox::Provider;
use execbox::code::HostValue;

use crate::error::{Named, ThreadError};
use crate::limits::check_name;
use crate::path::Scope;
use crate::state::ThreadState;
use calls::{Calls, export};

/// How many calls one run has, unless the bridge says otherwise.
const MAX_CALLS: u32 = 1_000;

/// What of a thread is granted to guest code: nothing, until its methods grant it. See [`ThreadState::bridge`].
///
/// Files are granted by scopes: `/data/` is all below that folder, `/data/input.json` that one file (and what is below it), `/`
/// everything. Granting the same thing twice grants both.
///
/// ```
/// use execbox::InlineExecutor;
/// use execbox::code::CodeExecutionOptions;
/// use execbox_thread::ThreadStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let thread = ThreadStore::in_memory().await?.thread("t")?;
/// thread.write_file("/data/input.json", "[1, 2, 3]").await?;
///
/// let bridge = thread.bridge().read_file("/data/").write_file("/out/").emit_only(["progress"]);
/// let source = "
///     import { readFile, writeFile, emit } from 'thread';
///     const rows: number[] = JSON.parse(await readFile('/data/input.json'));
///     await emit('progress', { rows: rows.length });
///     await writeFile('/out/sum.txt', String(rows.reduce((a, b) => a + b, 0)));
///     export default null;
/// ";
/// let options = CodeExecutionOptions::new().import("thread", bridge.exports()?);
/// let result = thread.run_code(&InlineExecutor::new()?, source, options).await;
/// assert!(result.error.is_none());
/// assert_eq!(thread.read_file("/out/sum.txt").await?, b"6");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a bridge grants nothing until its exports are given to a run"]
pub struct Bridge {
    thread: ThreadState,
    read: Vec<String>,
    write: Vec<String>,
    list: Vec<String>,
    messages: Names,
    events: Names,
    env: Names,
    tools: Vec<Provider>,
    max_calls: u32,
}

/// Which names are granted.
#[derive(Debug, Clone)]
enum Names {
    Only(Vec<String>),
    All,
}

impl ThreadState {
    /// A bridge that grants nothing yet.
    pub fn bridge(&self) -> Bridge {
        let none = || Names::Only(Vec::new());
        Bridge {
            thread: self.clone(),
            read: Vec::new(),
            write: Vec::new(),
            list: Vec::new(),
            messages: none(),
            events: none(),
            env: none(),
            tools: Vec::new(),
            max_calls: MAX_CALLS,
        }
    }
}

impl Bridge {
    /// Grants `readFile(path, encoding?)`: files as text, or with `"bytes"` as a `Uint8Array`.
    pub fn read_file(mut self, scope: impl Into<String>) -> Self {
        self.read.push(scope.into());
        self
    }

    /// Grants `writeFile(path, data)`: text, or bytes. It replaces files that are there.
    pub fn write_file(mut self, scope: impl Into<String>) -> Self {
        self.write.push(scope.into());
        self
    }

    /// Grants `listFiles(options?)`: paths, sizes and times.
    pub fn list_files(mut self, scope: impl Into<String>) -> Self {
        self.list.push(scope.into());
        self
    }

    /// Grants `getMessages(options?)`: messages of every role, system prompts among them.
    pub fn get_messages(mut self) -> Self {
        self.messages = Names::All;
        self
    }

    /// Grants `getMessages(options?)`: messages of these roles only.
    pub fn get_messages_of<N: Into<String>>(mut self, roles: impl IntoIterator<Item = N>) -> Self {
        self.messages.extend(roles);
        self
    }

    /// Grants `emit(name, data?)`: events of any name. Their [origin](crate::Origin) says that a guest emitted them. As with every
    /// call, one that the program does not await may be left out when the program ends.
    pub fn emit(mut self) -> Self {
        self.events = Names::All;
        self
    }

    /// Grants `emit(name, data?)`: events of these names only.
    pub fn emit_only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.events.extend(names);
        self
    }

    /// Grants `getEnv(name)`: these values, and no others.
    pub fn get_env<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.env.extend(names);
        self
    }

    /// Grants a provider's tools, as an export with the provider's name: `import { tools } from "thread"`.
    pub fn tools(mut self, provider: Provider) -> Self {
        self.tools.push(provider);
        self
    }

    /// How many calls a run may make through this bridge: 1 000 by default.
    pub fn max_calls(mut self, calls: u32) -> Self {
        self.max_calls = calls;
        self
    }

    /// What is granted, for one run: to be given to
    /// [`CodeExecutionOptions::import`](execbox::code::CodeExecutionOptions::import). Ask anew for each run: the budget of calls
    /// belongs to what is given out.
    ///
    /// # Errors
    /// A scope is no path, a name cannot be used, or two exports have one name.
    pub fn exports(&self) -> Result<Vec<(String, HostValue)>, ThreadError> {
        let calls = Arc::new(Calls::new(self.thread.clone(), self.max_calls));
        let mut exports = Vec::new();
        if !self.read.is_empty() {
            exports.push(export(&calls, "readFile", scopes(&self.read)?, calls::read_file));
        }
        if !self.write.is_empty() {
            exports.push(export(&calls, "writeFile", scopes(&self.write)?, calls::write_file));
        }
        if !self.list.is_empty() {
            exports.push(export(&calls, "listFiles", scopes(&self.list)?, calls::list_files));
        }
        if !self.messages.is_empty() {
            exports.push(export(&calls, "getMessages", self.messages.checked(Named::Role)?, calls::get_messages));
        }
        if !self.events.is_empty() {
            exports.push(export(&calls, "emit", self.events.checked(Named::Event)?, calls::emit));
        }
        if !self.env.is_empty() {
            exports.push(export(&calls, "getEnv", self.env.checked(Named::Env)?, calls::get_env));
        }
        for provider in &self.tools {
            let name = provider.name();
            if exports.iter().any(|(taken, _)| taken == name) {
                return Err(ThreadError::DuplicateExport(name.to_owned()));
            }
            exports.push((name.to_owned(), calls::tools(&calls, provider)));
        }
        Ok(exports)
    }
}

fn scopes(scopes: &[String]) -> Result<Vec<Scope>, ThreadError> {
    Ok(scopes.iter().map(|scope| Scope::parse(scope)).collect::<Result<_, _>>()?)
}

impl Names {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Only(names) if names.is_empty())
    }

    /// Grants these names, too.
    fn extend<N: Into<String>>(&mut self, more: impl IntoIterator<Item = N>) {
        if let Self::Only(names) = self {
            names.extend(more.into_iter().map(Into::into));
        }
    }

    fn contains(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.iter().any(|granted| granted == name),
            Self::All => true,
        }
    }

    fn checked(&self, what: Named) -> Result<Self, ThreadError> {
        if let Self::Only(names) = self {
            names.iter().try_for_each(|name| check_name(what, name))?;
        }
        Ok(self.clone())
    }
}
