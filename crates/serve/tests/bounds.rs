//! Bounds of a connection: long messages, what waits, what is not read, and how it ends.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use execbox::{BoxFuture, ExecuteError, InlineExecutor, Provider, Tool};
use execbox_serve::{ServerReport, ServerSource, Service};
use serde_json::{Value as Json, json};
use support::Application;

/// Adds the provider `t` with the tool `f`, which the application serves.
async fn with_tool(mut application: Application) -> Application {
    application.call("initialize", json!({ "protocolVersion": 1 })).await;
    application.call("add_provider", json!({ "name": "t", "tools": [{ "name": "f" }] })).await;
    application
}

#[tokio::test]
async fn results_and_inputs_that_are_longer_than_a_line_fail() {
    let mut application = with_tool(Application::start()).await;
    let result = application.call("execute", json!({ "code": "'x'.repeat(17 << 20)" })).await;
    assert_eq!(result["result"]["error"]["code"], "serialization_error", "{result}");
    assert_eq!(result["result"]["error"]["message"], "the result cannot be sent: it has more than 16 MiB as JSON");
    let result = application.call("run_code", json!({ "source": "export default 'x'.repeat(17 << 20)" })).await;
    assert_eq!(result["result"]["status"], "error", "{result}");
    assert_eq!(result["result"]["error"]["name"], "SerializationError");
    assert_eq!(result["result"]["error"]["message"], "the result cannot be sent: it has more than 16 MiB as JSON");
    let source = "let a = []; for (let n = 0; n < 200; n++) a = [a]; export default a";
    let result = application.call("run_code", json!({ "source": source })).await;
    let message = "the result cannot be sent: result nests deeper than 100 levels";
    assert_eq!(result["result"]["error"]["message"], message, "{result}");
    let code = "try { await t.f('x'.repeat(17 << 20)) } catch (error) { error.message }";
    let result = application.call("execute", json!({ "code": code, "providers": [1] })).await;
    assert_eq!(result["result"]["result"], "the input cannot be sent: it has more than 16 MiB as JSON");
    application.send_line(&"x".repeat(17 << 20)).await;
    let error = application.message().await["error"]["message"].to_string();
    assert!(error.contains("has more than 16777216 bytes"), "{error}");
    assert_eq!(application.call("execute", json!({ "code": "6 * 7" })).await["result"]["result"], 42);
    application.end().await.unwrap();
}

#[tokio::test]
async fn answers_are_charged_to_the_program_that_waits_for_them() {
    let mut application = with_tool(Application::start()).await;
    let code =
        "const all = await Promise.allSettled([t.f(), t.f()]); all.map(one => one.reason?.message ?? one.value.length)";
    let limits = json!({ "hostMemoryBytes": 1 << 20 });
    let id = application.request("execute", json!({ "code": code, "providers": [1], "limits": limits })).await;
    for length in [100, 2 << 20] {
        let call = application.message().await;
        application.answer(&call, json!("x".repeat(length))).await;
    }
    let result = application.message().await;
    assert_eq!((&result["id"], &result["result"]["result"][0]), (&json!(id), &json!(100)), "{result}");
    let failed = result["result"]["result"][1].as_str().unwrap();
    assert!(failed.starts_with("the answers that wait for the program are too large: "), "{failed}");
    assert!(failed.ends_with("of 1 MiB"), "{failed}");
}

#[tokio::test]
async fn further_programs_wait_in_order_and_can_be_cancelled_meanwhile() {
    let service = Service::new(Arc::new(InlineExecutor::new().unwrap()), "inline").max_running(1);
    let mut application = with_tool(Application::of(&service)).await;
    let first = application.request("execute", json!({ "code": "await t.f()", "providers": [1] })).await;
    let call = application.message().await;
    let short = json!({ "code": "1", "limits": { "timeoutMs": 5000 } });
    let (second, third) =
        (application.request("execute", short.clone()).await, application.request("execute", short).await);
    let usage = application.call("usage", json!({})).await;
    assert_eq!(usage["result"]["running"], 3, "{usage}");
    application.send(json!({ "jsonrpc": "2.0", "method": "cancel", "params": { "id": second } })).await;
    let cancelled = application.message().await;
    assert_eq!((&cancelled["id"], &cancelled["result"]["error"]["code"]), (&json!(second), &json!("timeout")));
    application.answer(&call, json!(7)).await;
    for (id, result) in [(first, 7), (third, 1)] {
        let answer = application.message().await;
        assert_eq!((&answer["id"], &answer["result"]["result"]), (&json!(id), &json!(result)));
    }
}

