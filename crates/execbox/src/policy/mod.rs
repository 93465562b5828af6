//! Decisions about tool calls: each call is allowed, denied, or put to a person before it is made.
//!
//! A [`Policy`] is part of a grant: [`Provider::with_policy`](crate::Provider::with_policy) attaches it to a provider, under
//! both contracts and with every executor. While all calls of a program wait for a person, the clocks of the program are
//! paused: its timeout and the limit on waiting. Time in which the program computes counts nevertheless.
//!
//! ```
//! use execbox::policy::{Decision, Policy};
//! use execbox::{Effect, ExecuteRequest, Executor, InlineExecutor, Provider, Tool};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pay = Tool::new("pay", async |_, _| Ok(json!("paid"))).effect(Effect::Destructive);
//! let policy = Policy::new()
//!     .rule(|call| (call.input["euros"].as_u64() > Some(100)).then(|| Decision::Deny("at most 100 euros".to_owned())))
//!     .audit(|record| {
//!         println!("{}: {:?}", record.call.name(), record.verdict);
//!         Ok(())
//!     });
//! let bank = Provider::builder("bank").tool(pay).build()?.with_policy(&policy);
//!
//! let code = "try { await bank.pay({ euros: 500 }) } catch (error) { error.message }";
//! let result = InlineExecutor::new()?.execute(ExecuteRequest::new(code).provider(bank)).await;
//! assert_eq!(result.outcome, Ok(Some(json!("not allowed: at most 100 euros"))));
//! # Ok(())
//! # }
//! ```

mod lines;
mod pattern;
mod questions;

use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use execbox_core::contract::script::ScriptFunction;
use execbox_core::error::ExecuteError;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value as Json;
use tokio::time::Instant;

pub use self::lines::{NamedLine, NamedLines};
pub use self::pattern::Pattern;
pub use self::questions::{Answer, Ask, Questions};
use crate::call::{Effect, ToolContext};
use crate::events::{Awaited, Verdict};

/// What a policy decides about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The call is made.
    Allow,
    /// The call fails with `not allowed` and this reason, which the guest can read.
    Deny(String),
    /// The [`Approver`] is asked. Without one, the call is not made.
    Ask,
}

/// A call that a guest wants to make. Its input matches the schema of the tool.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ProposedCall<'a> {
    /// The context of the call, with the names of the tool.
    pub context: &'a ToolContext,
    /// What calls of the tool do, as its author states it.
    pub effect: Effect,
    /// The argument of the call.
    pub input: &'a Json,
    /// The source of the program, if it is a script.
    pub program: Option<&'a str>,
    /// The functions of the script.
    pub functions: &'a [ScriptFunction],
}

impl ProposedCall<'_> {
    /// The provider and the tool as guest code calls it: `bank.pay`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.context.provider, self.context.safe_name)
    }

    /// The lines of the program that name the tool in its code. The call is in one of them, unless the program computes the
    /// name or uses another one for it. A line can also name the tool without a call. `None` without a script.
    pub fn lines(&self) -> Option<NamedLines> {
        Some(lines::find_all(self.program?, self.functions, &self.context.provider, &self.context.safe_name))
    }
}

/// The answer of a person: yes or no, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// The call is made.
    Approved,
    /// The call fails with `not approved` and this reason, which the guest can read.
    Refused(String),
}

/// Asks a person about calls.
pub trait Approver: Send + Sync {
    /// Asks whether the call may be made. There is no time limit but the approver's own. The future is dropped when the
    /// execution ends.
    fn approve<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Approval>;

    /// The command with which a person reads all of a call that waits for this approver. Default: there is none.
    fn command(&self) -> Option<&str> {
        None
    }
}

/// A decision about a call, for the audit.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AuditRecord<'a> {
    /// The call that was decided about.
    pub call: ProposedCall<'a>,
    /// The decision.
    pub verdict: Verdict<'a>,
    /// How long the call waited for a person.
    pub waited: Duration,
}

/// Decides about calls by rules, the first that matches; calls that match none are allowed. Cheap to clone.
#[derive(Clone, Default)]
#[must_use = "a policy does nothing until it is attached to a provider"]
pub struct Policy {
    rules: Vec<Arc<Rule>>,
    approver: Option<Arc<dyn Approver>>,
    audit: Option<Arc<AuditSink>>,
}

