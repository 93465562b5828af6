//! Rust types at the border of runs: arguments and results of host functions, reports, the value of a result.

use std::collections::BTreeMap;
use std::error::Error;

use anyhow::Context as _;
use execbox::code::{Args, BigInt, CodeExecutionOptions, CodeExecutionResult, HostError, HostValue};
use execbox::{Executor, InlineExecutor, Provider, Tool, ValueError};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Row {
    id: String,
    price: f64,
}

async fn run(source: &str, options: CodeExecutionOptions) -> CodeExecutionResult {
    InlineExecutor::new().unwrap().run_code(source, options).await
}

#[tokio::test]
async fn typed_host_functions_convert_their_argument_and_result() {
    let double = HostValue::typed("double", async |row: Row| match row.price {
        price if price < 0.0 => Err(HostError::named("RangeError", "the price is negative")),
        price => Ok(Row { price: price * 2.0, ..row }),
    });
    let root = HostValue::typed("root", async |number: Option<f64>| Ok(number.unwrap_or(4.0).sqrt()));
    let options = CodeExecutionOptions::new().import("host", [("double", double), ("root", root)]);
    let source = "
        import { double, root } from 'host';
        const caught = (promise) => promise.catch(String);
        export default [
            await double({ id: 'a', price: 1.5 }), await root(), await root(9),
            await caught(double({ id: 'a', price: -1 })), await caught(double({ id: 'a', price: 'x' })), await caught(root(-1)),
        ];
    ";
    let expected = json!([
        { "id": "a", "price": 3 },
        2,
        3,
        "RangeError: the price is negative",
        "TypeError: argument 0.price does not fit: invalid type: string \"x\", expected f64",
        "SerializationError: the result is not JSON: result is NaN; use null or a finite number",
    ]);
    assert_eq!(run(source, options).await.value(), Ok(expected));
}

#[tokio::test]
async fn question_mark_converts_errors_boxed_errors_anyhow_and_texts() {
    fn boxed() -> Result<u32, Box<dyn Error + Send + Sync>> {
        Ok("x".parse()?)
    }
    fn anyhow() -> anyhow::Result<u32> {
        "x".parse().context("no count")
    }
    let fail = HostValue::typed("fail", async |how: String| {
        Ok(match how.as_str() {
            "error" => "x".parse()?,
            "boxed" => boxed()?,
            "anyhow" => anyhow()?,
            "text" => None.ok_or("no text")?,
            _ => Err(HostError::named("RangeError", "unknown way"))?,
        })
    });
    let source = "
        const caught = (how) => fail(how).catch(String);
        export default await Promise.all(['error', 'boxed', 'anyhow', 'text', 'other'].map(caught));
    ";
    let expected = json!([
        "Error: invalid digit found in string",
        "Error: invalid digit found in string",
        "Error: no count",
        "Error: no text",
        "RangeError: unknown way",
    ]);
    assert_eq!(run(source, CodeExecutionOptions::new().global("fail", fail)).await.value(), Ok(expected));
}

#[tokio::test]
async fn arguments_are_read_as_rust_types() {
    let total = HostValue::function("total", |args: Args| {
        let (rows, tax) = (args.get_as::<Vec<Row>>(0)?, args.get_as::<Option<f64>>(1)?);
        Ok(HostValue::from(rows.iter().map(|row| row.price).sum::<f64>() + tax.unwrap_or(0.5)))
    });
    let source = "
        const rows = [{ id: 'a', price: 1 }, { id: 'b', price: 2 }];
        const caught = (call) => { try { return call() } catch (error) { return String(error) } };
        export default [total(rows), total(rows, 1), caught(() => total([{ id: 7 }])), caught(() => total(new Map()))];
    ";
    let result = run(source, CodeExecutionOptions::new().global("total", total)).await;
    let (first, second, mismatch, map): (f64, f64, String, String) = result.value().unwrap();
    assert_eq!((first, second), (3.5, 4.0));
    assert_eq!(mismatch, "TypeError: argument 0[0].id does not fit: invalid type: integer `7`, expected a string");
    assert!(map.starts_with("TypeError: argument 0 "), "{map}");
}

#[tokio::test]
async fn rust_values_become_host_values() {
    let options = CodeExecutionOptions::new()
        .global("integers", HostValue::array([(-7_i64).into(), u64::MAX.into(), 7_u32.into(), 7_i32.into()]))
        .global("exact", BigInt::from(i128::from(u64::MAX)))
        .global("list", vec!["a", "b"])
        .global("some", Some(1.5))
        .global("none", None::<Vec<i64>>);
    let source = "export default JSON.stringify([integers, String(exact), list, some, none])";
    let expected = r#"[[-7,18446744073709552000,7,7],"18446744073709551615",["a","b"],1.5,null]"#;
    assert_eq!(run(source, options).await.value(), Ok(expected.to_owned()));
}

#[tokio::test]
async fn a_result_has_a_value_of_a_rust_type() {
    let value = async |source: &str| run(source, CodeExecutionOptions::new()).await;
    let result = value("export default { a: { id: 'a', price: 1 } }").await;
    let row = Row { id: "a".to_owned(), price: 1.0 };
    assert_eq!(result.value(), Ok(BTreeMap::from([("a".to_owned(), row)])));
    let error = result.value::<BTreeMap<String, u8>>().unwrap_err();
    assert_eq!(error.to_string(), "result.a does not fit: invalid type: map, expected u8");

    let undefined = value("export default undefined").await;
    assert_eq!((undefined.value(), undefined.value()), (Ok(()), Ok(None::<Row>)));

    let error = value("export default { a: new Map() }").await.value::<Row>().unwrap_err();
    assert!(matches!(&error, ValueError::NotJson(error) if error.path == "result.a"), "{error}");

    let error = value("throw new RangeError('no')").await.value::<()>().unwrap_err();
    assert!(matches!(&error, ValueError::Failed(error) if error.name == "RangeError"), "{error}");
}

#[tokio::test]
async fn reports_are_printed_as_json_with_tags() {
    let source = "
        const row = { id: 'a', late: [1, true, null] };
        report(row); report('a'); report(undefined); report(new Map([[row, 2n]]));
        let deep = []; for (let level = 0; level < 200; level++) deep = [deep];
        report(deep);
        export default 0;
    ";
    let result = run(source, CodeExecutionOptions::new().grant_report()).await;
    let reports: Vec<_> = result.reports.iter().map(ToString::to_string).collect();
    let row = r#"{"id":"a","late":[1,true,null]}"#;
    let map = format!(r#"{{"$map":[[{row},{{"$bigint":"2"}}]]}}"#);
    assert_eq!(reports, [row, r#""a""#, "undefined", &map, "<value nests deeper than 100 levels>"]);
    assert_eq!(result.reports[0].to_json("report", 1 << 20), Ok(Some(json!({ "id": "a", "late": [1, true, null] }))));
}

#[tokio::test]
async fn tools_of_a_run_read_attached_values() {
    let whoami = Tool::new("whoami", async |_, context| Ok(json!(context.attached::<String>())));
    let provider = Provider::builder("session").tool(whoami).build().unwrap();
    let options = CodeExecutionOptions::new().provider(provider).attach("ada".to_owned());
    let result = run("import { whoami } from 'session'; export default await whoami();", options).await;
    assert_eq!(result.value(), Ok("ada".to_owned()));
}