#[tokio::test]
async fn an_application_that_does_not_read_takes_no_turn_from_others() {
    let called = Arc::new(AtomicBool::new(false));
    let service = with_server(&called).max_running(2);
    let mut unread = Application::of(&service);
    unread.call("initialize", json!({ "protocolVersion": 1 })).await;
    // The transport and the outbox have room for the first results; the others wait.
    for _ in 0..6 {
        unread.request("execute", json!({ "code": "'x'.repeat(8000000)" })).await;
    }
    let mut other = Application::of(&service);
    other.call("initialize", json!({ "protocolVersion": 1 })).await;
    for _ in 0..20 {
        assert_eq!(other.call("execute", json!({ "code": "6 * 7" })).await["result"]["result"], 42);
    }
    for _ in 0..6 {
        assert_eq!(unread.message().await["result"]["ok"], true);
    }
}

#[tokio::test]
async fn requests_that_are_not_answered_are_bounded() {
    let service = Service::new(Arc::new(InlineExecutor::new().unwrap()), "inline").max_running(1);
    let mut application = with_tool(Application::of(&service)).await;
    application.request("execute", json!({ "code": "await t.f()", "providers": [1] })).await;
    let call = application.message().await;
    let long = json!({ "code": format!("/*{}*/ 1", "x".repeat(15 << 20)), "limits": { "maxSourceBytes": 16 << 20 } });
    let mut refused = 0;
    for _ in 0..18 {
        application.request("execute", long.clone()).await;
    }
    let short = application.request("usage", json!({})).await;
    loop {
        let answer = application.message().await;
        if answer["id"] == short {
            break;
        }
        refused += 1;
        assert_eq!(answer["error"]["code"], -32001, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("too many requests are not answered yet: ") && message.ends_with("of 256 MiB"));
    }
    assert_eq!(refused, 1, "17 have 255 MiB");
    application.answer(&call, Json::Null).await;
    for _ in 0..18 {
        assert_eq!(application.message().await["result"]["ok"], true);
    }
}

#[tokio::test]
async fn events_that_are_not_read_are_dropped_and_counted() {
    let called = Arc::new(AtomicBool::new(false));
    let mut application = Application::of(&with_server(&called));
    application.call("initialize", json!({ "protocolVersion": 1 })).await;
    let code = "for (let n = 0; n < 20_000; n++) console.log('x'.repeat(1000)); slow.call()";
    let limits = json!({ "timeoutMs": 600_000, "maxLogLines": 20_000, "maxLogChars": 100_000_000 });
    let params =
        json!({ "code": code, "events": ["log"], "limits": limits, "providers": ["slow"], "waitForCalls": false });
    let id = application.request("execute", params).await;
    // Nothing is read before the program has written all.
    while !called.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (mut received, mut told) = (0, 0);
    let result = loop {
        let message = application.message().await;
        if message["id"] == id {
            break message;
        }
        received += 1;
        told += message["params"].get("dropped").and_then(Json::as_u64).unwrap_or_default();
    };
    let dropped = result["result"]["droppedEvents"].as_u64().unwrap_or_default();
    assert_eq!(received + dropped, 20_000, "each event is received, or counted");
    assert!(dropped > 0 && told <= dropped, "{received} received, {dropped} dropped");
    assert_eq!(application.call("usage", json!({})).await["result"]["droppedEvents"], dropped);
}

