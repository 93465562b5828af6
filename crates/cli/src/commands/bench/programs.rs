//! The programs that are measured, their results, and their tools.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::{ExecuteRequest, ExecuteResult, Executor, Limits, Provider, Tool};
use execbox_measure::programs::{TIMEOUT, check_number, error_text, timed};
use execbox_measure::typescript;
use serde_json::{Value as Json, json};

/// A program and its result.
pub(super) struct Program {
    code: fn() -> String,
    result: Expected,
}

/// The expected result of a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Expected {
    Number(f64),
    /// The result of [`items`].
    Items,
    /// An error with this code.
    Error(&'static str),
}

/// The number of calls that the program of the row `calls-in-sequence` makes.
pub(super) const CALLS: u32 = 201;

/// The number of items that have 1 MB as JSON.
const ITEMS: u32 = 14_300;

pub(super) const ONE_PLUS_ONE: Program = Program { code: || "1+1".to_owned(), result: Expected::Number(2.0) };

pub(super) const ONE_CALL: Program =
    Program { code: || "(await tools.add({ a: 1, b: 2 })).sum".to_owned(), result: Expected::Number(3.0) };

pub(super) const FIRST_CALL: Program = Program { code: || calls(1), result: Expected::Number(1.0) };

pub(super) const CALLS_IN_SEQUENCE: Program =
    Program { code: || calls(CALLS), result: Expected::Number((CALLS * (CALLS + 1) / 2) as f64) };

fn calls(count: u32) -> String {
    format!("let s = 0; for (let i = 0; i < {count}; i++) s += (await tools.add({{ a: i, b: 1 }})).sum; s")
}

pub(super) const CALLS_AT_ONCE: Program = Program {
    code: || "(await Promise.all(Array.from({ length: 1000 }, (_, i) => tools.add({ a: i, b: 1 })))).length".to_owned(),
    result: Expected::Number(1000.0),
};

pub(super) const RESULT: Program = Program { code: || format!("{BUILD_ITEMS}; a"), result: Expected::Items };

pub(super) const TOOL_RESULT: Program = Program {
    code: || "let n = 0; for (const item of await tools.items()) n += item.id; n".to_owned(),
    result: Expected::Number((ITEMS * (ITEMS - 1) / 2) as f64),
};

pub(super) const TOOL_INPUT: Program =
    Program { code: || format!("{BUILD_ITEMS}; await tools.count(a)"), result: Expected::Number(ITEMS as f64) };

/// The code that builds [`items`].
const BUILD_ITEMS: &str = "const a = []; for (let i = 0; i < 14300; i++) \
    a.push({ id: i, name: 'item ' + i, ok: true, tags: ['a', 'b'], v: i + 0.5 })";

pub(super) const FIB: Program = Program {
    code: || "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) } fib(27)".to_owned(),
    result: Expected::Number(196_418.0),
};

pub(super) const LOOP: Program = Program {
    code: || "let s = 0; for (let i = 0; i < 1e7; i++) s += i; s".to_owned(),
    result: Expected::Number(49_999_995_000_000.0),
};

pub(super) const JSON: Program = Program {
    code: || format!("{BUILD_ITEMS}; JSON.parse(JSON.stringify(a)).length"),
    result: Expected::Number(ITEMS as f64),
};

pub(super) const TYPESCRIPT: Program = Program { code: || typescript::script(20), result: Expected::Number(40.0) };

pub(super) const ENDLESS_LOOP: Program =
    Program { code: || "for (;;);".to_owned(), result: Expected::Error("timeout") };

/// The 1 MB that programs build, and that the tool `items` returns.
fn items() -> Json {
    (0..ITEMS)
        .map(|i| json!({ "id": i, "name": format!("item {i}"), "ok": true, "tags": ["a", "b"], "v": f64::from(i) + 0.5 }))
        .collect()
}

/// The tools of the programs.
pub(super) struct Tools {
    provider: Provider,
    items: Json,
    /// The next result of `items`, made in advance, so that the time of building it is not measured.
    stock: Arc<Mutex<Option<Json>>>,
}

