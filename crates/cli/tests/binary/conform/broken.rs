//! Runners that each violate one rule: the runner of execbox, behind a proxy that changes messages.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;

use execbox::Runner;
use execbox::transport::StreamTransport;
use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::spoil::{self, Limit, Spoiled};

/// A fault of a runner.
pub(crate) struct Fault {
    pub(crate) name: String,
    kind: Kind,
    /// The cases that are played, by parts of their names.
    cases: Vec<&'static str>,
}

#[derive(Clone, Copy)]
enum Kind {
    /// A fault that the proxy knows by its name.
    Named,
    Spoiled(Spoiled),
    Limit(Limit),
}

static FAULTS: LazyLock<Vec<Fault>> = LazyLock::new(|| {
    let named = NAMED.iter().map(|(name, cases)| Fault {
        name: (*name).to_owned(),
        kind: Kind::Named,
        cases: COMMON.iter().chain(*cases).copied().collect(),
    });
    let spoiled = spoil::faults().into_iter().map(|(name, spoiled, cases)| Fault {
        name,
        kind: Kind::Spoiled(spoiled),
        cases: cases.to_vec(),
    });
    let limits = spoil::LIMITS.iter().map(|(name, limit)| Fault {
        name: (*name).to_owned(),
        kind: Kind::Limit(*limit),
        cases: vec!["truncation/"],
    });
    named.chain(spoiled).chain(limits).collect()
});

/// Each fault that the proxy knows by its name, and the cases that are played in addition to [`COMMON`].
const NAMED: &[(&str, &[&str])] = &[
    ("none", &["cancellation-and-transport-failure/", "error-mapping-rules/", "logs/", "truncation/"]),
    ("none: unknown fields", &["logs/", "tool-call-contract/a-failure"]),
    ("omits started", &["cancellation-and-transport-failure/"]),
    ("repeats started", &[]),
    ("sends started before done", &[]),
    ("sends started after done", &[]),
    ("sends done twice", &[]),
    ("sends done for another execution", &[]),
    ("continues after done", &[]),
    ("reuses callIds", &[]),
    ("makes one call at a time", &["tool-call-contract/"]),
    ("settles the oldest call with any result", &["tool-call-contract/"]),
    ("settles the next call with a duplicate result", &[]),
    ("ignores cancel", &["cancellation-and-transport-failure/"]),
    ("ignores the id of cancel", &["cancellation-and-transport-failure/"]),
    ("drops logs", &["logs/"]),
    ("ignores the limits of logs", &["truncation/"]),
    ("writes to standard output", &[]),
    ("closes at the first call", &[]),
    (
        "closes at invalid input",
        &["hostile-hosts/invalid-lines", "hostile-hosts/invalid-utf-8", "hostile-hosts/a-line"],
    ),
    ("survives its host", &["cancellation-and-transport-failure/", "hostile-hosts/a-line-that-is-cut-off"]),
    ("trusts the messages of errors", &["error-mapping-rules/"]),
    ("reports every failure as tool_error", &["error-mapping-rules/"]),
    ("sends null for an omitted input", &[]),
    ("sends null for an undefined result", &["serialization-contract/results"]),
    ("sends an error with a result", &[]),
    ("reports no duration", &[]),
    ("ignores a second execute", &[]),
    ("rejects a second execute by ending the first", &[]),
    ("replaces values that are not serializable by null", &["serialization-contract/"]),
];

/// The cases that are played with every fault that the proxy knows by its name.
const COMMON: &[&str] = &[
    "session-model/",
    "state-machine/",
    "guest-namespace-contract/",
    "pause-resume-semantics/",
    "json-transport-note/",
    "final-result-contract/",
    "stable-error-codes/",
    "execution-id-and-message-correlation/",
    "minimal-transcripts/",
];

/// The number of broken runners that are tested at once.
const AT_ONCE: usize = 4;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());
static RUNNER: LazyLock<Runner> = LazyLock::new(|| Runner::new().unwrap());

