//! Hostile hosts of a listening runner: the memory that they make it keep, and the effect on other hosts.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use execbox::code::CodeExecutionOptions;
use execbox::transport::{ConnectOptions, Token};
use execbox::{ExecuteRequest, Executor, Limits, RemoteExecutor};
use execbox_testkit::hosts::{Connection, Flood, Flooding};
use serde_json::json;

use crate::support::wait_until;
use crate::tls;

/// The number of hostile connections beside an honest one.
const HOSTILE: usize = 3;

/// The memory that a runner may keep for the hostile connections, beyond its own, in KiB: a third more than their budgets, for
/// memory that the allocator has not given back.
const MAX_GROWTH_KIB: u64 = HOSTILE as u64 * (128 << 10) / 3 * 4;

/// The maximum time that the honest host waits for one result. A result takes milliseconds; without fairness, the hostile hosts
/// delay it without a bound.
const MAX_LATENCY: Duration = Duration::from_secs(40);

struct Listening {
    process: Child,
    address: String,
}

/// A runner that listens at this address, with a certificate if it is one of TLS.
fn listen(address: &str, options: &[&str]) -> Listening {
    let mut command = Command::new(env!("CARGO_BIN_EXE_execbox"));
    command.args(["runner", "--listen", address]).args(options);
    if address.starts_with("tls:") {
        let folder = tls::folder("hostile");
        command.arg("--tls-cert").arg(folder.join("cert.pem")).arg("--tls-key").arg(folder.join("key.pem"));
    }
    command.env_remove("EXECBOX_TOKEN").stdin(Stdio::null()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("execbox: listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
    Listening { process, address }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Listening {
    /// A line of the status of the process, in KiB.
    fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
    }

    fn resident_kib(&self) -> u64 {
        self.status("VmRSS")
    }

    fn peak_kib(&self) -> u64 {
        self.status("VmHWM")
    }

    fn executor(&self, token: Option<&str>) -> RemoteExecutor {
        let token = token.map(|token| Token::new(token).unwrap());
        let options = ConnectOptions::default().token(token).tls(tls::trusting("authority.pem"));
        RemoteExecutor::with_address(self.address.parse().unwrap(), options)
    }
}

/// Runs `1+1` repeatedly. Returns the maximum and the median of the durations.
async fn latency(executor: &RemoteExecutor, executions: usize) -> (Duration, Duration) {
    let mut times = Vec::new();
    for _ in 0..executions {
        let limits = Limits::default().timeout(Duration::from_mins(10));
        let started = Instant::now();
        let result = executor.execute(ExecuteRequest::new("1+1").limits(limits)).await;
        times.push(started.elapsed());
        assert_eq!(result.outcome, Ok(Some(json!(2))));
    }
    times.sort();
    (times[executions - 1], times[executions / 2])
}

#[tokio::test]
async fn a_flood_neither_fills_the_memory_nor_stops_other_hosts() {
    let mut failures = Vec::new();
    for (address, floods) in [("tcp:127.0.0.1:0", Flood::LINES), ("ws://127.0.0.1:0", Flood::WEBSOCKET)] {
        for flood in floods {
            let runner = listen(address, &[]);
            let executor = runner.executor(None);
            let (quiet, _) = latency(&executor, 20).await;
            let before = runner.resident_kib();
            // More floods than a runner on a small machine has threads.
            let floods = [(); HOSTILE].map(|()| Flooding::start(&runner.address, None, flood).unwrap());
            let sent = || floods.iter().map(Flooding::sent).sum::<u64>();
            wait_until("the flood has begun", || sent() > 0);
            let until = Instant::now() + Duration::from_millis(700);
            let mut times = Vec::new();
            while Instant::now() < until {
                times.push(latency(&executor, 1).await.0);
            }
            times.sort();
            let grown = runner.peak_kib().saturating_sub(before);
            println!(
                "{address} {flood:?}: {} MiB sent, {} MiB more, latency {:?} (slowest {:?}, quiet {quiet:?})",
                sent() >> 20,
                grown >> 10,
                times[times.len() / 2],
                times[times.len() - 1],
            );
            let slowest = times[times.len() - 1];
            if grown > MAX_GROWTH_KIB || slowest > MAX_LATENCY {
                failures.push(format!("{address} {flood:?}: {grown} KiB, {slowest:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_hosts_as_there_are_places_may_connect_at_once() {
    let runner = listen("tcp:127.0.0.1:0", &[]);
    let mut hosts = tokio::task::JoinSet::new();
    for _ in 0..256 {
        let executor = runner.executor(None);
        hosts.spawn(async move { latency(&executor, 1).await });
    }
    while let Some(ended) = hosts.join_next().await {
        ended.unwrap();
    }
}

fn token_file() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("execbox-hosts-{}-{count}", std::process::id()));
    fs::write(&path, "s3cret").unwrap();
    path
}

const ADDRESSES: [&str; 2] = ["tcp:127.0.0.1:0", "ws://127.0.0.1:0"];

#[tokio::test]
async fn connections_before_their_handshake_take_little_memory_and_no_place() {
    let file = token_file();
    for address in [&ADDRESSES[..], &["tls:127.0.0.1:0"]].concat() {
        let runner = listen(address, &["--max-connections", "1", "--token-file", file.to_str().unwrap()]);
        let executor = runner.executor(Some("s3cret"));
        // The memory that executions use on each thread must not count as that of the connections.
        latency(&executor, 50).await;
        let before = runner.resident_kib();
        let begin = match address.split_once(':').unwrap().0 {
            "ws" => b"GET / HTTP/1.1\r\n".to_vec(),
            // As long as TLS allows, without its last byte.
            "tls" => hello(0xffff, 0xfffe),
            _ => b"{\"type\":\"authenticate\",".to_vec(),
        };
        let mut hosts = Vec::new();
        for _ in 0..200 {
            let mut host = Connection::open(&runner.address).unwrap();
            let _ = host.send_bytes(&begin);
            hosts.push(host);
        }
        latency(&executor, 10).await;
        let grown = runner.peak_kib().saturating_sub(before);
        println!("{address}: {grown} KiB for 200 connections");
        assert!(grown < 4 << 10, "{address}: {grown} KiB");
        // The oldest connections are closed for newer ones, and the others at the end of their time.
        for host in &mut hosts {
            host.set_timeout(Some(Duration::from_mins(2))).unwrap();
            assert!(host.is_closed(), "{address}");
        }
    }
    fs::remove_file(file).unwrap();
}

/// The beginning of the handshake of TLS: a message of the client that announces its length, of which `sent` bytes are there.
fn hello(announced: u32, sent: usize) -> Vec<u8> {
    let message = [&[1][..], &announced.to_be_bytes()[1..], &vec![0; sent]].concat();
    let record = |part: &[u8]| [&[0x16, 3, 1][..], &u16::try_from(part.len()).unwrap().to_be_bytes(), part].concat();
    message.chunks(1 << 14).flat_map(record).collect()
}

#[test]
fn a_long_handshake_ends_the_connection_at_once() {
    let file = token_file();
    for address in [&ADDRESSES[..], &["tls:127.0.0.1:0"]].concat() {
        let runner = listen(address, &["--token-file", file.to_str().unwrap()]);
        let before = runner.resident_kib();
        let mut hosts: Vec<_> = (0..40).map(|_| Connection::open(&runner.address).unwrap()).collect();
        let endless = if address.starts_with("tls") { hello(0xff_ffff, 1 << 20) } else { vec![b'x'; 1 << 20] };
        for host in &mut hosts {
            host.set_timeout(Some(Duration::from_mins(2))).unwrap();
            while host.send_bytes(&endless).is_ok() {}
        }
        let grown = runner.peak_kib().saturating_sub(before);
        println!("{address}: {grown} KiB for 40 endless handshakes");
        assert!(grown < 4 << 10, "{address}: {grown} KiB");
    }
    fs::remove_file(file).unwrap();
}

/// Beginnings of a message, by the way it is cut: `len` bytes arrive, and the end does not.
fn incomplete(address: &str, len: usize) -> Vec<(&'static str, Vec<u8>)> {
    if address.starts_with("tcp") {
        return vec![("a line", vec![b'x'; len])];
    }
    let header = |opcode: u8, len: usize| [&[opcode, 0xff][..], &(len as u64).to_be_bytes(), &[0; 4]].concat();
    let ping = [0x89, 0x80, 0, 0, 0, 0];
    let fragment = |opcode| [&header(opcode, 1000)[..], &[b'x'; 1000]].concat();
    let rest = [&ping[..], &fragment(0)].concat().repeat(len / 1000);
    vec![
        ("a text frame", [header(0x81, len + (1 << 20)), vec![b'x'; len]].concat()),
        ("a binary frame", [header(0x82, len + (1 << 20)), vec![b'x'; len]].concat()),
        ("fragments, with pings between them", [fragment(1), rest].concat()),
    ]
}

#[tokio::test]
async fn incomplete_messages_of_all_hosts_together_are_bounded() {
    const TOTAL: u64 = 32 << 20;
    for address in ADDRESSES {
        for (shape, bytes) in incomplete(address, 6 << 20) {
            let runner = listen(address, &["--max-total-buffer", "32MiB"]);
            let executor = runner.executor(None);
            latency(&executor, 50).await;
            let before = runner.resident_kib();
            let mut hosts: Vec<_> = (0..40).map(|_| Connection::connect(&runner.address, None).unwrap()).collect();
            for host in &mut hosts {
                host.set_timeout(Some(Duration::from_secs(10))).unwrap();
                let _ = host.send_bytes(&bytes); // the runner may close the connection meanwhile
            }
            latency(&executor, 10).await;
            let grown = runner.peak_kib().saturating_sub(before);
            println!("{address} {shape}: {grown} KiB for 40 hosts with {} KiB each", bytes.len() >> 10);
            // The bound is several times the budget: a buffer that grows is copied, and the allocator keeps freed memory.
            assert!(grown < (4 * TOTAL) >> 10, "{address} {shape}: {grown} KiB");
        }
    }
}

#[tokio::test]
async fn large_messages_of_several_hosts_at_once_arrive() {
    for address in ADDRESSES {
        let runner = listen(address, &["--max-total-buffer", "64MiB"]);
        let mut hosts = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let executor = runner.executor(None);
            hosts.spawn(async move {
                for len in [1, 16 << 10, (16 << 10) + 1, 10 << 20] {
                    let text = "é".repeat(len / 2 + 1);
                    let options = CodeExecutionOptions::new().timeout(Duration::from_mins(10)).function("default");
                    let options = options.args([text.as_str().into()]);
                    let result = executor.run_code("export default text => text + '!'", options).await;
                    let value = result.result.unwrap_or_else(|| panic!("{:?}", result.error));
                    assert_eq!(value.root().as_str().map(str::len), Some(text.len() + 1));
                }
            });
        }
        while let Some(ended) = hosts.join_next().await {
            ended.unwrap();
        }
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_frees_its_place() {
    for address in ADDRESSES {
        let runner = listen(address, &["--max-connections", "1", "--idle-timeout", "50ms"]);
        let mut idle = Connection::connect(&runner.address, None).unwrap();
        idle.set_timeout(Some(Duration::from_mins(2))).unwrap();
        let mut busy = Connection::connect(&runner.address, None).unwrap();
        busy.set_timeout(Some(Duration::from_mins(2))).unwrap();
        busy.send(EXECUTE_LOOP).unwrap();
        assert!(idle.is_closed(), "{address}");
        let read = busy.read_to_end().unwrap();
        assert!(read > 100, "{address}: the program ended by its own timeout, and the connection after it");
    }
}

/// A program that runs for longer than a connection may be idle.
const EXECUTE_LOOP: &str =
    r#"{"type":"execute","id":"a","code":"for (;;);","options":{"timeoutMs":500},"providers":[]}"#;

#[tokio::test]
async fn a_runner_caps_the_limits_of_its_hosts_and_says_so() {
    let limits = Limits::default().timeout(Duration::from_mins(10));
    for (caps, code, expected, note) in [
        (
            &["--max-timeout", "100ms"][..],
            "for (;;);".to_owned(),
            "timed out after 100 ms",
            "; limits of the runner: timeout 100ms (600s requested)",
        ),
        (
            &["--max-memory", "8MiB", "--max-calls", "3"],
            "const a = []; for (;;) a.push(new Array(1000).fill(0));".to_owned(),
            "memory limit of 8 MiB",
            "; limits of the runner: memory 8 MiB (64 MiB requested), calls 3 (none requested)",
        ),
        (
            &["--max-source", "1KiB"],
            " ".repeat(2000),
            "the source is 2000 bytes long; the limit is 1024",
            "; limits of the runner: source 1 KiB (4 MiB requested)",
        ),
    ] {
        let runner = listen("tcp:127.0.0.1:0", caps);
        let executor = runner.executor(None);
        let result = executor.execute(ExecuteRequest::new(code.as_str()).limits(limits)).await;
        let message = &result.error().unwrap().message;
        assert!(message.contains(expected) && message.ends_with(note), "{message}");
        let options = CodeExecutionOptions::new().timeout(limits.timeout);
        let result = executor.run_code(&format!("{code}\nexport default 1"), options).await;
        let message = result.error.unwrap().message;
        assert!(message.ends_with(note), "{message}");
    }
}

#[tokio::test]
async fn a_program_that_meets_no_limit_is_not_told_of_caps() {
    let runner = listen("tcp:127.0.0.1:0", &["--max-memory", "8MiB"]);
    let executor = runner.executor(None);
    let limits = Limits::default().timeout(Duration::from_mins(10));
    let thrown = executor.execute(ExecuteRequest::new("throw new Error('mine')").limits(limits)).await;
    assert_eq!(thrown.error().unwrap().message, "mine");
    assert_eq!(executor.execute(ExecuteRequest::new("1+1").limits(limits)).await.outcome, Ok(Some(json!(2))));
}
