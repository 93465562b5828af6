//! Hostile peers: runners, hosts, MCP servers, HTTP clients and applications, against the process that they attack.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use execbox::RemoteExecutor;
use execbox_testkit::cases::CaseFile;
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;

use crate::Ended;
use crate::case::{self, Case, Place};
use crate::guest;
use crate::host::{Listening, works};
use crate::measure::{INTERVAL, Watch};
use crate::peer::{Peer, Script};
use crate::site;

/// The first argument of a process that is a hostile MCP server.
pub(crate) const SERVER: &str = "be-a-hostile-server";

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap());

/// Runs a case of a group of peers.
pub(crate) fn run(group: &str, place: &Place, case: &Case) -> Ended {
    match group {
        "runners" => runner(place, case),
        "hosts" => host(case),
        "servers" => server(place, case),
        "clients" => client(case),
        "applications" => application(case),
        _ => panic!("no such group: {group}"),
    }
}

/// Attacks a host that connects to a hostile runner.
fn runner(place: &Place, case: &Case) -> Ended {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let (script, until) = (Script::parse(&case.sources[0].1), Instant::now() + 2 * case.bounds.wall);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = script.clone();
            std::thread::spawn(move || play(tcp(&stream).unwrap(), &script, until));
        }
    });
    guest::run("runners", place, case, &[&address]).remove(0)
}

/// The two directions of a connection, whose reads and writes time out.
type Halves = (Box<dyn Read + Send>, Box<dyn Write + Send>);

/// Plays a script over a socket and keeps it open until the end.
fn play((reader, writer): Halves, script: &Script, until: Instant) {
    let _ = Peer::new(reader, writer, until).play(script);
}

/// The address that an attack connects to.
#[derive(Debug, Clone)]
enum Target {
    Tcp(String),
    Unix(PathBuf),
}

const SOCKET_TIMEOUT: Option<Duration> = Some(Duration::from_millis(50));

fn tcp(stream: &TcpStream) -> std::io::Result<Halves> {
    stream.set_read_timeout(SOCKET_TIMEOUT)?;
    stream.set_write_timeout(SOCKET_TIMEOUT)?;
    Ok((Box::new(stream.try_clone()?), Box::new(stream.try_clone()?)))
}

impl Target {
    fn connect(&self) -> std::io::Result<Halves> {
        match self {
            Self::Tcp(address) => tcp(&TcpStream::connect(address)?),
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(SOCKET_TIMEOUT)?;
                stream.set_write_timeout(SOCKET_TIMEOUT)?;
                Ok((Box::new(stream.try_clone()?), Box::new(stream)))
            }
        }
    }
}

/// Starts the connections of an attack.
fn connect(target: &Target, case: &Case, until: Instant) -> Vec<JoinHandle<()>> {
    let script = Script::parse(&case.sources[0].1);
    let connection = |_| {
        let (target, script) = (target.clone(), script.clone());
        std::thread::spawn(move || {
            if let Ok(halves) = target.connect() {
                play(halves, &script, until);
            }
        })
    };
    (0..case.connections).map(connection).collect()
}

/// Watches an attack until its connections end. Checks meanwhile whether other clients are served.
fn attack(case: &Case, target: &Target, root: u32, served: impl Fn() -> bool) -> Ended {
    let mut failed = Vec::new();
    if !served() {
        failed.push("others are not served before the attack".to_owned());
    }
    let mut watch = Watch::start(root, None);
    let (started, until) = (Instant::now(), Instant::now() + case.limits.timeout);
    let connections = connect(target, case, until);
    let (mut asked, mut is_stopped) = (false, false);
    while !is_stopped && connections.iter().any(|connection| !connection.is_finished()) {
        watch.sample();
        std::thread::sleep(INTERVAL);
        if !asked && started.elapsed() > case.limits.timeout / 2 {
            asked = true;
            if !served() {
                failed.push("others are not served during the attack".to_owned());
            }
        }
        if case.bounds.is_far_beyond(&watch.used().figures(started.elapsed())) {
            is_stopped = true;
            failed.push("killed, because it is far beyond its bounds".to_owned());
            watch.kill();
        }
    }
    watch.sample();
    let figures = watch.used().figures(started.elapsed());
    failed.extend(case.bounds.violations(&figures));
    if !is_stopped && !served() {
        failed.push("others are not served after the attack".to_owned());
    }
    (figures, failed)
}

