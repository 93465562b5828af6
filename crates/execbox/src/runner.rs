//! A runner: executions for a host at the other end of a byte stream (runner specification).
//!
//! A driver of [`RunnerSession`]: bytes in, guest, clock, bytes out. The rules are the session's. It
//! opens nothing: whoever calls [`Runner::serve`] brings the stream.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::engine::{Engine, Event, Guest};
use execbox_core::language::Language;
use execbox_core::protocol::line::{LineDecoder, StreamEnd, encode_line};
use execbox_core::protocol::message::{HostMessage, RunnerMessage};
use execbox_core::protocol::runner::{Output, RunnerSession};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::parts::Parts;

/// The longest line that is read or written, in bytes. Parsed, a line takes tens of times its length at worst.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// How much may wait to be written before the guest must wait too: a host that does not read gets no
/// more said to it.
const MOST_UNWRITTEN: usize = 1 << 20;

/// How long a host that has ended may take to read what was said before.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How much is read at once.
const READ_CHUNK: usize = 64 << 10;

/// Runs executions for hosts. Cheap to clone; serves any number of streams at once.
///
/// Needs a tokio runtime with time enabled.
#[derive(Clone)]
pub struct Runner {
    parts: Parts,
}

impl Runner {
    /// With the standard parts: QuickJS, and TypeScript accepted.
    #[cfg(feature = "standard")]
    pub fn new() -> Result<Self, execbox_quickjs::LoadError> {
        Ok(Self { parts: Parts::standard()? })
    }

    /// With parts of your own.
    pub fn with(engine: Arc<dyn Engine>, language: Arc<dyn Language>) -> Self {
        Self { parts: Parts { engine, language } }
    }

    /// Speaks the runner protocol, one JSON object per line, until `reader` ends: one execution at a
    /// time, any number one after another. A guest that still runs then is stopped.
    ///
    /// # Errors
    /// When the stream breaks, or ends in the middle of a line (`UnexpectedEof`).
    pub async fn serve(&self, reader: impl AsyncRead, writer: impl AsyncWrite) -> io::Result<()> {
        let (mut reader, mut writer) = (pin!(reader), pin!(writer));
        let mut connection = Connection::new(self);
        let end = poll_fn(|cx| connection.poll(reader.as_mut(), writer.as_mut(), cx)).await?;
        // What was said before the end is worth a moment. A host that has gone away does not miss it.
        let rest = connection.out.split_off(connection.written);
        let _ = tokio::time::timeout(LAST_WORDS, async {
            writer.write_all(&rest).await?;
            writer.flush().await
        })
        .await;
        match end {
            StreamEnd::Clean => Ok(()),
            StreamEnd::CutOff => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the host's last line has no end")),
        }
    }
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("engine", &self.parts.engine.name()).finish_non_exhaustive()
    }
}

/// One stream being served.
struct Connection<'a> {
    runner: &'a Runner,
    session: RunnerSession,
    /// What the session's times count from.
    epoch: Instant,
    guest: Option<Box<dyn Guest>>,
    events: Vec<Event>,
    deadline: Pin<Box<Sleep>>,
    lines: LineDecoder,
    chunk: Box<[u8]>,
    /// Bytes for the host, and how many of them are written.
    out: Vec<u8>,
    written: usize,
}

impl<'a> Connection<'a> {
    fn new(runner: &'a Runner) -> Self {
        Self {
            runner,
            session: RunnerSession::new(Arc::clone(&runner.parts.language)),
            epoch: Instant::now(),
            guest: None,
            events: Vec::new(),
            deadline: Box::pin(tokio::time::sleep(Duration::ZERO)),
            lines: LineDecoder::new(MAX_LINE_BYTES),
            chunk: vec![0; READ_CHUNK].into(),
            out: Vec::new(),
            written: 0,
        }
    }

