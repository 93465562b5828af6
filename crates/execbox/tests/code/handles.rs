//! Functions and promises of a host that knows them by numbers, and byte strings that are attached.

use std::sync::Arc;

use execbox::code::{
    Args, AttachedBytes, CodeExecutionOptions, FunctionKind, Graph, Handles, HostFunction, HostValue, NoHandles,
    OTHER_FUNCTION,
};
use execbox::{Executor, Provider, Tool};
use serde_json::{Value as Json, json};

use crate::Test;
use crate::executors::RUNTIME;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("functions have the numbers of the host, also on their way back", numbers),
    ("functions that the host has given no number cannot be mistaken for its own", others),
    ("a function that is answered later blocks the guest, and nothing else", blocking),
];

/// Every function returns its number and its arguments, later, and every promise its number.
struct ByNumber;

impl Handles for ByNumber {
    fn function(&self, function: &HostFunction) -> Option<HostValue> {
        let (number, name) = (function.number, function.name.clone());
        let call = move |args: Args| async move {
            tokio::task::yield_now().await;
            let args = args.graph().to_tagged_json("args", 1 << 20).unwrap();
            let graph = Graph::from_tagged_json(&json!([number, args]), "answer").unwrap();
            HostValue::with_handles(graph, "answer", &ByNumber).map_err(Into::into)
        };
        Some(match function.kind {
            FunctionKind::Sync => HostValue::blocking_function(name, call),
            FunctionKind::Async => HostValue::async_function(name, call),
            _ => return None,
        })
    }

    fn promise(&self, number: u32) -> Option<HostValue> {
        Some(HostValue::promise(async move { Ok(HostValue::from(number)) }))
    }
}

fn options(options: &Json) -> CodeExecutionOptions {
    CodeExecutionOptions::from_json_with(options, &mut AttachedBytes::default(), &ByNumber).unwrap()
}

fn numbers(executor: &Arc<dyn Executor>) {
    let read = json!({ "$function": 70, "kind": "sync", "name": "read" });
    let later = json!({ "$function": 9, "kind": "async", "name": "later" });
    let options = options(&json!({
        "imports": { "files": { "read": read } },
        "globals": { "tools": [later, { "soon": { "$promise": 5 } }] },
    }));
    let source = "
        import { read } from 'files';
        report(tools[0]);
        console.log(read);
        export default [read('a', read), await tools[0](tools[0]), await tools[1].soon, read];
    ";
    let result = RUNTIME.block_on(async { executor.run_code(source, options.grant_report()).await }).to_json().unwrap();
    assert_eq!(result["result"], json!([[70, ["a", read]], [9, [later]], 5, read]), "{result}");
    assert_eq!((&result["reports"], &result["logs"][0]["args"]), (&json!([later]), &json!([read])));
}

/// Tools have no number of the host, whatever number the engine gives them.
fn others(executor: &Arc<dyn Executor>) {
    let tool = Tool::new("price", async |_, _| Ok(Json::Null));
    let shop = Provider::builder("shop").tool(tool).build().unwrap();
    let options = options(&json!({ "globals": { "f": { "$function": 7 } } })).provider(shop);
    let source = "import { price } from 'shop'; export default [f, price]";
    let result = RUNTIME.block_on(async { executor.run_code(source, options).await }).to_json().unwrap();
    let number = |at: usize| result["result"][at]["$function"].as_u64();
    assert_eq!((number(0), number(1)), (Some(7), Some(u64::from(OTHER_FUNCTION))), "{result}");
}

fn blocking(executor: &Arc<dyn Executor>) {
    let (wait, waits) = tokio::sync::oneshot::channel::<()>();
    let waits = Arc::new(tokio::sync::Mutex::new(Some(waits)));
    let wait = Arc::new(std::sync::Mutex::new(Some(wait)));
    let first = HostValue::blocking_function("first", move |_| {
        let waits = Arc::clone(&waits);
        async move {
            let waits = waits.lock().await.take().unwrap();
            waits.await.map_err(|_| "nobody answered")?;
            Ok(HostValue::from("first"))
        }
    });
    // Begun before the call that blocks, and settled while the guest is blocked.
    let second = HostValue::async_function("second", move |_| {
        let wait = Arc::clone(&wait);
        async move {
            tokio::task::yield_now().await;
            wait.lock().unwrap().take().unwrap().send(()).unwrap();
            Ok(HostValue::from("second"))
        }
    });
    let options = CodeExecutionOptions::new().global("first", first).global("second", second);
    let source = "const later = second(); const now = first(); export default [now, await later];";
    let result = RUNTIME.block_on(async { executor.run_code(source, options).await }).to_json().unwrap();
    assert_eq!(result["result"], json!(["first", "second"]), "{result}");
}

/// Without an executor: numbers that stand for nothing, and byte strings.
pub(crate) fn data() {
    let graph = Graph::from_tagged_json(&json!({ "f": { "$function": 1 } }), "value").unwrap();
    let error = HostValue::with_handles(graph, "value", &NoHandles).unwrap_err();
    assert_eq!(error.to_string(), "invalid value: expected data without functions and promises");

    let long = vec![7; 257];
    let mut attached = AttachedBytes::from(vec![long.clone(), Vec::new()]);
    let json = json!([{ "$bytes": { "$attachment": 0 } }, { "$buffer": "AQID" }]);
    let graph = Graph::from_tagged_json_with(&json, "value", &mut attached).unwrap();
    for json in
        [json!({ "$bytes": { "$attachment": 0 } }), json!({ "$bytes": { "$attachment": 1 } }), json!({ "$bytes": {} })]
    {
        let error = Graph::from_tagged_json_with(&json, "value", &mut attached).unwrap_err().to_string();
        assert!(error.contains("an attachment that was received"), "taken already, empty or none: {error}");
    }
    let attached = std::cell::RefCell::default();
    let text = serde_json::to_string(&graph.as_tagged_json("value").attaching(&attached)).unwrap();
    assert_eq!(text, r#"[{"$bytes":{"$attachment":0}},{"$buffer":"AQID"}]"#);
    assert_eq!(attached.into_inner().into_inner(), [long]);
    let text = serde_json::to_string(&graph.as_tagged_json("value")).unwrap();
    assert!(text.starts_with(r#"[{"$bytes":"BwcHBwcH"#), "{text}");
}
