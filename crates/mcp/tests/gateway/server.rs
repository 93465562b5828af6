//! The MCP server over providers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use execbox::events::{EventKind, Observer};
use execbox::policy::{Approval, Approver, Decision, Policy, ProposedCall};
use execbox::{
    Effect, ErrorCode, ExecuteRequest, InlineExecutor, Limits, Provider, Tool, ToolContext, ToolError, TypeScript,
};
use execbox_mcp::Secrets;
use execbox_mcp::server::{
    AbsentTool, CodeServer, Layout, ProviderSource, ServerOptions, StateOptions, Unavailability, UnavailableNamespace,
};
use execbox_mcp::upstream::{RejectedTool, UpstreamOptions};
use futures_util::future::BoxFuture;
use rmcp::model::{CallToolRequestParams, ServerResult};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use crate::fakes::{Fake, Listener, begin, call, client, client_of, code_server, text, tool, until};

#[tokio::test]
async fn code_calls_tools_of_two_servers() {
    let (one, two) = (Fake::standard(), Fake::standard());
    let one = one.open("one", UpstreamOptions::default()).await;
    let two = two.open("two", UpstreamOptions::default()).await;
    let (client, _) = client(move || vec![one.provider(), two.provider()], ServerOptions::default()).await;
    let found = call(&client, "mcp_search_tools", json!({ "query": "gives back", "namespace": "two" })).await;
    let tool = &found.structured_content.as_ref().unwrap()["tools"][0];
    assert_eq!((&tool["namespace"], &tool["name"]), (&json!("two"), &json!("echo")));
    assert_eq!(tool["signature"], "echo({ text?: unknown }): Promise<unknown>");
    let code = "const [a, b] = await Promise.all([one.echo({ n: 1 }), two.echo({ n: 2 })]);
        console.log('both'); return a.n + b.n";
    for name in ["mcp_execute_code", "mcp_code"] {
        let result = call(&client, name, json!({ "code": code })).await;
        assert_eq!(result.is_error, Some(false));
        assert_eq!(text(&result), "3\n\nLogs:\nboth");
        let content = result.structured_content.unwrap();
        assert_eq!((&content["ok"], &content["result"]), (&json!(true), &json!(3)));
    }
}

#[tokio::test]
async fn calls_that_code_does_not_await_are_named() {
    let fake = Fake::standard();
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let (client, _) = client(move || vec![upstream.provider()], ServerOptions::default()).await;
    let code = "let n = 0; const all = [];\n[1, 2].forEach(async (id) => { all.push((await api.echo({ id })).id); n++ });\nreturn { n, all }";
    let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
    let shown = text(&result);
    let (value, sentence) = shown.split_once("\n\n").unwrap();
    assert_eq!(serde_json::from_str::<Json>(value).unwrap(), json!({ "n": 0, "all": [1, 2] }));
    assert_eq!(
        sentence,
        "(the program returned before 2 calls were answered, and waited: api.echo (line 2, 2 calls); `await` them to use \
         the results and to see errors)"
    );
    let content = result.structured_content.unwrap();
    assert_eq!((&content["unawaited"]["waitedFor"], &content["unawaited"]["unanswered"]), (&json!(2), &json!(0)));
    let failing = "await Promise.all([\napi.fail({}),\napi.slow({})])";
    let result = call(&client, "mcp_execute_code", json!({ "code": failing })).await;
    let end = "(1 call was unanswered when the program ended, and cancelled: api.slow (line 3))";
    assert!(text(&result).ends_with(end), "{}", text(&result));
}

#[tokio::test]
async fn code_has_timers_on_request_and_the_description_tells() {
    for (timers, told, returned) in [(true, "`setTimeout`", "7"), (false, "files or timers", "runtime_error")] {
        let options = ServerOptions::default().timers(timers);
        let (client, _) = client(Vec::new, options).await;
        for tool in client.list_all_tools().await.unwrap().iter().filter(|tool| tool.name != "mcp_search_tools") {
            assert!(tool.description.as_ref().unwrap().contains(told), "{tool:?}");
        }
        let code = "await new Promise((done) => setTimeout(done, 1)); return 7";
        let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
        assert!(text(&result).starts_with(returned), "{}", text(&result));
    }
}

#[tokio::test]
async fn failures_are_errors_that_models_can_read() {
    let (client, _) = client(Vec::new, ServerOptions::default()).await;
    let result = call(&client, "mcp_execute_code", json!({ "code": "throw new TypeError('no')" })).await;
    assert_eq!(result.is_error, Some(true));
    assert!(text(&result).starts_with("runtime_error: TypeError: no"), "{}", text(&result));
    let content = result.structured_content.unwrap();
    let error = &content["error"];
    assert_eq!(
        (&error["code"], &error["name"], &error["message"]),
        (&json!("runtime_error"), &json!("TypeError"), &json!("no"))
    );
    assert_eq!(
        (&error["stack"][0]["file"], &error["position"]["line"]),
        (&json!("<script>"), &error["stack"][0]["line"])
    );
    let unknown = client.call_tool(CallToolRequestParams::new("other")).await;
    assert!(unknown.is_err());
}

#[tokio::test]
async fn invalid_arguments_are_errors_in_words_of_the_schema() {
    let (client, _) = client(Vec::new, ServerOptions::default()).await;
    for (tool, arguments, expected) in [
        ("mcp_execute_code", json!({}), "missing \"code\""),
        ("mcp_execute_code", json!({ "code": null }), "missing \"code\""),
        ("mcp_execute_code", json!({ "code": 1 }), "\"code\": expected a string, got 1"),
        ("mcp_execute_code", json!({ "code": "1", "cod": 2 }), "unknown member \"cod\"; did you mean \"code\"?"),
        (
            "mcp_execute_code",
            json!({ "code": "1", "language": "js" }),
            "unknown member \"language\"; known: \"code\", \"timeoutMs\"",
        ),
        ("mcp_code", json!({ "code": "1", "timeoutMs": 0 }), "\"timeoutMs\": expected a positive integer, got 0"),
        (
            "mcp_code",
            json!({ "code": "1", "timeoutMs": "1s" }),
            "\"timeoutMs\": expected a positive integer, got a string",
        ),
        ("mcp_code", json!({ "code": "1", "timeoutMs": 0.5 }), "\"timeoutMs\": expected a positive integer, got 0.5"),
        ("mcp_search_tools", json!({ "limit": -1 }), "\"limit\": expected a positive integer, got -1"),
        ("mcp_search_tools", json!({ "limit": 0 }), "\"limit\": expected a positive integer, got 0"),
        ("mcp_search_tools", json!({ "readonly": true }), "unknown member \"readonly\"; did you mean \"readOnly\"?"),
        ("mcp_search_tools", json!({ "readOnly": "yes" }), "\"readOnly\": expected a boolean, got a string"),
        ("mcp_search_tools", json!({ "describe": 5 }), "\"describe\": expected an array, got 5"),
        ("mcp_search_tools", json!({ "describe": ["a.b", 5] }), "\"describe[1]\": expected a string, got 5"),
    ] {
        let result = call(&client, tool, arguments).await;
        assert_eq!((result.is_error, text(&result)), (Some(true), &*format!("invalid arguments: {expected}")));
    }
}

