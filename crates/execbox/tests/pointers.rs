//! Pointers to executors are executors: each method reaches the executor.

use std::sync::{Arc, Mutex};

use execbox::code::{CodeExecution, CodeExecutionOptions};
use execbox::{BoxFuture, ExecuteError, ExecuteRequest, ExecuteResult, Executor, InlineExecutor, SelfTestReport};
use serde_json::json;

/// Records the calls of its methods.
struct Recorder {
    inner: InlineExecutor,
    calls: Mutex<Vec<&'static str>>,
}

impl Recorder {
    fn new() -> Self {
        Self { inner: InlineExecutor::new().unwrap(), calls: Mutex::default() }
    }

    fn record(&self, call: &'static str) -> &InlineExecutor {
        self.calls.lock().unwrap().push(call);
        &self.inner
    }
}

impl Executor for Recorder {
    fn execute(&self, request: ExecuteRequest) -> BoxFuture<'_, ExecuteResult> {
        self.record("execute").execute(request)
    }

    fn run_code(&self, source: &str, options: CodeExecutionOptions) -> CodeExecution {
        self.record("run_code").run_code(source, options)
    }

    fn prewarm(&self, count: usize) -> BoxFuture<'_, Result<(), ExecuteError>> {
        self.record("prewarm").prewarm(count)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.record("close").close()
    }

    fn self_test(&self) -> BoxFuture<'_, SelfTestReport> {
        self.record("self_test").self_test()
    }
}

async fn use_all(executor: impl Executor) {
    assert_eq!(executor.execute(ExecuteRequest::new("6 * 7")).await.outcome, Ok(Some(json!(42))));
    let run = executor.run_code("export default 1", CodeExecutionOptions::new()).await;
    assert_eq!(run.error, None);
    executor.prewarm(1).await.unwrap();
    assert_eq!(executor.self_test().await.jail, None);
    executor.close().await;
}

#[tokio::test]
async fn references_boxes_and_arcs_of_executors_are_executors() {
    let recorder = Arc::new(Recorder::new());
    use_all(&*recorder).await;
    use_all(Arc::clone(&recorder)).await;
    use_all(Arc::clone(&recorder) as Arc<dyn Executor>).await;
    use_all(Box::new(Arc::clone(&recorder))).await;
    use_all(Box::new(Arc::clone(&recorder)) as Box<dyn Executor>).await;
    let each = ["execute", "run_code", "prewarm", "self_test", "close"];
    assert_eq!(*recorder.calls.lock().unwrap(), [each; 5].concat());
}