#[tokio::test]
async fn a_notification_has_an_effect_and_no_answer() {
    let mut application = with_tool(Application::start()).await;
    for (method, params) in [
        ("execute", json!({ "code": "await t.f(1)", "providers": [1] })),
        ("execute", json!({ "code": 7 })),
        ("nothing", json!({})),
    ] {
        application.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }
    let call = application.message().await;
    assert_eq!((&call["method"], &call["params"]["execution"]), (&json!("call_tool"), &json!("")));
    application.answer(&call, Json::Null).await;
    loop {
        let usage = application.call("usage", json!({})).await;
        if usage["result"]["ended"] == 1 {
            break;
        }
    }
}

/// A service with a server whose tools set `flag`.
fn with_server(flag: &Arc<AtomicBool>) -> Service {
    let service = Service::new(Arc::new(InlineExecutor::new().unwrap()), "inline");
    service.servers(Arc::new(Flagging(Arc::clone(flag))))
}

/// A server with the tools `call`, which sets the flag, and `hang`, which never returns and sets it when its call is dropped.
struct Flagging(Arc<AtomicBool>);

impl ServerSource for Flagging {
    fn settled(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn reports(&self) -> Vec<ServerReport> {
        vec![ServerReport::new("Slow", "slow"), ServerReport::new("Gone", "gone").problem("it is gone".to_owned())]
    }

    fn provider(&self, namespace: &str) -> Option<Provider> {
        let call = Tool::with_state("call", Arc::clone(&self.0), async |called, _, _| {
            called.store(true, Ordering::SeqCst);
            Ok(Json::Null)
        });
        let hang = Tool::with_state("hang", Arc::clone(&self.0), async |dropped, _, _| {
            struct Tells(Arc<AtomicBool>);
            impl Drop for Tells {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::SeqCst);
                }
            }
            let _tells = Tells(dropped);
            std::future::pending().await
        });
        (namespace == "slow").then(|| Provider::builder("slow").tool(call).tool(hang).build().unwrap())
    }

    fn explain(&self, error: &mut ExecuteError) {
        error.message += " (explained)";
    }
}

#[tokio::test]
async fn code_that_calls_servers_is_described() {
    let mut application = Application::of(&with_server(&Arc::default()));
    application.call("initialize", json!({ "protocolVersion": 1 })).await;
    let described = application.call("describe_code", json!({ "providers": ["slow"] })).await;
    let description = described["result"]["description"].as_str().unwrap();
    assert!(description.contains("declare namespace slow {\n  function call(input?: unknown)"), "{description}");
    let refused = application.call("describe_code", json!({ "providers": ["slow", "gone"] })).await;
    assert_eq!(refused["error"]["message"], "params.providers: server \"gone\" cannot be granted: it is gone");
}

#[tokio::test]
async fn a_connection_that_ends_takes_its_executions_with_it() {
    let dropped = Arc::new(AtomicBool::new(false));
    let mut application = Application::of(&with_server(&dropped));
    application.call("initialize", json!({ "protocolVersion": 1 })).await;
    let servers = application.call("servers", json!({})).await;
    assert_eq!(
        servers["result"]["servers"][1],
        json!({ "name": "Gone", "namespace": "gone", "problem": "it is gone", "tools": [] })
    );
    let failed = application.call("execute", json!({ "code": "await gone.f()" })).await;
    assert!(failed["result"]["error"]["message"].as_str().unwrap().ends_with("(explained)"), "{failed}");
    let code = json!({ "code": "console.log(1); await slow.hang()", "providers": ["slow"], "events": ["call_began"] });
    application.request("execute", code).await;
    assert_eq!(application.message().await["params"]["type"], "call_began");
    application.end().await.unwrap();
    assert!(dropped.load(Ordering::SeqCst), "the call has ended");
}

#[tokio::test]
async fn a_stream_that_ends_in_a_message_is_an_error() {
    let mut application = Application::start();
    application.attach(b"whole").await;
    application.send_part("{\"jsonrpc\"").await;
    assert_eq!(application.end().await, Err("unexpected end of file".to_owned()));
}
