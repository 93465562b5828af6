//! Execution of the calls of guests to a bridge's functions.
//!
//! Every call is untrusted. It is counted, its arguments are checked, and they are matched against the grant before the
//! thread is accessed. Errors reveal nothing about the host or about what is not granted, such as the existence of a file
//! outside the granted scopes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use execbox::code::{Args, HostError, HostResult, HostValue};
use execbox::{ErrorCode, ExecuteError, Provider};
use execbox_core::text::cut;
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::args::{self, Encoding, Options, type_error};
use super::names::Names;
use crate::error::ThreadError;
use crate::messages::MessageQuery;
use crate::origin::Origin;
use crate::path::{FilePath, Scope};
use crate::state::ThreadState;

/// The most concurrent calls of one run; further calls wait. It bounds the results that are held for a guest that does not
/// read them.
const MAX_CONCURRENT: usize = 8;

/// The thread and the call limits of one run.
pub(super) struct Calls {
    thread: ThreadState,
    max: u32,
    started: AtomicU32,
    concurrent: Semaphore,
}

impl Calls {
    pub(super) fn new(thread: ThreadState, max: u32) -> Self {
        Self { thread, max, started: AtomicU32::new(0), concurrent: Semaphore::new(MAX_CONCURRENT) }
    }

    fn count(&self) -> Result<(), HostError> {
        let counted = |started: u32| (started < self.max).then(|| started + 1);
        if self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted).is_err() {
            let message = format!("call limit exceeded: {} calls per run", self.max);
            return Err(HostError::named("RangeError", message));
        }
        Ok(())
    }

    /// Counts a call of the thread's functions and waits for one of the concurrent slots.
    async fn begin(&self) -> Result<SemaphorePermit<'_>, HostError> {
        self.count()?;
        self.concurrent.acquire().await.map_err(|_| unavailable())
    }
}

