//! The request for an execution: a script, what is granted to it, its limits and its observers.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use execbox_core::contract::script::ScriptFunction;
use execbox_core::engine::LogLine;
use execbox_core::error::ExecuteResult;
use execbox_core::libraries::Globals;
use execbox_core::program::Limits;
use tokio_util::sync::CancellationToken;

use crate::call::Attached;
use crate::events::{EventKind, ExecutionEnd, LogEntry, Observation, Observer, Observers};
use crate::limits::{SingleLimits, limit_setters};
use crate::runtime;
use crate::tools::provider::Provider;

/// A script with everything that is granted to it.
///
/// ```
/// use std::time::Duration;
///
/// use execbox::ExecuteRequest;
///
/// let request = ExecuteRequest::new("console.log(6 * 7)")
///     .timeout(Duration::from_secs(1))
///     .on_log(|line| println!("{}", line.text));
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until it is passed to an executor"]
pub struct ExecuteRequest {
    pub(crate) code: Arc<str>,
    pub(crate) functions: Arc<Vec<ScriptFunction>>,
    pub(crate) providers: Vec<Provider>,
    pub(crate) wait_for_calls: bool,
    pub(crate) globals: Globals,
    limits: Limits,
    single_limits: SingleLimits,
    pub(crate) cancellation: Option<CancellationToken>,
    pub(crate) observers: Observers,
    pub(crate) attached: Attached,
}

impl ExecuteRequest {
    /// Creates a request for a script without tools, under the default limits.
    pub fn new(code: impl Into<Arc<str>>) -> Self {
        Self {
            code: code.into(),
            functions: Arc::default(),
            providers: Vec::new(),
            wait_for_calls: true,
            globals: Globals { common: true, timers: false },
            limits: Limits::default(),
            single_limits: SingleLimits::default(),
            cancellation: None,
            observers: Observers::default(),
            attached: Attached::default(),
        }
    }

    /// The code of the script.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// Adds functions that the script may call: code of its own, apart from the script.
    ///
    /// ```
    /// use execbox::{ExecuteRequest, ScriptFunction};
    ///
    /// let total = ScriptFunction::new("lib", "total", "return input.reduce((sum, order) => sum + order.price, 0)");
    /// let request = ExecuteRequest::new("await lib.total([{ price: 2 }, { price: 3 }])").functions([total]);
    /// ```
    pub fn functions(mut self, functions: impl IntoIterator<Item = ScriptFunction>) -> Self {
        Arc::make_mut(&mut self.functions).extend(functions);
        self
    }

    /// Grants the tools of a provider, as a global object of its name.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.providers.push(provider);
        self
    }

    /// Grants the tools of several providers.
    pub fn providers(mut self, providers: impl IntoIterator<Item = Provider>) -> Self {
        self.providers.extend(providers);
        self
    }

    /// Sets whether a script that has returned ends only when all calls that it did not await are answered, as `node` does. Its
    /// value is read at the end, so that it contains what these calls have added. Default: true.
    ///
    /// If false, the script ends when its value is there, and calls without an answer are cancelled. A script that throws always
    /// ends at once. [`ExecuteResult::unawaited`] reports the calls in each case. Runners that are not Execbox do not wait.
    ///
    /// ```
    /// # use execbox::ExecuteRequest;
    /// let request = ExecuteRequest::new("for (const id of [1, 2]) shop.close({ id })").wait_for_calls(false);
    /// ```
    pub fn wait_for_calls(mut self, wait: bool) -> Self {
        self.wait_for_calls = wait;
        self
    }

    /// Sets whether the script has globals that other hosts of JavaScript have in common and that give it no power: `Intl`,
    /// `TextEncoder`, `TextDecoder`, `atob`, `btoa`, `self`, and an `eval` that throws. Default: true.
    ///
    /// Runners that are not Execbox decide themselves.
    pub fn common_globals(mut self, has_them: bool) -> Self {
        self.globals.common = has_them;
        self
    }

    /// Sets whether the script has timers: `setTimeout`, `setInterval`, `setImmediate`, and the functions that clear them. They wait on
    /// the clock of the host, within the limits. A timer that is not awaited does not keep a script from its end. Default: false.
    ///
    /// Runners that are not Execbox decide themselves.
    ///
    /// ```
    /// # use execbox::ExecuteRequest;
    /// let request = ExecuteRequest::new("await new Promise((done) => setTimeout(done, 100))").timers(true);
    /// ```
    pub fn timers(mut self, has_them: bool) -> Self {
        self.globals.timers = has_them;
        self
    }

    /// Sets all limits but those that are set one by one, such as with [`timeout`](Self::timeout). Default:
    /// [`Limits::default`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use execbox::{ExecuteRequest, Limits};
    ///
    /// let limits = Limits::default().max_calls(20);
    /// // The timeout is 1 s, whatever comes first.
    /// let request = ExecuteRequest::new("await shop.list()").timeout(Duration::from_secs(1)).limits(limits);
    /// ```
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    limit_setters!();

    /// Sets a token that cancels the execution: it fails with `timeout` and
    /// [`Cause::Cancelled`](crate::Cause::Cancelled), and its tool calls are cancelled.
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = Some(token);
        self
    }

    /// Adds an observer of the [events](crate::events) of the execution, beside those that it has.
    pub fn observer(mut self, observer: Observer) -> Self {
        self.observers.add(observer);
        self
    }

    /// Adds an observer that receives each console line while the guest runs, before the tool calls that follow the line. The
    /// result contains the lines, too. It must not block.
    pub fn on_log(self, receive: impl Fn(&LogLine) + Send + Sync + 'static) -> Self {
        self.observer(Observer::new(move |event| {
            if let EventKind::Log(LogEntry::Line(line)) = event.kind {
                receive(line);
            }
        }))
    }

    /// Attaches a value for the tools of the caller, which read it with
    /// [`ToolContext::attached`](crate::ToolContext::attached): the user to whom the program belongs, for example. Guests do
    /// not see it. Replaces an earlier value of the same type.
    pub fn attach<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.attached.add(value);
        self
    }

    /// Executes the request with `run`, between its acceptance and its end as observers see them. Fails if the runtime of the
    /// caller has no timers.
    pub(crate) async fn observed(self, run: impl AsyncFnOnce(Self, Observation) -> ExecuteResult) -> ExecuteResult {
        let span = self.observers.begin();
        let result = match runtime::with_timers() {
            Ok(_) => run(self, span.observation().clone()).await,
            Err(missing) => ExecuteResult::failed(missing.into(), Duration::ZERO),
        };
        span.end(ExecutionEnd::Script(&result));
        result
    }
}

impl fmt::Debug for ExecuteRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecuteRequest")
            .field("code", &self.code)
            .field("providers", &self.providers)
            .field("limits", &self.effective_limits())
            .finish_non_exhaustive()
    }
}
