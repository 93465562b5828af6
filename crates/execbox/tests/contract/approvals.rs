//! Policies and approvals, on every executor.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::policy::{Approval, Approver, Decision, Policy, ProposedCall};
use execbox::{
    CancellationToken, ErrorCode, ExecuteRequest, ExecuteResult, Executor, Limits, Provider, Tool, ToolContext,
};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use libtest_mimic::Trial;
use serde_json::{Value as Json, json};

use crate::Test;
use crate::cases::{Calls, generous_limits, tools};
use crate::executors::{Accepts, NamedExecutor, RUNTIME};

pub(crate) fn trials(executors: &[NamedExecutor]) -> Vec<Trial> {
    let tests: &[(&str, Test)] = &[
        ("approvals: a person sees the call and decides about it", decisions),
        ("approvals: the clocks are paused while a program waits for a person", clocks),
        ("approvals: a tool can ask a person by itself", asking_tools),
        ("approvals: a program that computes, or waits for other calls too, times out", other_time_counts),
        ("approvals: a cancelled program abandons its question", abandoned),
    ];
    crate::trials(executors, tests)
}

/// Answers after some time: approves calls with the input 1 only.
pub(crate) struct Person {
    answers_after: Duration,
    asked: CancellationToken,
}

impl Person {
    pub(crate) fn who_answers_after(answers_after: Duration) -> Arc<Self> {
        Arc::new(Self { answers_after, asked: CancellationToken::new() })
    }
}

impl Approver for Person {
    fn approve<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Approval> {
        async move {
            self.asked.cancel();
            tokio::time::sleep(self.answers_after).await;
            if *call.input == json!(1) { Approval::Approved } else { Approval::Refused("too much".to_owned()) }
        }
        .boxed()
    }
}

/// Asks the person about `echo`. Records verdicts.
fn policy(person: &Arc<Person>) -> (Policy, Arc<Mutex<Vec<String>>>) {
    let records = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&records);
    let policy = Policy::new()
        .tools("tools.add*", Decision::Deny("adding is over".to_owned()))
        .tools("tools.echo", Decision::Ask)
        .approver(person.clone())
        .audit(move |record| {
            let record = format!("{} {} {:?}", record.call.name(), record.call.input, record.verdict);
            sink.lock().unwrap().push(record);
            Ok(())
        });
    (policy, records)
}

fn run(executor: &Arc<dyn Executor>, code: &str, policy: &Policy, calls: &Calls, limits: Limits) -> ExecuteResult {
    let request = ExecuteRequest::new(code).provider(tools(calls).with_policy(policy)).limits(limits);
    RUNTIME.block_on(executor.execute(request))
}

fn decisions(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let (policy, records) = policy(&Person::who_answers_after(Duration::ZERO));
    let calls = Calls::default();
    let result = match accepts {
        Accepts::JavaScript => {
            let code = "const fails = (call) => call.catch((error) => error.message);
                [await tools.echo(1), await fails(tools.echo(2)), await fails(tools.add_numbers({ a: 1, b: 1 })),
                 await fails(tools.add_numbers({ a: 1 })), await tools.later(5)]";
            run(executor, code, &policy, &calls, generous_limits())
        }
        Accepts::Moves => run(executor, "call echo 1\nawait\nreturn it", &policy, &calls, generous_limits()),
    };
    if accepts == Accepts::Moves {
        assert_eq!(result.outcome, Ok(Some(json!(1))));
        return;
    }
    let results = result.outcome.unwrap().unwrap();
    assert_eq!(results[0], 1);
    assert_eq!(results[1], "not approved: too much");
    assert_eq!(results[2], "not allowed: adding is over");
    assert!(results[3].as_str().unwrap().starts_with("Invalid input"), "before anything is decided");
    assert_eq!(*calls.lock().unwrap(), [json!(["echo", 1]), json!(["later", 5])], "no other call was made");
    let expected = [
        "tools.echo 1 Approved",
        "tools.echo 2 Refused(\"too much\")",
        "tools.add_numbers {\"a\":1,\"b\":1} Denied(\"adding is over\")",
        "tools.later 5 Allowed",
    ];
    assert_eq!(*records.lock().unwrap(), expected);
}

/// How long a program may take, without the time in which it waits for a person.
const TIMEOUT: Duration = Duration::from_millis(1500);

fn clocks(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let (policy, _) = policy(&Person::who_answers_after(TIMEOUT + Duration::from_millis(500)));
    let code = match accepts {
        Accepts::JavaScript => "await tools.echo(1)",
        Accepts::Moves => "call echo 1\nawait\nreturn it",
    };
    let limits = Limits::default().timeout(TIMEOUT).host_wait(TIMEOUT);
    let result = run(executor, code, &policy, &Calls::default(), limits);
    assert_eq!(result.outcome, Ok(Some(json!(1))));
    assert!(result.duration > TIMEOUT, "the duration is wall time");
}

/// A tool that asks a person by itself, on a task of its own.
fn asking_tools(executor: &Arc<dyn Executor>, accepts: Accepts) {
    if accepts == Accepts::Moves {
        return; // The scripted engine's programs know the tools of the cases only.
    }
    let tool = Tool::new("ask", async |_: Json, context: ToolContext| {
        let (sender, answered) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            // The driver has nothing to do any more.
            tokio::time::sleep(Duration::from_millis(50)).await;
            let waits = context.wait_for_person();
            tokio::time::sleep(TIMEOUT + Duration::from_millis(500)).await;
            drop(waits);
            let _ = sender.send(json!("answered"));
        });
        Ok(answered.await?)
    });
    let provider = Provider::builder("person").tool(tool).build().unwrap();
    let limits = Limits::default().timeout(TIMEOUT);
    let request = ExecuteRequest::new("await person.ask({})").provider(provider).limits(limits);
    assert_eq!(RUNTIME.block_on(executor.execute(request)).outcome, Ok(Some(json!("answered"))));
}

fn other_time_counts(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let programs: &[&str] = match accepts {
        Accepts::JavaScript => &["tools.echo(1); for (;;);", "await Promise.all([tools.echo(1), tools.hang()])"],
        Accepts::Moves => &["call echo 1\nspin"],
    };
    for code in programs {
        let (policy, records) = policy(&Person::who_answers_after(Duration::from_hours(1)));
        let limits = Limits::default().timeout(Duration::from_millis(300));
        let result = run(executor, code, &policy, &Calls::default(), limits);
        assert_eq!(result.error().map(|error| error.code), Some(ErrorCode::Timeout), "{code}: {result:?}");
        let records = records.lock().unwrap();
        assert!(records.is_empty() || records.contains(&"tools.echo 1 Abandoned".to_owned()), "{records:?}");
    }
}

fn abandoned(executor: &Arc<dyn Executor>, accepts: Accepts) {
    let person = Person::who_answers_after(Duration::from_hours(1));
    let (policy, records) = policy(&person);
    let (asked, cancellation) = (person.asked.clone(), CancellationToken::new());
    let cancel = cancellation.clone();
    RUNTIME.spawn(async move {
        asked.cancelled().await;
        cancel.cancel();
    });
    let code = if accepts == Accepts::Moves { "call echo 1\nawait" } else { "await tools.echo(1)" };
    let provider = tools(&Calls::default()).with_policy(&policy);
    let request = ExecuteRequest::new(code).provider(provider).limits(generous_limits()).cancellation(cancellation);
    let result = RUNTIME.block_on(executor.execute(request));
    assert_eq!(result.error().unwrap().message, "Execution was cancelled");
    assert_eq!(*records.lock().unwrap(), ["tools.echo 1 Abandoned"]);
}