/// Creates a function for the guest that executes `call` with `grant`.
pub(super) fn export<G, F, Fut>(calls: &Arc<Calls>, name: &'static str, grant: G, call: F) -> (String, HostValue)
where
    G: Send + Sync + 'static,
    F: Fn(ThreadState, Arc<G>, Args) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = HostResult> + Send + 'static,
{
    let (calls, grant) = (Arc::clone(calls), Arc::new(grant));
    let function = move |args| {
        let (calls, grant) = (Arc::clone(&calls), Arc::clone(&grant));
        async move {
            let result = match calls.begin().await {
                Ok(_permit) => call(calls.thread.clone(), grant, args).await,
                Err(error) => Err(error),
            };
            result.map_err(|error| HostError::named(error.name, format!("{name}: {}", error.message)))
        }
    };
    (name.to_owned(), HostValue::async_function(name, function))
}

// ---- Files ------------------------------------------------------------------------------------------

pub(super) async fn read_file(thread: ThreadState, granted: Arc<Vec<Scope>>, args: Args) -> HostResult {
    args::at_most(&args, 2, "readFile(path) or readFile(path, \"bytes\")")?;
    let path = granted_path(&granted, args::text(&args, 0, "path")?)?;
    let encoding = args::encoding(&args, 1)?;
    let name = path.to_string();
    let content = thread.read_at(path).await.map_err(|error| guest_error(&error))?;
    match encoding {
        Encoding::Bytes => Ok(HostValue::bytes(content)),
        Encoding::Utf8 => String::from_utf8(content).map(HostValue::from).map_err(|_| {
            type_error(format!("{name} is not UTF-8 text; read it as bytes with readFile({name:?}, \"bytes\")"))
        }),
    }
}

pub(super) async fn write_file(thread: ThreadState, granted: Arc<Vec<Scope>>, args: Args) -> HostResult {
    args::at_most(&args, 2, "writeFile(path, data)")?;
    let path = granted_path(&granted, args::text(&args, 0, "path")?)?;
    let content = args::content(&args, 1)?;
    thread.write_at(Origin::Guest, path, content).await.map_err(|error| guest_error(&error))?;
    Ok(HostValue::undefined())
}

pub(super) async fn list_files(thread: ThreadState, granted: Arc<Vec<Scope>>, args: Args) -> HostResult {
    args::at_most(&args, 1, "listFiles(), listFiles(folder) or listFiles({ under, after, limit })")?;
    let (under, after, limit) = if let Some(folder) = args.get(0).as_str() {
        (Some(folder), None, None)
    } else {
        let options = Options::new(&args, 0, &["under", "after", "limit"])?;
        (options.text("under")?, options.text("after")?, options.limit()?)
    };
    let asked = under.map_or(Ok(Scope::everything()), Scope::parse).map_err(|error| guest_error(&error.into()))?;
    let after = after.map(FilePath::parse).transpose().map_err(|error| guest_error(&error.into()))?;
    let scopes: Vec<Scope> = if granted.iter().any(|granted| granted.covers(&asked)) {
        vec![asked]
    } else {
        let within: Vec<Scope> = granted.iter().filter(|granted| asked.covers(granted)).cloned().collect();
        if within.is_empty() {
            return Err(not_granted(under.unwrap_or("/"), &granted));
        }
        within
    };
    to_guest(&thread.list_in(scopes, after, limit).await.map_err(|error| guest_error(&error))?)
}

fn granted_path(granted: &[Scope], path: &str) -> Result<FilePath, HostError> {
    let path = FilePath::parse(path).map_err(|error| guest_error(&error.into()))?;
    let is_granted = granted.iter().any(|scope| scope.contains(&path));
    if is_granted { Ok(path) } else { Err(not_granted(path.as_str(), granted)) }
}

fn not_granted(path: &str, granted: &[Scope]) -> HostError {
    HostError::new(format!("access to {path:?} is not granted; granted: {}", list(granted)))
}

// ---- Messages, events, environment ------------------------------------------------------------------

pub(super) async fn get_messages(thread: ThreadState, granted: Arc<Names>, args: Args) -> HostResult {
    args::at_most(&args, 1, "getMessages() or getMessages({ limit, before, after, role })")?;
    let options = Options::new(&args, 0, &["limit", "before", "after", "role"])?;
    let roles = match (options.texts("role")?, &*granted) {
        (Some(roles), granted) => roles.into_iter().map(|role| granted_name(granted, "role", role)).collect(),
        (None, Names::Only(granted)) => Ok(granted.clone()),
        (None, Names::All) => Ok(Vec::new()),
    };
    let (after, before) = (options.number("after")?, options.number("before")?);
    let query = MessageQuery { after, before, roles: roles?, limit: options.limit()? };
    to_guest(&thread.get_messages(query).await.map_err(|error| guest_error(&error))?)
}

pub(super) async fn emit(thread: ThreadState, granted: Arc<Names>, args: Args) -> HostResult {
    args::at_most(&args, 2, "emit(name) or emit(name, data)")?;
    let name = granted_name(&granted, "event", args::text(&args, 0, "name")?)?;
    let data = args::json(&args, 1, "data")?.unwrap_or_default();
    thread.emit_from(Origin::Guest, name, data).await.map_err(|error| guest_error(&error))?;
    Ok(HostValue::undefined())
}

pub(super) async fn get_env(thread: ThreadState, granted: Arc<Names>, args: Args) -> HostResult {
    args::at_most(&args, 1, "getEnv(name)")?;
    let name = granted_name(&granted, "name", args::text(&args, 0, "name")?)?;
    let value = thread.get_env(&name).await.map_err(|error| guest_error(&error))?;
    Ok(value.map_or_else(HostValue::undefined, HostValue::from))
}

fn granted_name(granted: &Names, what: &str, name: &str) -> Result<String, HostError> {
    match granted {
        Names::Only(names) if !granted.contains(name) => {
            Err(HostError::new(format!("{what} {:?} is not granted; granted: {}", cut(name, 40), list(names))))
        }
        _ => Ok(name.to_owned()),
    }
}

// ---- Tools ------------------------------------------------------------------------------------------

/// The tools of a provider, as an object of functions.
pub(super) fn tools(calls: &Arc<Calls>, provider: &Provider) -> HostValue {
    HostValue::object(provider.manifest().tools.iter().map(|tool| {
        let (calls, provider, name) = (Arc::clone(calls), provider.clone(), tool.safe_name.clone());
        let function = move |args: Args| {
            let (calls, provider, name) = (Arc::clone(&calls), provider.clone(), name.clone());
            async move {
                calls.count()?; // tools limit their own concurrency
                let input = args::json(&args, 0, "input")?;
                provider.call(&name, input).await.map(HostValue::from).map_err(|error| tool_failure(&error))
            }
        };
        (tool.safe_name.clone(), HostValue::async_function(tool.safe_name.clone(), function))
    }))
}

fn tool_failure(error: &ExecuteError) -> HostError {
    let name = if error.code == ErrorCode::ValidationError { "TypeError" } else { "Error" };
    HostError::named(name, error.message.clone())
}

// ---- Results ----------------------------------------------------------------------------------------

fn to_guest(rows: &impl Serialize) -> HostResult {
    serde_json::to_value(rows).map(HostValue::from).map_err(|_| unavailable())
}

/// Converts an error for the guest.
fn guest_error(error: &ThreadError) -> HostError {
    match error {
        ThreadError::Path(_) | ThreadError::Name { .. } | ThreadError::Json(_) => type_error(error.to_string()),
        ThreadError::TooLarge { .. } => HostError::named("RangeError", error.to_string()),
        // Guests cannot learn the size of the thread.
        ThreadError::Full { .. } => HostError::named("RangeError", "thread storage is full"),
        ThreadError::NoSuchFile { .. } => HostError::new(error.to_string()),
        // Details of the host's storage are hidden from guests.
        _ => unavailable(),
    }
}

fn unavailable() -> HostError {
    HostError::new("thread storage is not available")
}

/// Lists the first 10 grants for a message.
fn list(granted: &[impl ToString]) -> String {
    const MAX: usize = 10;
    let mut list: Vec<String> = granted.iter().take(MAX).map(ToString::to_string).collect();
    if granted.len() > MAX {
        list.push("…".to_owned());
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::store::ThreadStore;

    #[tokio::test]
    async fn calls_wait_for_a_concurrent_slot() {
        let thread = ThreadStore::in_memory().await.unwrap().thread("t").unwrap();
        let calls = Calls::new(thread, 100);
        let mut running = Vec::new();
        for _ in 0..MAX_CONCURRENT {
            running.push(calls.begin().await.unwrap());
        }
        let mut next = pin!(calls.begin());
        let context = &mut Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(context).is_pending());
        running.pop();
        assert!(next.as_mut().poll(context).is_ready());
    }
}
