//! Child processes that crash, hang, write too much, or leave processes behind.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use execbox::{ErrorCode, ExecuteRequest, ExecuteResult, Executor as _, InlineExecutor, Limits, Provider};
use execbox_mcp::Secrets;
use execbox_mcp::upstream::{ChildCommand, LineSink, Upstream, UpstreamOptions};
use serde_json::Value as Json;

use crate::fakes::until;

/// A server as a shell script, with a tool for each misbehavior.
const SERVER: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
text() { say "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
tools='exit kill invalid flood pid grandchild huge hold hang'
while read -r line; do
  id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case "$line" in
    *'"method":"initialize"'*) say '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"method":"tools/list"'*) say "{\"tools\":[$(for tool in $tools; do printf ',{"name":"%s","inputSchema":{}}' $tool; done | cut -c2-)]}" ;;
    *'"name":"exit"'*) exit 3 ;;
    *'"name":"kill"'*) kill -9 $$ ;;
    *'"name":"invalid"'*) printf 'log line\n{"level":"info"}\n[1,2\n\n\377\376\n"text"\n{"jsonrpc":"2.0","id":99,"result":{}}\n'; text fine ;;
    *'"name":"flood"'*) head -c 5000000 /dev/zero | tr '\0' x >&2; printf '\nthe key is %s\033[31m\n\nlast' "$KEY" >&2; text fine ;;
    *'"name":"pid"'*) text $$ ;;
    *'"name":"grandchild"'*) sleep 1000 </dev/null >/dev/null 2>&1 & text $! ;;
    *'"name":"huge"'*) printf '{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"'; head -c 17000000 /dev/zero | tr '\0' x; printf '"}]},"id":%s}\n' "$id" ;;
    *'"name":"hang"'*) sleep 1000 ;;
    *'"name":"hold"'*) trap '' TERM; exec 1>&-; sleep 1000 & while :; do wait; done ;;
  esac
done"#;

fn shell(script: &str) -> ChildCommand {
    ChildCommand::new("sh").arg("-c").arg(script)
}

async fn open(options: UpstreamOptions) -> Upstream {
    Upstream::open_child("sh", shell(SERVER), options).await.unwrap()
}

async fn run(provider: Provider, code: &str) -> ExecuteResult {
    // Longer than any test takes on a busy machine.
    let limits = Limits::default().timeout(Duration::from_mins(10));
    InlineExecutor::new().unwrap().execute(ExecuteRequest::new(code).provider(provider).limits(limits)).await
}

async fn value(upstream: &Upstream, code: &str) -> Json {
    run(upstream.provider(), code).await.outcome.unwrap().unwrap()
}

async fn failure(upstream: &Upstream, code: &str) -> String {
    let error = run(upstream.provider(), code).await.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolError);
    error.message
}

async fn pid(upstream: &Upstream, tool: &str) -> String {
    value(upstream, &format!("String(await sh.{tool}())")).await.as_str().unwrap().to_owned()
}

/// Whether a process with this id exists and is not a zombie.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[tokio::test]
async fn a_crashed_child_reports_its_status_and_is_restarted_by_the_next_call() {
    let options = UpstreamOptions::default().restart_pause(Duration::ZERO);
    let upstream = open(options).await;
    for (tool, how) in [("exit", "exit status: 3"), ("kill", "signal: 9 (SIGKILL)")] {
        let message = failure(&upstream, &format!("String(await sh.{tool}())")).await;
        assert!(message.ends_with(&format!("process ended ({how})")), "{message}");
        // The next call runs in a new process, however soon it comes.
        let code = format!(
            "for (let n = 0; n < 10; n += 1) {{ try {{ await sh.{tool}() }} catch {{}} await sh.pid() }} return 'ok'"
        );
        assert_eq!(value(&upstream, &code).await, "ok");
    }
}

/// As for a process that ends before it is connected: the line that tells of the error, and none with a path.
#[tokio::test]
async fn the_last_output_of_a_process_that_ends_is_a_part_of_the_reason() {
    for (output, expected) in [
        (
            "Starting\nTypeError: x is not a function\nbye",
            "process ended (exit status: 7): TypeError: x is not a function",
        ),
        (
            "panicked: the key $KEY is invalid",
            "process ended (exit status: 7): panicked: the key ${API_KEY} is invalid",
        ),
        ("Error: no file /srv/app/data.db", "process ended (exit status: 7)"),
        ("nothing to see", "process ended (exit status: 7)"),
    ] {
        let exit = format!("{{ printf '%s' \"{output}\" >&2; exit 7; }} ;;");
        let command = |script: String| shell(&script).env(vec![("KEY".into(), "hunter22".into())]);
        let options =
            || UpstreamOptions::default().secrets(Secrets::new([("API_KEY".to_owned(), "hunter22".to_owned())]));
        let in_call = SERVER.replace("exit 3 ;;", &exit);
        let upstream = Upstream::open_child("sh", command(in_call), options()).await.unwrap();
        let message = failure(&upstream, "String(await sh.exit())").await;
        assert!(message.ends_with(expected), "{output}: {message}");
        let case = "*'\"method\":\"tools/list\"'*) ";
        let in_list = SERVER.replace(case, &format!("{case}{exit} never) "));
        let error = Upstream::open_child("sh", command(in_list), options()).await.unwrap_err().to_string();
        assert_eq!(error, format!("MCP server \"sh\" failed to list its tools: {expected}"), "{output}");
    }
}

