//! The servers of a configuration: connected together, restored, filtered, and their secrets redacted.

use std::time::Duration;

use execbox::{ExecuteRequest, Executor as _, InlineExecutor, Limits, Provider};
use execbox_mcp::Pattern;
use execbox_mcp::config::{Config, ServerConfig, Variables};
use execbox_mcp::server::{AbsentTool, Unavailability};
use execbox_mcp::servers::{ServerState, Servers};
use execbox_mcp::upstream::UpstreamOptions;
use serde_json::{Value as Json, json};

use crate::fakes::until;
use crate::remote::canned;

const SECRET: &str = "s3cr3t-A1b2C3d4";

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fake-server.sh");

/// The servers of a configuration, after all are ready or have failed.
async fn servers(config: &Json) -> Servers {
    let options = UpstreamOptions::default().restart_pause(Duration::from_millis(1));
    let servers = Servers::start(configs(config), &options, None);
    servers.settled().await;
    servers
}

fn configs(config: &Json) -> Vec<ServerConfig> {
    let mut read = Config::default();
    read.read(&config.to_string(), &Variables(|name| (name == "TOKEN").then(|| SECRET.to_owned()))).unwrap();
    assert_eq!(read.skipped, []);
    read.servers
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
async fn secrets_are_redacted_from_descriptions_and_reasons() {
    let servers = servers(&json!({ "mcpServers": { "a": fake("a") } })).await;
    let provider = &servers.providers()[0];
    let said = format!("{:?}{:?}{servers:?}", servers.status(), provider.types());
    assert!(said.contains("Use ${TOKEN}") && said.contains("hello with ${TOKEN}"), "{said}");
    let parts = servers.unread_parts("a", "broken");
    assert!(
        parts.len() == 1 && parts[0].starts_with("inputSchema/type: ") && parts[0].contains("${TOKEN}"),
        "{parts:?}"
    );
    assert_eq!((servers.unread_parts("a", "hello"), servers.absent_tool("a", "hello")), (vec![], None));
    // Names of properties decide which calls work.
    assert_eq!(said.matches(SECRET).count(), said.matches(&format!("key_{SECRET}")).count(), "{said}");
    servers.close().await;
}

#[tokio::test]
async fn programs_compute_with_what_a_server_sends() {
    let mut envelopes = fake("a");
    envelopes["results"] = json!("envelope");
    let servers = servers(&json!({ "mcpServers": { "a": envelopes, "b": fake("b") } })).await;
    let code = "const said = [];
        for (const call of [a.env, a.fail, a.refuse, b.env, b.fail, b.refuse])
            said.push(await call({}).catch(error => error.message));
        return said";
    let result = run(&servers, code).await;
    let results = result["result"].as_array().unwrap();
    assert!(results[0]["content"][0]["text"].as_str().unwrap().contains(&format!("TOKEN={SECRET}")), "{result}");
    assert_eq!(results[0]["structuredContent"], json!({ SECRET: [SECRET] }));
    assert_eq!(results[1]["content"][0]["text"], format!("failed with {SECRET}"));
    assert_eq!(results[3], json!({ SECRET: [SECRET] }));
    for text in [&results[2], &results[4], &results[5]] {
        assert!(text.as_str().unwrap().contains(&format!("with {SECRET}")), "{result}");
    }
    servers.close().await;
}

/// The table of the inputs that were reported: what is configured, and what a program computes.
#[tokio::test]
async fn values_of_the_configuration_that_are_data_too_are_not_changed() {
    for (name, value) in [
        ("JIRA_USERNAME", "ann.lee@example.com"),
        ("DEFAULT_MINIMUM_TOKENS", "10000"),
        ("DB_PASSWORD", "postgres"),
        ("API_KEY", "test"),
        ("AUTH", "none"),
        ("ACCOUNT_ID", "123456789012"),
        ("SLACK_TEAM_ID", "T01ABCDEF9"),
        ("TENANT_KEY", "8c5f6a2e-9a0b-4c1d-8e2f-3a4b5c6d7e8f"),
        ("TOKEN", SECRET),
    ] {
        let server = json!({ "command": "sh", "args": [FAKE, value], "env": { (name): value, "TOKEN": value } });
        let options = UpstreamOptions::default();
        let servers = Servers::start(configs(&json!({ "mcpServers": { "s": server } })), &options, None);
        servers.settled().await;
        let code = format!(
            "return [(await s.hello({{}})).split(' ').at(-1) === {value:?}, Object.keys(await s.env({{}}))[0]]"
        );
        assert_eq!(run(&servers, &code).await["result"], json!([true, value]), "{name}");
        let shown = options.secrets.redact(format!("is {value}"));
        assert_eq!(shown, if value == SECRET { "is ${TOKEN}".to_owned() } else { format!("is {value}") });
        servers.close().await;
    }
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
        let ServerState::Failed(failure) = &status[at].state else { panic!("{:?}", status[at]) };
        let reason = failure.to_string();
        assert!(!reason.is_empty() && !reason.contains(SECRET), "{reason}");
    }
    let ServerState::Ready { tools, rejected, filtered, .. } = &status[1].state else { panic!("{:?}", status[1]) };
    assert_eq!((*tools, rejected.len(), *filtered), (7, 0, 0));
    let result = run(&servers, "await my_server.hello({})").await;
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
    assert_eq!(servers.absent_tool("one", "die"), Some(AbsentTool::Denied));
    let unmatched: Vec<_> = unmatched_patterns.iter().map(|unmatched| &unmatched.pattern).collect();
    assert_eq!((*filtered, rejected.len(), &unmatched[..]), (5, 0, &[&Pattern::new("delete")][..]));
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
    assert!(matches!(servers.status()[0].state, ServerState::Failed(_)));
    std::fs::copy(FAKE, dir.join("late.sh")).unwrap();
    while servers.providers().is_empty() {
        servers.settled().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(run(&servers, "await late.hello({})").await["result"], "hello from late");
    servers.close().await;
}

#[tokio::test]
async fn an_update_restarts_only_servers_that_differ() {
    let servers = servers(&json!({ "mcpServers": { "a": fake("a"), "b": fake("b"), "c": fake("c") } })).await;
    let before = servers.providers();
    let config = json!({ "mcpServers": { "d": fake("d"), "c": fake("new c"), "a": fake("a") } });
    let names = |name: &str| vec![name.to_owned()];
    let update = servers.update(configs(&config));
    assert_eq!((update.added, update.restarted, update.removed), (names("d"), names("c"), names("b")));
    servers.settled().await;
    let after = servers.providers();
    assert_eq!(after.iter().map(Provider::name).collect::<Vec<_>>(), ["d", "c", "a"]);
    assert!(std::ptr::eq(before[0].manifest(), after[2].manifest()), "the same connection");
    let result = run(&servers, "[await a.hello({}), await c.hello({}), await d.hello({}), typeof b]").await;
    assert_eq!(result["result"], json!(["hello from a", "hello from new c", "hello from d", "undefined"]));
    assert!(servers.update(configs(&config)).is_empty());
    servers.close().await;
    assert!(servers.update(configs(&json!({ "mcpServers": { "e": fake("e") } }))).is_empty(), "after closing");
}

#[tokio::test]
async fn an_update_of_the_calls_that_need_approval_keeps_the_connection() {
    let with = |keys: Json| {
        let mut server = fake("a");
        server.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        configs(&json!({ "mcpServers": { "a": server } }))
    };
    let servers = servers(&json!({ "mcpServers": { "a": fake("a") } })).await;
    let before = servers.providers();
    assert!(servers.update(with(json!({ "ask": "all", "alwaysAllow": ["hello", "gone"] }))).is_empty());
    assert!(servers.ask_filter("a").exempts(&["hello"]) && !servers.ask_filter("a").exempts(&["fail"]));
    assert!(std::ptr::eq(before[0].manifest(), servers.providers()[0].manifest()), "the same connection");
    let ServerState::Ready { unmatched_patterns, .. } = &servers.status()[0].state else { panic!("a ready server") };
    assert_eq!(unmatched_patterns.iter().map(|it| it.pattern.as_str()).collect::<Vec<_>>(), ["gone"]);
    servers.close().await;
}

/// A fake server that writes its process id to a file.
fn with_id(name: &str) -> (Json, impl Fn() -> Option<u32>) {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pid"));
    let _ = std::fs::remove_file(&file);
    let script = "echo $$ > $0.new; mv $0.new $0; exec sh \"$@\"";
    let config = json!({ "command": "sh", "args": ["-c", script, &file, FAKE, name] });
    (config, move || std::fs::read_to_string(&file).ok()?.trim().parse().ok())
}

fn is_running(id: u32) -> bool {
    std::fs::exists(format!("/proc/{id}")).unwrap()
}

#[tokio::test]
async fn a_server_that_is_removed_is_closed_when_no_provider_of_it_is_in_use() {
    let (config, id) = with_id("removed");
    let servers = servers(&json!({ "mcpServers": { "removed": config, "other": fake("other") } })).await;
    let (providers, id) = (servers.providers(), id().unwrap());
    servers.update(configs(&json!({ "mcpServers": { "other": fake("other") } })));
    assert_eq!(servers.status().len(), 1);
    let request = ExecuteRequest::new("await removed.hello({})").providers(providers);
    let result = InlineExecutor::new().unwrap().execute(request).await;
    assert_eq!(result.outcome, Ok(Some(json!("hello from removed"))));
    until(|| !is_running(id)).await;
    servers.close().await;
}

#[tokio::test]
async fn removed_servers_that_are_in_use_or_starting_end_when_all_are_closed() {
    let (used, used_id) = with_id("used");
    let (silent, silent_id) = with_id("silent");
    let servers = Servers::start(
        configs(&json!({ "mcpServers": { "used": used, "silent": silent } })),
        &UpstreamOptions::default(),
        None,
    );
    servers.settled_if(|name| name == "used").await;
    until(|| silent_id().is_some()).await;
    let (providers, silent_id) = (servers.providers(), silent_id().unwrap());
    servers.update(Vec::new());
    until(|| !is_running(silent_id)).await;
    let used_id = used_id().unwrap();
    assert!(is_running(used_id));
    servers.close().await;
    until(|| !is_running(used_id)).await;
    drop(providers);
}

#[tokio::test]
async fn a_server_that_was_disconnected_for_what_it_sent_has_a_reason() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile-server.sh");
    let servers =
        servers(&json!({ "mcpServers": { "evil": { "command": "sh", "args": [script, "lines"] }, "a": fake("a") } }))
            .await;
    let flood = "disconnected: the server sent too much without a request";
    let limits = Limits::default().timeout(Duration::from_mins(10));
    for _ in 0..2 {
        let execution = ExecuteRequest::new("await evil.call({})").providers(servers.providers()).limits(limits);
        let error = InlineExecutor::new().unwrap().execute(execution).await.outcome.unwrap_err();
        assert!(error.message.contains(flood), "{error}");
        let status = servers.status();
        let ServerState::Failed(failure) = &status[0].state else { panic!("{status:?}") };
        let reason = failure.to_string();
        assert!(reason.starts_with(flood), "{reason}");
        assert!(matches!(status[1].state, ServerState::Ready { .. }), "{status:?}");
        assert!(servers.unavailable()[0].reason.starts_with(flood));
    }
    servers.close().await;
}