/// The panics of proxies, which are no faults of runners.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The reports on all broken runners.
pub(crate) fn reports(arguments: &[&str]) -> Vec<(&'static str, Json)> {
    let next = AtomicUsize::new(0);
    let reports = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(fault) = FAULTS.get(at) else { return };
                    let only = fault.cases.iter().flat_map(|text| ["--only", text]);
                    let arguments: Vec<_> = arguments.iter().copied().chain(only).collect();
                    let report = report_on(fault, &arguments);
                    reports.lock().unwrap().push((at, report));
                }
            });
        }
    });
    let mut reports = reports.into_inner().unwrap();
    reports.sort_by_key(|(at, _)| *at);
    reports.into_iter().map(|(at, report)| (FAULTS[at].name.as_str(), report)).collect()
}

/// The report on the runner with the fault of this name.
pub(crate) fn report(fault: &str, arguments: &[&str]) -> Json {
    report_on(FAULTS.iter().find(|known| known.name == fault).unwrap(), arguments)
}

fn report_on(fault: &'static Fault, arguments: &[&str]) -> Json {
    let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let server = RUNTIME.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let proxy = tokio::spawn(serve(fault, stream));
            tokio::spawn(async {
                if let Err(error) = proxy.await {
                    PANICS.lock().unwrap().push(error.to_string());
                }
            });
        }
    });
    let output = Command::new(env!("CARGO_BIN_EXE_execbox"))
        .args(["conform", "--connect", &address])
        .args(arguments)
        .output()
        .unwrap();
    server.abort();
    assert_eq!(*PANICS.lock().unwrap(), [""; 0], "a proxy panicked");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Host,
    Runner,
}

/// The proxy: messages of both sides go through [`Proxy::pass`].
async fn serve(fault: &'static Fault, stream: TcpStream) -> io::Result<()> {
    let (from_host, mut to_host) = stream.into_split();
    let (near, far) = tokio::io::duplex(1 << 20);
    let (from_runner, mut to_runner) = tokio::io::split(near);
    let (reader, writer) = tokio::io::split(far);
    let runner = tokio::spawn(async move { RUNNER.serve(StreamTransport::new(reader, writer)).await });

    let (sender, mut receiver) = mpsc::unbounded_channel();
    tokio::spawn(listen(Side::Host, from_host, sender.clone()));
    tokio::spawn(listen(Side::Runner, from_runner, sender));
    let mut proxy = Proxy { fault: &fault.name, kind: Some(fault.kind), ..Proxy::default() };
    while let Some((side, line)) = receiver.recv().await {
        let (mut host, mut runner) = (Vec::new(), Vec::new());
        if line.is_empty() && side == Side::Host && fault.name == "survives its host" {
            continue;
        }
        if line.is_empty() && side == Side::Host {
            to_runner.shutdown().await?;
            continue;
        }
        if line.is_empty() || proxy.pass(side, line, &mut host, &mut runner).is_none() {
            break;
        }
        to_host.write_all(&host).await?;
        to_runner.write_all(&runner).await?;
    }
    runner.abort();
    Ok(())
}

/// Sends each line as bytes. The end of the stream is an empty line.
async fn listen(side: Side, reader: impl AsyncRead + Unpin, sender: mpsc::UnboundedSender<(Side, Vec<u8>)>) {
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = Vec::new();
        let read = reader.read_until(b'\n', &mut line).await;
        let is_end = !read.is_ok_and(|count| count > 0);
        if sender.send((side, line)).is_err() || is_end {
            return;
        }
    }
}

#[derive(Default)]
struct Proxy {
    fault: &'static str,
    kind: Option<Kind>,
    /// The id of the running execution.
    active: Option<String>,
    /// The callIds of pending calls.
    pending: Vec<String>,
    /// Delayed messages.
    delayed: Vec<Json>,
    /// The limits of logs of the execution: lines and characters.
    limits: (usize, usize),
}

