//! The frames of a WebSocket before they reach its codec: charged as they arrive, and none of them long.
//!
//! The codec keeps what it receives of a message until the message is complete, and makes room for a whole frame as soon as it
//! knows the frame's length. So each byte after the first 16 KiB of a message is charged before the codec gets it, and longer
//! frames are split into fragments of their message, which the codec joins: it makes room for no more than a short frame in
//! advance.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use execbox_core::budget::Charge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

/// The longest frame that the codec gets. It is a multiple of four, the length of a mask: each fragment begins with the first
/// byte of the mask.
const MAX_FRAGMENT_BYTES: u64 = 16 << 10;

/// How much of each message is not charged: short messages arrive even if others have used up the budget of all connections.
const FREE_BYTES: usize = 16 << 10;

/// The longest control frame (RFC 6455, section 5.5).
const MAX_CONTROL_BYTES: u64 = 125;

/// The most bytes per read, before and after the handshake is over.
const HANDSHAKE_CHUNK: usize = 4 << 10;
const READ_CHUNK: usize = 32 << 10;

/// A stream that the codec of a WebSocket reads, from the handshake on.
#[derive(Debug)]
pub(super) struct Fragments<S> {
    stream: S,
    chunk: Vec<u8>,
    /// The part of `chunk` that was read and is not passed on.
    unread: Range<usize>,
    handshake: Option<Head>,
    /// What is left of the header of a fragment.
    header: Vec<u8>,
    /// How many bytes of the fragment follow.
    left: u64,
    /// The header and length of the rest of the frame.
    rest: Option<(FrameHeader, u64)>,
    /// The longest frame that is accepted.
    max: u64,
    /// How many more bytes of the message are not charged.
    free: usize,
    /// Charged for what else the codec keeps of incomplete messages.
    charge: Charge,
}

/// The head of a request or response, which ends with an empty line.
#[derive(Debug)]
struct Head {
    /// Whether the current line is empty so far.
    is_at_line_start: bool,
}

/// Why a frame is not accepted.
#[derive(Debug, thiserror::Error)]
#[error("a frame of {len} bytes is longer than {max}")]
struct FrameTooLong {
    len: u64,
    max: u64,
}

impl<S> Fragments<S> {
    /// A stream before its handshake. Frames of at most `max` bytes are accepted.
    pub(super) fn new(stream: S, max: usize) -> Self {
        Self {
            stream,
            chunk: Vec::new(),
            unread: 0..0,
            handshake: Some(Head { is_at_line_start: false }),
            header: Vec::new(),
            left: 0,
            rest: None,
            max: max as u64,
            free: 0,
            charge: Charge::none(),
        }
    }

    /// Ends the handshake: frames follow.
    pub(super) fn established(&mut self) -> &mut S {
        self.handshake = None;
        &mut self.stream
    }

    /// The charge for incomplete messages. Shrink it when the codec has returned a message: of the next ones, the codec keeps
    /// no more than one read.
    pub(super) fn charge(&mut self) -> &mut Charge {
        &mut self.charge
    }

    fn unread(&self) -> &[u8] {
        &self.chunk[self.unread.clone()]
    }

    fn put(&mut self, len: usize, to: &mut ReadBuf<'_>) {
        to.put_slice(&self.unread()[..len]);
        self.unread.start += len;
    }

    /// Passes on what was read, or nothing if more must be read before.
    fn pass(&mut self, to: &mut ReadBuf<'_>) -> io::Result<()> {
        if let Some(head) = &mut self.handshake {
            let unread = &self.chunk[self.unread.clone()];
            let len = head.len(&unread[..unread.len().min(to.remaining())]);
            self.put(len, to);
            return Ok(());
        }
        while to.remaining() > 0 {
            if !self.header.is_empty() {
                let len = self.header.len().min(to.remaining());
                to.put_slice(&self.header[..len]);
                self.header.drain(..len);
            } else if self.left > 0 {
                let left = usize::try_from(self.left).unwrap_or(usize::MAX);
                let len = left.min(self.unread.len()).min(to.remaining());
                if len == 0 {
                    break;
                }
                let free = len.min(self.free);
                self.charge.add(len - free).map_err(invalid)?;
                self.free -= free;
                self.put(len, to);
                self.left -= len as u64;
            } else if let Some((header, len)) = self.rest.take() {
                self.begin_fragment(header, len)?;
            } else if !self.begin_frame()? {
                break;
            }
        }
        Ok(())
    }

