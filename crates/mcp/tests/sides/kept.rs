//! The servers of a configuration: connected together, restored, filtered, and their secrets redacted.

use std::time::Duration;

use execbox::{ExecuteRequest, Executor as _, InlineExecutor};
use execbox_mcp::Pattern;
use execbox_mcp::config::Config;
use execbox_mcp::servers::{ServerState, Servers};
use execbox_mcp::upstream::UpstreamOptions;
use serde_json::{Value as Json, json};

const SECRET: &str = "s3cr3t-A1b2C3d4";

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake-server.sh");

/// The servers of a configuration, after all are ready or have failed.
async fn servers(config: &Json) -> Servers {
    let mut read = Config::default();
    read.read(&config.to_string(), &|name| (name == "TOKEN").then(|| SECRET.to_owned())).unwrap();
    assert_eq!(read.skipped, []);
    let options = UpstreamOptions { restart_pause: Duration::from_millis(1), ..UpstreamOptions::default() };
    let servers = Servers::start(read.servers, &options, None);
    servers.settled().await;
    servers
}

fn fake(name: &str) -> Json {
    json!({ "command": "sh", "args": [FAKE, name], "env": { "TOKEN": "${TOKEN}" } })
}

async fn run(servers: &Servers, code: &str) -> Json {
    let execution = ExecuteRequest::new(code).providers(servers.providers());
    let result = InlineExecutor::new().unwrap().execute(execution).await;
    serde_json::to_value(&result).unwrap()
}

#[tokio::test]
async fn secrets_are_redacted_from_everything_a_server_sends() {
    let mut unwrapped = fake("b");
    unwrapped["results"] = json!("unwrapped");
    let servers = servers(&json!({ "mcpServers": { "a": fake("a"), "b": unwrapped } })).await;
    let providers = servers.providers();
    assert_eq!(providers.len(), 2);
    let mut said = format!("{:?}{servers:?}", servers.status());
    for provider in &providers {
        let signatures: Vec<_> = provider.signatures().map(|one| format!("{:?}{:?}", one.input, one.output)).collect();
        said += &format!("{:?}{}", provider.manifest(), signatures.concat());
    }
    let code = "const said = [];
        for (const call of [a.env, a.fail, a.refuse, b.env, b.fail, b.refuse])
            said.push(await call({}).catch(error => String(error) + error.stack));
        return said";
    let result = run(&servers, code).await;
    said += &result.to_string();
    said += &run(&servers, "await b.refuse({})").await.to_string();
    assert!(!said.contains(SECRET), "{said}");
    // Everything was received, and the rest of the text is unchanged.
    let results = result["result"].as_array().unwrap();
    assert!(results[0]["content"][0]["text"].as_str().unwrap().contains("TOKEN=${TOKEN}"), "{result}");
    assert_eq!(results[0]["structuredContent"], json!({ "${TOKEN}": ["${TOKEN}"] }));
    assert_eq!(results[1]["content"][0]["text"], "failed with ${TOKEN}");
    assert_eq!(results[3], json!({ "${TOKEN}": ["${TOKEN}"] }));
    for text in [&results[2], &results[4], &results[5]] {
        assert!(text.as_str().unwrap().contains("with ${TOKEN}"), "{result}");
    }
    assert!(said.contains("Use ${TOKEN}") && said.contains("hello with ${TOKEN}") && said.contains("key_${TOKEN}"));
    servers.close().await;
}

#[tokio::test]
async fn a_failed_server_has_a_reason_and_the_others_work() {
    let (rude, gone) = (fake("rude"), json!({ "command": "/nonexistent/server" }));
    let away = json!({ "url": "http://127.0.0.1:1/mcp" });
    let config = json!({ "mcpServers": { "gone": gone, "my-server": fake("it"), "rude": rude, "away": away } });
    let servers = servers(&config).await;
    let status = servers.status();
    let names: Vec<&str> = status.iter().map(|status| status.namespace.as_str()).collect();
    assert_eq!(names, ["gone", "my_server", "rude", "away"]);
    for at in [0, 2, 3] {
        let ServerState::Failed { reason } = &status[at].state else { panic!("{:?}", status[at]) };
        assert!(!reason.is_empty() && !reason.contains(SECRET), "{reason}");
    }
    let ServerState::Ready { tools, rejected, filtered, .. } = &status[1].state else { panic!("{:?}", status[1]) };
    assert_eq!((*tools, rejected.len(), *filtered), (6, 1, 0));
    let result = run(&servers, "(await my_server.hello({})).content[0].text").await;
    assert_eq!(result["result"], "hello from it");
    servers.close().await;
    assert!(servers.status().iter().all(|status| status.state == ServerState::Closed));
    assert_eq!(servers.providers().len(), 0);
}

#[tokio::test]
async fn filtered_tools_do_not_exist_for_guests() {
    let mut one = fake("one");
    (one["allow"], one["deny"]) = (json!(["h*", "en*", "slow"]), json!(["slow", "delete"]));
    let servers = servers(&json!({ "mcpServers": { "one": one } })).await;
    let provider = &servers.providers()[0];
    let tools: Vec<&str> = provider.manifest().tools.iter().map(|tool| tool.safe_name.as_str()).collect();
    assert_eq!(tools, ["hello", "env"]);
    assert!(!provider.types().contains("slow") && !provider.types().contains("die"));
    let ServerState::Ready { filtered, rejected, unmatched_patterns, .. } = &servers.status()[0].state else {
        panic!()
    };
    assert_eq!((*filtered, rejected.len(), &unmatched_patterns[..]), (5, 0, &[Pattern::new("delete")][..]));
    let result = run(&servers, "[typeof one.slow, typeof one.die]").await;
    assert_eq!(result["result"], json!(["undefined", "undefined"]));
    servers.close().await;
}

#[tokio::test]
async fn a_failed_server_is_connected_by_later_requests_for_providers() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("down");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let late = json!({ "command": "sh", "args": ["late.sh", "late"], "cwd": dir });
    let servers = servers(&json!({ "mcpServers": { "late": late } })).await;
    assert!(matches!(servers.status()[0].state, ServerState::Failed { .. }));
    std::fs::copy(FAKE, dir.join("late.sh")).unwrap();
    while servers.providers().is_empty() {
        servers.settled().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(run(&servers, "(await late.hello({})).content[0].text").await["result"], "hello from late");
    servers.close().await;
}