#[tokio::test]
async fn skipped_entries_have_a_state_and_a_reason_until_they_are_used() {
    let read = |entries: Json| {
        let mut config = Config::default();
        config.read(&json!({ "mcpServers": entries }).to_string(), &Variables(|_| None)).unwrap();
        config
    };
    let (off, bad) = (json!({ "command": "x", "disabled": true }), json!({ "command": 1 }));
    let options = UpstreamOptions::default();
    let servers = Servers::start(read(json!({ "a": bad, "b": fake_without_token("b"), "off": off })), &options, None);
    servers.settled().await;
    let states = |servers: &Servers| {
        let kind = |state: &ServerState| match state {
            ServerState::Ready { .. } => "ready".to_owned(),
            ServerState::Skipped { reason } => reason.to_string(),
            other => format!("{other:?}"),
        };
        servers.status().iter().map(|status| (status.namespace.clone(), kind(&status.state))).collect::<Vec<_>>()
    };
    let mistake = "1:31: mcpServers.a.command: invalid type: expected the string \"1\", got a number";
    let expected = [("b", "ready"), ("a", mistake), ("off", "disabled in the configuration")];
    assert_eq!(states(&servers), expected.map(|(name, state)| (name.to_owned(), state.to_owned())));
    let unavailable: Vec<_> = servers.unavailable().into_iter().map(|missing| missing.state).collect();
    assert_eq!(unavailable, [Unavailability::Skipped, Unavailability::Disabled]);
    let mut changes = options.changes.subscribe();
    changes.mark_unchanged();
    let update = servers.update(read(json!({ "a": bad, "b": fake_without_token("b") })));
    assert!(update.is_empty() && changes.has_changed().unwrap(), "who shows the states is notified");
    let update = servers.update(read(json!({ "a": fake_without_token("a"), "b": fake_without_token("b") })));
    assert_eq!((update.added, update.restarted, update.removed), (vec!["a".to_owned()], vec![], vec![]));
    servers.settled().await;
    assert_eq!(states(&servers), ["a", "b"].map(|name| (name.to_owned(), "ready".to_owned())));
    servers.close().await;
}

