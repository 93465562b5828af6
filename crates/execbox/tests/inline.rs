//! The inline executor, and behavior that is the same on every executor.

use std::sync::Arc;
use std::time::Duration;

use execbox::{CancellationToken, ErrorCode, ExecuteRequest, Executor, InlineExecutor, Limits, Provider, Tool};
use serde_json::Value as Json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

fn later() -> Provider {
    let later = Tool::new("later", async |input: Json, _| {
        tokio::time::sleep(Duration::from_millis(input.as_u64().unwrap_or(1))).await;
        Ok(input)
    });
    Provider::builder("tools").tool(later).build().unwrap()
}

/// A timeout that no test here reaches on a busy machine.
fn generous_limits() -> Limits {
    Limits::default().timeout(Duration::from_mins(10))
}

#[tokio::test]
async fn an_executor_has_room_for_as_many_guests_as_it_is_asked_for() {
    const GUESTS: usize = 1_100; // more than the shared engine has room for
    let executor = InlineExecutor::with_max_guests(u32::try_from(GUESTS).unwrap()).unwrap();
    let (all, arrived) = (Arc::new(Barrier::new(GUESTS + 1)), Arc::new(Barrier::new(GUESTS + 1)));
    let (end, arrive) = (Arc::clone(&all), Arc::clone(&arrived));
    let meet = Tool::new("meet", move |input: Json, _| {
        let (all, arrived) = (Arc::clone(&end), Arc::clone(&arrive));
        async move {
            arrived.wait().await;
            all.wait().await;
            Ok(input)
        }
    });
    let tools = Provider::builder("tools").tool(meet).build().unwrap();
    let mut guests = JoinSet::new();
    for number in 0..GUESTS {
        let request = ExecuteRequest::new(format!("await tools.meet({number})")).provider(tools.clone());
        let executor = executor.clone();
        guests.spawn(async move { executor.execute(request.limits(generous_limits())).await });
    }
    arrived.wait().await;
    let one_more = executor.execute(ExecuteRequest::new("1")).await.outcome.unwrap_err();
    assert_eq!(one_more.message, format!("engine at capacity: {GUESTS} guests running"));
    all.wait().await;
    let results = guests.join_all().await;
    assert!(results.iter().all(|result| result.outcome.is_ok()), "{results:?}");
}

/// More than 256 tasks that are woken at once do not stay on their thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_guests_on_several_threads_all_reach_their_call() {
    const GUESTS: usize = 600;
    let all = Arc::new(Barrier::new(GUESTS));
    let meet = Tool::new("meet", move |input: Json, _| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            Ok(input)
        }
    });
    let tools = Provider::builder("tools").tool(meet).build().unwrap();
    let executor = InlineExecutor::new().unwrap();
    let mut guests = JoinSet::new();
    for number in 0..GUESTS {
        let request = ExecuteRequest::new(format!("await tools.meet({number})")).provider(tools.clone());
        let (request, executor) = (request.limits(generous_limits()), executor.clone());
        guests.spawn(async move { executor.execute(request).await });
    }
    let results = guests.join_all().await;
    assert_eq!(results.iter().find_map(execbox::ExecuteResult::error), None);
}

#[tokio::test(flavor = "current_thread")]
async fn a_computing_guest_does_not_block_other_tasks_of_its_thread() {
    // tests/turns.rs counts the turns.
    let enough = CancellationToken::new();
    let cancel = enough.clone();
    tokio::spawn(async move {
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        cancel.cancel();
    });
    let execution = ExecuteRequest::new("for (;;);").limits(generous_limits()).cancellation(enough);
    let result = InlineExecutor::new().unwrap().execute(execution).await;
    assert_eq!(result.error().unwrap().message, "Execution was cancelled");
}

#[tokio::test]
async fn logs_stream_while_the_guest_runs() {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let sink = move |line: &execbox::LogLine| drop(sender.send(line.text.clone()));
    let code = "console.log('one'); await tools.later(1); console.warn('two'); for (;;);";
    let seen = CancellationToken::new();
    let execution =
        ExecuteRequest::new(code).provider(later()).limits(generous_limits()).on_log(sink).cancellation(seen.clone());
    let task = tokio::spawn(async move { InlineExecutor::new().unwrap().execute(execution).await });
    assert_eq!(receiver.recv().await.as_deref(), Some("one"));
    assert_eq!(receiver.recv().await.as_deref(), Some("two"));
    assert!(!task.is_finished(), "the lines came before the end");
    seen.cancel();
    assert_eq!(task.await.unwrap().logs, ["one", "two"]);
}

#[tokio::test]
async fn duplicate_provider_names_are_rejected_before_the_guest_starts() {
    let provider = || Provider::builder("tools").build().unwrap();
    let result = InlineExecutor::new()
        .unwrap()
        .execute(ExecuteRequest::new("1").provider(provider()).provider(provider()))
        .await;
    let error = result.error().unwrap();
    assert_eq!(error.code, ErrorCode::InternalError);
    assert_eq!(error.message, "duplicate provider name \"tools\"");
}

#[tokio::test]
async fn executions_work_after_prewarm_and_dispose() {
    let executor = InlineExecutor::new().unwrap();
    assert_eq!(executor.prewarm(3).await, Ok(()));
    executor.close().await;
    assert!(executor.execute(ExecuteRequest::new("1")).await.is_ok());
}