#[tokio::test]
async fn arguments_may_be_null_numbers_with_a_decimal_point_and_one_name() {
    let fake = Fake::standard();
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let (client, _) = client(move || vec![upstream.provider()], ServerOptions::default()).await;
    let result = call(&client, "mcp_execute_code", json!({ "code": "1", "timeoutMs": 5000.0 })).await;
    assert_eq!(text(&result), "1");
    let result = call(&client, "mcp_code", json!({ "code": "2", "timeoutMs": null })).await;
    assert_eq!(text(&result), "2");
    let plain = call(&client, "mcp_search_tools", json!({ "query": "echo", "limit": 1 })).await;
    for arguments in [
        json!({ "query": "echo", "limit": 1.0, "offset": 0.0 }),
        json!({ "query": "echo", "limit": "1", "offset": "0.0", "readOnly": "false" }),
        json!({ "query": "echo", "limit": 1, "readOnly": null, "offset": null, "describe": null, "namespace": null }),
    ] {
        assert_eq!(call(&client, "mcp_search_tools", arguments).await, plain);
    }
    let described = call(&client, "mcp_search_tools", json!({ "describe": ["api.echo"] })).await;
    for describe in [json!("api.echo"), json!("[\"api.echo\"]")] {
        let arguments = json!({ "query": null, "describe": describe });
        assert_eq!(call(&client, "mcp_search_tools", arguments).await, described);
    }
}

#[tokio::test]
async fn numbers_above_the_maximum_are_reduced_and_the_answer_says_so() {
    let (client, _) = client(Vec::new, ServerOptions::default()).await;
    let reduced = call(&client, "mcp_execute_code", json!({ "code": "1", "timeoutMs": 1e9 })).await;
    let note = "`timeoutMs` was reduced from 1000000000 to 300000, the maximum";
    assert_eq!(text(&reduced), format!("1\n\n({note})"));
    assert_eq!(reduced.structured_content.unwrap()["note"], note);
    let failed = call(&client, "mcp_code", json!({ "code": "throw 1", "timeoutMs": "300001" })).await;
    assert!(text(&failed).ends_with("\n\n(`timeoutMs` was reduced from 300001 to 300000, the maximum)"));
    let most = call(&client, "mcp_execute_code", json!({ "code": "1", "timeoutMs": 300_000 })).await;
    assert_eq!(text(&most), "1");
    let page = call(&client, "mcp_search_tools", json!({ "limit": 100 })).await;
    assert!(text(&page).ends_with("\nNote: `limit` was reduced from 100 to 50, the maximum.\n"), "{}", text(&page));
}

#[tokio::test]
async fn errors_of_tools_name_the_call_and_its_line() {
    let fake = Fake::standard();
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let (client, _) = client(move || vec![upstream.provider()], ServerOptions::default()).await;
    for (code, message) in [
        ("const a = 1;\nawait api.fail({})", "api.fail failed (line 2): no such thing"),
        ("'🦀é'; return await Promise.all([api.echo({}), api.fail({})])", "api.fail failed (line 1): no such thing"),
        ("const { fail } = api;\nawait fail({})", "api.fail failed (line 2): no such thing"),
        (
            "try { await api.fail({}) } catch (error) { throw new Error(`caught: ${error.message}`) }",
            "caught: api.fail failed: no such thing",
        ),
        (
            "const results = await Promise.allSettled([api.fail({}), api.fail({ id: 2 })]);\n\
             throw new Error(results.map(result => result.reason.message).join('; '))",
            "api.fail failed: no such thing; api.fail failed: no such thing",
        ),
        (
            "await results.get('r0')",
            "results.get failed (line 1): no result \"r0\": it is unknown, or not kept any more",
        ),
        (
            "\nawait store.set({ key: '', value: 1 })",
            "store.set failed (line 2): invalid key of 0 bytes: expected 1 to 200",
        ),
    ] {
        let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
        assert_eq!(result.structured_content.as_ref().unwrap()["error"]["message"], message, "{code}");
        assert!(text(&result).contains(message), "{}", text(&result));
    }
}