fn fake_without_token(name: &str) -> Json {
    json!({ "command": "sh", "args": [FAKE, name] })
}

#[tokio::test]
async fn models_read_whole_reasons_and_when_to_try_again() {
    let ends = |script: &str| json!({ "command": "sh", "args": ["-c", script] });
    let answers = async |status: u16, body: &str| {
        let body = body.to_owned();
        json!({ "url": canned(move |_, _| (status, String::new(), body.clone())).await })
    };
    let cases = [
        (ends("exit 3"), "process ended (exit status: 3)"),
        (
            ends("echo 'ValueError: PORT must be a number' >&2; echo '  at /srv/x.py' >&2; echo bye >&2; exit 1"),
            "process ended (exit status: 1): ValueError: PORT must be a number",
        ),
        (ends("echo 'cannot read /etc/app/key' >&2; exit 1"), "process ended (exit status: 1)"),
        (json!({ "command": "/nowhere/server" }), "failed to start: program not found"),
        (json!({ "url": "http://127.0.0.1:1/mcp" }), "cannot connect: connection refused; try again later"),
        (answers(410, "").await, "HTTP 410 Gone"),
        (answers(403, "not for you").await, "HTTP 403 Forbidden: not for you"),
        (answers(502, "").await, "HTTP 502 Bad Gateway; try again later"),
        (answers(429, "slow down").await, "HTTP 429 Too Many Requests: slow down; try again later"),
        (answers(401, "").await, "HTTP 401 Unauthorized"),
    ];
    let names: Vec<String> = (0..cases.len()).map(|at| format!("s{at}")).collect();
    let entries: serde_json::Map<_, _> =
        names.iter().zip(&cases).map(|(name, (entry, _))| (name.clone(), entry.clone())).collect();
    let servers = servers(&json!({ "mcpServers": entries })).await;
    let sentences: Vec<String> = servers.unavailable().iter().map(ToString::to_string).collect();
    let expected = names.iter().zip(&cases).map(|(name, (_, reason))| format!("{name} is not available: {reason}"));
    assert_eq!(sentences, expected.collect::<Vec<_>>());
    servers.close().await;
}

