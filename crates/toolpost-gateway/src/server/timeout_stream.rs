//! The socket of a client, which may be slow but not for ever.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::connection_state::ConnectionState;
use crate::endpoint;

/// How long a refused client may go on sending. Closing at once would reset the connection, and the
/// client would lose the answer that says why.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may be silent meanwhile: one that is about to send more looks like one that has nothing
/// more to send.
const LINGER_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// A socket that fails when its client takes nothing for a while.
#[derive(Debug)]
pub(crate) struct TimeoutStream {
    stream: TcpStream,
    write_timeout: Duration,
    /// Runs while a write makes no progress; a client that reads never starts it.
    stall_timer: Option<Pin<Box<Sleep>>>,
    /// Since our last word: when the client was silent for too long, and when it has sent for too long.
    lingering: Option<(Pin<Box<Sleep>>, Instant)>,
    /// What is being written in the place of other bytes, and how much of it is not written yet.
    replacement: Option<(Vec<u8>, usize)>,
    state: ConnectionState,
}

impl TimeoutStream {
    pub(super) fn new(stream: TcpStream, write_timeout: Duration, state: ConnectionState) -> Self {
        Self { stream, write_timeout, stall_timer: None, lingering: None, replacement: None, state }
    }

    /// The socket alone, for a protocol that looks after its own writes.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The outcome of a write: whatever happens is progress, and only waiting is not.
    fn check_stall<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<Result<T>>,
    ) -> Poll<Result<T>> {
        if outcome.is_ready() {
            self.stall_timer = None;
            return outcome;
        }
        let write_timeout = self.write_timeout;
        let stalled =
            self.stall_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(write_timeout)));
        ready!(stalled.as_mut().poll(cx));
        tracing::debug!(?write_timeout, "client stopped reading the response");
        // Otherwise the system would go on offering what it has, to somebody who does not want it.
        if let Err(error) = self.stream.set_zero_linger() {
            tracing::debug!(%error, "SO_LINGER not set");
        }
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client stopped reading the response")))
    }

    /// Whether these bytes are what hyper says to a request that it cannot read. Before the head of a
    /// request has come nobody else says anything, and hyper has no words for it.
    fn begin_replacement(&mut self, bytes: &[u8]) -> bool {
        if self.replacement.is_none() && self.state.is_awaiting_head() {
            self.replacement =
                endpoint::add_problem_body(bytes).map(|response_bytes| (response_bytes, 0));
        }
        self.replacement.is_some()
    }

    /// Writes the explanation, and then says that these many bytes were written.
    fn poll_write_replacement(
        &mut self,
        cx: &mut Context<'_>,
        length: usize,
    ) -> Poll<Result<usize>> {
        while let Some((response_bytes, mut at)) = self.replacement.take() {
            let outcome = Pin::new(&mut self.stream).poll_write(cx, &response_bytes[at..]);
            let outcome = self.check_stall(cx, outcome);
            if let Poll::Ready(written) = &outcome {
                at += *written.as_ref().unwrap_or(&response_bytes.len());
            }
            if at < response_bytes.len() {
                self.replacement = Some((response_bytes, at));
            }
            ready!(outcome)?;
        }
        Poll::Ready(Ok(length))
    }

    /// Reads and drops what the client sends, until it closes, falls silent or takes too long.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let mut scratch = [0; 8 * 1024];
        let (silence, end) = self.lingering.get_or_insert_with(|| {
            self.state.begin_linger();
            (Box::pin(tokio::time::sleep(LINGER_IDLE_TIMEOUT)), Instant::now() + LINGER_TIMEOUT)
        });
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(read) if read.is_err() || buffer.filled().is_empty() => break,
                Poll::Ready(_) if Instant::now() >= *end => break,
                Poll::Ready(_) => silence.as_mut().reset(Instant::now() + LINGER_IDLE_TIMEOUT),
                Poll::Pending => {
                    ready!(silence.as_mut().poll(cx));
                    break;
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TimeoutStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        if self.begin_replacement(bytes) {
            return self.poll_write_replacement(cx, bytes.len());
        }
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check_stall(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        if let [only] = slices
            && self.begin_replacement(only)
        {
            return self.poll_write_replacement(cx, only.len());
        }
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.check_stall(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.state.on_flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        self.poll_linger(cx)
    }
}