#[tokio::test]
async fn a_large_result_is_outlined_and_later_code_reads_it() {
    let (client, _) = client(Vec::new, ServerOptions::default()).await;
    let run = async |code: String| call(&client, "mcp_execute_code", json!({ "code": code })).await;
    let result = run("'ä'.repeat(30_000)".to_owned()).await;
    assert!(
        text(&result).contains("ä\n… [truncated: 18000 more characters]\n\n(this is an outline: the result has 30000 ")
    );

    let code = "Array.from({ length: 5_000 }, (_, id) => ({ id, name: `name ${id}`, tags: ['a', 'b'] }))";
    let result = run(code.to_owned()).await;
    let shown = text(&result);
    assert!(shown.starts_with(r#"[{"id":0,"name":"name 0","tags":["a","b"]},"#), "{shown}");
    assert!(shown.contains(r#""… 4970 more items"]"#) && shown.chars().count() < 24_200, "{shown}");
    let structured = result.structured_content.clone().unwrap();
    assert!(structured.get("result").is_none() && structured.to_string().len() < 30_000);
    let handle = structured["truncated"]["handle"].as_str().unwrap();
    let digits = handle.strip_prefix('r').unwrap();
    assert!(digits.len() == 32 && u128::from_str_radix(digits, 16).is_ok(), "128 bits: {handle}");
    assert!(shown.contains(&format!("`await results.get(\"{handle}\")`")), "{shown}");

    let whole = run(format!("const all = await results.get('{handle}'); return [all.length, all[4_999].name]")).await;
    assert_eq!(whole.structured_content.unwrap()["result"], json!([5_000, "name 4999"]));
    let page = run(format!("await results.get({{ handle: '{handle}', offset: 4_998, limit: 10 }})")).await;
    assert_eq!(page.structured_content.unwrap()["result"].as_array().unwrap().len(), 2);
    let unknown = run("await results.get('r1')".to_owned()).await;
    assert!(text(&unknown).contains("no result \"r1\""), "{}", text(&unknown));
}

#[tokio::test]
async fn images_and_audio_are_blocks_wherever_they_are_in_a_result() {
    let (client, _) = client(Vec::new, ServerOptions::default()).await;
    let code = "const image = { type: 'image', data: 'aGVsbG8=', mimeType: 'image/png' };
        const sound = { type: 'audio', data: 'aGVsbG8=', mimeType: 'audio/wav' };
        return { shots: [image], sound, odd: { type: 'image', data: '<svg>', mimeType: 'image/svg+xml' } }";
    let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
    let blocks = serde_json::to_value(&result.content[1..]).unwrap();
    assert_eq!(
        blocks,
        json!([
            { "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" },
            { "type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav" }
        ])
    );
    let lines = json!({
        "shots": ["(image, block 1 below: image/png, 6 bytes)"],
        "sound": "(audio, block 2 below: audio/wav, 6 bytes)",
        "odd": { "type": "image", "data": "<svg>", "mimeType": "image/svg+xml" }
    });
    assert_eq!(text(&result), lines.to_string());
    assert_eq!(result.structured_content.unwrap()["result"], lines);
    let code = "Array.from({ length: 20 }, () => ({ type: 'image', data: 'aGVsbG8=', mimeType: 'image/png' }))";
    let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
    assert_eq!(result.content.len(), 17, "the text and 16 images");
    assert!(text(&result).contains("(image, not shown: image/png, 6 bytes; return fewer or smaller ones)"));
}

#[tokio::test]
async fn a_long_result_leaves_room_for_the_log() {
    let (client, _) = client(Vec::new, ServerOptions::default().max_text(1_000)).await;
    let code = "console.log('so far'); return 'x'.repeat(5_000)";
    let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
    assert!(text(&result).ends_with("\n\nLogs:\nso far"), "{}", text(&result));
    let code = "for (let i = 0; i < 200; i++) console.log('a line of the log'); return 'y'.repeat(5_000)";
    let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
    let (text, structured) = (text(&result), result.structured_content.clone().unwrap());
    assert!(text.contains("yyy") && text.contains("a line of the log") && text.chars().count() < 1_400, "{text}");
    let (lines, dropped) = (structured["logs"].as_array().unwrap().len() as u64, structured["droppedLogs"].as_u64());
    assert!(lines > 5 && dropped == Some(200 - lines), "the log has 200 lines, of which 100 are kept: {structured}");
    let options = "(the gateway keeps more with `--max-log-lines` and `--max-log-chars`)";
    let no_room = "(the answer has no room for more: print less, or return the data)";
    assert!(text.ends_with(&format!("\n… {} more lines {no_room}", 200 - lines)), "no option shows more: {text}");
    let code = "for (let i = 0; i < 101; i++) console.log(i)";
    let one = call(&client, "mcp_execute_code", json!({ "code": code })).await;
    assert!(self::text(&one).ends_with(&format!("\n99\n… 1 more line {options}")), "{one:?}");
    let code = "for (let i = 0; i < 90; i++) console.log('a line of the log'); return 'y'.repeat(5_000)";
    let result = call(&client, "mcp_execute_code", json!({ "code": code })).await;
    let structured = result.structured_content.clone().unwrap();
    let lines = structured["logs"].as_array().unwrap().len();
    assert!(self::text(&result).ends_with(&format!("\n… {} more lines {no_room}", 90 - lines)), "{structured}");
}

#[tokio::test]
async fn models_ask_for_more_time_up_to_the_maximum() {
    let limits = Limits::default().timeout(Duration::ZERO);
    for (max_timeout, is_enough) in [(Duration::from_hours(1), true), (Duration::ZERO, false)] {
        let options = ServerOptions::default().limits(limits).max_timeout(max_timeout);
        let (client, _) = client(Vec::new, options).await;
        let run = async |arguments: Json| call(&client, "mcp_execute_code", arguments).await.is_error == Some(false);
        assert!(!run(json!({ "code": "1" })).await, "without time");
        assert_eq!(run(json!({ "code": "1", "timeoutMs": 600_000 })).await, is_enough);
    }
}

#[tokio::test]
async fn a_server_that_becomes_available_while_a_program_runs_is_not_said_not_to_exist() {
    let late = Provider::builder("late").tool(Tool::new("echo", async |input: Json, _| Ok(input))).build().unwrap();
    let shown = Arc::new(Mutex::new(Vec::new()));
    let show = Tool::new("show", {
        let shown = Arc::clone(&shown);
        move |_: Json, _| {
            shown.lock().unwrap().push(late.clone());
            async { Ok(Json::Null) }
        }
    });
    let api = Provider::builder("api").tool(show).build().unwrap();
    let providers = move || [&[api.clone()][..], &shown.lock().unwrap()].concat();
    let (client, _) = client(providers, ServerOptions::default()).await;
    let code = json!({ "code": "await api.show({}); await late.echo(1)" });
    let missing = call(&client, "mcp_execute_code", code).await;
    assert!(text(&missing).contains("late was not available when the program started; try again"), "{missing:?}");
    let code = json!({ "code": "await late.echo(1)" });
    assert_eq!(text(&call(&client, "mcp_execute_code", code).await), "1");
}

/// The first program ends when the client has received this progress, of the first program or of the second one.
#[tokio::test(start_paused = true)]
async fn clients_are_notified_while_programs_wait() {
    for (max_programs, expected) in [(1, "waiting for other programs for "), (2, "running for ")] {
        notified_while_programs_wait(max_programs, expected).await;
    }
}

async fn notified_while_programs_wait(max_programs: usize, expected: &'static str) {
    let listener = Arc::new(OnceLock::<Listener>::new());
    let heard = Arc::clone(&listener);
    let wait = Tool::new("wait", move |_, _| {
        let heard = Arc::clone(&heard);
        async move {
            let is_notified = |listener: &Listener| {
                let lines = listener.progress.lock().unwrap();
                lines.iter().any(|line| line.starts_with(expected))
            };
            while !heard.get().is_some_and(is_notified) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(Json::Null)
        }
    });
    let provider = Provider::builder("api").tool(wait).build().unwrap();
    let limits = Limits::default().timeout(Duration::from_mins(1));
    let options = ServerOptions::default().limits(limits).max_programs(max_programs);
    let (client, notified) = client(move || vec![provider.clone()], options).await;
    assert!(listener.set(notified).is_ok());
    let first = begin(&client, "mcp_execute_code", "await api.wait(); 1").await;
    let second = begin(&client, "mcp_execute_code", "2").await;
    for call in [first, second] {
        assert!(matches!(call.await_response().await, Ok(ServerResult::CallToolResult(_))));
    }
}

#[tokio::test]
async fn calls_have_the_trace_context_of_the_request_that_runs_their_program() {
    let fake = Fake::new(vec![tool("trace", "Shows the trace context", json!({ "type": "object" }))]);
    let client = client_of(code_server(&fake).await).await;
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let run = async |meta: Json| {
        let Json::Object(code) = json!({ "code": "return api.trace({})" }) else { unreachable!() };
        let mut request = CallToolRequestParams::new("mcp_execute_code").with_arguments(code);
        request.meta = Some(serde_json::from_value(meta).unwrap());
        client.call_tool(request).await.unwrap().structured_content.unwrap()["result"].clone()
    };
    let traced = run(json!({ "traceparent": parent, "baggage": "user=ada", "other": "no" })).await;
    assert_eq!(traced, json!({ "parent": parent, "baggage": "user=ada" }));
    assert_eq!(run(json!({})).await, json!({ "parent": null, "baggage": null }));
}

#[tokio::test]
async fn progress_reports_log_lines_and_calls() {
    let provider = Provider::builder("api").tool(Tool::new("echo", async |input, _| Ok(input))).build().unwrap();
    let (client, listener) = client(move || vec![provider.clone()], ServerOptions::default()).await;
    let code = "console.log('before'); await api.echo(1); console.log('after')";
    call(&client, "mcp_execute_code", json!({ "code": code })).await;
    while listener.progress.lock().unwrap().len() < 3 {
        tokio::task::yield_now().await;
    }
    let mut received = listener.progress.lock().unwrap().clone();
    received.sort_unstable(); // Handlers of notifications run concurrently.
    assert_eq!(received, ["after", "before", "calling api.echo"]);
}

struct Approves;

impl Approver for Approves {
    fn approve<'a>(&'a self, _: ProposedCall<'a>) -> BoxFuture<'a, Approval> {
        Box::pin(std::future::ready(Approval::Approved))
    }
}

#[tokio::test]
async fn progress_says_that_a_call_waits_for_a_person() {
    let asks = Tool::new("ask", async |_, context: ToolContext| {
        drop(context.wait_for_person());
        Ok(Json::Null)
    });
    let provider = Provider::builder("api").tool(asks).build().unwrap();
    let policy = Some(Policy::new().tools("api.*", Decision::Ask).approver(Arc::new(Approves)));
    let (client, listener) = client(move || vec![provider.clone()], ServerOptions::default().policy(policy)).await;
    call(&client, "mcp_execute_code", json!({ "code": "await api.ask()" })).await;
    let is_told = || listener.progress.lock().unwrap().len() == 3;
    until(is_told).await;
    let mut received = listener.progress.lock().unwrap().clone();
    received.sort_unstable();
    let expected =
        ["calling api.ask", "waiting for an answer of the user to api.ask", "waiting for approval of api.ask"];
    assert_eq!(received, expected);
}

#[tokio::test]
async fn the_observer_of_a_server_sees_the_programs_of_its_clients() {
    let provider = Provider::builder("api").tool(Tool::new("echo", async |input, _| Ok(input))).build().unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&events);
    let observer = Observer::new(move |event| {
        let text = match event.kind {
            EventKind::CallBegan { call, .. } => format!("{call} began"),
            EventKind::Ended(end) => format!("ended: {}", end.is_ok()),
            _ => return,
        };
        seen.lock().unwrap().push((event.execution, text));
    });
    let options = ServerOptions::default().observer(observer);
    let (client, _) = client(move || vec![provider.clone()], options).await;
    for code in ["await api.echo(1)", "throw 1"] {
        call(&client, "mcp_execute_code", json!({ "code": code })).await;
    }
    let events = events.lock().unwrap();
    let texts: Vec<&str> = events.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["api.echo began", "ended: true", "ended: false"]);
    assert!(events[0].0 == events[1].0 && events[1].0 < events[2].0);
}

/// The caller has the namespaces of a client, its policy and its errors, and decides about limits.
#[tokio::test]
async fn a_program_without_a_connection_is_executed_as_that_of_a_client() {
    let echo = Tool::new("echo", async |input, _| Ok(input)).description("Gives back what it gets");
    let (fail, remove) = (
        Tool::new("fail", async |_, _| Err(ToolError::new("no such thing"))),
        Tool::new("remove", async |_, _| Ok(Json::Null)),
    );
    let provider = Provider::builder("api").tools([echo, fail, remove]).build().unwrap();
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    let observer = Observer::new(move |event| {
        count.fetch_add(usize::from(matches!(event.kind, EventKind::Ended(_))), Ordering::Relaxed);
    });
    let denied = Decision::Deny("not here".to_owned());
    let policy = Policy::new().tools("api.remove", denied).tools("api.echo", Decision::Ask);
    let options = ServerOptions::default()
        .policy(policy.approver(Arc::new(Approves)))
        .observer(observer)
        .state(StateOptions::default().language(Arc::new(TypeScript)));
    let executor = Arc::new(InlineExecutor::new().unwrap());
    let server = CodeServer::new(executor, move || vec![provider.clone()], options);
    let execute = async |server: &CodeServer, code: &str| server.execute(ExecuteRequest::new(code)).await.outcome;
    let code = "await store.set({ key: 'a', value: await api.echo(7) });
        await snippets.save({ name: 'twice', code: '2 * input' });
        return (await tools.search('back')).tools.map((tool) => tool.name)";
    assert_eq!(execute(&server, code).await, Ok(Some(json!(["echo"]))));
    let code = "[await store.get('a'), await snippets.twice(21)]";
    assert_eq!(execute(&server, code).await, Ok(Some(json!([7, 42]))));
    assert_eq!(execute(&server.clone(), "await store.get('a')").await, Ok(Some(Json::Null)), "another client");
    let failed = execute(&server, "\n\nawait api.fail()").await.unwrap_err();
    assert_eq!(failed.message, "api.fail failed (line 3): no such thing");
    let denied = execute(&server, "await api.remove()").await.unwrap_err().message;
    assert!(denied.ends_with("not here"), "{denied}");
    let unsaved = execute(&server, "await snippets.thrice(1)").await.unwrap_err().message;
    assert!(unsaved.ends_with("programs can call the snippets that were saved before they started"), "{unsaved}");
    let unknown = execute(&server, "await results.get('r1')").await.unwrap_err().message;
    assert_eq!(unknown, "results.get failed (line 1): no result \"r1\": it is unknown, or not kept any more");
    let limited = ExecuteRequest::new("await new Promise((done) => setTimeout(done, 60_000))").timers(true);
    let limited = server.execute(limited.timeout(Duration::from_millis(50))).await.outcome.unwrap_err();
    assert_eq!(limited.code, ErrorCode::Timeout);
    let long = execute(&server, "'x'.repeat(100_000)").await;
    assert_eq!(long, Ok(Some(json!("x".repeat(100_000)))), "there is no outline");
    assert_eq!(ended.load(Ordering::Relaxed), 9);
}

/// What a program computes is whole; what its client reads has no secrets.
#[tokio::test]
async fn secrets_are_redacted_from_what_clients_read() {
    let secrets = Secrets::new([("API_KEY".to_owned(), "hunter22".to_owned())]);
    let keys = Provider::builder("keys")
        .tool(Tool::new("get", async |_, _| Ok(json!({ "hunter22": ["hunter22", "hunter22x"] }))))
        .tool(Tool::new("fail", async |_, _| Err(ToolError::new("not with hunter22"))))
        .build()
        .unwrap();
    let options = ServerOptions::default().secrets(secrets);
    let (client, listener) = client(move || vec![keys.clone()], options).await;
    let run = async |code: &str| call(&client, "mcp_execute_code", json!({ "code": code })).await;

    let code = "const all = await keys.get({}); console.log('log', all.hunter22[0]);
        return [all, all.hunter22[0] === 'hunter22', all.hunter22[0].length]";
    let answer = run(code).await;
    let expected = json!([{ "hunter22": ["${API_KEY}", "hunter22x"] }, true, 8]);
    assert_eq!(text(&answer), format!("{expected}\n\nLogs:\nlog ${{API_KEY}}"));
    let structured = answer.structured_content.unwrap();
    assert_eq!((&structured["result"], &structured["logs"]), (&expected, &json!(["log ${API_KEY}"])));
    until(|| listener.progress.lock().unwrap().iter().any(|line| line == "log ${API_KEY}")).await;

    let code = "console.log('x'.repeat(495) + ' hunter22'); await keys.fail({})";
    let answer = run(code).await;
    assert!(text(&answer).contains("not with ${API_KEY}") && !text(&answer).contains("hunter"), "{}", text(&answer));
    assert!(!answer.structured_content.unwrap().to_string().contains("hunter"));
    until(|| listener.progress.lock().unwrap().iter().any(|line| line.starts_with("xxx"))).await;
    assert!(listener.progress.lock().unwrap().iter().all(|line| !line.contains("hunter")), "cut, and not a part of it");

    // A result that is too large is kept whole for later programs.
    let answer = run("return Array(5000).fill('a key: hunter22')").await;
    assert!(!text(&answer).contains("hunter") && text(&answer).contains("a key: ${API_KEY}"), "{}", text(&answer));
    let structured = answer.structured_content.unwrap();
    let handle = structured["truncated"]["handle"].as_str().unwrap();
    let code = format!("return (await results.get('{handle}')).every(item => item.endsWith('hunter' + 22))");
    assert_eq!(run(&code).await.structured_content.unwrap()["result"], json!(true));
}

#[tokio::test]
async fn progress_of_servers_is_forwarded() {
    let fake = Fake::new(vec![tool("import", "Imports", json!({ "type": "object" }))]);
    let secrets = Secrets::new([("API_KEY".to_owned(), "hunter22".to_owned())]);
    let upstream = fake.open("shop", UpstreamOptions::default().secrets(secrets)).await;
    let limits = Limits::default().timeout(Duration::from_hours(1));
    let options = ServerOptions::default().limits(limits);
    let (client, listener) = client(move || vec![upstream.provider()], options).await;
    let handle = begin(&client, "mcp_execute_code", "await shop.import_({}); return 'done'").await;
    let is_progress = |line: &String| line.starts_with("shop.import_: ");
    until(|| listener.progress.lock().unwrap().iter().filter(|line| is_progress(line)).count() >= 2).await;
    fake.heard.notify_one();
    handle.await_response().await.unwrap();
    let lines = listener.progress.lock().unwrap();
    let lines: Vec<_> = lines.iter().filter(|line| is_progress(line)).collect();
    assert!(lines.iter().all(|line| line.ends_with(" of 100: reading ${API_KEY} orders")), "{lines:?}");
}

#[tokio::test]
async fn progress_is_sent_while_code_runs() {
    let fake = Fake::standard();
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let limits = Limits::default().timeout(Duration::from_hours(1));
    let options = ServerOptions::default().limits(limits);
    let (client, listener) = client(move || vec![upstream.provider()], options).await;
    let handle = begin(&client, "mcp_execute_code", "console.log('before'); await api.slow({})").await;
    fake.started.notified().await;
    until(|| listener.progress.lock().unwrap().len() == 2).await;
    handle.cancel(None).await.unwrap();
    fake.cancelled.notified().await;
}

#[tokio::test]
async fn cancelling_a_call_cancels_the_guest_and_its_tools() {
    let fake = Fake::standard();
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let (client, _) = client(move || vec![upstream.provider()], ServerOptions::default()).await;
    let handle = begin(&client, "mcp_execute_code", "await api.slow({})").await;
    fake.started.notified().await;
    handle.cancel(None).await.unwrap();
    fake.cancelled.notified().await;
}

#[tokio::test]
async fn layouts_and_names_are_configurable() {
    for (layout, names) in [
        (Layout::Both, &["find", "mcp_execute_code", "mcp_code"][..]),
        (Layout::Split, &["find", "mcp_execute_code"]),
        (Layout::Single, &["mcp_code"]),
    ] {
        let options = ServerOptions::default().layout(layout).search_name("find");
        let (client, _) = client(Vec::new, options).await;
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), names);
        let absent = client.call_tool(CallToolRequestParams::new("mcp_search_tools")).await;
        assert!(absent.is_err(), "its name is `find`");
    }
}

