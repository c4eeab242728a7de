//! The socket of a client, which may be slow but not for ever.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::seat::Seat;

/// How long a refused client may go on sending. Closing at once would reset the connection, and the
/// client would lose the answer that says why.
const LINGER: Duration = Duration::from_secs(5);

/// A socket that fails when its client takes nothing for a while.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    patience: Duration,
    /// Runs while a write makes no progress; a client that reads never starts it.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Runs after our last word, while the client is still sending.
    lingering: Option<Pin<Box<Sleep>>>,
    seat: Seat,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, patience: Duration, seat: Seat) -> Self {
        Self { stream, patience, stalled: None, lingering: None, seat }
    }

    /// The socket alone, for a protocol that looks after its own writes.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The outcome of a write: whatever happens is progress, and only waiting is not.
    fn written<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<Result<T>>) -> Poll<Result<T>> {
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stalled.as_mut().poll(cx));
        tracing::debug!(?patience, "a client takes nothing of its answer");
        // Otherwise the system would go on offering what it has, to somebody who does not want it.
        if let Err(error) = self.stream.set_zero_linger() {
            tracing::debug!(%error, "SO_LINGER refused");
        }
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client takes nothing of its answer")))
    }

    /// Reads and drops what the client sends, until it closes, falls silent or takes too long.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut scratch = [0; 8 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            let is_over = match &read {
                Poll::Ready(read) => read.is_err() || buffer.filled().is_empty(),
                Poll::Pending if self.lingering.is_none() => true,
                Poll::Pending => false,
            };
            if is_over {
                return Poll::Ready(Ok(()));
            }
            let lingering = self.lingering.get_or_insert_with(|| {
                self.seat.lingering();
                Box::pin(tokio::time::sleep(LINGER))
            });
            if lingering.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if read.is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.written(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.seat.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        self.linger(cx)
    }
}
