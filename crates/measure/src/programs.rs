//! Executions whose results are checked.

use std::time::{Duration, Instant};

use execbox::{ExecuteError, ExecuteRequest, ExecuteResult, Executor};
use serde_json::Value as Json;

/// The timeout of a program that is measured: long enough for each on a slow machine.
pub const TIMEOUT: Duration = Duration::from_mins(1);

/// Executes a request, and measures the time.
pub async fn timed(executor: &dyn Executor, request: ExecuteRequest) -> (Duration, ExecuteResult) {
    let started = Instant::now();
    let result = executor.execute(request).await;
    (started.elapsed(), result)
}

/// The value of a result, or its error in a line.
pub fn value(result: ExecuteResult) -> Result<Option<Json>, String> {
    result.outcome.map_err(|error| error_text(&error))
}

/// The code and the message of an error, in a line.
pub fn error_text(error: &ExecuteError) -> String {
    format!("{}: {}", error.code.as_str(), error.message)
}

/// Checks the result of a program that returns a number. Fails with the reason.
pub fn check_number(value: Option<&Json>, expected: f64) -> Result<(), String> {
    match value {
        Some(value) if value.as_f64() == Some(expected) => Ok(()),
        Some(Json::Number(number)) => Err(format!("expected the result {expected}, got {number}")),
        _ => Err(format!("expected the result {expected}, got another value")),
    }
}

/// Converts a time to milliseconds.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