#[tokio::test]
async fn descriptions_stay_short_and_pages_follow_one_another() {
    let echo = |n: usize| {
        Tool::new(format!("tool_number_{n}"), async |input, _| Ok(input))
            .description("Does one of a thousand things")
            .input_schema(json!({ "type": "object", "properties": { "value": { "type": "string" } } }))
    };
    let provider = Provider::builder("many").tools((0..1_000).map(echo)).build().unwrap();
    let (client, _) = client(move || vec![provider.clone()], ServerOptions::default()).await;
    let tools = client.list_all_tools().await.unwrap();
    let length: usize = tools.iter().map(|tool| tool.description.as_ref().unwrap().chars().count()).sum();
    assert!(length <= 6_000, "{length}");
    assert!(tools[2].description.as_ref().unwrap().ends_with("more tools"));
    assert!(tools[2].description.as_ref().unwrap().contains("Names only (full signatures: mcp_search_tools):"));

    let mut seen = std::collections::HashSet::new();
    let mut offset = json!(0);
    while offset.is_number() {
        let arguments = json!({ "query": "number", "offset": offset, "limit": 50 });
        let page = call(&client, "mcp_search_tools", arguments).await.structured_content.unwrap();
        assert_eq!(page["total"], 1_000);
        seen.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].to_string()));
        offset = page["nextOffset"].clone();
    }
    assert_eq!(seen.len(), 1_000);
    let exact = call(&client, "mcp_search_tools", json!({ "query": "toolNumber77" })).await;
    assert_eq!(exact.structured_content.unwrap()["tools"][0]["name"], "tool_number_77");
}