impl Proxy {
    /// Forwards a line, possibly changed; `None` closes the connection.
    fn pass(&mut self, side: Side, line: Vec<u8>, host: &mut Vec<u8>, runner: &mut Vec<u8>) -> Option<()> {
        let Ok(mut message) = serde_json::from_slice::<Json>(&line) else {
            if self.fault == "closes at invalid input" && side == Side::Host && line != b"\n" {
                return None;
            }
            let to = if side == Side::Host { runner } else { host };
            to.extend(line);
            return Some(());
        };
        let is_forwarded = match side {
            Side::Host => self.pass_to_runner(&mut message, host),
            Side::Runner => self.pass_to_host(&mut message, host)?,
        };
        match self.kind {
            Some(Kind::Spoiled(spoiled)) if message["type"] == spoiled.kind => spoiled.apply(&mut message),
            Some(Kind::Limit(limit)) => self.misread_limits(&mut message, limit),
            _ => {}
        }
        if is_forwarded {
            put(if side == Side::Host { runner } else { host }, &message);
        }
        Some(())
    }

    /// Gives the runner no limits of logs, and applies `limit` to its lines.
    fn misread_limits(&mut self, message: &mut Json, limit: Limit) {
        if message["type"] == "execute" {
            let options = &mut message["options"];
            let limits = ["maxLogLines", "maxLogChars"].map(|name| options[name].as_u64().unwrap().try_into().unwrap());
            self.limits = limits.into();
            options["maxLogLines"] = json!(1_000_000);
            options["maxLogChars"] = json!(1_000_000);
        } else if message["type"] == "done" {
            let lines: Vec<String> = serde_json::from_value(message["logs"].take()).unwrap();
            message["logs"] = json!(limit(&lines, self.limits.0, self.limits.1));
        }
    }

    /// Changes a message of the host. Returns whether to forward it.
    fn pass_to_runner(&mut self, message: &mut Json, host: &mut Vec<u8>) -> bool {
        let kind = message["type"].as_str().unwrap_or_default().to_owned();
        match (kind.as_str(), self.fault) {
            ("execute", "ignores a second execute") if self.active.is_some() => return false,
            ("execute", "rejects a second execute by ending the first") if self.active.is_some() => {
                let error = json!({ "code": "internal_error", "message": "busy" });
                let id = &self.active;
                put(
                    host,
                    &json!({ "type": "done", "id": id, "ok": false, "durationMs": 0, "logs": [], "error": error }),
                );
                return false;
            }
            ("execute", "ignores the limits of logs") => {
                message["options"]["maxLogLines"] = json!(1_000_000);
                message["options"]["maxLogChars"] = json!(1_000_000);
            }
            ("cancel", "ignores cancel") => return false,
            ("cancel", "ignores the id of cancel") => message["id"] = json!(self.active),
            ("tool_result", "reuses callIds") if message["callId"] == "call" && !self.pending.is_empty() => {
                message["callId"] = json!(self.pending.remove(0));
            }
            ("tool_result", "settles the oldest call with any result") if !self.pending.is_empty() => {
                message["callId"] = json!(self.pending.remove(0));
            }
            ("tool_result", "settles the next call with a duplicate result") if !self.pending.is_empty() => {
                let at = self.pending.iter().position(|id| message["callId"] == **id).unwrap_or_default();
                let is_pending = message["callId"] == *self.pending[at];
                let known = message["callId"].as_str().is_some_and(|id| id.starts_with("call-"));
                if is_pending || known {
                    message["callId"] = json!(self.pending.remove(at));
                }
            }
            ("tool_result", "makes one call at a time")
                if self.pending.first().is_some_and(|id| message["callId"] == **id) =>
            {
                self.pending.clear();
                self.release(host);
            }
            _ => {}
        }
        if kind == "execute" && self.active.is_none() {
            self.active = message["id"].as_str().map(str::to_owned);
        }
        true
    }