    /// Reads the header of the next frame. Returns whether it was complete.
    fn begin_frame(&mut self) -> io::Result<bool> {
        let mut cursor = io::Cursor::new(self.unread());
        let Some((header, len)) = FrameHeader::parse(&mut cursor).map_err(invalid)? else { return Ok(false) };
        self.unread.start += usize::try_from(cursor.position()).unwrap_or(usize::MAX);
        let is_control = matches!(header.opcode, OpCode::Control(_));
        let max = if is_control { MAX_CONTROL_BYTES } else { self.max };
        if len > max {
            return Err(invalid(FrameTooLong { len, max }));
        }
        if matches!(header.opcode, OpCode::Data(Data::Text | Data::Binary)) {
            self.free = FREE_BYTES;
        }
        self.begin_fragment(header, len)?;
        Ok(true)
    }

    /// Begins the next fragment of a frame of which `len` bytes are left.
    fn begin_fragment(&mut self, mut header: FrameHeader, len: u64) -> io::Result<()> {
        self.left = len.min(MAX_FRAGMENT_BYTES);
        let is_final = header.is_final;
        header.is_final &= self.left == len;
        header.format(self.left, &mut self.header).map_err(invalid)?;
        if self.left < len {
            let rest = FrameHeader {
                is_final,
                opcode: OpCode::Data(Data::Continue),
                mask: header.mask,
                ..FrameHeader::default()
            };
            self.rest = Some((rest, len - self.left));
        }
        Ok(())
    }
}

