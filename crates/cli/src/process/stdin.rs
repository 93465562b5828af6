//! Standard input that signals its end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use execbox::CancellationToken;
use tokio::io::{AsyncRead, ReadBuf};

/// A reader that cancels `ended` at its end.
pub(crate) struct Input<R> {
    pub(crate) reader: R,
    pub(crate) ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.reader).poll_read(cx, buffer));
        if read.is_err() || buffer.filled().len() == before {
            self.ended.cancel();
        }
        Poll::Ready(read)
    }
}
