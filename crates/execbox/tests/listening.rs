//! Connections to runners that listen: errors that name the address and the cause, and rejected tokens.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use execbox::code::CodeExecutionOptions;
use execbox::transport::{Address, ConnectOptions, HostRejection, Listener, RejectedHosts, Token, TokenRejection};
use execbox::{ErrorCode, ExecuteRequest, Executor, Limits, ListenOptions, RemoteExecutor, Runner};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

type Reported = Arc<Mutex<Vec<RejectedHosts>>>;

/// A runner that listens at `address` and requires the token `s3cret`.
async fn runner(address: &str) -> (Address, Reported) {
    let reported = Reported::default();
    let token = Token::new("s3cret").unwrap();
    let listener = Listener::bind(&address.parse().unwrap(), Some(token)).await.unwrap();
    let sink = Arc::clone(&reported);
    let listener = listener.on_rejected(move |rejected| sink.lock().unwrap().push(rejected));
    let address = listener.address().clone();
    tokio::spawn(async move { Runner::new().unwrap().listen(listener, ListenOptions::default()).await });
    (address, reported)
}

async fn message(address: &str, token: Option<&str>, code: &str) -> String {
    let token = token.map(|token| Token::new(token).unwrap());
    let executor = RemoteExecutor::with_address(address.parse().unwrap(), token);
    let limits = Limits::default().timeout(Duration::from_mins(10));
    let result = executor.execute(ExecuteRequest::new(code).limits(limits)).await;
    let error = result.outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::InternalError);
    let options = CodeExecutionOptions::new().timeout(limits.timeout);
    let of_module = executor.run_code(code, options).await.error.unwrap().message;
    assert_eq!(of_module, error.message, "both contracts");
    error.message
}

fn count(reported: &Reported) -> u64 {
    reported.lock().unwrap().iter().map(|rejected| rejected.more + 1).sum()
}

#[tokio::test]
async fn hosts_are_told_that_their_token_is_missing_or_wrong() {
    let path = std::env::temp_dir().join(format!("execbox-listening-{}.sock", std::process::id()));
    for address in ["tcp:127.0.0.1:0", "ws://127.0.0.1:0/a?b=c", &format!("unix:{}", path.display())] {
        let (address, _) = runner(address).await;
        let address = address.to_string();
        // A long program is sent before the host reads.
        for code in ["1".to_owned(), format!("'{}'", "x".repeat(4 << 20))] {
            assert_eq!(message(&address, None, &code).await, "the runner requires a token", "{address}");
            assert_eq!(message(&address, Some("wrong"), &code).await, "the runner rejected the token", "{address}");
        }
    }
}

#[tokio::test]
async fn rejected_hosts_are_reported_at_most_once_a_second() {
    let (address, reported) = runner("tcp:127.0.0.1:0").await;
    let started = Instant::now();
    for _ in 0..40 {
        message(&address.to_string(), Some("wrong"), "1").await;
    }
    while count(&reported) < 80 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let reported = reported.lock().unwrap();
    assert!(reported.len() as u64 <= started.elapsed().as_secs() + 1, "{reported:?}");
    assert_eq!(reported[0].rejection, HostRejection::Token(TokenRejection::Wrong));
    assert!(reported[0].to_string().starts_with("rejected a connection from 127.0.0.1:"), "{}", reported[0]);
    assert!(reported[0].to_string().ends_with(": its token is wrong"), "{}", reported[0]);
}

#[tokio::test]
async fn rejected_hosts_that_do_not_read_delay_no_other() {
    let (address, reported) = runner("tcp:127.0.0.1:0").await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        let mut host = TcpStream::connect(address.socket().to_string()).await.unwrap();
        host.write_all(b"{\"type\":\"authenticate\",\"token\":\"wrong\"}\n").await.unwrap();
        silent.push(host);
    }
    let executor = RemoteExecutor::with_address(address, Some(Token::new("s3cret").unwrap()));
    assert!(executor.execute(ExecuteRequest::new("1")).await.is_ok());
    // Connections are closed although their hosts read nothing, and send more.
    while count(&reported) < 30 {
        for host in &mut silent {
            let _ = host.try_write(&[b'x'; 1024]);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn errors_of_connections_name_the_address_and_the_cause() {
    // The socket is bound, so that no other test gets its port, and does not listen.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let closed = closed.local_addr().unwrap();
    let refused: SocketAddr = answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
    let other: SocketAddr = answering("hello\r\n\r\n").await;
    let hangs_up: SocketAddr = answering("").await;
    for (address, expected) in [
        (format!("tcp:{closed}"), format!("tcp:{closed}: connection refused")),
        (format!("ws://{closed}/path?key=s3cret"), format!("ws://{closed}: connection refused")),
        ("tcp:nowhere.invalid:1".into(), "tcp:nowhere.invalid:1: host name not found".into()),
        ("ws://user:s3cret@nowhere.invalid:1/".into(), "ws://nowhere.invalid:1: host name not found".into()),
        ("unix:/nowhere/runner.sock".into(), "unix:/nowhere/runner.sock: no such file".into()),
        (format!("ws://{refused}/x"), format!("ws://{refused}: HTTP 404 Not Found")),
        (
            format!("ws://{other}/"),
            format!("ws://{other}: its answer is not that of a WebSocket; use wss:// if it listens with TLS"),
        ),
        (format!("ws://{hangs_up}/"), format!("ws://{hangs_up}: the connection was closed")),
    ] {
        assert_eq!(message(&address, None, "1").await, format!("cannot connect to {expected}"));
    }
}

#[tokio::test]
async fn a_rejection_is_an_error_of_its_own_type() {
    let (address, _) = runner("ws://127.0.0.1:0").await;
    let error = address.connect(&ConnectOptions::default()).await.err().unwrap();
    assert_eq!(
        (error.kind(), TokenRejection::of(&error)),
        (ErrorKind::PermissionDenied, Some(TokenRejection::Missing))
    );
}

/// A server that answers each request with this text.
async fn answering(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}
