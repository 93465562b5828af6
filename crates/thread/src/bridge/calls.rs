//! What happens when guest code calls what a bridge grants.
//!
//! Every call is treated as an attacker's. Before the thread sees any of it, it is counted, its arguments are checked, and that
//! it stays within its grant. What it fails with says nothing of the host, nor of what is not granted: whether a file outside
//! of the granted scopes is there makes no difference.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use execbox::code::{Args, HostError, HostResult, HostValue};
use execbox::{ErrorCode, ExecuteError, Provider};
use serde::Serialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Names;
use super::args::{self, Encoding, Options, wrong};
use crate::error::ThreadError;
use crate::events::Origin;
use crate::messages::MessageQuery;
use crate::path::{FilePath, Scope};
use crate::state::ThreadState;

/// How many calls of the thread's functions are under way at once in one run; the others wait. No more answers than that are held for a guest that does
/// not come to take them.
const CALLS_AT_ONCE: usize = 8;

/// The calls of one run.
pub(super) struct Calls {
    thread: ThreadState,
    most: u32,
    begun: AtomicU32,
    at_once: Semaphore,
}

impl Calls {
    pub(super) fn new(thread: ThreadState, most: u32) -> Self {
        Self { thread, most, begun: AtomicU32::new(0), at_once: Semaphore::new(CALLS_AT_ONCE) }
    }

    fn count(&self) -> Result<(), HostError> {
        let counted = |begun: u32| (begun < self.most).then(|| begun + 1);
        if self.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted).is_err() {
            let message = format!("this run has used up its {} calls: do more with each of them", self.most);
            return Err(HostError::named("RangeError", message));
        }
        Ok(())
    }

    /// Counts a call of the thread's own functions, and waits for its turn.
    async fn begin(&self) -> Result<SemaphorePermit<'_>, HostError> {
        self.count()?;
        self.at_once.acquire().await.map_err(|_| unavailable())
    }
}

/// A function for the guest, with what it is granted.
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
                Ok(_until_answered) => call(calls.thread.clone(), grant, args).await,
                Err(error) => Err(error),
            };
            result.map_err(|error| HostError { message: format!("{name}: {}", error.message), ..error })
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
    let content = thread.read_at(path).await.map_err(|error| told(&error))?;
    match encoding {
        Encoding::Bytes => Ok(HostValue::bytes(content)),
        Encoding::Utf8 => String::from_utf8(content).map(HostValue::from).map_err(|_| {
            wrong(format!("{name} is not UTF-8 text; read it as bytes with readFile({name:?}, \"bytes\")"))
        }),
    }
}

pub(super) async fn write_file(thread: ThreadState, granted: Arc<Vec<Scope>>, args: Args) -> HostResult {
    args::at_most(&args, 2, "writeFile(path, data)")?;
    let path = granted_path(&granted, args::text(&args, 0, "path")?)?;
    let content = args::content(&args, 1)?;
    thread.write_at(Origin::Guest, path, content).await.map_err(|error| told(&error))?;
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
    let asked = under.map_or(Ok(Scope::everything()), Scope::parse).map_err(|error| told(&error.into()))?;
    let after = after.map(FilePath::parse).transpose().map_err(|error| told(&error.into()))?;
    let scopes: Vec<Scope> = if granted.iter().any(|granted| granted.covers(&asked)) {
        vec![asked]
    } else {
        let within: Vec<Scope> = granted.iter().filter(|granted| asked.covers(granted)).cloned().collect();
        if within.is_empty() {
            return Err(outside(under.unwrap_or("/"), &granted));
        }
        within
    };
    answer(&thread.list_in(scopes, after, limit).await.map_err(|error| told(&error))?)
}

fn granted_path(granted: &[Scope], path: &str) -> Result<FilePath, HostError> {
    let path = FilePath::parse(path).map_err(|error| told(&error.into()))?;
    let is_granted = granted.iter().any(|scope| scope.contains(&path));
    if is_granted { Ok(path) } else { Err(outside(path.as_str(), granted)) }
}

