//! The stream of a client, with a write timeout and a lingering close.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::either::Either;

use super::connection_state::ConnectionState;
use super::{ClientStream, tcp_socket};

/// How long a rejected client may continue to send. An immediate close would reset the connection,
/// and the client would lose the response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum idle time while lingering, after which the client counts as finished.
const LINGER_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// A stream that fails if writes make no progress for `write_timeout`.
#[derive(Debug)]
pub(crate) struct TimeoutStream {
    stream: ClientStream,
    write_timeout: Duration,
    /// Runs while a write makes no progress.
    stall_timer: Option<Pin<Box<Sleep>>>,
    /// Idle timer and end time of lingering, which follows the last response.
    lingering: Option<(Pin<Box<Sleep>>, Instant)>,
    state: ConnectionState,
}

/// Returns the stream of an upgraded connection and the bytes already read from it. With this
/// crate's server it is the plain stream, since the new protocol has its own write timeout. With
/// another server, the upgraded connection may be wrapped.
pub(crate) fn upgraded_stream(
    upgraded: Upgraded,
) -> (Either<ClientStream, TokioIo<Upgraded>>, Vec<u8>) {
    match upgraded.downcast::<TokioIo<TimeoutStream>>() {
        Ok(parts) => (Either::Left(parts.io.into_inner().stream), parts.read_buf.into()),
        Err(upgraded) => (Either::Right(TokioIo::new(upgraded)), Vec::new()),
    }
}

impl TimeoutStream {
    pub(super) fn new(
        stream: ClientStream,
        write_timeout: Duration,
        state: ConnectionState,
    ) -> Self {
        Self { stream, write_timeout, stall_timer: None, lingering: None, state }
    }

    /// Runs the stall timer while a write is pending, and fails when it expires.
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
        // Otherwise the kernel would continue to send the buffered data after the close.
        if let Some(socket) = tcp_socket(&self.stream)
            && let Err(error) = socket.set_zero_linger()
        {
            tracing::debug!(%error, "SO_LINGER not set");
        }
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client stopped reading the response")))
    }

    /// Discards input until the client closes, is idle or sends for too long.
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
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check_stall(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
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
