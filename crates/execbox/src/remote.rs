//! The remote executor: the guest runs wherever the application's connection leads.
//!
//! A driver of [`HostSession`]: tools, caller, clock, and bytes both ways. The rules are the session's.
//! It opens nothing by itself: connections are the application's, one for each execution.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use execbox_core::engine::{LogLevel, LogLine};
use execbox_core::error::{ErrorCode, ExecuteError, ExecuteResult};
use execbox_core::protocol::host::{CloseReason, HostOptions, HostSession, Output};
use execbox_core::protocol::line::{LineDecoder, StreamEnd, encode_line};
use execbox_core::protocol::message::{Execute, HostMessage, RunnerMessage};
use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::dispatch::ToolCalls;
use crate::executor::{Execution, Executor};
use crate::runner::MAX_LINE_BYTES;

/// How much is read at once.
const READ_CHUNK: usize = 64 << 10;

/// A fresh byte stream to a runner, both ways. Dropping it closes it.
pub struct Connection {
    reader: Pin<Box<dyn AsyncRead + Send>>,
    writer: Pin<Box<dyn AsyncWrite + Send>>,
}

impl Connection {
    /// Of the two directions of a stream. Whatever must end with the connection (a child process, say)
    /// is kept alive by one of them.
    pub fn new(reader: impl AsyncRead + Send + 'static, writer: impl AsyncWrite + Send + 'static) -> Self {
        Self { reader: Box::pin(reader), writer: Box::pin(writer) }
    }
}

type Connect = dyn Fn() -> BoxFuture<'static, io::Result<Connection>> + Send + Sync;

/// Runs guests at the far end of connections, by the runner protocol: one fresh connection for each
/// execution, opened when it is executed and closed when it is over.
///
/// The tools run here; code, limits, names and words go over. Log lines come with the result, and are
/// shown then. Needs a tokio runtime with time enabled.
///
/// ```
/// use execbox::{Connection, Execution, Executor, RemoteExecutor, Runner};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runner = Runner::new()?;
/// // Here the runner is a task of this process, at the other end of a pipe in memory.
/// let executor = RemoteExecutor::new(move || {
///     let runner = runner.clone();
///     async move {
///         let (here, there) = tokio::io::duplex(4096);
///         let (reader, writer) = tokio::io::split(there);
///         tokio::spawn(async move { runner.serve(reader, writer).await });
///         let (reader, writer) = tokio::io::split(here);
///         Ok(Connection::new(reader, writer))
///     }
/// });
/// let result = executor.execute(Execution::new("6 * 7")).await;
/// assert_eq!(result.outcome, Ok(Some(json!(42))));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RemoteExecutor {
    connect: Arc<Connect>,
    options: HostOptions,
}

impl RemoteExecutor {
    /// Over the connections that `connect` opens.
    pub fn new<F, Fut>(connect: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<Connection>> + Send + 'static,
    {
        Self { connect: Arc::new(move || Box::pin(connect())), options: HostOptions::default() }
    }

    /// With other patience than the default.
    #[must_use]
    pub fn options(mut self, options: HostOptions) -> Self {
        self.options = options;
        self
    }

    async fn run(&self, mut execution: Execution) -> ExecuteResult {
        let accepted = Instant::now();
        let token = execution.cancellation.take().unwrap_or_default();
        let connecting = tokio::time::timeout(execution.limits.timeout, (self.connect)());
        let timeout = |message| Err(ExecuteError::new(ErrorCode::Timeout, message));
        let connected = match token.run_until_cancelled(connecting).await {
            None => timeout("Execution was cancelled"),
            Some(Err(_elapsed)) => timeout("Execution timed out while connecting to the runner"),
            // The kind alone: an error's words may name paths and addresses of the host.
            Some(Ok(Err(error))) => {
                Err(ExecuteError::internal(format!("cannot connect to the runner: {}", error.kind())))
            }
            Some(Ok(Ok(connection))) => Ok(connection),
        };
        let mut result = match connected {
            Ok(connection) => Run::new(connection, &execution, self.options).drive(&token).await,
            Err(error) => ExecuteResult::failed(error, Duration::ZERO),
        };
        result.duration = accepted.elapsed();
        if let Some(show) = &execution.on_log {
            for text in &result.logs {
                show(&LogLine { level: LogLevel::Log, text: text.clone() });
            }
        }
        result
    }
}

impl Executor for RemoteExecutor {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, ExecuteResult> {
        Box::pin(self.run(execution))
    }
}

impl std::fmt::Debug for RemoteExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteExecutor").field("options", &self.options).finish_non_exhaustive()
    }
}

/// One execution under way.
struct Run<'a> {
    session: HostSession,
    execution: &'a Execution,
    connection: Connection,
    /// What the session's times count from.
    epoch: Instant,
    deadline: Pin<Box<Sleep>>,
    calls: ToolCalls,
    lines: LineDecoder,
    chunk: Box<[u8]>,
    /// Bytes for the runner, and how many of them are written.
    out: Vec<u8>,
    written: usize,
    result: Option<ExecuteResult>,
}

