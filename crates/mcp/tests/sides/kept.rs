//! The servers of a configuration: opened together, kept, filtered, and silent about their secrets.

use std::time::Duration;

use execbox::{ExecuteRequest, Executor as _, InlineExecutor};
use execbox_mcp::Pattern;
use execbox_mcp::config::Config;
use execbox_mcp::servers::{Servers, Standing};
use execbox_mcp::upstream::UpstreamOptions;
use serde_json::{Value as Json, json};

const SECRET: &str = "s3cr3t-A1b2C3d4";

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake-server.sh");

/// The servers of a configuration in which `FAKE` is the fake server. All have come or failed.
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
async fn nothing_that_a_server_says_has_its_secrets() {
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
    // It said all that, and what is no secret is still there.
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
async fn a_server_that_fails_is_told_and_the_others_work() {
    let (rude, gone) = (fake("rude"), json!({ "command": "/nonexistent/server" }));
    let away = json!({ "url": "http://127.0.0.1:1/mcp" });
    let config = json!({ "mcpServers": { "gone": gone, "my-server": fake("it"), "rude": rude, "away": away } });
    let servers = servers(&config).await;
    let status = servers.status();
    let names: Vec<&str> = status.iter().map(|status| status.namespace.as_str()).collect();
    assert_eq!(names, ["gone", "my_server", "rude", "away"]);
    for at in [0, 2, 3] {
        let Standing::Failed { reason } = &status[at].standing else { panic!("{:?}", status[at]) };
        assert!(!reason.is_empty() && !reason.contains(SECRET), "{reason}");
    }
    let Standing::Open { tools, left_out, withheld, .. } = &status[1].standing else { panic!("{:?}", status[1]) };
    assert_eq!((*tools, left_out.len(), *withheld), (6, 1, 0));
    let result = run(&servers, "(await my_server.hello({})).content[0].text").await;
    assert_eq!(result["result"], "hello from it");
    servers.close().await;
    assert!(servers.status().iter().all(|status| status.standing == Standing::Closed));
    assert_eq!(servers.providers().len(), 0);
}

#[tokio::test]
async fn a_tool_that_is_not_allowed_is_not_there() {
    let mut one = fake("one");
    (one["allow"], one["deny"]) = (json!(["h*", "en*", "slow"]), json!(["slow", "delete"]));
    let servers = servers(&json!({ "mcpServers": { "one": one } })).await;
    let provider = &servers.providers()[0];
    let tools: Vec<&str> = provider.manifest().tools.iter().map(|tool| tool.safe_name.as_str()).collect();
    assert_eq!(tools, ["hello", "env"]);
    assert!(!provider.types().contains("slow") && !provider.types().contains("die"));
    let Standing::Open { withheld, left_out, unused, .. } = &servers.status()[0].standing else { panic!() };
    assert_eq!((*withheld, left_out.len(), &unused[..]), (5, 0, &[Pattern::new("delete")][..]));
    let result = run(&servers, "[typeof one.slow, typeof one.die]").await;
    assert_eq!(result["result"], json!(["undefined", "undefined"]));
    servers.close().await;
}

/// It is asked for as people do who look at the tools again and again.
#[tokio::test]
async fn a_server_that_was_down_is_there_later() {
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("down");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let late = json!({ "command": "sh", "args": ["late.sh", "late"], "cwd": dir });
    let servers = servers(&json!({ "mcpServers": { "late": late } })).await;
    assert!(matches!(servers.status()[0].standing, Standing::Failed { .. }));
    std::fs::copy(FAKE, dir.join("late.sh")).unwrap();
    while servers.providers().is_empty() {
        servers.settled().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(run(&servers, "(await late.hello({})).content[0].text").await["result"], "hello from late");
    servers.close().await;
}