type Rule = dyn Fn(&ProposedCall<'_>) -> Option<Decision> + Send + Sync;
type AuditSink = dyn Fn(&AuditRecord<'_>) -> io::Result<()> + Send + Sync;

impl Policy {
    /// Allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule: a function that decides about a call, or leaves it to the rules after it. It must not block.
    pub fn rule(mut self, rule: impl Fn(&ProposedCall<'_>) -> Option<Decision> + Send + Sync + 'static) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// Decides about the tools that match: `bank.pay`, `*.delete_*`. A pattern matches the provider and the name in guest code,
    /// or the provider and the original name.
    pub fn tools(self, pattern: &str, decision: Decision) -> Self {
        let pattern = Pattern::new(pattern);
        self.rule(move |call| {
            let ToolContext { provider, original_name, .. } = call.context;
            let matches = pattern.matches(&call.name()) || pattern.matches(&format!("{provider}.{original_name}"));
            matches.then(|| decision.clone())
        })
    }

    /// Decides about tools whose authors state this effect.
    pub fn effect(self, effect: Effect, decision: Decision) -> Self {
        self.rule(move |call| (call.effect == effect).then(|| decision.clone()))
    }

    /// Sets the approver that decides about calls with [`Decision::Ask`].
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// The approver that is set.
    pub fn get_approver(&self) -> Option<&Arc<dyn Approver>> {
        self.approver.as_ref()
    }

    /// Sets a function that records every decision, before the call is made. If it fails, the call is not made. It must not
    /// block for long.
    pub fn audit(mut self, audit: impl Fn(&AuditRecord<'_>) -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.audit = Some(Arc::new(audit));
        self
    }

    /// Whether the call may be made. A panic of a rule, an approver or the audit is a bug of the host, and the call is not
    /// made.
    pub(crate) async fn check(&self, call: ProposedCall<'_>) -> Result<(), ExecuteError> {
        let checked = AssertUnwindSafe(self.decide(call)).catch_unwind().await;
        checked.unwrap_or_else(|_panic| Err(ExecuteError::tool("not allowed: the policy crashed")))
    }

    async fn decide(&self, call: ProposedCall<'_>) -> Result<(), ExecuteError> {
        let mut record = Record { policy: self, call, waits_since: None };
        match self.rules.iter().find_map(|rule| rule(&call)).unwrap_or(Decision::Allow) {
            Decision::Allow => record.write(Verdict::Allowed),
            Decision::Deny(reason) => {
                record.write(Verdict::Denied(&reason))?;
                Err(ExecuteError::tool(format!("not allowed: {reason}")))
            }
            Decision::Ask => {
                record.waits_since = Some(Instant::now());
                let approval = match &self.approver {
                    Some(approver) => {
                        let _waits = call.context.waits.add(Awaited::Approval);
                        approver.approve(call).await
                    }
                    None => Approval::Refused("no approver is set".to_owned()),
                };
                match approval {
                    Approval::Approved => record.write(Verdict::Approved),
                    Approval::Refused(reason) => {
                        record.write(Verdict::Refused(&reason))?;
                        Err(ExecuteError::tool(format!("not approved: {reason}")))
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

/// The record of a call that is being decided.
struct Record<'a> {
    policy: &'a Policy,
    call: ProposedCall<'a>,
    /// When the call began to wait for a person; `None` if it does not wait, or when the record is written.
    waits_since: Option<Instant>,
}

impl Record<'_> {
    fn write(&mut self, verdict: Verdict<'_>) -> Result<(), ExecuteError> {
        let waited = self.waits_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        let record = AuditRecord { call: self.call, verdict, waited };
        self.call.context.waits.observed().decided(verdict, waited);
        let Some(audit) = &self.policy.audit else { return Ok(()) };
        audit(&record).map_err(|_| ExecuteError::tool("not allowed: the decision could not be recorded"))
    }
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        if self.waits_since.is_some() && !std::thread::panicking() {
            let _ = self.write(Verdict::Abandoned);
        }
    }
}
