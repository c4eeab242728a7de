//! Request and response bodies that update the connection state.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use hyper::body::{Frame, SizeHint};
use toolpost::shares::SharePermit;

use super::connection_state::ConnectionState;

/// A body that updates the connection state once, when it ends or is dropped.
#[derive(Debug)]
pub(super) struct TrackedBody<B> {
    body: B,
    state: ConnectionState,
    on_end: Option<OnEnd>,
}

/// What the end of a body means.
#[derive(Debug)]
enum OnEnd {
    RequestReceived,
    /// With the permit of the request.
    ResponseFinished(Option<SharePermit>),
}

impl<B: HttpBody> TrackedBody<B> {
    /// Tracks a request body. The connection waits for the client until the body ends.
    pub(super) fn request(body: B, state: ConnectionState) -> Self {
        let is_empty = body.is_end_stream();
        let mut tracked = Self { body, state, on_end: Some(OnEnd::RequestReceived) };
        if is_empty {
            tracked.end();
        }
        tracked
    }

    /// Tracks a response body. The response is finished when the body ends.
    pub(super) fn response(body: B, state: ConnectionState, permit: Option<SharePermit>) -> Self {
        Self { body, state, on_end: Some(OnEnd::ResponseFinished(permit)) }
    }
}

impl<B> TrackedBody<B> {
    fn end(&mut self) {
        match self.on_end.take() {
            Some(OnEnd::RequestReceived) => self.state.on_body_received(),
            Some(OnEnd::ResponseFinished(permit)) => self.state.on_response_finished(permit),
            None => {}
        }
    }
}

impl<B: HttpBody + Unpin> HttpBody for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.end();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for TrackedBody<B> {
    fn drop(&mut self) {
        self.end();
    }
}