#[tokio::test]
async fn tools_are_described_in_full_and_the_list_is_live() {
    let provider = |name: &str| {
        let tool = Tool::new("long", async |input, _| Ok(input)).description("word ".repeat(100));
        Provider::builder(name).tool(tool).build().unwrap()
    };
    let live = Arc::new(Mutex::new(vec![provider("first")]));
    let providers = Arc::clone(&live);
    let (client, _) = client(move || providers.lock().unwrap().clone(), ServerOptions::default()).await;
    let describe = async || {
        let answer = call(&client, "mcp_search_tools", json!({ "describe": ["first.long", "second.long"] })).await;
        answer.structured_content.unwrap()
    };
    let before = describe().await;
    assert_eq!(before["tools"][0]["description"].as_str().unwrap().len(), 499);
    assert_eq!(before["unknown"], json!([{ "name": "second.long", "didYouMean": "first.long" }]));
    live.lock().unwrap().push(provider("second"));
    assert_eq!(describe().await["tools"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn searches_outline_tools_and_descriptions_declare_each_type_once() {
    let address = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let input = json!({
        "type": "object", "properties": { "to": { "$ref": "#/$defs/Address" } }, "$defs": { "Address": address }
    });
    let tool = |name: &str| Tool::new(name, async |input, _| Ok(input)).input_schema(input.clone());
    let provider = Provider::builder("post").tools([tool("send"), tool("return")]).build().unwrap();
    let (client, _) = client(move || vec![provider.clone()], ServerOptions::default()).await;
    let signatures = async |arguments: Json| {
        let page = call(&client, "mcp_search_tools", arguments).await.structured_content.unwrap();
        [0, 1].map(|at| page["tools"][at]["signature"].as_str().unwrap().to_owned())
    };
    let outlines =
        ["send({ to?: { city?: string } }): Promise<unknown>", "return_({ to?: { city?: string } }): Promise<unknown>"];
    assert_eq!(signatures(json!({})).await, outlines);
    let whole = [
        "function send(input?: { to?: Address }): Promise<unknown>;\ntype Address = { city?: string };",
        "function return_(input?: { to?: Address }): Promise<unknown>;",
    ];
    assert_eq!(signatures(json!({ "describe": ["post.send", "post.return_"] })).await, whole);
}

/// A page costs a model about 1 000 tokens, whatever the tools are.
#[tokio::test]
async fn the_first_page_has_at_most_4000_characters() {
    let members: serde_json::Map<_, _> =
        (0..190).map(|n| (format!("parameter{n}"), json!({ "type": "string" }))).collect();
    let input = json!({ "type": "object", "properties": members, "required": ["parameter7"] });
    let tool = |n: usize| {
        let tool = Tool::new(format!("{}{n}", "a_long_name_".repeat(9)), async |input, _| Ok(input));
        tool.description("A long sentence, ".repeat(50)).input_schema(input.clone()).output_schema(input.clone())
    };
    let provider = Provider::builder("api").tools((0..9).map(tool)).build().unwrap();
    let (client, _) = client(move || vec![provider.clone()], ServerOptions::default()).await;
    let page = call(&client, "mcp_search_tools", json!({ "query": "long" })).await;
    let text = text(&page);
    let shown: usize = text.split(' ').next().unwrap().parse().unwrap();
    assert!((5..9).contains(&shown) && text.contains(&format!("Next page: `offset: {shown}`")), "{text}");
    assert!(text.chars().count() <= 4_000, "{text}");
    assert!(text.contains("parameter7: string; "), "what is required is shown: {text}");
    assert!(page.structured_content.unwrap().to_string().chars().count() <= 4_000);
}

/// A source of 40 tools and of four namespaces that are not available.
struct Crowded(Provider);

impl ProviderSource for Crowded {
    fn providers(&self) -> Vec<Provider> {
        vec![self.0.clone()]
    }

    fn unavailable(&self) -> Vec<UnavailableNamespace> {
        let namespace = |n: usize| {
            UnavailableNamespace::new(format!("absent_{n}"), "cannot be reached ".repeat(40), Unavailability::Temporary)
        };
        (0..4).map(namespace).collect()
    }

    fn unread_parts(&self, _: &str, _: &str) -> Vec<String> {
        (0..3).map(|n| format!("input.properties.{}{n}: unknown keyword", "part".repeat(30))).collect()
    }
}

#[tokio::test]
async fn pages_are_filled_and_have_at_most_4000_characters_with_what_is_added_to_them() {
    let tool = |n: usize| {
        let tool = Tool::new(format!("water_plant_{n}"), async |input, _| Ok(input));
        tool.description("Waters a \"plant\" ".repeat(n)).input_schema(json!({
            "type": "object", "properties": { "litres": { "enum": (0..n).map(|n| format!("litres {n}")).collect::<Vec<_>>() } }
        }))
    };
    let provider = Provider::builder("garden").tools((1..=40).map(tool)).build().unwrap();
    // Unavailable namespaces that are starting are waited for.
    let options = ServerOptions::default().start_timeout(Duration::ZERO);
    let server = CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), Crowded(provider), options);
    let client = client_of(server).await;
    let (mut offset, mut pages) = (0, Vec::new());
    while offset < 40 {
        let page = call(&client, "mcp_search_tools", json!({ "query": "plant", "offset": offset })).await;
        let (text, content) = (text(&page).to_owned(), page.structured_content.unwrap());
        assert!(text.chars().count() <= 4_000, "{text}");
        assert!(content.to_string().chars().count() <= 4_000, "{content}");
        let shown = content["tools"].as_array().unwrap().len();
        let next = content["nextOffset"].as_u64();
        offset += shown;
        assert_eq!(next, (offset < 40).then_some(offset as u64));
        pages.push(shown);
    }
    assert_eq!(pages.iter().sum::<usize>(), 40);
    assert!(pages.iter().all(|&shown| (1..=10).contains(&shown)), "{pages:?}");
    assert!(pages[..pages.len() - 1].iter().all(|&shown| shown >= 4), "{pages:?}");
    let page = call(&client, "mcp_search_tools", json!({ "query": "plant", "limit": 9 })).await;
    assert_eq!(page.structured_content.unwrap()["tools"].as_array().unwrap().len(), 9);
}

#[tokio::test]
async fn lines_are_sentences_and_deprecated_tools_come_last() {
    let tool = |name: &str, description: &str| Tool::new(name, async |input, _| Ok(input)).description(description);
    let tools = [
        tool("print_label", "Prints a label. This function is deprecated; use print_sticker."),
        tool("print_sticker", "Prints a label (a sticker), e.g. for a parcel,\nA letter or a box. Needs a printer."),
        tool("send_label", "Sends a label to the printer.\n\nLLMs should never call this tool directly."),
        tool("list_parcels", "Lists parcels, with what their label says"),
    ];
    let provider = Provider::builder("post").tools(tools).build().unwrap();
    let (client, _) = client(move || vec![provider.clone()], ServerOptions::default()).await;
    let page = call(&client, "mcp_search_tools", json!({ "query": "print a label" })).await;
    let shown = text(&page).to_owned();
    let tools = page.structured_content.unwrap()["tools"].clone();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!((names[0], names[3]), ("print_sticker", "print_label"), "{names:?}");
    assert!(shown.contains("Prints a label (a sticker), e.g. for a parcel, A letter or a box.\n"), "{shown}");
    assert!(shown.contains("Deprecated: use print_sticker. Prints a label.\n"), "{shown}");
}

#[tokio::test]
async fn tools_that_change_nothing_are_marked_and_can_be_searched_alone() {
    let tool = |name: &str, effect| Tool::new(name, async |input, _| Ok(input)).effect(effect);
    let tools = [
        tool("remove_file", Effect::Destructive),
        tool("read_file", Effect::ReadOnly),
        tool("touch_file", Effect::Additive),
    ];
    let provider = Provider::builder("disk").tools(tools).build().unwrap();
    let (client, _) = client(move || vec![provider.clone()], ServerOptions::default()).await;
    let page = call(&client, "mcp_search_tools", json!({ "query": "file" })).await;
    assert!(text(&page).contains("## disk.remove_file (destructive)\n"), "{}", text(&page));
    assert!(text(&page).contains("## disk.read_file (read-only)\n") && text(&page).contains("## disk.touch_file\n"));
    let page = call(&client, "mcp_search_tools", json!({ "query": "file", "readOnly": true })).await;
    let page = page.structured_content.unwrap();
    assert_eq!((&page["total"], &page["tools"][0]["name"]), (&json!(1), &json!("read_file")));
}

#[tokio::test]
async fn code_finds_tools_and_calls_them_in_one_round_trip() {
    let fake = Fake::standard();
    let upstream = fake.open("api", UpstreamOptions::default()).await;
    let (client, _) = client(move || vec![upstream.provider()], ServerOptions::default()).await;
    let run =
        async |code: &str| call(&client, "mcp_execute_code", json!({ "code": code })).await.structured_content.unwrap();
    let code = "const { tools: [first] } = await tools.search('gives back');
        const { signature } = await tools.describe(`${first.namespace}.${first.name}`);
        return [signature.split('(')[0], await globalThis[first.namespace][first.name]({ n: 1 })]";
    assert_eq!(run(code).await["result"], json!(["function echo", { "n": 1 }]));
    let code = "(await tools.search({ query: 'fails', namespace: 'api', limit: 1 })).tools.map((tool) => tool.name)";
    assert_eq!(run(code).await["result"], json!(["fail"]));
    let error = run("await tools.describe('api.ecko')").await["error"]["message"].to_string();
    assert!(error.contains("unknown tool") && error.contains("api.ecko"), "{error}");
    assert_eq!(run("await tools.search({ words: 'echo' })").await["error"]["code"], "validation_error");
}

#[tokio::test]
async fn a_server_whose_name_is_tools_keeps_it() {
    let provider = Provider::builder("tools").tool(Tool::new("hammer", async |_, _| Ok(json!(7)))).build().unwrap();
    let (client, _) = client(move || vec![provider.clone()], ServerOptions::default()).await;
    let code = json!({ "code": "[await tools.hammer(), typeof tools.search]" });
    let result = call(&client, "mcp_execute_code", code).await.structured_content.unwrap();
    assert_eq!(result["result"], json!([7, "undefined"]));
    let tools = client.list_all_tools().await.unwrap();
    assert!(!tools.iter().any(|tool| tool.description.as_ref().unwrap().contains("tools.search")));
}

#[tokio::test]
async fn types_that_do_not_fit_are_replaced_by_parameters_or_names() {
    let input = json!({
        "type": "object", "properties": { "id": { "type": "string" }, "x y": {}, "limit": { "type": "integer" } },
        "required": ["id"]
    });
    let tool = |n: usize| {
        let tool = Tool::new(format!("t{n}"), async |input, _| Ok(input)).input_schema(input.clone());
        tool.description("Does what its number says, and nothing else in the world")
    };
    let provider = Provider::builder("api").tools((0..40).map(tool)).build().unwrap();
    for (max_types, shown, not_shown) in [
        (12_000, "function t39(input: {", "only:"),
        (3_000, "Names and parameters only:\n\napi: t0(id, limit?), t1(id, limit?), t2", "function t0"),
        (1_200, "Names only:\n\napi: t0, t1, t2", "limit?"),
    ] {
        let provider = provider.clone();
        let options = ServerOptions::default().layout(Layout::Single).max_types(max_types);
        let (client, _) = client(move || vec![provider.clone()], options).await;
        let text = client.list_all_tools().await.unwrap()[0].description.clone().unwrap();
        assert!(text.contains(shown) && text.contains("t39") && !text.contains(not_shown), "{max_types}: {text}");
        assert!(text.chars().count() <= max_types, "{max_types}");
    }
}

#[tokio::test]
async fn instructions_of_a_server_are_shown_with_its_namespace_and_leave_the_first_page_short() {
    let instructions = format!("First \u{1b}[31msearch.\n```\n*/ \"{}", "then call. ".repeat(500));
    let provider = |name: &str, description: &str| {
        let text = "words \"of\" a description ".repeat(20);
        let tool = |n: i32| Tool::new(format!("tool_{n}"), async |input, _| Ok(input)).description(text.clone());
        Provider::builder(name).description(description).tools((0..9).map(tool)).build().unwrap()
    };
    let providers = [provider("shop", &instructions), provider("wiki", "Be brief.")];
    let (client, _) = client(move || providers.to_vec(), ServerOptions::default()).await;
    let search = async |arguments: Json| call(&client, "mcp_search_tools", arguments).await;

    let page = search(json!({ "query": "tool" })).await;
    assert!(page.structured_content.as_ref().unwrap().get("instructions").is_none(), "no namespace is named");
    let page = search(json!({ "namespace": "shop" })).await;
    let shown = text(&page);
    assert!(shown.contains("Instructions of the server of `shop`:\n> First "), "{shown}");
    assert!(!shown.contains('\u{1b}') && shown.chars().count() <= 4_000, "{shown}");
    let content = page.structured_content.unwrap();
    assert!(content.to_string().chars().count() <= 4_000, "{content}");
    assert!(content["instructions"][0]["text"].as_str().unwrap().chars().count() <= 600);
    let page = search(json!({ "namespace": "shop", "offset": 5 })).await;
    assert!(!text(&page).contains("says:"), "once");

    let page = search(json!({ "describe": ["shop.tool_1", "shop.tool_2", "wiki.tool_1"] })).await;
    let said = &page.structured_content.as_ref().unwrap()["instructions"];
    assert_eq!(said[1], json!({ "namespace": "wiki", "text": "Be brief." }));
    assert!((1_000..=2_000).contains(&said[0]["text"].as_str().unwrap().chars().count()), "{said}");
    assert_eq!(said.as_array().unwrap().len(), 2);
    // Every line is quoted, so that it does not look like a part of the page.
    let quoted = text(&page).split_once("Instructions of the server of `shop`:\n").unwrap().1;
    let quoted = quoted.split_once("\n\nInstructions of the server of `wiki`").unwrap().0;
    assert!(quoted.lines().count() > 1 && quoted.lines().all(|line| line.starts_with("> ")), "{quoted}");
}

/// A source whose only namespace is always starting. Counts how often it was waited for.
#[derive(Clone, Default)]
struct Starting(Arc<AtomicUsize>);

impl ProviderSource for Starting {
    fn providers(&self) -> Vec<Provider> {
        Vec::new()
    }

    fn unavailable(&self) -> Vec<UnavailableNamespace> {
        vec![UnavailableNamespace::new("late", "its server is still starting", Unavailability::Starting)]
    }

    fn settled<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, ()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(()))
    }
}

