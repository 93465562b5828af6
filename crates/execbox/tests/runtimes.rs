//! Executors on tokio runtimes that lack what they need, and without a runtime: they fail, and never panic.

use std::future::Future;
use std::sync::Arc;

use execbox::code::CodeExecutionOptions;
use execbox::{
    CheckOutcome, CommandError, ErrorCode, ExecuteRequest, Executor, FallbackExecutor, InlineExecutor, ProcessExecutor,
    RemoteExecutor, RunnerCommand, WorkerExecutor,
};
use futures_util::FutureExt as _;
use tokio::runtime::{Builder, Runtime};

const NO_RUNTIME: &str = "there is no tokio runtime: executors need one, built with enable_time";
const NO_TIMERS: &str = "the tokio runtime has no timers: build it with enable_time";
const NO_IO: &str = "the tokio runtime has no I/O: build it with enable_io";

type Executors = Vec<(&'static str, Arc<dyn Executor>)>;

fn in_process() -> Executors {
    let inline: Arc<dyn Executor> = Arc::new(InlineExecutor::new().unwrap());
    let fallback = FallbackExecutor::new(Arc::clone(&inline), Arc::clone(&inline));
    vec![("inline", inline), ("worker", Arc::new(WorkerExecutor::new().unwrap())), ("fallback", Arc::new(fallback))]
}

fn elsewhere() -> Executors {
    let address = "unix:/nonexistent/execbox.sock".parse().unwrap();
    vec![
        ("process", Arc::new(ProcessExecutor::new(RunnerCommand::new("/bin/cat")))),
        ("remote", Arc::new(RemoteExecutor::with_address(address, None))),
    ]
}

fn block_on<T>(runtime: Option<&Runtime>, future: impl Future<Output = T>) -> T {
    match runtime {
        Some(runtime) => runtime.block_on(future),
        None => future.now_or_never().expect("nothing is to be waited for"),
    }
}

fn expect_error(runtime: Option<&Runtime>, (name, executor): &(&str, Arc<dyn Executor>), expected: &str) {
    block_on(runtime, async {
        let error = executor.execute(ExecuteRequest::new("1")).await.outcome.unwrap_err();
        assert_eq!((error.code, &*error.message), (ErrorCode::InternalError, expected), "{name}");
        let error = executor.run_code("export default 1", CodeExecutionOptions::new()).await.error.unwrap();
        assert_eq!((error.is_internal, &*error.message), (true, expected), "{name}");
        if *name != "remote" {
            assert_eq!(executor.prewarm(1).await.unwrap_err().message, expected, "{name}");
        }
        let report = executor.self_test().await;
        let CheckOutcome::Failed(reason) = &report.checks[0].outcome else { panic!("{name}: {report:?}") };
        assert!(reason.ends_with(expected), "{name}: {reason}");
        executor.close().await;
    });
}

#[test]
fn without_a_runtime_executors_fail() {
    for executor in in_process().iter().chain(&elsewhere()) {
        expect_error(None, executor, NO_RUNTIME);
    }
}

#[test]
fn on_a_runtime_without_timers_executors_fail() {
    let runtimes = [Builder::new_current_thread(), Builder::new_multi_thread()];
    for runtime in runtimes.map(|mut builder| builder.enable_io().build().unwrap()) {
        for executor in in_process().iter().chain(&elsewhere()) {
            expect_error(Some(&runtime), executor, NO_TIMERS);
        }
    }
}

#[test]
fn on_a_runtime_without_io_executors_of_this_process_work_and_others_fail() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    for (name, executor) in in_process() {
        runtime.block_on(async {
            assert!(executor.execute(ExecuteRequest::new("1")).await.is_ok(), "{name}");
            let run = executor.run_code("export default 1", CodeExecutionOptions::new()).await;
            assert_eq!(run.error, None, "{name}");
            executor.prewarm(1).await.unwrap();
            executor.close().await;
        });
    }
    for executor in elsewhere() {
        expect_error(Some(&runtime), &executor, NO_IO);
    }
}

/// Children would be runners inside a runtime, whose threads a jail must precede.
#[test]
fn a_program_that_serves_inside_a_runtime_cannot_be_its_own_runner() {
    const NAME: &str = "a_program_that_serves_inside_a_runtime_cannot_be_its_own_runner";
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async { execbox::serve_if_runner() });
    let error = RunnerCommand::this_program().unwrap_err();
    assert!(matches!(error, CommandError::ServedInRuntime), "{error:?}");

    // The child runs this test again, and ends at its call.
    let this_program = std::env::current_exe().unwrap();
    let child = std::process::Command::new(this_program).args(["execbox-runner", NAME]).output().unwrap();
    let printed = String::from_utf8(child.stderr).unwrap();
    assert_eq!((child.status.code(), printed), (Some(1), format!("execbox runner: {error}\n")));
}