/// Attacks a listening runner with hostile hosts.
fn host(case: &Case) -> Ended {
    let runner = Listening::start(&case.arguments);
    let token = case.arguments.iter().any(|argument| argument == "--token-file");
    let token = token.then(|| execbox::transport::Token::new("s3cret").unwrap());
    let _entered = RUNTIME.enter();
    let executor = RemoteExecutor::with_address(runner.address.clone(), token);
    let address = runner.address.to_string();
    let address = address.split_once(':').unwrap().1.trim_start_matches("//");
    let address = address.split('/').next().unwrap();
    let target = Target::Tcp(address.to_owned());
    attack(case, &target, runner.process.id(), || RUNTIME.block_on(works(&executor)))
}

/// `execbox mcp`, and the lines that it writes.
struct Gateway {
    process: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Gateway {
    fn start(arguments: &[&str], more: &[String]) -> Self {
        let mut command = Command::new(crate::EXECBOX);
        command.arg("mcp").args(arguments).args(more).env("RUST_BACKTRACE", "0");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(process.stdout.take().unwrap()), Box::new(process.stderr.take().unwrap())];
        for stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
        }
        Self { input: process.stdin.take().unwrap(), process, lines }
    }

    fn send(&mut self, message: &Json) {
        let _ = self.input.write_all(format!("{message}\n").as_bytes());
    }

    /// The first line that contains this text, if it arrives within the time.
    fn line(&self, part: &str, time: Duration) -> Option<String> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).ok()?;
            if line.contains(part) {
                return Some(line);
            }
        }
    }

    /// Sends a request and waits for its answer.
    fn request(&mut self, id: u32, method: &str, params: &Json, time: Duration) -> Option<Json> {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let line = self.line(&format!("\"id\":{id},"), time)?;
        serde_json::from_str(&line).ok()
    }

    fn run_code(&mut self, id: u32, code: &str, time: Duration) -> Option<String> {
        let meta = json!({ "progressToken": id }); // progress of servers is forwarded
        let params = json!({ "name": "mcp_execute_code", "arguments": { "code": code }, "_meta": meta });
        let answer = self.request(id, "tools/call", &params, time)?;
        Some(answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The process of a hostile MCP server: `SERVER FILE NUMBER`.
pub(crate) fn server_main(arguments: &[String]) {
    let [path, number] = arguments else { panic!("{arguments:?}") };
    let file = CaseFile::read(path);
    let case = case::read("servers", &file, &file.cases[number.parse::<usize>().unwrap()]);
    let until = Instant::now() + Duration::from_mins(1);
    let _ = Peer::new(std::io::stdin(), std::io::stdout(), until).play(&Script::parse(&case.sources[0].1));
}

/// Attacks the gateway with a hostile MCP server behind it.
fn server(place: &Place, case: &Case) -> Ended {
    let program = std::env::current_exe().unwrap();
    let evil = match &case.over {
        Some(over) => format!("evil={}", site::start(case, over)),
        None => format!("evil={} {SERVER} {} {}", quoted(&program), quoted(&place.path), place.number),
    };
    let timeout = format!("{}ms", case.limits.timeout.as_millis());
    let memory = format!("{}B", case.limits.memory_bytes);
    let arguments = ["--server", &evil, "--timeout", &timeout, "--memory", &memory];
    let mut gateway = Gateway::start(&arguments, &case.arguments);
    let mut watch = Watch::start(gateway.process.id(), Some(&program));
    let (started, patience) = (Instant::now(), case.bounds.wall);
    let client = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } });
    let (sender, ended) = channel();
    let code = case.code.clone().unwrap_or_else(|| "1 + 1".to_owned());
    let root = gateway.process.id();
    let session = std::thread::spawn(move || {
        let has_begun = gateway.request(1, "initialize", &client, patience).is_some();
        gateway.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        let listed = gateway.request(2, "tools/list", &json!({}), patience).is_some();
        let text = gateway.run_code(3, &code, patience);
        let _ = sender.send((has_begun && listed, text));
        let works = gateway.run_code(4, "1 + 1", patience);
        (gateway, works)
    });
    let mut failed = Vec::new();
    let text = loop {
        watch.sample();
        if let Ok(ended) = ended.recv_timeout(INTERVAL) {
            break Some(ended);
        }
        if case.bounds.is_far_beyond(&watch.used().figures(started.elapsed())) {
            failed.push("killed, because it is far beyond its bounds".to_owned());
            watch.kill();
            break None;
        }
        if session.is_finished() {
            break None;
        }
    };
    watch.sample();
    let figures = watch.used().figures(started.elapsed());
    failed.extend(case.bounds.violations(&figures));
    match text {
        Some((true, Some(text))) if text.contains(&case.expected.message) => {}
        other => failed.push(format!("the client got {other:?}, expected {:?}", case.expected.message)),
    }
    let (_gateway, works) = session.join().unwrap();
    if works.as_deref() != Some("2") {
        failed.push(format!("1 + 1 afterwards is {works:?} in process {root}"));
    }
    (figures, failed)
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