/// A source with one provider and with namespaces in each state.
struct Mixed(Provider);

impl ProviderSource for Mixed {
    fn providers(&self) -> Vec<Provider> {
        vec![self.0.clone()]
    }

    fn unavailable(&self) -> Vec<UnavailableNamespace> {
        let missing = |name: &str, state| UnavailableNamespace::new(name, "HTTP 404 Not Found", state);
        vec![
            missing("slow", Unavailability::Starting),
            missing("broken", Unavailability::Failed),
            missing("typo", Unavailability::Skipped),
            missing("off", Unavailability::Disabled),
        ]
    }
}

#[tokio::test]
async fn models_read_the_names_of_all_servers_before_they_have_started() {
    let shop = Provider::builder("shop").tool(Tool::new("list", async |_, _| Ok(json!([])))).build().unwrap();
    for layout in [Layout::Both, Layout::Single, Layout::Passthrough] {
        let options = ServerOptions::default().layout(layout);
        let executor = Arc::new(InlineExecutor::new().unwrap());
        let client = client_of(CodeServer::new(executor, Mixed(shop.clone()), options)).await;
        let instructions = client.peer_info().unwrap().instructions.clone().unwrap();
        assert!(instructions.ends_with("Namespaces: `shop`, `slow`, `broken`."), "{instructions}");
        let tools = client.list_all_tools().await.unwrap();
        for name in tools.iter().map(|tool| &*tool.name) {
            assert!(instructions.contains(&format!("`{name}`")) || name == "mcp_code", "{instructions}");
        }
        let described: Vec<_> = tools.iter().filter_map(|tool| tool.description.as_deref()).collect();
        let expected = match layout {
            Layout::Single => "Servers that are starting: `slow`. Available tools of the others:\n",
            _ => " 1 tool in: `shop`. More in servers that are starting: `slow`. Not available: `broken`. ",
        };
        assert!(described.iter().any(|text| text.contains(expected)), "{described:?}");
    }
    let server =
        CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), Starting::default(), ServerOptions::default());
    let tools = server.tools();
    assert!(tools[0].description.as_ref().unwrap().contains("The servers are starting: `late`."), "{:?}", tools[0]);
    let server = CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), Vec::new, ServerOptions::default());
    assert!(server.tools()[0].description.as_ref().unwrap().contains("No server has tools now."));
}

