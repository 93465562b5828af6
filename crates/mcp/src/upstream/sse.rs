//! The transport of 2024-11-05: the server answers a GET with a stream of events. The first one names the URL to which
//! messages are posted, the others are messages.
//!
//! rmcp no longer has this transport. Both directions are adapted to lines, so that the limits of a [`Pipe`](super::pipe::Pipe)
//! apply. The bytes of an event are charged as they arrive.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use reqwest::Url;
use sse_stream::Sse;
use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream};
use tokio::sync::Semaphore;
use tokio_util::io::StreamReader;

use super::http::{failure_of, reason_of};
use super::http_client::{Headers, HttpClient, NOTIFICATION_PATIENCE};
use super::pipe::Disconnect;
use super::received::{Events, Received, reason_of_stream};
use super::{MAX_MESSAGE_BYTES, ServerFailure};
use crate::Secrets;

/// A reader of received lines, and a writer of lines to send.
pub(super) type SseStream = (StreamReader<BoxStream<'static, io::Result<Bytes>>, Bytes>, DuplexStream);

/// Opens a stream. A failure afterwards triggers `disconnect`.
pub(super) async fn open(
    client: &HttpClient,
    url: &Url,
    headers: &Headers,
    secrets: &Secrets,
) -> Result<SseStream, ServerFailure> {
    let disconnect = &client.received.disconnect;
    let opened = client.events(Arc::from(url.as_str()), None, None, headers.clone(), MAX_MESSAGE_BYTES);
    let mut events = opened.await.map_err(|error| failure_of(&error, secrets))?;
    let target = endpoint(&mut events, url, &client.received).await.map_err(ServerFailure::new)?;
    let (near, far) = tokio::io::duplex(WRITE_BUFFER);
    let outgoing = Outgoing {
        client: client.clone(),
        target,
        headers: headers.clone(),
        disconnect: disconnect.clone(),
        secrets: secrets.clone(),
    };
    tokio::spawn(Arc::new(outgoing).run(far));
    Ok((StreamReader::new(lines(events, client.received.clone())), near))
}

/// The URL of the event `endpoint`. It must have the origin of the server, because the credentials are sent to it.
async fn endpoint(events: &mut Events, url: &Url, received: &Received) -> Result<Url, String> {
    let event = loop {
        match events.next().await {
            Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => break event,
            // Comments, times, messages and events of other types may come first.
            Some(Ok(event)) => {
                let length = event.data.map_or(0, |data| data.len());
                received.spend(1, length).map_err(|flood| flood.to_string())?;
            }
            Some(Err(error)) => return Err(reason_of_stream(&error)),
            None => return Err("invalid response: expected the event `endpoint` of the SSE transport".to_owned()),
        }
    };
    let target = url.join(event.data.unwrap_or_default().trim());
    let target = target.map_err(|_| "invalid response: the event `endpoint` has no valid URL".to_owned())?;
    if target.origin() == url.origin() {
        Ok(target)
    } else {
        Err("the server directs messages to another origin, which is not followed".to_owned())
    }
}

/// The messages, each on a line.
fn lines(events: Events, received: Received) -> BoxStream<'static, io::Result<Bytes>> {
    let disconnect = received.disconnect.clone();
    let events = events.map_err(move |error| {
        disconnect.set_reason(reason_of_stream(&error));
        io::Error::from(io::ErrorKind::InvalidData)
    });
    let messages = events.try_filter_map(move |event: Sse| {
        let is_message = event.event.as_deref().is_none_or(|kind| kind == "message");
        let line = match event.data.filter(|_| is_message) {
            // A line feed in JSON is white space; in strings, it is escaped.
            Some(data) => Ok(Some(Bytes::from(data.replace(['\n', '\r'], " ") + "\n"))),
            None => received.spend(1, 0).map(|()| None).map_err(io::Error::other),
        };
        std::future::ready(line)
    });
    messages.boxed()
}

/// Posts the lines that are written to a stream.
struct Outgoing {
    client: HttpClient,
    target: Url,
    headers: Headers,
    disconnect: Disconnect,
    secrets: Secrets,
}

impl Outgoing {
    /// Posts lines until the writer is dropped. Requests are posted concurrently; any other message is posted before those
    /// that follow it, unless the server takes too long.
    async fn run(self: Arc<Self>, lines: DuplexStream) {
        let (mut lines, places) = (BufReader::new(lines), Arc::new(Semaphore::new(MAX_POSTS)));
        loop {
            let mut line = Vec::new();
            if !matches!(lines.read_until(b'\n', &mut line).await, Ok(1..)) {
                return;
            }
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let (this, is_request) = (Arc::clone(&self), is_request(&line));
            let posting = tokio::spawn(async move {
                this.post(line.into()).await;
                drop(place);
            });
            if !is_request {
                let _ = tokio::time::timeout(NOTIFICATION_PATIENCE, posting).await;
            }
        }
    }

    async fn post(&self, line: Bytes) {
        let posted = tokio::select! {
            posted = self.client.post_line(&self.target, line, &self.headers) => posted,
            () = self.disconnect.triggered() => return,
        };
        if let Err(error) = posted {
            self.disconnect.set_reason(reason_of(&error, &self.secrets));
            self.disconnect.trigger();
        }
    }
}

/// Whether a message has an id and a method.
fn is_request(line: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Message {
        id: Option<serde::de::IgnoredAny>,
        method: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<Message>(line).is_ok_and(|message| message.id.is_some() && message.method.is_some())
}

/// The size of the buffer of lines that are not posted yet, in bytes.
const WRITE_BUFFER: usize = 64 << 10;

/// The maximum number of messages that are posted at once.
const MAX_POSTS: usize = 64;