/// Attacks the gateway with hostile HTTP clients.
fn client(case: &Case) -> Ended {
    let stub = std::env::temp_dir().join(format!(
        "execbox-hostile-{}-{:?}.json",
        std::process::id(),
        std::thread::current().id()
    ));
    std::fs::write(&stub, r#"{"providers":{"shop":{"tools":{"list":{"answers":[{"returns":[1]}]}}}}}"#).unwrap();
    let timeout = format!("{}ms", case.limits.timeout.as_millis());
    let arguments = ["--http", "127.0.0.1:0", "--tools", stub.to_str().unwrap(), "--timeout", &timeout];
    let gateway = Gateway::start(&arguments, &case.arguments);
    let line = gateway.line("listening on", Duration::from_mins(1)).expect("the gateway listens");
    std::fs::remove_file(&stub).unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    attack(case, &Target::Tcp(address.clone()), gateway.process.id(), || is_served(&address))
}

/// Whether an ordinary client gets an answer to its first request.
fn is_served(address: &str) -> bool {
    let client = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"good","version":"1"}}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{client}}}"#);
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer s3cret\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut answer = String::new();
    let written = stream.write_all(request.as_bytes()).is_ok();
    let _ = stream.read_to_string(&mut answer);
    written && answer.contains("protocolVersion")
}

/// Attacks the embedding service with hostile guests of applications that make every mistake.
fn application(case: &Case) -> Ended {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let mut command = Command::new(crate::EXECBOX);
    command.arg("serve").arg("--listen").arg(format!("unix:{}", socket.display())).args(&case.arguments);
    let mut process = command.env("RUST_BACKTRACE", "0").stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening on"), "{line}");
    let target = Target::Unix(socket);
    let ended = attack(case, &target, process.id(), || serves(&target));
    let _ = process.kill();
    let _ = process.wait();
    ended
}

/// Whether a program of another application is executed.
fn serves(target: &Target) -> bool {
    let script = r#"
        > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}
        > {"jsonrpc":"2.0","id":2,"method":"execute","params":{"code":"6 * 7"}}
        < "result":42
    "#;
    let until = Instant::now() + Duration::from_mins(1);
    target.connect().is_ok_and(|(reader, writer)| Peer::new(reader, writer, until).play(&Script::parse(script)).is_ok())
}