impl<'a> Run<'a> {
    fn new(connection: Connection, execution: &'a Execution, options: HostOptions) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let execute = Execute {
            id: format!("exec-{}", COUNT.fetch_add(1, Ordering::Relaxed)),
            code: execution.code.to_string(),
            limits: execution.limits,
            providers: execution.providers.iter().map(crate::Provider::shared_manifest).collect(),
        };
        Self {
            session: HostSession::new(execute, options, Duration::ZERO),
            execution,
            connection,
            epoch: Instant::now(),
            deadline: Box::pin(tokio::time::sleep(Duration::ZERO)),
            calls: ToolCalls::new(),
            lines: LineDecoder::new(MAX_LINE_BYTES),
            chunk: vec![0; READ_CHUNK].into(),
            out: Vec::new(),
            written: 0,
            result: None,
        }
    }

    async fn drive(mut self, token: &CancellationToken) -> ExecuteResult {
        let mut cancelled = pin!(token.cancelled().fuse());
        poll_fn(|cx| {
            if cancelled.as_mut().poll(cx).is_ready() {
                self.session.cancel(self.epoch.elapsed());
            }
            self.follow_outputs(cx);
            self.poll_result(cx)
        })
        .await
    }

    /// Goes on until nothing can.
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<ExecuteResult> {
        loop {
            self.poll_deadline(cx);
            self.poll_read(cx);
            self.poll_write(cx);
            let answered = self.poll_calls(cx);
            if let Some(result) = self.result.take() {
                return Poll::Ready(result);
            }
            if !answered {
                return Poll::Pending;
            }
        }
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) {
        // Handing in one timeout may set another.
        while let Some(due) = self.session.next_timeout().and_then(|due| self.epoch.checked_add(due)) {
            if self.deadline.deadline() != due {
                self.deadline.as_mut().reset(due);
            }
            if self.deadline.as_mut().poll(cx).is_pending() {
                return;
            }
            self.session.handle_timeout(self.epoch.elapsed());
            self.follow_outputs(cx);
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) {
        while self.session.close_reason().is_none() && !self.session.is_finished() {
            let mut buffer = ReadBuf::new(&mut self.chunk);
            let Poll::Ready(read) = self.connection.reader.as_mut().poll_read(cx, &mut buffer) else { return };
            match read {
                Err(error) => self.close(CloseReason::Failed(error.kind().to_string())),
                Ok(()) if buffer.filled().is_empty() => self.close(match self.lines.end() {
                    StreamEnd::Clean => CloseReason::Closed,
                    StreamEnd::CutOff => CloseReason::CutOff,
                }),
                Ok(()) => {
                    self.lines.push(buffer.filled());
                    for line in self.lines.by_ref() {
                        let now = self.epoch.elapsed();
                        match line.map(RunnerMessage::from_object) {
                            Ok(Ok(Some(message))) => self.session.handle_message(message, now),
                            Ok(Ok(None)) => {}
                            Ok(Err(error)) => self.session.handle_misbehaviour(error, now),
                            Err(error) => self.session.handle_misbehaviour(error, now),
                        }
                    }
                }
            }
            self.follow_outputs(cx);
        }
    }

    fn close(&mut self, reason: CloseReason) {
        self.session.handle_close(reason, self.epoch.elapsed());
    }

    /// Whether a tool has finished.
    fn poll_calls(&mut self, cx: &mut Context<'_>) -> bool {
        let mut finished = false;
        while let Some((call, result)) = self.calls.poll_finished(cx) {
            finished = true;
            self.session.handle_tool_result(call, result);
            self.follow_outputs(cx);
        }
        finished
    }

    fn follow_outputs(&mut self, cx: &mut Context<'_>) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(message) => self.send(message),
                Output::CallTool(call) => {
                    if let Some((call, result)) = self.calls.begin(&self.execution.providers, call, cx) {
                        self.session.handle_tool_result(call, result);
                    }
                }
                Output::CancelTools => self.calls.cancel(),
                Output::Terminate => {} // Dropping the connection does it: `Finished` follows.
                Output::Finished(result) => self.result = Some(result),
            }
        }
    }

    fn send(&mut self, message: HostMessage) {
        if let Err(error) = encode_line(&message, MAX_LINE_BYTES, &mut self.out) {
            self.session.handle_too_long(message, error, self.epoch.elapsed());
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) {
        let writer = &mut self.connection.writer;
        while self.written < self.out.len() {
            match writer.as_mut().poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(Ok(count)) if count > 0 => self.written += count,
                // What broke is told by the reading side, in its turn; nothing more can be said.
                Poll::Ready(_) => break,
                Poll::Pending => return,
            }
        }
        self.out.clear();
        self.written = 0;
        let _ = writer.as_mut().poll_flush(cx);
    }
}