#[tokio::test]
async fn a_search_counts_what_is_missing_and_names_the_namespaces_that_exist() {
    let shop = Provider::builder("shop").tool(Tool::new("list", async |_, _| Ok(json!([])))).build().unwrap();
    let executor = Arc::new(InlineExecutor::new().unwrap());
    let client = client_of(CodeServer::new(executor, Mixed(shop), ServerOptions::default())).await;
    let search = async |arguments: Json| call(&client, "mcp_search_tools", arguments).await;
    let found = search(json!({ "query": "list" })).await;
    for part in [
        "1 tool:\n",
        "Not available: `broken`: HTTP 404 Not Found.\n\nNot available: `typo`: HTTP 404 Not Found.\n",
        "1 server is still starting: `slow`. Its tools are not found yet; search again later.\n",
    ] {
        assert!(text(&found).contains(part), "{}", text(&found));
    }
    let page = found.structured_content.as_ref().unwrap();
    assert_eq!((&page["starting"], &page["moreUnavailable"]), (&json!({ "count": 1, "names": ["slow"] }), &Json::Null));
    let nothing = search(json!({ "query": "list", "namespace": "shops" })).await;
    assert!(text(&nothing).starts_with("unknown namespace \"shops\"; there are: `shop`\n"), "{}", text(&nothing));
    let unknown = json!({ "name": "shops", "namespaces": ["shop"] });
    assert_eq!(nothing.structured_content.unwrap()["unknownNamespace"], unknown);
    for namespace in ["slow", "off", "typo"] {
        let missing = search(json!({ "query": "list", "namespace": namespace })).await;
        assert!(text(&missing).contains(&format!("Not available: `{namespace}`: HTTP 404")), "{}", text(&missing));
        assert!(!text(&missing).contains("unknown namespace"), "{}", text(&missing));
    }
}