#[tokio::test]
async fn calls_fail_when_the_child_closes_its_output_and_still_runs() {
    let upstream = open(UpstreamOptions::default()).await;
    let before = pid(&upstream, "pid").await;
    let message = failure(&upstream, "await Promise.all([sh.hold(), sh.pid()])").await;
    assert!(message.ends_with("the process has closed its standard output and still runs"), "{message}");
    assert!(runs(&before), "the calls fail before the process has ended");
    assert_ne!(pid(&upstream, "pid").await, before);
    until(|| !runs(&before)).await;
    upstream.close().await;
}

#[tokio::test]
async fn descendants_of_a_child_end_with_it() {
    let options = UpstreamOptions::default().restart_pause(Duration::ZERO);
    let upstream = open(options).await;
    let grandchild = pid(&upstream, "grandchild").await;
    failure(&upstream, "await sh.exit()").await;
    until(|| !runs(&grandchild)).await;

    let (child, grandchild) = (pid(&upstream, "pid").await, pid(&upstream, "grandchild").await);
    assert!(runs(&child) && runs(&grandchild));
    upstream.close().await;
    assert!(!runs(&child), "`close` waits for its end");
    until(|| !runs(&grandchild)).await;

    let upstream = open(UpstreamOptions::default()).await;
    let (child, grandchild) = (pid(&upstream, "pid").await, pid(&upstream, "grandchild").await);
    drop(upstream);
    until(|| !runs(&child) && !runs(&grandchild)).await;
}

#[test]
fn children_end_with_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (upstream, pids) = runtime.block_on(async {
        let upstream = open(UpstreamOptions::default()).await;
        let pids = [pid(&upstream, "pid").await, pid(&upstream, "grandchild").await];
        (upstream, pids)
    });
    drop(runtime);
    while pids.iter().any(|pid| runs(pid)) {
        std::thread::yield_now();
    }
    drop(upstream);
}

#[tokio::test]
async fn invalid_lines_on_standard_output_are_ignored() {
    let upstream = open(UpstreamOptions::default()).await;
    let before = pid(&upstream, "pid").await;
    assert_eq!(pid(&upstream, "invalid").await, "fine");
    assert_eq!(pid(&upstream, "pid").await, before);
}

#[tokio::test]
async fn standard_error_is_reported_without_secrets() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&lines);
    let command = shell(SERVER)
        .env(vec![("KEY".into(), "hunter22".into())])
        .on_stderr(LineSink::new(move |line| received.lock().unwrap().push(line.to_owned())));
    let secrets = Secrets::new([("API_KEY".to_owned(), "hunter22".to_owned())]);
    let options = UpstreamOptions::default().secrets(secrets);
    let upstream = Upstream::open_child("sh", command, options).await.unwrap();
    assert_eq!(pid(&upstream, "flood").await, "fine");
    upstream.close().await;
    until(|| lines.lock().unwrap().len() == 3).await;
    let lines = lines.lock().unwrap();
    assert!(lines[0].starts_with("xxx") && lines[0].len() < 500);
    assert_eq!(lines[1..], ["the key is ${API_KEY} [31m", "last"]);
}

#[tokio::test]
async fn variables_that_are_unset_are_not_inherited() {
    let script = SERVER.replace("text fine", "text \"${HOME-none} ${LANGUAGE_OF_TEST-none}\"");
    let command = shell(&script)
        .env(vec![("LANGUAGE_OF_TEST".into(), "x".into())])
        .unset(vec!["HOME".into(), "LANGUAGE_OF_TEST".into()]);
    let upstream = Upstream::open_child("sh", command, UpstreamOptions::default()).await.unwrap();
    assert_eq!(pid(&upstream, "invalid").await, "none x", "`env` has its own value");
    upstream.close().await;
}

#[tokio::test]
async fn a_child_that_fails_to_start_reports_its_last_lines_of_standard_error() {
    let open = async |script: &str, connect_timeout| {
        let command = shell(script).env(vec![("KEY".into(), "hunter22".into())]);
        let secrets = Secrets::new([("API_KEY".to_owned(), "hunter22".to_owned())]);
        let options = UpstreamOptions::default().secrets(secrets).connect_timeout(connect_timeout);
        Upstream::open_child("sh", command, options).await.unwrap_err().to_string()
    };
    let long = Duration::from_secs(30);
    assert_eq!(
        open("for n in $(seq 20); do echo step $n >&2; done; echo \"$KEY is no key\" >&2; exit 3", long).await,
        "MCP server \"sh\": process ended (exit status: 3); last lines of standard error:\n  step 12\n  \
         step 13\n  step 14\n  step 15\n  step 16\n  step 17\n  step 18\n  step 19\n  step 20\n  ${API_KEY} is no key"
    );
    assert_eq!(
        open("echo waiting for a key >&2; exec sleep 1000", Duration::from_secs(1)).await,
        "MCP server \"sh\": no response within 1s; last lines of standard error:\n  waiting for a key"
    );
    assert_eq!(
        open("exec >&-; sleep 1000", long).await,
        "MCP server \"sh\": the process has closed its standard output and still runs"
    );
    let error = r#"while read -r line; do echo '{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no hunter22 today"}}'; done"#;
    assert_eq!(open(error, long).await, "MCP server \"sh\": no ${API_KEY} today");
    let missing = ChildCommand::new("/nonexistent/server");
    let error = Upstream::open_child("sh", missing, UpstreamOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server \"sh\": failed to start: program not found: /nonexistent/server");
}