    /// Changes a message of the runner. Returns whether to forward it; `None` closes the connection.
    fn pass_to_host(&mut self, message: &mut Json, host: &mut Vec<u8>) -> Option<bool> {
        let kind = message["type"].as_str().unwrap_or_default().to_owned();
        if self.fault == "none: unknown fields" {
            message["traceId"] = json!("4bf92f35");
            if let Some(error) = message.get_mut("error") {
                error["retryable"] = json!(false);
            }
        }
        match kind.as_str() {
            "started" => match self.fault {
                "omits started" => return Some(false),
                "repeats started" => put(host, message),
                "sends started before done" | "sends started after done" => {
                    self.delayed.push(message.clone());
                    return Some(false);
                }
                "writes to standard output" => host.extend(b"starting ...\n"),
                _ => {}
            },
            "tool_call" => return self.pass_call(message, host),
            "done" => {
                let is_active = self.active.as_deref().is_some_and(|id| message["id"] == id);
                self.change_done(message, host);
                if is_active {
                    self.active = None;
                    self.pending.clear();
                }
            }
            _ => {}
        }
        Some(true)
    }

    fn pass_call(&mut self, message: &mut Json, host: &mut Vec<u8>) -> Option<bool> {
        let id = message["callId"].as_str().unwrap().to_owned();
        match self.fault {
            "closes at the first call" => return None,
            "makes one call at a time" => {
                self.delayed.push(message.clone());
                if self.pending.is_empty() {
                    self.release(host);
                }
                return Some(false);
            }
            "reuses callIds" => message["callId"] = json!("call"),
            "sends null for an omitted input" if message.get("input").is_none() => message["input"] = Json::Null,
            _ => {}
        }
        self.pending.push(id);
        Some(true)
    }

    /// Sends the next delayed call.
    fn release(&mut self, host: &mut Vec<u8>) {
        if !self.delayed.is_empty() {
            let call = self.delayed.remove(0);
            self.pending.push(call["callId"].as_str().unwrap().to_owned());
            put(host, &call);
        }
    }

    fn change_done(&mut self, message: &mut Json, host: &mut Vec<u8>) {
        let ok = message["ok"] == true;
        let code = message["error"]["code"].as_str().unwrap_or_default().to_owned();
        let text = message["error"]["message"].as_str().unwrap_or_default().to_lowercase();
        match self.fault {
            "sends started before done" => self.delayed.drain(..).for_each(|started| put(host, &started)),
            "sends started after done" if !self.delayed.is_empty() => {
                put(host, message);
                *message = self.delayed.remove(0);
            }
            "sends done twice" => put(host, message),
            "sends done for another execution" => message["id"] = json!("another"),
            "continues after done" => {
                put(host, message);
                *message =
                    json!({ "type": "tool_call", "callId": "late", "providerName": "tools", "safeToolName": "echo" });
            }
            "drops logs" => message["logs"] = json!([]),
            "trusts the messages of errors" if text.contains("timed out") || text.contains("timeout") => {
                message["error"]["code"] = json!("timeout");
            }
            "trusts the messages of errors" if text.contains("memory") => {
                message["error"]["code"] = json!("memory_limit");
            }
            "reports every failure as tool_error" if code == "runtime_error" => {
                message["error"]["code"] = json!("tool_error");
            }
            "sends null for an undefined result" if ok && message.get("result").is_none() => {
                message["result"] = Json::Null;
            }
            "sends an error with a result" if ok => message["error"] = Json::Null,
            "reports no duration" => message["durationMs"] = json!(0),
            "replaces values that are not serializable by null" if code == "serialization_error" => {
                let logs = message["logs"].take();
                let id = message["id"].take();
                *message =
                    json!({ "type": "done", "id": id, "ok": true, "durationMs": 0, "logs": logs, "result": null });
            }
            _ => {}
        }
    }
}

fn put(to: &mut Vec<u8>, message: &Json) {
    serde_json::to_writer(&mut *to, message).unwrap();
    to.push(b'\n');
}