impl Head {
    /// How many of these bytes belong to the head: what follows must not be read as a part of it.
    fn len(&mut self, bytes: &[u8]) -> usize {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' if std::mem::replace(&mut self.is_at_line_start, true) => return at + 1,
                b'\n' | b'\r' => {}
                _ => self.is_at_line_start = false,
            }
        }
        bytes.len()
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<S: AsyncRead + Unpin> Fragments<S> {
    /// Reads more. Returns how many bytes; none at the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let size = if self.handshake.is_some() { HANDSHAKE_CHUNK } else { READ_CHUNK };
        if self.chunk.len() < size {
            self.chunk.resize(size, 0);
        }
        // At most a part of a header is left.
        self.chunk.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        let mut free = ReadBuf::new(&mut self.chunk[self.unread.end..]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut free))?;
        let count = free.filled().len();
        self.unread.end += count;
        Poll::Ready(Ok(count))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Fragments<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        loop {
            self.pass(to)?;
            if to.filled().len() > before || to.remaining() == 0 || ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Fragments<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use execbox_core::budget::Budget;
    use futures_util::StreamExt as _;
    use tokio::io::AsyncWriteExt as _;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::Role;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::Control;

    use super::*;

    const TEXT: OpCode = OpCode::Data(Data::Text);
    const BINARY: OpCode = OpCode::Data(Data::Binary);
    const CONTINUE: OpCode = OpCode::Data(Data::Continue);

    fn frame(opcode: OpCode, is_final: bool, mask: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        let header = FrameHeader { is_final, opcode, mask, ..FrameHeader::default() };
        header.format(payload.len() as u64, &mut frame).unwrap();
        let mask = mask.unwrap_or_default();
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    fn established<S>(stream: S) -> Fragments<S> {
        let mut fragments = Fragments::new(stream, 1 << 20);
        fragments.established();
        fragments
    }

    /// The messages that the codec returns for bytes that arrive in pieces of a size.
    async fn messages(bytes: &[u8], piece: usize, role: Role) -> Vec<Message> {
        let (mut peer, stream) = tokio::io::duplex(piece);
        let mut socket = WebSocketStream::from_raw_socket(established(stream), role, None).await;
        let sending = async {
            for part in bytes.chunks(piece) {
                peer.write_all(part).await.unwrap();
            }
            peer.shutdown().await.unwrap();
            peer
        };
        let receiving = async {
            let mut messages = Vec::new();
            while let Some(Ok(message)) = socket.next().await {
                messages.push(message);
            }
            messages
        };
        tokio::join!(sending, receiving).1
    }

    #[tokio::test]
    async fn messages_are_those_of_the_frames_wherever_they_are_cut() {
        for (role, mask) in [(Role::Client, None), (Role::Server, Some([1, 2, 3, 250]))] {
            for piece in [1, 13, 4096, 1 << 20] {
                let text = |len: usize| "aé€😀".repeat(len / 10 + 1);
                let lens: &[usize] = if piece == 1 {
                    &[0, 125, 20_000]
                } else {
                    &[0, 1, 125, 126, 16_384, 16_385, 65_535, 65_536, 100_003]
                };
                let (mut sent, mut expected) = (Vec::new(), Vec::new());
                for len in lens {
                    let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(*len).collect();
                    sent.extend(frame(BINARY, true, mask, &bytes));
                    sent.extend(frame(TEXT, true, mask, text(*len).as_bytes()));
                    expected.extend([Message::binary(bytes), Message::text(text(*len))]);
                }
                let (long, ping) = (text(50_000), Message::Ping("still there?".into()));
                let (first, last) = long.as_bytes().split_at(33_333);
                sent.extend(frame(TEXT, false, mask, first));
                sent.extend(frame(OpCode::Control(Control::Ping), true, mask, b"still there?"));
                sent.extend(frame(CONTINUE, false, mask, b""));
                sent.extend(frame(CONTINUE, true, mask, last));
                expected.extend([ping, Message::text(long)]);
                assert!(messages(&sent, piece, role).await == expected, "{role:?}, pieces of {piece}");
            }
        }
    }

    /// Reads until the codec would wait for more.
    async fn read(fragments: &mut Fragments<impl AsyncRead + Unpin>) -> io::Result<usize> {
        let (mut read, mut buffer) = (0, [0; 4096]);
        loop {
            let reading = tokio::io::AsyncReadExt::read(fragments, &mut buffer);
            match tokio::time::timeout(Duration::from_secs(1), reading).await {
                Ok(count) => read += count?,
                Err(_) => return Ok(read),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_are_charged_as_they_arrive_and_lengths_are_not() {
        let budget = Budget::new(100_000);
        let (mut peer, stream) = tokio::io::duplex(1 << 20);
        let mut fragments = established(stream);
        fragments.charge().move_to(&budget);
        let bytes = frame(BINARY, true, None, &vec![7; 200_000]);
        peer.write_all(&bytes[..10]).await.unwrap();
        assert_eq!((read(&mut fragments).await.unwrap(), budget.used()), (4, 0), "the header of a short frame");
        peer.write_all(&bytes[10..50_010]).await.unwrap();
        read(&mut fragments).await.unwrap();
        assert_eq!(budget.used(), 50_000 - FREE_BYTES);
        peer.write_all(&bytes[50_010..]).await.unwrap();
        assert_eq!(read(&mut fragments).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(budget.used() > 90_000, "{budget:?}");
        fragments.charge().shrink_to(0);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn short_messages_arrive_where_the_budget_is_used_up_and_long_ones_do_not() {
        let budget = Budget::new(1);
        let _others = budget.charge(1).unwrap();
        let (mut peer, stream) = tokio::io::duplex(1 << 20);
        let mut fragments = established(stream);
        fragments.charge().move_to(&budget);
        let short = frame(TEXT, true, None, &vec![b'a'; FREE_BYTES]);
        for _ in 0..3 {
            peer.write_all(&short).await.unwrap();
            assert_eq!(read(&mut fragments).await.unwrap(), short.len());
        }
        peer.write_all(&frame(TEXT, false, None, &vec![b'a'; FREE_BYTES])).await.unwrap();
        read(&mut fragments).await.unwrap();
        peer.write_all(&frame(CONTINUE, true, None, b"a")).await.unwrap();
        assert_eq!(read(&mut fragments).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test(start_paused = true)]
    async fn frames_that_are_too_long_are_rejected_by_their_headers() {
        for (opcode, len) in [(BINARY, (1 << 20) + 1), (TEXT, u64::MAX), (OpCode::Control(Control::Ping), 126)] {
            let mut header = Vec::new();
            FrameHeader { opcode, ..FrameHeader::default() }.format(len, &mut header).unwrap();
            let (mut peer, stream) = tokio::io::duplex(64);
            peer.write_all(&header).await.unwrap();
            assert_eq!(
                read(&mut established(stream)).await.unwrap_err().kind(),
                io::ErrorKind::InvalidData,
                "{opcode:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_follows_a_handshake_at_once_is_not_read_as_a_part_of_it() {
        let head = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let (mut peer, stream) = tokio::io::duplex(1 << 10);
        peer.write_all(&[&head[..], &frame(TEXT, true, None, b"hello")].concat()).await.unwrap();
        let mut fragments = Fragments::new(stream, 1 << 20);
        let mut read_head = [0; 1024];
        let count = tokio::io::AsyncReadExt::read(&mut fragments, &mut read_head).await.unwrap();
        assert_eq!(&read_head[..count], head);
        fragments.established();
        assert_eq!(read(&mut fragments).await.unwrap(), 7);
    }
}
