//! A pool of two children, two hundred executions, and a killer.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use execbox::{ErrorCode, Execution, Executor, Provider, Tool};
use serde_json::{Value as Json, json};

use support::{Signal, children, is_alive, processes, send, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_execution_is_answered_once_while_children_are_killed_at_random() {
    let executor = processes(2).build();
    let nap = Tool::new("nap", async |input: Json, _| {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(input)
    });
    let tools = Provider::builder("tools").tool(nap).build().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let killing = std::thread::spawn(move || {
        let mut killed = Vec::new();
        while !seen.load(Ordering::Relaxed) {
            // Moments and victims that nothing in the executions is in step with.
            std::thread::sleep(Duration::from_millis(7 + (killed.len() * 13 % 23) as u64));
            let alive = children(std::process::id());
            if let Some(victim) = alive.get(killed.len() % alive.len().max(1)) {
                send(Signal::SIGKILL, *victim);
                killed.push(*victim);
            }
        }
        killed
    });

    let tasks: Vec<_> = (0..200)
        .map(|i| {
            let (executor, tools) = (executor.clone(), tools.clone());
            let code = format!("let n = {i}; for (let k = 0; k < 3; k++) n = await tools.nap(n); n");
            tokio::spawn(async move { executor.execute(Execution::new(code).provider(tools)).await })
        })
        .collect();
    let (mut succeeded, mut hit) = (0, 0);
    for (i, task) in tasks.into_iter().enumerate() {
        let result = task.await.unwrap();
        match &result.outcome {
            Ok(value) => {
                assert_eq!(*value, Some(json!(i)));
                succeeded += 1;
            }
            Err(error) => {
                assert_eq!((error.code, error.refusal), (ErrorCode::InternalError, None), "{error}");
                hit += 1;
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    let killed = killing.join().unwrap();
    assert_eq!(succeeded + hit, 200);
    assert!(hit > 0 && succeeded > 0 && killed.len() >= hit, "{} killed, {hit} hit", killed.len());
    wait_until("the end of the last victim", || !killed.iter().any(|victim| is_alive(*victim)));

    // Whole again: both children serve.
    executor.prewarm(2).await.unwrap();
    for _ in 0..10 {
        assert!(executor.execute(Execution::new("1")).await.is_ok());
    }
    assert!(children(std::process::id()).len() <= 2);
    executor.dispose().await;
    wait_until("the end of every child", || children(std::process::id()).is_empty());
}