fn outside(path: &str, granted: &[Scope]) -> HostError {
    HostError::new(format!("{path:?} is outside of what is granted, which is {}", listed(granted)))
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
    answer(&thread.get_messages(query).await.map_err(|error| told(&error))?)
}

pub(super) async fn emit(thread: ThreadState, granted: Arc<Names>, args: Args) -> HostResult {
    args::at_most(&args, 2, "emit(name) or emit(name, data)")?;
    let name = granted_name(&granted, "event", args::text(&args, 0, "name")?)?;
    let data = args::json(&args, 1, "data")?.unwrap_or_default();
    thread.emit_from(Origin::Guest, name, data).await.map_err(|error| told(&error))?;
    Ok(HostValue::undefined())
}

pub(super) async fn get_env(thread: ThreadState, granted: Arc<Names>, args: Args) -> HostResult {
    args::at_most(&args, 1, "getEnv(name)")?;
    let name = granted_name(&granted, "name", args::text(&args, 0, "name")?)?;
    let value = thread.get_env(&name).await.map_err(|error| told(&error))?;
    Ok(value.map_or_else(HostValue::undefined, HostValue::from))
}

fn granted_name(granted: &Names, what: &str, name: &str) -> Result<String, HostError> {
    match granted {
        Names::Only(names) if !granted.contains(name) => {
            let name: String = name.chars().take(40).collect();
            Err(HostError::new(format!("{what} {name:?} is not granted; granted is {}", listed(names))))
        }
        _ => Ok(name.to_owned()),
    }
}

// ---- Tools ------------------------------------------------------------------------------------------

/// A provider's tools, as an object of functions.
pub(super) fn tools(calls: &Arc<Calls>, provider: &Provider) -> HostValue {
    HostValue::object(provider.manifest().tools.iter().map(|tool| {
        let (calls, provider, name) = (Arc::clone(calls), provider.clone(), tool.safe_name.clone());
        let function = move |args: Args| {
            let (calls, provider, name) = (Arc::clone(&calls), provider.clone(), name.clone());
            async move {
                calls.count()?; // how many are under way at once is for the tool to say
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

// ---- Answers ----------------------------------------------------------------------------------------

fn answer(rows: &impl Serialize) -> HostResult {
    serde_json::to_value(rows).map(HostValue::from).map_err(|_| unavailable())
}

/// A failure, in words that may be said to a guest.
fn told(error: &ThreadError) -> HostError {
    match error {
        ThreadError::Path(_) | ThreadError::Name { .. } | ThreadError::Json(_) => wrong(error.to_string()),
        ThreadError::TooLarge { .. } => HostError::named("RangeError", error.to_string()),
        // How much it has is not granted.
        ThreadError::Full { .. } => HostError::named("RangeError", "the thread has no room left for this"),
        ThreadError::NoSuchFile { .. } => HostError::new(error.to_string()),
        // What is wrong with the host's storage is no business of a guest.
        _ => unavailable(),
    }
}

fn unavailable() -> HostError {
    HostError::new("the thread's storage is not available")
}

/// What is granted, for a message: the first few.
fn listed(granted: &[impl ToString]) -> String {
    const MOST: usize = 10;
    let mut list: Vec<String> = granted.iter().take(MOST).map(ToString::to_string).collect();
    if granted.len() > MOST {
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
    async fn calls_wait_while_others_are_under_way() {
        let thread = ThreadStore::in_memory().await.unwrap().thread("t").unwrap();
        let calls = Calls::new(thread, 100);
        let mut under_way = Vec::new();
        for _ in 0..CALLS_AT_ONCE {
            under_way.push(calls.begin().await.unwrap());
        }
        let mut next = pin!(calls.begin());
        let context = &mut Context::from_waker(Waker::noop());
        assert!(next.as_mut().poll(context).is_pending());
        under_way.pop();
        assert!(next.as_mut().poll(context).is_ready());
    }
}
