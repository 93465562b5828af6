//! A policy that asks a person about destructive calls. The person is a list of answers here; in an application it is a
//! dialog.

use std::error::Error;
use std::sync::{Arc, Mutex};

use execbox::policy::{Answer, Ask, Decision, Policy, ProposedCall, Questions};
use execbox::{BoxFuture, Effect, ExecuteRequest, Executor, InlineExecutor, Provider, Tool};
use serde_json::{Value, json};

/// Answers questions in turn.
struct Script(Mutex<Vec<Answer>>);

impl Ask for Script {
    fn ask<'a>(&'a self, call: ProposedCall<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let next = self.0.lock().unwrap().pop();
            let answer = next.unwrap_or_else(|| Answer::RefuseAll("nobody answers".to_owned()));
            println!("{} {}? {answer:?}", call.name(), call.input);
            answer
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let list = Tool::new("list", async |_, _| Ok(json!(["a", "b", "c"]))).effect(Effect::ReadOnly);
    let remove =
        Tool::new("remove", async |name: Value, _| Ok(json!(format!("removed {name}")))).effect(Effect::Destructive);
    let files = Provider::builder("files").tool(list).tool(remove).build()?;

    let answers = vec![Answer::Refuse("b is needed".to_owned()), Answer::Approve]; // the last one first
    let policy = Policy::new()
        .effect(Effect::Destructive, Decision::Ask)
        .approver(Arc::new(Questions::new(Script(Mutex::new(answers)))))
        .audit(|record| {
            println!("{} {:?}", record.call.name(), record.verdict);
            Ok(())
        });

    let code = "
        const done = [];
        for (const name of await files.list()) done.push(await files.remove(name).catch((error) => error.message));
        done
    ";
    let request = ExecuteRequest::new(code).provider(files.with_policy(&policy));
    let result = InlineExecutor::new()?.execute(request).await;
    for line in result.value::<Vec<String>>()? {
        println!("{line}");
    }
    Ok(())
}
