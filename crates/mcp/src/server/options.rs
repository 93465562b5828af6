//! The options of a server: its tools, their limits, and where its providers come from.

use std::fmt;
use std::time::Duration;

use execbox::events::Observer;
use execbox::policy::Policy;
use execbox::{Limits, Provider};
use execbox_core::text::cut;
use futures_util::future::BoxFuture;
use serde::Serialize;

use super::always::AlwaysAllow;
use super::state::StateOptions;
use crate::upstream::RejectedTool;
use crate::{Changes, Clients, Secrets, Shapes};

/// Which tools a server has, beside the exposed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Search, and both tools that run code.
    #[default]
    Both,
    /// Search and execute: the descriptions stay short however many tools there are.
    Split,
    /// One tool that runs code, with the types in its description.
    Single,
    /// Search, describe and call: no code. Each call is one of the client, and its whole result is read by the model.
    Passthrough,
}

/// The tools of a [`CodeServer`](super::CodeServer) and their limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Which tools the server has. Default: search and both tools that run code.
    pub layout: Layout,
    /// The name of the search tool. Default: `mcp_search_tools`.
    pub search_name: String,
    /// The name of the tool that describes tools. Default: `mcp_describe_tools`.
    pub describe_name: String,
    /// The name of the tool that calls one tool. Default: `mcp_call_tool`.
    pub call_name: String,
    /// The name of the tool that runs code. Default: `mcp_execute_code`.
    pub execute_name: String,
    /// The name of the tool that runs code and describes the types. Default: `mcp_code`.
    pub code_name: String,
    /// The maximum length of a result, in characters. For a longer one, models get an outline, and a handle by which later
    /// code reads the result. Default: 24 000.
    pub max_text: usize,
    /// The maximum length of the description with the types, in characters. If the types do not fit, it lists
    /// parameters or names only. Default: 3 500; 20 000 in the single layout, which has no search.
    pub max_types: Option<usize>,
    /// The limits of every execution. Default: those of [`Limits`].
    pub limits: Limits,
    /// The longest timeout that a model may request with `timeoutMs`, if it is longer than that of `limits`. Default: 5
    /// minutes.
    pub max_timeout: Duration,
    /// Whether programs have timers: see [`ExecuteRequest::timers`](execbox::ExecuteRequest::timers). Default: false.
    pub timers: bool,
    /// How many programs run at once; further ones wait, and the client with the fewest running programs is next. Default:
    /// 128.
    pub max_programs: usize,
    /// How long after the creation of the server, and after [`CodeServer::refresh`](super::CodeServer::refresh), requests wait
    /// for namespaces that are starting; the list of tools at most 2 s. Default: 10 s.
    pub start_timeout: Duration,
    /// Decides about the calls of programs. Approval is requested from the user of the client by elicitation if the client
    /// supports it, else from the approver of the policy. Default: none, everything is allowed.
    pub policy: Option<Policy>,
    /// Whether a person is asked only once for each tool whose author states no effect: an approval holds for all its calls in the
    /// session, or in the program of a client without one. Default: false, before each call.
    pub asks_once: bool,
    /// Lets the user of a client exempt tools from approvals for ever. Every client is offered that: set it only if the only client
    /// is that of the user who owns the configuration, as on standard input and output. Default: none.
    pub always_allow: Option<AlwaysAllow>,
    /// How long a person may take to approve a call. Default: 10 minutes.
    pub approval_timeout: Duration,
    /// Observes the programs of all clients. Default: none.
    pub observer: Option<Observer>,
    /// The clients of this server, for the upstream servers that its providers call: the same as in
    /// [`UpstreamOptions::clients`](crate::upstream::UpstreamOptions::clients). Default: none, servers are offered no
    /// capabilities.
    pub clients: Clients,
    /// Values that are redacted from what clients and models read: results, logs, errors and progress. The same as in
    /// [`UpstreamOptions::secrets`](crate::upstream::UpstreamOptions::secrets). What programs compute with is not changed.
    /// Default: none.
    pub secrets: Secrets,
    /// Notifies the server that providers may have changed; it then notifies its clients. Default: never.
    pub changes: Changes,
    /// The shapes of results of tools without an output schema, which searches and descriptions show. The same as in
    /// [`UpstreamOptions::shapes`](crate::upstream::UpstreamOptions::shapes). Default: none.
    pub shapes: Option<Shapes>,
    /// Where programs keep values and code for later programs. Default: values only, for each session separately.
    pub state: StateOptions,
}

impl ServerOptions {
    execbox_core::setters! {
        layout: Layout,
        search_name: impl Into<String>,
        describe_name: impl Into<String>,
        call_name: impl Into<String>,
        execute_name: impl Into<String>,
        code_name: impl Into<String>,
        max_text: usize,
        max_types: impl Into<Option<usize>>,
        limits: Limits,
        max_timeout: Duration,
        timers: bool,
        max_programs: usize,
        start_timeout: Duration,
        policy: impl Into<Option<Policy>>,
        asks_once: bool,
        always_allow: impl Into<Option<AlwaysAllow>>,
        approval_timeout: Duration,
        observer: impl Into<Option<Observer>>,
        clients: Clients,
        secrets: Secrets,
        changes: Changes,
        shapes: impl Into<Option<Shapes>>,
        state: StateOptions,
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            search_name: "mcp_search_tools".to_owned(),
            describe_name: "mcp_describe_tools".to_owned(),
            call_name: "mcp_call_tool".to_owned(),
            execute_name: "mcp_execute_code".to_owned(),
            code_name: "mcp_code".to_owned(),
            max_text: 24_000,
            max_types: None,
            limits: Limits::default(),
            max_timeout: Duration::from_mins(5),
            timers: false,
            max_programs: 128,
            start_timeout: Duration::from_secs(10),
            policy: None,
            asks_once: false,
            always_allow: None,
            approval_timeout: Duration::from_mins(10),
            observer: None,
            clients: Clients::default(),
            secrets: Secrets::default(),
            changes: Changes::default(),
            shapes: None,
            state: StateOptions::default(),
        }
    }
}

