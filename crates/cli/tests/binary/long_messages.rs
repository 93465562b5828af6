//! Logs, modules and scripts that are longer than a message to or from a runner process may be.

use std::time::Duration;

use execbox::code::CodeExecutionOptions;
use execbox::{ExecuteRequest, Executor, Limits, Runner, WorkerExecutor};
use serde_json::json;

use crate::support::processes;

/// Limits of programs that log and read large texts, for the slowest machine.
fn large_limits() -> Limits {
    let timeout = Duration::from_mins(10);
    Limits::default().timeout(timeout).memory_bytes(256 << 20).max_log_lines(100_000).max_log_chars(100 << 20)
}

#[tokio::test]
async fn logs_beyond_the_longest_message_arrive() {
    let (process, worker) = (processes(1).build(), WorkerExecutor::builder(Runner::new().unwrap()).unwrap().build());
    let executors: [&dyn Executor; 2] = [&process, &worker];
    for executor in executors {
        let run = async |code| {
            let result = executor.execute(ExecuteRequest::new(code).limits(large_limits())).await;
            assert_eq!(result.outcome, Ok(Some(json!("x".repeat(15 << 20)))), "{:?}", result.error());
            result.logs
        };
        let many =
            "for (let i = 0; i < 180; i++) console.log(String(i).padEnd(100_000, '\\u0001')); 'x'.repeat(15 << 20)";
        let logs = run(many).await;
        assert_eq!((logs.len(), logs.iter().map(String::len).sum::<usize>()), (180, 18_000_000));
        assert!(logs.iter().enumerate().all(|(number, line)| line.starts_with(&format!("{number}\u{1}"))));
        // One line that is longer than a message is cut.
        let logs = run("console.log('é'.repeat(12e6)); console.log('after'); 'x'.repeat(15 << 20)").await;
        assert!(logs[0].starts_with("éé") && logs[0].len() > 2 << 20, "{}", logs[0].len());
        assert_eq!(logs[1..], ["after"]);
    }
}

#[tokio::test]
async fn modules_beyond_the_longest_message_arrive() {
    let executor = processes(1).build();
    for (modules, len) in [(20, 1 << 20), (5000, 4 << 10)] {
        let mut options = CodeExecutionOptions::new().limits(large_limits());
        let mut entry = String::new();
        for number in 0..modules {
            options = options.module(format!("./{number}.js"), format!("export default 1; /*{}é*/", "x".repeat(len)));
            if number % 10 == 0 {
                entry += &format!("import m{number} from './{number}.js'; total += m{number};\n");
            }
        }
        let source = format!("let total = 0;\n{entry}export default total");
        let result = executor.run_code(&source, options).await;
        let value = result.result.unwrap_or_else(|| panic!("{:?}", result.error));
        assert_eq!(value.root().as_number(), Some(f64::from(modules / 10)));
    }
}

#[tokio::test]
async fn a_script_beyond_the_longest_message_is_an_error_that_says_so() {
    let executor = processes(1).build();
    let limits = large_limits().max_source_bytes(64 << 20);
    let result = executor.execute(ExecuteRequest::new(" ".repeat(17 << 20)).limits(limits)).await;
    let message = &result.error().unwrap().message;
    assert!(message.contains("at most 16777216; pass shorter sources"), "{message}");
}
