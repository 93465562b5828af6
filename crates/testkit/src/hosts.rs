//! Hosts that misbehave: what a listening runner must survive.
//!
//! A [`Connection`] is a socket that sends anything, as lines or as WebSocket frames. A [`Flood`] is hostile traffic, and
//! [`Flooding`] sends it until it is dropped. They need no async runtime, and nothing of the library that they attack.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A connection to a listening runner.
pub struct Connection {
    socket: Box<dyn Socket>,
    is_websocket: bool,
}

trait Socket: Read + Write + Send {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)?;
        self.set_write_timeout(timeout)
    }
}

impl Socket for UnixStream {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)?;
        self.set_write_timeout(timeout)
    }
}

impl Connection {
    /// Opens the socket of an address `tcp:HOST:PORT`, `unix:PATH` or `ws://HOST:PORT/PATH`, and sends nothing. For
    /// `tls:HOST:PORT`, what is sent is not encrypted.
    ///
    /// # Errors
    /// The address is another one, or cannot be connected to.
    pub fn open(address: &str) -> io::Result<Self> {
        let socket: Box<dyn Socket> = if let Some(path) = address.strip_prefix("unix:") {
            Box::new(UnixStream::connect(path)?)
        } else {
            let rest = ["tcp:", "tls:", "ws://"].iter().find_map(|scheme| address.strip_prefix(scheme));
            let authority = rest.and_then(|rest| rest.split('/').next()).ok_or(io::ErrorKind::InvalidInput)?;
            Box::new(TcpStream::connect(authority)?)
        };
        Ok(Self { socket, is_websocket: address.starts_with("ws:") })
    }

    /// Opens the socket and completes the handshake, with a token if there is one.
    ///
    /// # Errors
    /// As [`open`](Self::open); the runner rejects the handshake.
    pub fn connect(address: &str, token: Option<&str>) -> io::Result<Self> {
        let mut connection = Self::open(address)?;
        match (connection.is_websocket, token) {
            (true, _) => connection.upgrade(token)?,
            (false, Some(token)) => {
                connection.send_bytes(format!("{{\"type\":\"authenticate\",\"token\":\"{token}\"}}\n").as_bytes())?;
            }
            (false, None) => {}
        }
        Ok(connection)
    }