    /// Goes on until nothing can; ready when the host's side has ended.
    fn poll(
        &mut self,
        mut reader: Pin<&mut impl AsyncRead>,
        mut writer: Pin<&mut impl AsyncWrite>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<StreamEnd>> {
        loop {
            if let Poll::Ready(end) = self.poll_read(reader.as_mut(), cx)? {
                self.session.handle_close();
                self.follow_outputs();
                return Poll::Ready(Ok(end));
            }
            self.poll_deadline(cx);
            let held_up = self.is_held_up();
            let answered = !held_up && self.poll_guest(cx);
            self.poll_write(writer.as_mut(), cx)?;
            let freed = held_up && !self.is_held_up();
            if !answered && !freed {
                return Poll::Pending;
            }
        }
    }

    /// Takes in everything that the host has said. Ready at the end of the stream.
    fn poll_read(&mut self, mut reader: Pin<&mut impl AsyncRead>, cx: &mut Context<'_>) -> Poll<io::Result<StreamEnd>> {
        loop {
            let mut buffer = ReadBuf::new(&mut self.chunk);
            std::task::ready!(reader.as_mut().poll_read(cx, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Ok(self.lines.end()));
            }
            self.lines.push(buffer.filled());
            while let Some(line) = self.lines.next() {
                // A line that is no object names nothing that could be answered.
                let Ok(object) = line else { continue };
                match HostMessage::from_object(object) {
                    Ok(Some(message)) => self.session.handle_message(message, self.epoch.elapsed()),
                    Ok(None) => {}
                    Err(error) => self.session.handle_malformed(&error),
                }
                self.follow_outputs();
            }
        }
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) {
        let Some(due) = self.session.next_timeout().and_then(|due| self.epoch.checked_add(due)) else { return };
        if self.deadline.deadline() != due {
            self.deadline.as_mut().reset(due);
        }
        if self.deadline.as_mut().poll(cx).is_ready() {
            self.session.handle_timeout(self.epoch.elapsed());
            self.follow_outputs();
        }
    }

    /// Whether the guest must wait for the host to read; `poll_write` wakes this task when it has.
    fn is_held_up(&self) -> bool {
        self.out.len() - self.written > MOST_UNWRITTEN
    }

    /// Lets the guest compute. Whether it was answered meanwhile, and can go on.
    fn poll_guest(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(guest) = &mut self.guest else { return false };
        let turn = guest.poll_turn(cx);
        guest.take_events(&mut self.events);
        let mut answered = false;
        for event in std::mem::take(&mut self.events) {
            self.session.handle_event(event);
            answered |= self.follow_outputs();
        }
        self.session.handle_turn(turn, self.epoch.elapsed());
        self.follow_outputs();
        if !self.session.is_active() {
            self.guest = None;
        }
        answered
    }

    /// Does what the session says. Whether the guest was answered.
    fn follow_outputs(&mut self) -> bool {
        let mut answered = false;
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(message) => self.send(message),
                Output::Start(program) => match self.runner.parts.engine.start(program) {
                    Ok(guest) => self.guest = Some(guest),
                    Err(error) => self.session.handle_start_error(&error, self.epoch.elapsed()),
                },
                Output::Answer(call, answer) => {
                    if let Some(guest) = &mut self.guest {
                        guest.answer(call, answer);
                        answered = true;
                    }
                }
                Output::StopGuest => self.guest = None,
            }
        }
        answered
    }

    fn send(&mut self, message: RunnerMessage) {
        if let Err(error) = encode_line(&message, MAX_LINE_BYTES, &mut self.out) {
            self.session.handle_too_long(message, error);
        }
    }

    fn poll_write(&mut self, mut writer: Pin<&mut impl AsyncWrite>, cx: &mut Context<'_>) -> io::Result<()> {
        while self.written < self.out.len() {
            match writer.as_mut().poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(()),
            }
        }
        self.out.clear();
        self.written = 0;
        match writer.poll_flush(cx) {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => Ok(()),
        }
    }
}
