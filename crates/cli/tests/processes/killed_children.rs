//! A pool of two children, two hundred executions, and children that are killed at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use execbox::{ErrorCode, ExecuteRequest, Executor, Limits, Provider, Tool};
use serde_json::{Value as Json, json};

use crate::ALONE;
use crate::support::{Signal, children, is_alive, processes, send, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_execution_completes_once_while_children_are_killed_at_random() {
    let _alone = ALONE.lock().await;
    let executor = processes(2).build();
    let nap = Tool::new("nap", async |input: Json, _| {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(input)
    });
    let tools = Provider::builder("tools").tool(nap).build().unwrap();
    let limits = Limits::default().timeout(Duration::from_mins(10));
    let finished = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&finished);
    let killing = std::thread::spawn(move || {
        let mut killed = Vec::new();
        while seen.load(Ordering::Relaxed) < 200 {
            // The times and the children are independent of the executions. Pauses let a slow machine make progress.
            let before = seen.load(Ordering::Relaxed);
            while (before..(before + 4).min(200)).contains(&seen.load(Ordering::Relaxed)) {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis((killed.len() * 13 % 23) as u64));
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
            let (executor, tools, finished) = (executor.clone(), tools.clone(), Arc::clone(&finished));
            let code = format!("let n = {i}; for (let k = 0; k < 3; k++) n = await tools.nap(n); n");
            tokio::spawn(async move {
                let result = executor.execute(ExecuteRequest::new(code).provider(tools).limits(limits)).await;
                finished.fetch_add(1, Ordering::Relaxed);
                result
            })
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
                assert_eq!((error.code, error.rejected), (ErrorCode::InternalError, None), "{error}");
                hit += 1;
            }
        }
    }
    let killed = killing.join().unwrap();
    assert_eq!(succeeded + hit, 200);
    assert!(hit > 0 && succeeded > 0 && killed.len() >= hit, "{} killed, {hit} hit", killed.len());
    wait_until("the end of the last victim", || !killed.iter().any(|victim| is_alive(*victim)));

    // Both children are replaced and work.
    executor.prewarm(2).await.unwrap();
    for _ in 0..10 {
        assert!(executor.execute(ExecuteRequest::new("1")).await.is_ok());
    }
    assert!(children(std::process::id()).len() <= 2);
    executor.close().await;
    wait_until("the end of every child", || children(std::process::id()).is_empty());
}