    fn upgrade(&mut self, token: Option<&str>) -> io::Result<()> {
        let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!("{UPGRADE}{authorization}\r\n");
        self.send_bytes(request.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.socket.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        if answer.starts_with(b"HTTP/1.1 101") { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    /// Sets the time after which reading and writing fail.
    ///
    /// # Errors
    /// A system error.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.set_timeout(timeout)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The runner has closed the connection, or does not read for the timeout.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// As [`send_bytes`](Self::send_bytes).
    pub fn send(&mut self, message: &str) -> io::Result<()> {
        let bytes =
            if self.is_websocket { frame(TEXT, message.as_bytes()) } else { format!("{message}\n").into_bytes() };
        self.send_bytes(&bytes)
    }

    /// Reads until the runner has closed the connection. Returns how many bytes arrived.
    ///
    /// # Errors
    /// No byte arrives within the timeout.
    pub fn read_to_end(&mut self) -> io::Result<u64> {
        match io::copy(&mut self.socket, &mut io::sink()) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
            read => read,
        }
    }

    /// Whether the runner closes the connection before the timeout.
    pub fn is_closed(&mut self) -> bool {
        self.read_to_end().is_ok()
    }
}

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const PING: u8 = 9;

/// A frame of a WebSocket client, with a mask of zeros.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let len = payload.len();
    let mut frame = vec![0x80 | opcode];
    match (u8::try_from(len), u16::try_from(len)) {
        (Ok(short @ 0..126), _) => frame.push(0x80 | short),
        (_, Ok(short)) => {
            frame.push(0xfe);
            frame.extend_from_slice(&short.to_be_bytes());
        }
        _ => {
            frame.push(0xff);
            frame.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// Hostile traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flood {
    /// Attachments of no message, empty.
    EmptyAttachments,
    /// Attachments of no message, of 1 MiB.
    Attachments,
    /// Lines that are empty.
    EmptyLines,
    /// Frames that are not JSON.
    Malformed,
    /// Messages of an unknown type.
    Unknown,
    /// A message of an unknown type of 8 MB, which is a list of numbers.
    LargeUnknown,
    /// `hello` messages, which are answered.
    Hellos,
    /// `hello` messages of 8 MB.
    LargeHellos,
    /// Malformed programs, which are answered.
    MalformedExecutes,
    /// Programs, of which all but the first are rejected.
    Executes,
    /// Answers to calls that were not made.
    Results,
    /// WebSocket pings.
    Pings,
}

impl Flood {
    /// The floods that a connection by lines can carry.
    pub const LINES: [Self; 11] = [
        Self::EmptyAttachments,
        Self::Attachments,
        Self::EmptyLines,
        Self::Malformed,
        Self::Unknown,
        Self::LargeUnknown,
        Self::Hellos,
        Self::LargeHellos,
        Self::MalformedExecutes,
        Self::Executes,
        Self::Results,
    ];

    /// The floods that a WebSocket can carry.
    pub const WEBSOCKET: [Self; 11] = [
        Self::EmptyAttachments,
        Self::Attachments,
        Self::Pings,
        Self::Malformed,
        Self::Unknown,
        Self::LargeUnknown,
        Self::Hellos,
        Self::LargeHellos,
        Self::MalformedExecutes,
        Self::Executes,
        Self::Results,
    ];

    /// The message that is sent once, before the flood.
    fn first(self) -> Option<&'static str> {
        // A program that waits forever keeps its runner busy.
        let busy = r#"{"type":"execute","id":"a","code":"await t.f()","options":{"timeoutMs":600000},"providers":[{"name":"t","tools":{"f":{"safeName":"f","originalName":"f"}},"types":""}]}"#;
        (self == Self::Executes).then_some(busy)
    }

    /// At least 64 KiB of the flood, as bytes to send.
    fn chunk(self, is_websocket: bool) -> Vec<u8> {
        let one = match self {
            Self::EmptyAttachments | Self::Attachments => {
                let bytes = vec![0; if self == Self::Attachments { 1 << 20 } else { 0 }];
                match is_websocket {
                    true => frame(BINARY, &bytes),
                    false => [format!("*{}\n", bytes.len()).as_bytes(), &bytes].concat(),
                }
            }
            Self::EmptyLines => b"\n".to_vec(),
            Self::Pings => frame(PING, &[0; 125]),
            _ if is_websocket => frame(TEXT, self.message().as_bytes()),
            _ => format!("{}\n", self.message()).into_bytes(),
        };
        let count = 65_536_usize.div_ceil(one.len());
        one.repeat(count)
    }

    fn message(self) -> String {
        let zeros = || format!("[{}0]", "0,".repeat(4_000_000));
        match self {
            Self::Malformed => "{".into(),
            Self::Unknown => r#"{"type":"nothing"}"#.into(),
            Self::LargeUnknown => format!(r#"{{"type":"nothing","x":{}}}"#, zeros()),
            Self::Hellos => r#"{"type":"hello","runCode":1}"#.into(),
            Self::LargeHellos => format!(r#"{{"type":"hello","runCode":1,"x":{}}}"#, zeros()),
            Self::MalformedExecutes => r#"{"type":"execute","id":"b"}"#.into(),
            Self::Executes => r#"{"type":"execute","id":"b","code":"1","options":{},"providers":[]}"#.into(),
            Self::Results => r#"{"type":"tool_result","callId":"call-1","ok":true,"result":[1,2,3]}"#.into(),
            Self::EmptyAttachments | Self::Attachments | Self::EmptyLines | Self::Pings => String::new(),
        }
    }
}

/// A connection that sends a [`Flood`] and reads no answer, until this is dropped.
pub struct Flooding {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flooding {
    /// Connects to `address`, with a token if there is one, and begins. After the runner has closed the connection, the next
    /// one is opened.
    ///
    /// # Errors
    /// As [`Connection::connect`].
    pub fn start(address: &str, token: Option<&str>, flood: Flood) -> io::Result<Self> {
        let (address, token) = (address.to_owned(), token.map(str::to_owned));
        let connect = move || {
            let mut connection = Connection::connect(&address, token.as_deref())?;
            connection.set_timeout(Some(Duration::from_millis(50)))?;
            flood.first().map_or(Ok(()), |first| connection.send(first))?;
            Ok::<_, io::Error>(connection)
        };
        let mut connection = connect()?;
        let (stop, sent) = <(Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = thread::spawn(move || {
            let chunk = flood.chunk(connection.is_websocket);
            let mut left = &chunk[..];
            while !stopped.load(Ordering::Relaxed) {
                match connection.socket.write(left) {
                    Ok(count) => {
                        counter.fetch_add(count as u64, Ordering::Relaxed);
                        left = if count == left.len() { &chunk } else { &left[count..] };
                    }
                    Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                    Err(_) => match connect() {
                        Ok(next) => (connection, left) = (next, &chunk),
                        Err(_) => thread::sleep(Duration::from_millis(10)),
                    },
                }
            }
        });
        Ok(Self { stop, sent, thread: Some(thread) })
    }

    /// How many bytes were sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Flooding {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
