//! Request and response bodies that update the state of their request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use parking_lot::Mutex;

use super::connection_state::RequestState;

/// Maximum size of a part of an HTTP/2 response, in bytes. The next part is requested when the
/// client has read enough, so that a client that does not read is noticed.
const MAX_PART_BYTES: usize = 16 * 1024;

/// Maximum number of bytes of an unread body that are read before the response.
const MAX_DRAINED_BYTES: usize = 64 * 1024;
/// How often the connection is polled for more of an unread body.
const MAX_DRAIN_POLLS: usize = 4;

/// A request body that records whether it was received to its end.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// `None` after the body was moved to `unread`.
    body: Option<Incoming>,
    request: Arc<RequestState>,
    unread: UnreadBody,
}

/// The body of a request that was dropped before its end.
#[derive(Debug, Clone, Default)]
pub(super) struct UnreadBody(Arc<Mutex<Option<Incoming>>>);

impl UnreadBody {
    /// Reads the rest of the body if it has already arrived and is small. Returns whether the body
    /// ended.
    pub(super) async fn drain(&self) -> bool {
        let Some(mut body) = self.0.lock().take() else { return false };
        let (mut bytes, mut polls) = (0, 0);
        while bytes <= MAX_DRAINED_BYTES && polls < MAX_DRAIN_POLLS {
            match futures::poll!(body.frame()) {
                Poll::Ready(None) => return true,
                Poll::Ready(Some(Err(_))) => return false,
                Poll::Ready(Some(Ok(frame))) => bytes += frame.data_ref().map_or(0, Bytes::len),
                // The connection reads when it is polled again.
                Poll::Pending => {
                    polls += 1;
                    tokio::task::yield_now().await;
                }
            }
            if body.is_end_stream() {
                return true;
            }
        }
        false
    }
}

impl RequestBody {
    /// Tracks a request body. The connection waits for the client until the body ends.
    pub(super) fn new(body: Incoming, request: Arc<RequestState>, unread: UnreadBody) -> Self {
        if body.is_end_stream() {
            request.on_body_received();
        }
        Self { body: Some(body), request, unread }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None)) || self.is_end_stream() {
            self.request.on_body_received();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Incoming::size_hint).unwrap_or_default()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.request.is_body_received() {
            *self.unread.0.lock() = self.body.take();
        }
        self.request.on_body_dropped();
    }
}

/// A response body that finishes its request when it ends or is dropped.
#[derive(Debug)]
pub(super) struct ResponseBody<B> {
    body: B,
    request: Arc<RequestState>,
    /// Set with HTTP/2: the rest of a large part.
    rest: Option<Bytes>,
}

impl<B> ResponseBody<B> {
    pub(super) fn http1(body: B, request: Arc<RequestState>) -> Self {
        Self { body, request, rest: None }
    }

    /// Tracks the body of an HTTP/2 response, which is sent in small parts.
    pub(super) fn http2(body: B, request: Arc<RequestState>) -> Self {
        Self { body, request, rest: Some(Bytes::new()) }
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> ResponseBody<B> {
    /// Polls the next part of an HTTP/2 response.
    fn poll_part(
        &mut self,
        rest: Bytes,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.request.end_stall();
        let frame = match rest.is_empty() {
            true => Pin::new(&mut self.body).poll_frame(cx),
            false => Poll::Ready(Some(Ok(Frame::data(rest)))),
        };
        let Poll::Ready(Some(Ok(frame))) = frame else { return frame };
        self.request.begin_stall();
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(mut data) => {
                let part = data.split_to(data.len().min(MAX_PART_BYTES));
                self.rest = Some(data);
                Frame::data(part)
            }
            Err(frame) => frame,
        })))
    }
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = match self.rest.as_mut().map(std::mem::take) {
            Some(rest) => self.poll_part(rest, cx),
            None => Pin::new(&mut self.body).poll_frame(cx),
        };
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.request.on_response_finished();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.rest.as_ref().is_none_or(Bytes::is_empty) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.len() as u64);
        let mut hint = self.body.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

impl<B> Drop for ResponseBody<B> {
    fn drop(&mut self) {
        self.request.on_response_finished();
    }
}