impl Tools {
    pub(super) fn new() -> Self {
        let stock = Arc::new(Mutex::new(None));
        let taken = Arc::clone(&stock);
        let items_of_stock = move |_: Json, _| {
            let items = taken.lock().ok().and_then(|mut stock: std::sync::MutexGuard<'_, Option<Json>>| stock.take());
            async move { Ok(items.unwrap_or_default()) }
        };
        let add = async |input: Json, _| {
            Ok(json!({ "sum": input["a"].as_f64().unwrap_or_default() + input["b"].as_f64().unwrap_or_default() }))
        };
        let numbers = json!({
            "type": "object",
            "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
            "required": ["a", "b"]
        });
        let tools = [
            Tool::new("add", add).input_schema(numbers),
            Tool::new("items", items_of_stock),
            Tool::new("count", async |input: Json, _| Ok(json!(input.as_array().map_or(0, Vec::len)))),
        ];
        let provider = Provider::builder("tools").tools(tools).build().expect("distinct names and a valid schema");
        Self { provider, items: items(), stock }
    }

    pub(super) fn provider(&self) -> Provider {
        self.provider.clone()
    }

    fn refill(&self) {
        if let Ok(mut stock) = self.stock.lock() {
            stock.get_or_insert_with(|| self.items.clone());
        }
    }
}

/// The request and the result of a program, to be executed repeatedly.
pub(super) struct Prepared {
    request: ExecuteRequest,
    expected: Expected,
}

impl Prepared {
    pub(super) fn new(program: &Program, tools: &Tools) -> Self {
        let limits = Limits::default().timeout(TIMEOUT);
        let request = ExecuteRequest::new((program.code)()).provider(tools.provider()).limits(limits);
        Self { request, expected: program.result }
    }

    pub(super) fn timeout(self, timeout: Duration) -> Self {
        Self { request: self.request.timeout(timeout), ..self }
    }

    /// Executes the program. Returns the duration if the result is correct; otherwise the reason.
    pub(super) async fn execute(&self, executor: &dyn Executor, tools: &Tools) -> Result<Duration, String> {
        tools.refill();
        let request = self.request.clone();
        let (elapsed, result) = timed(executor, request).await;
        check(&result, self.expected, &tools.items).map(|()| elapsed)
    }
}

fn check(result: &ExecuteResult, expected: Expected, items: &Json) -> Result<(), String> {
    match (&result.outcome, expected) {
        (Ok(value), Expected::Number(number)) => check_number(value.as_ref(), number),
        (Ok(Some(value)), Expected::Items) if value == items => Ok(()),
        (Ok(_), Expected::Items) => Err("expected the items that were built, got another result".to_owned()),
        (Err(error), Expected::Error(code)) if error.code.as_str() == code => Ok(()),
        (Ok(_), Expected::Error(code)) => Err(format!("expected the error {code}, got a result")),
        (Err(error), _) => Err(error_text(error)),
    }
}

#[cfg(test)]
mod tests {
    use execbox::ExecuteError;

    use super::*;

    #[test]
    fn a_wrong_result_is_an_error() {
        let result = |outcome| ExecuteResult::new(outcome, Duration::ZERO);
        let check = |outcome, expected| check(&result(outcome), expected, &json!([1]));
        assert_eq!(check(Ok(Some(json!(2))), Expected::Number(2.0)), Ok(()));
        assert_eq!(check(Ok(Some(json!([1]))), Expected::Items), Ok(()));
        for (outcome, expected) in [
            (Ok(Some(json!(3))), Expected::Number(2.0)),
            (Ok(Some(json!("2"))), Expected::Number(2.0)),
            (Ok(None), Expected::Number(2.0)),
            (Ok(Some(json!([2]))), Expected::Items),
            (Ok(None), Expected::Error("timeout")),
            (Err(ExecuteError::internal("lost")), Expected::Number(2.0)),
        ] {
            assert!(check(outcome, expected).is_err(), "{expected:?}");
        }
    }

    #[test]
    fn items_have_a_megabyte() {
        let bytes = items().to_string().len();
        assert!((900_000..1_200_000).contains(&bytes), "{bytes}");
        assert!((280..340).contains(&typescript::script(20).lines().count()));
    }
}