#[tokio::test]
async fn a_response_that_is_too_long_fails_only_its_call() {
    let upstream = open(UpstreamOptions::default().max_result_bytes(100)).await;
    let before = pid(&upstream, "pid").await;
    let message = failure(&upstream, "await sh.huge()").await;
    assert!(message.ends_with("response longer than 16777216 bytes"), "{message}");
    assert_eq!(pid(&upstream, "pid").await, before);
    let options = UpstreamOptions::default().max_result_bytes(10);
    let message = failure(&open(options).await, "await sh.pid()").await;
    assert!(message.ends_with("result longer than 10 bytes"), "{message}");
}

/// Without the limit, such a child keeps a processor core busy.
#[tokio::test]
async fn a_child_that_sends_without_an_end_is_disconnected() {
    let notification = |method: &str| format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}"}}"#);
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":99999,"result":{}}"#.to_owned(),
        notification("tools/list_changed"),
        notification("resources/list_changed"),
        notification("unknown"),
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":1}}"#.to_owned(),
        String::new(),
        "not JSON".to_owned(),
        "[]".to_owned(),
    ] {
        let endless = SERVER.replace("exec 1>&-;", &format!("yes '{line}';"));
        let options = UpstreamOptions::default().call_timeout(Duration::from_hours(1));
        let upstream = Upstream::open_child("sh", shell(&endless), options).await.unwrap();
        let child = pid(&upstream, "pid").await;
        let message = run(upstream.provider(), "await sh.hold()").await.outcome.unwrap_err().message;
        assert!(message.contains("disconnected: the server sent too much without a request"), "{line}: {message}");
        upstream.close().await;
        assert!(!runs(&child));
    }
    let long = SERVER.replace("exec 1>&-;", "tr '\\0' x < /dev/zero;");
    let options = UpstreamOptions::default().call_timeout(Duration::from_hours(1));
    let upstream = Upstream::open_child("sh", shell(&long), options).await.unwrap();
    let message = run(upstream.provider(), "await sh.hold()").await.outcome.unwrap_err().message;
    assert!(message.contains("disconnected: the server sent too much without a request"), "{message}");
}

#[tokio::test]
async fn a_server_can_be_closed_while_it_restarts() {
    let mark = std::env::temp_dir().join(format!("execbox-{}-starts", std::process::id()));
    let script = format!("echo >> {0}; if test $(wc -l < {0}) = 2; then exec sleep 1000; fi\n{SERVER}", mark.display());
    let starts = || std::fs::read(&mark).unwrap().len();
    let upstream = Upstream::open_child("sh", shell(&script), UpstreamOptions::default()).await.unwrap();
    let provider = upstream.provider();
    failure(&upstream, "await sh.exit()").await;
    let waiting = tokio::spawn(async move { run(provider, "await sh.pid()").await });
    until(|| starts() == 2).await;
    upstream.close().await;
    let error = waiting.await.unwrap().outcome.unwrap_err();
    assert!(error.message.contains("is closed"), "{error}");
    std::fs::remove_file(&mark).unwrap();
}

#[tokio::test]
async fn a_child_that_does_not_answer_pings_is_restarted() {
    let short = Duration::from_secs(2);
    let options = UpstreamOptions::default().call_timeout(short).ping_timeout(short);
    let upstream = open(options).await;
    assert!(failure(&upstream, "await sh.hang()").await.contains("no response within"));
    while !run(upstream.provider(), "await sh.pid()").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    upstream.close().await;
}

#[tokio::test]
async fn a_child_inherits_no_descriptors() {
    let mark = std::env::temp_dir().join(format!("execbox-{}-inherited", std::process::id()));
    let inherited = std::fs::File::create(&mark).unwrap();
    // A shell leaves descriptors open for its child processes like this.
    nix::fcntl::fcntl(&inherited, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let command = shell(&format!("ls -l /proc/$$/fd >&2; echo listed >&2;{SERVER}"))
        .on_stderr(LineSink::new(move |line| sink.lock().unwrap().push(line.to_owned())));
    let upstream = Upstream::open_child("sh", command, UpstreamOptions::default()).await.unwrap();
    until(|| lines.lock().unwrap().iter().any(|line| line == "listed")).await;
    let lines = lines.lock().unwrap().join("\n");
    assert!(lines.contains("0 -> pipe:") && !lines.contains("inherited"), "{lines}");
    upstream.close().await;
    std::fs::remove_file(mark).unwrap();
}