#[tokio::test]
async fn patterns_that_match_no_tool_are_known_when_their_servers_are_ready() {
    let keys = json!({ "ask": ["hello", "remove_*"], "alwaysAllow": ["get_*"], "deny": ["fail", "helo*", "slwo"] });
    let mut entry = fake("one");
    entry.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let servers = servers(&json!({ "mcpServers": { "one": entry, "gone": { "command": "/nowhere" } } })).await;
    let ServerState::Ready { unmatched_patterns, .. } = &servers.status()[0].state else { panic!("not ready") };
    let unmatched = unmatched_patterns.iter().map(|unmatched| (unmatched.is_protective, unmatched.to_string()));
    let path = |rest: &str| format!("1:COLUMN: mcpServers.one.{rest}");
    let expected = [
        (true, path("deny[1]: no tool matches \"helo*\"; did you mean \"hello\"?")),
        (true, path("deny[2]: no tool matches \"slwo\"; did you mean \"slow\"?")),
        (true, path("ask[1]: no tool matches \"remove_*\"")),
        (false, path("alwaysAllow[0]: no tool matches \"get_*\"")),
    ];
    let without_column = |(is_protective, line): (bool, String)| {
        let (_, path) = line.split_once(": ").unwrap();
        (is_protective, format!("1:COLUMN: {path}"))
    };
    assert_eq!(unmatched.map(without_column).collect::<Vec<_>>(), expected);
    for (pattern, expected) in [
        ("one.hello", Some(true)),
        ("one.fail", Some(true)),
        ("one.remove_*", Some(false)),
        ("*.hello", Some(true)),
        ("*.nothing", None),
        ("gone.hello", None),
        ("other.hello", Some(false)),
    ] {
        assert_eq!(servers.has_match(&Pattern::new(pattern)), expected, "{pattern}");
    }
    servers.close().await;
}

#[tokio::test]
async fn a_server_is_not_used_if_the_name_of_an_effect_is_misspelled() {
    let with = |keys: Json| {
        let mut server = fake("a");
        server.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        json!({ "mcpServers": { "a": server } })
    };
    let reason = |servers: &Servers| match &servers.status()[0].state {
        ServerState::Failed(failure) => Some((failure.to_string(), failure.for_models())),
        _ => None,
    };
    for asked in [json!("destrctive"), json!(["hello", "destrctive"]), json!(["Destructive"]), json!(["write"])] {
        let servers = servers(&with(json!({ "ask": asked }))).await;
        let (all, of_models) = reason(&servers).unwrap();
        assert!(of_models.starts_with("`ask`: no tool matches \"") && of_models.contains("; did you mean \""), "{all}");
        assert!(all.starts_with("1:") && all.contains(": mcpServers.a.ask"), "{all}");
        assert_eq!(servers.providers().len(), 0);
        servers.close().await;
    }
    for asked in [json!(["destructive", "all"]), json!(["slow", "write*"]), json!(["hello"])] {
        let servers = servers(&with(json!({ "ask": asked }))).await;
        assert_eq!((reason(&servers), servers.providers().len()), (None, 1), "{asked}");
        // The words of a later configuration are checked, too.
        servers.update(configs(&with(json!({ "ask": ["wirtes"] }))));
        servers.settled().await;
        assert!(reason(&servers).unwrap().0.contains("did you mean \"writes\"?"));
        servers.update(configs(&with(json!({ "ask": ["writes"] }))));
        servers.retry_failed();
        servers.settled_if(|_| true).await;
        servers.close().await;
    }
}