#[tokio::test(start_paused = true)]
async fn the_list_of_tools_waits_at_most_two_seconds_for_servers_that_start() {
    let provider = Provider::builder("garden").tool(Tool::new("water", async |input, _| Ok(input))).build().unwrap();
    for (ready_after, expected) in [(1, "1 tool in: `garden`"), (3, "The servers are starting: `garden`")] {
        let source = Slow { provider: provider.clone(), ready: Instant::now() + Duration::from_secs(ready_after) };
        let server = CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), source, ServerOptions::default());
        let tools = client_of(server).await.list_all_tools().await.unwrap();
        let description = tools[0].description.as_deref().unwrap();
        assert!(description.contains(expected), "{description}");
    }
}

/// A source whose provider is available after some time.
struct Slow {
    provider: Provider,
    ready: Instant,
}

impl ProviderSource for Slow {
    fn providers(&self) -> Vec<Provider> {
        if Instant::now() < self.ready { Vec::new() } else { vec![self.provider.clone()] }
    }

    fn unavailable(&self) -> Vec<UnavailableNamespace> {
        let (name, reason) = ("garden".to_owned(), "its server is still starting".to_owned());
        let starting = UnavailableNamespace::new(name, reason, Unavailability::Starting);
        if Instant::now() < self.ready { vec![starting] } else { Vec::new() }
    }

    fn settled<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, ()> {
        Box::pin(tokio::time::sleep_until(self.ready))
    }
}

#[tokio::test]
async fn code_waits_for_servers_that_start_after_a_refresh() {
    let source = Starting::default();
    let options = ServerOptions::default().start_timeout(Duration::from_millis(200));
    let server = CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), source.clone(), options);
    let client = client_of(server.clone()).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    let run = async || call(&client, "mcp_execute_code", json!({ "code": "late.hello()" })).await;
    run().await;
    assert_eq!(source.0.load(Ordering::SeqCst), 0, "the time to start is over");
    while source.0.load(Ordering::SeqCst) == 0 {
        server.refresh().await;
        run().await;
    }
}

#[tokio::test]
async fn only_code_that_has_the_name_of_a_starting_server_as_a_word_waits_for_it() {
    let source = Starting::default();
    let options = ServerOptions::default().start_timeout(Duration::from_hours(1));
    let client = client_of(CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), source.clone(), options)).await;
    let waited = async |code: &str| {
        let before = source.0.load(Ordering::SeqCst);
        call(&client, "mcp_execute_code", json!({ "code": code })).await;
        source.0.load(Ordering::SeqCst) > before
    };
    for code in [
        "1",
        "mytools.x",
        "'chocolate'",
        "const later = 1",
        "late_1()",
        "$late()",
        "const lateé = 1",
        "platee.late1",
        "LATE",
    ] {
        assert!(!waited(code).await, "{code}");
    }
    assert!(waited("await tools.search('x')").await, "a search needs all servers");
    for code in ["late.hello()", "[late][0]", "`${late}`", "({ late })", "globalThis['late'].hello()", "1+late/2"] {
        assert!(waited(code).await, "{code}");
    }
}

/// A source that knows more about its tools.
struct Informed(Provider);

impl ProviderSource for Informed {
    fn providers(&self) -> Vec<Provider> {
        vec![self.0.clone()]
    }

    fn absent_tool(&self, namespace: &str, tool: &str) -> Option<AbsentTool> {
        match (namespace, tool) {
            ("shop", "hidden") => Some(AbsentTool::Denied),
            ("shop", "broken") => Some(AbsentTool::Rejected("invalid name".to_owned())),
            _ => None,
        }
    }

    fn rejected_tools(&self) -> Vec<(String, RejectedTool)> {
        let rejected = |name: &str| RejectedTool::new(name, "invalid name");
        vec![("shop".to_owned(), rejected("broken")), ("other".to_owned(), rejected("broken"))]
    }

    fn unread_parts(&self, _: &str, tool: &str) -> Vec<String> {
        if tool == "odd" { vec!["inputSchema/properties/n/type: invalid type \"int\"".to_owned()] } else { Vec::new() }
    }
}

#[tokio::test]
async fn descriptions_and_errors_say_what_of_a_tool_cannot_be_used() {
    let odd = Tool::new("odd", async |_, _| Ok(json!(1))).description("An odd tool");
    let source = Informed(Provider::builder("shop").tool(odd).build().unwrap());
    let server = CodeServer::new(Arc::new(InlineExecutor::new().unwrap()), source, ServerOptions::default());
    let client = client_of(server).await;
    let described =
        call(&client, "mcp_search_tools", json!({ "describe": ["shop.odd", "shop.broken", "shop.none"] })).await;
    for part in [
        "Not checked: inputSchema/properties/n/type: invalid type \"int\"",
        "`shop.broken` cannot be used, because its server describes it wrongly: invalid name",
        "unknown tool \"shop.none\"",
    ] {
        assert!(text(&described).contains(part), "{part}: {}", text(&described));
    }
    let found = call(&client, "mcp_search_tools", json!({ "query": "odd" })).await;
    assert!(text(&found).contains("Not checked: inputSchema/properties/n/type\n"), "{}", text(&found));
    assert!(!text(&found).contains("cannot be used"), "{}", text(&found));
    for query in [json!({ "query": "Broken things" }), json!({ "query": "", "namespace": "shop" })] {
        let found = call(&client, "mcp_search_tools", query.clone()).await;
        assert!(text(&found).contains("`shop.broken` cannot be used"), "{query}: {}", text(&found));
        assert_eq!(text(&found).contains("`other.broken`"), query.get("namespace").is_none(), "{query}");
    }
    for (code, message) in [
        ("await shop.broken()", "shop.broken cannot be used, because its server describes it wrongly: invalid name"),
        ("await shop.hidden()", "shop.hidden is not allowed by the configuration"),
    ] {
        let failed = call(&client, "mcp_execute_code", json!({ "code": code })).await;
        assert!(text(&failed).contains(message), "{}", text(&failed));
    }
}
