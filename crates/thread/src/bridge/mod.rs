//! Bridges: access of guest code to a thread (code-execution specification §9 and §11).
//!
//! Guests can access only what is granted, and each grant can be narrowed. This file builds grants; [`calls`] executes the
//! calls of guests, [`args`] checks their arguments, [`types`] prints the declarations for models.

mod args;
mod calls;
mod names;
mod types;

use std::sync::Arc;

use execbox::Provider;
use execbox::code::HostValue;

use crate::error::{Named, ThreadError};
use crate::path::Scope;
use crate::state::ThreadState;
use calls::{Calls, export};
use names::Names;

/// The default of [`Bridge::max_calls`].
const MAX_CALLS: u32 = 1_000;

/// Grants guest code access to parts of a thread; nothing by default. See [`ThreadState::bridge`].
///
/// Files are granted by scope: `/data/` is all files below that directory, `/data/input.json` that file (and files below it),
/// `/` all files. Grants add up.
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
    providers: Vec<Provider>,
    max_calls: u32,
}

impl ThreadState {
    /// Returns a bridge that grants nothing yet.
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
            providers: Vec::new(),
            max_calls: MAX_CALLS,
        }
    }
}

impl Bridge {
    /// Grants `readFile(path, encoding?)`, which returns text, or a `Uint8Array` with encoding `"bytes"`.
    pub fn read_file(mut self, scope: impl Into<String>) -> Self {
        self.read.push(scope.into());
        self
    }

    /// Grants `writeFile(path, data)` with text or bytes. It replaces existing files.
    pub fn write_file(mut self, scope: impl Into<String>) -> Self {
        self.write.push(scope.into());
        self
    }

    /// Grants `listFiles(options?)`, which returns paths, sizes and times.
    pub fn list_files(mut self, scope: impl Into<String>) -> Self {
        self.list.push(scope.into());
        self
    }

    /// Grants `getMessages(options?)` for all roles, including system prompts.
    pub fn get_messages(mut self) -> Self {
        self.messages = Names::All;
        self
    }

    /// Grants `getMessages(options?)` for these roles.
    pub fn get_messages_of<N: Into<String>>(mut self, roles: impl IntoIterator<Item = N>) -> Self {
        self.messages.extend(roles);
        self
    }

    /// Grants `emit(name, data?)` for all names. The [origin](crate::Origin) of these events is `Guest`. A call that the
    /// program does not await may be dropped when the program ends.
    pub fn emit(mut self) -> Self {
        self.events = Names::All;
        self
    }

    /// Grants `emit(name, data?)` for these names.
    pub fn emit_only<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.events.extend(names);
        self
    }

    /// Grants `getEnv(name)` for these names.
    pub fn get_env<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.env.extend(names);
        self
    }

    /// Grants a provider's tools, as an export with the provider's name: `import { tools } from "thread"`.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.providers.push(provider);
        self
    }

    /// Sets how many calls a run can make through this bridge. Default 1 000.
    pub fn max_calls(mut self, calls: u32) -> Self {
        self.max_calls = calls;
        self
    }

    /// Returns the exports for one run, to be passed to
    /// [`CodeExecutionOptions::import`](execbox::code::CodeExecutionOptions::import). Call it for each run: all exports of one
    /// call share one budget of calls.
    ///
    /// # Errors
    /// A scope or a name is invalid, or two exports have the same name.
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
        for provider in &self.providers {
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
