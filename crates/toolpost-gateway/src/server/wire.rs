//! The socket of a client, which may be slow but not for ever.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::seat::Seat;
use crate::door;

/// How long a refused client may go on sending. Closing at once would reset the connection, and the
/// client would lose the answer that says why.
const LINGER: Duration = Duration::from_secs(5);
/// How long it may be silent meanwhile: one that is about to send more looks like one that has nothing
/// more to send.
const SILENCE: Duration = Duration::from_secs(1);

/// A socket that fails when its client takes nothing for a while.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    patience: Duration,
    /// Runs while a write makes no progress; a client that reads never starts it.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Since our last word: when the client was silent for too long, and when it has sent for too long.
    lingering: Option<(Pin<Box<Sleep>>, Instant)>,
    /// What is being written in the place of other bytes, and how much of it is not written yet.
    explaining: Option<(Vec<u8>, usize)>,
    seat: Seat,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, patience: Duration, seat: Seat) -> Self {
        Self { stream, patience, stalled: None, lingering: None, explaining: None, seat }
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

    /// Whether these bytes are what hyper says to a request that it cannot read. Before the head of a
    /// request has come nobody else says anything, and hyper has no words for it.
    fn explains(&mut self, bytes: &[u8]) -> bool {
        if self.explaining.is_none() && self.seat.owes_head() {
            self.explaining = door::explained(bytes).map(|words| (words, 0));
        }
        self.explaining.is_some()
    }

    /// Writes the explanation, and then says that these many bytes were written.
    fn explain(&mut self, cx: &mut Context<'_>, length: usize) -> Poll<Result<usize>> {
        while let Some((words, mut at)) = self.explaining.take() {
            let outcome = Pin::new(&mut self.stream).poll_write(cx, &words[at..]);
            let outcome = self.written(cx, outcome);
            if let Poll::Ready(written) = &outcome {
                at += *written.as_ref().unwrap_or(&words.len());
            }
            if at < words.len() {
                self.explaining = Some((words, at));
            }
            ready!(outcome)?;
        }
        Poll::Ready(Ok(length))
    }

    /// Reads and drops what the client sends, until it closes, falls silent or takes too long.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut scratch = [0; 8 * 1024];
        let (silence, end) = self.lingering.get_or_insert_with(|| {
            self.seat.lingering();
            (Box::pin(tokio::time::sleep(SILENCE)), Instant::now() + LINGER)
        });
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(read) if read.is_err() || buffer.filled().is_empty() => break,
                Poll::Ready(_) if Instant::now() >= *end => break,
                Poll::Ready(_) => silence.as_mut().reset(Instant::now() + SILENCE),
                Poll::Pending => {
                    ready!(silence.as_mut().poll(cx));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
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
        if self.explains(bytes) {
            return self.explain(cx, bytes.len());
        }
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        if let [only] = slices
            && self.explains(only)
        {
            return self.explain(cx, only.len());
        }
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
