//! Connections to the runner under test: a command to start, or an address. Every case gets a connection of its own.

use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use execbox::transport::{Address, ConnectError, ConnectOptions, Framing, Received, Transport};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader, DuplexStream,
};
use tokio::process::{Child, Command};

/// The maximum length of a stderr tail, in bytes.
const MAX_STDERR: usize = 4 << 10;

#[derive(Debug)]
pub(crate) enum Target {
    /// A program and its arguments. The runner uses its standard input and output.
    Command(Vec<OsString>),
    Address(Address, Box<ConnectOptions>),
}

/// A connection to a runner. Dropping it kills the command that was started for it.
pub(crate) struct Peer {
    pub(crate) reader: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub(crate) stderr: Stderr,
    _child: Option<Child>,
}

impl Target {
    pub(crate) async fn connect(&self) -> io::Result<Peer> {
        let (address, options) = match self {
            Self::Command(command) => return start(command),
            Self::Address(address, options) => (address, options),
        };
        if let Framing::WebSocket { .. } = address.framing() {
            return Ok(Peer::over(tokio::io::split(bridge(address.connect(options).await.map_err(without_address)?))));
        }
        let mut peer = Peer::over(tokio::io::split(address.connect_stream(options).await.map_err(without_address)?));
        if let Some(token) = &options.token {
            peer.writer.write_all(&[&token.to_line()[..], b"\n"].concat()).await?;
        }
        Ok(peer)
    }
}

/// The error of a connection to a runner whose address the message names already.
fn without_address(error: io::Error) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<ConnectError>()) {
        Some(inner) => io::Error::new(error.kind(), inner.reason().to_owned()),
        None => error,
    }
}

/// Adapts a transport of messages to a stream of lines: each line is a message.
fn bridge(mut transport: Box<dyn Transport>) -> DuplexStream {
    let (here, there) = tokio::io::duplex(64 << 10);
    let (reader, mut writer) = tokio::io::split(there);
    tokio::spawn(async move {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        loop {
            tokio::select! {
                received = poll_fn(|cx| transport.poll_receive(cx)) => match received {
                    Ok(Received::Message(mut message)) => {
                        message.push(b'\n');
                        writer.write_all(&message).await?;
                    }
                    Ok(Received::TooLong(_) | Received::Attachment(_)) => {}
                    Ok(_) | Err(_) => break,
                },
                // A partial line stays in `line` if the other branch completes first.
                read = reader.read_until(b'\n', &mut line) => {
                    read?;
                    if line.pop_if(|end| *end == b'\n').is_none() {
                        // The end of the stream. Between two lines, the transport is closed with a handshake; within a line,
                        // without.
                        if line.is_empty() {
                            poll_fn(|cx| transport.poll_close(cx)).await?;
                        }
                        break;
                    }
                    if !line.trim_ascii().is_empty() {
                        transport.send(std::mem::take(&mut line))?;
                        poll_fn(|cx| transport.poll_flush(cx)).await?;
                    }
                    line.clear();
                }
            }
        }
        io::Result::Ok(())
    });
    here
}

/// Shows the command or the address.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(command) => {
                let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
                f.write_str(&words.join(" "))
            }
            Self::Address(address, _) => address.fmt(f),
        }
    }
}

impl Peer {
    fn over<R, W>((reader, writer): (R, W)) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self { reader: Box::new(reader), writer: Box::new(writer), stderr: Stderr::default(), _child: None }
    }
}

fn start(command: &[OsString]) -> io::Result<Peer> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let piped = "piped above";
    let (stdin, stdout) = (child.stdin.take().expect(piped), child.stdout.take().expect(piped));
    let peer = Peer { _child: None, ..Peer::over((stdout, stdin)) };
    tokio::spawn(peer.stderr.clone().keep(child.stderr.take().expect(piped)));
    Ok(Peer { _child: Some(child), ..peer })
}

/// The stderr tail of a command.
#[derive(Clone, Default)]
pub(crate) struct Stderr(Arc<Mutex<Vec<u8>>>);

impl Stderr {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    async fn keep(self, mut reader: impl AsyncRead + Unpin) {
        let mut chunk = [0; 1024];
        while let Ok(count @ 1..) = reader.read(&mut chunk).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(&chunk[..count]);
            let excess = kept.len().saturating_sub(MAX_STDERR);
            kept.drain(..excess);
        }
    }
}