impl ServerOptions {
    /// The limits of an execution whose model asks for this timeout.
    pub(super) fn limits_for(&self, timeout: Option<Duration>) -> Limits {
        let max = self.max_timeout.max(self.limits.timeout);
        self.limits.timeout(timeout.map_or(self.limits.timeout, |timeout| timeout.min(max)))
    }

    pub(super) fn max_type_chars(&self) -> usize {
        self.max_types.unwrap_or(if self.layout == Layout::Single { 20_000 } else { 3_500 })
    }
}

/// Where a [`CodeServer`](super::CodeServer) gets its tools: a function that returns the current providers, or a type that
/// also knows which ones are missing.
pub trait ProviderSource: Send + Sync {
    /// The providers whose tools can be called now. Called for every request, so that they may change.
    fn providers(&self) -> Vec<Provider>;

    /// The namespaces that are expected, but have no tools now. Searches list them, and code that names one fails with the
    /// reason. Default: none.
    fn unavailable(&self) -> Vec<UnavailableNamespace> {
        Vec::new()
    }

    /// Waits until none of these namespaces is starting. Searches, and code that names such a namespace, wait for it at most
    /// [`ServerOptions::start_timeout`]. Default: does not wait.
    fn settled<'a>(&'a self, _namespaces: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Whether clients see a tool beside those of the server, and can call it without code. `names` are its name in code and that
    /// on its server. Default: no.
    fn is_exposed(&self, _namespace: &str, _names: [&str; 2]) -> bool {
        false
    }

    /// Whether the names of prompts and exposed tools have the namespace before them. Default: yes.
    fn has_prefix(&self, _namespace: &str) -> bool {
        true
    }

    /// The requests about prompts, resources and completions that servers answer, as
    /// [`Imported::features`](crate::upstream::Imported::features). `None` if there are never any: clients are not offered them.
    /// Default: `None`.
    fn features(&self) -> Option<Vec<Provider>> {
        None
    }

    /// Why a tool that its server has cannot be called. Code that calls it fails with that reason, and searches that ask for it
    /// by name show it. Default: there is none.
    fn absent_tool(&self, _namespace: &str, _tool: &str) -> Option<AbsentTool> {
        None
    }

    /// The tools that are invalid, with their namespaces. Searches show those that they name, or of the namespace that they select.
    /// Default: none.
    fn rejected_tools(&self) -> Vec<(String, RejectedTool)> {
        Vec::new()
    }

    /// The parts of a tool that are not used, because they cannot be read: `place: reason`. Descriptions of the tool show
    /// them, searches the first place. Default: none.
    fn unread_parts(&self, _namespace: &str, _tool: &str) -> Vec<String> {
        Vec::new()
    }
}

impl<F: Fn() -> Vec<Provider> + Send + Sync> ProviderSource for F {
    fn providers(&self) -> Vec<Provider> {
        self()
    }
}

/// Why a tool that its server has cannot be called.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbsentTool {
    /// The configuration does not allow it.
    Denied,
    /// The tool is invalid, for this reason.
    Rejected(String),
}

/// The end of a sentence that begins with the name of the tool.
impl fmt::Display for AbsentTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied => f.write_str("is not allowed by the configuration"),
            Self::Rejected(reason) => write!(f, "cannot be used, because its server describes it wrongly: {reason}"),
        }
    }
}

/// A namespace whose tools cannot be called now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UnavailableNamespace {
    /// The name of the namespace.
    pub name: String,
    /// The reason, as a clause: `its server is still starting`, `failed to start: program not found`.
    pub reason: String,
    /// What can make its tools available.
    #[serde(skip)]
    pub state: Unavailability,
}

impl UnavailableNamespace {
    /// A namespace in this state, with the reason as a clause.
    pub fn new(name: impl Into<String>, reason: impl Into<String>, state: Unavailability) -> Self {
        Self { name: name.into(), reason: reason.into(), state }
    }
}

/// A sentence for models, without a period.
impl fmt::Display for UnavailableNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, reason, state } = self;
        let advice = if state.may_pass() { "; try again later" } else { "" };
        write!(f, "{name} is not available: {}{advice}", cut(reason, MAX_REASON))
    }
}

/// The maximum length of a reason in a sentence, in characters.
const MAX_REASON: usize = 300;

/// What can make the tools of a namespace available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailability {
    /// Time: its server is starting.
    Starting,
    /// Perhaps time: its server failed, and a later attempt may succeed.
    Temporary,
    /// A change, such as a login or another configuration: its server failed.
    Failed,
    /// A change of its entry in the configuration, which has a mistake.
    Skipped,
    /// A change of the configuration, which does not want the server. Searches mention it only if they ask for it by name.
    Disabled,
}

impl Unavailability {
    /// Whether its tools may become available although nothing is changed. Errors of programs then say to try again later.
    pub(super) fn may_pass(self) -> bool {
        matches!(self, Self::Starting | Self::Temporary)
    }
}
