//! Request and response bodies that update the connection state.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};

use super::connection_state::ConnectionState;

/// A request body. The connection waits for the client until the body ends.
#[derive(Debug)]
pub(super) struct TrackedRequestBody {
    body: Incoming,
    state: ConnectionState,
}

impl TrackedRequestBody {
    pub(super) fn new(body: Incoming, state: ConnectionState) -> Self {
        if body.is_end_stream() {
            state.on_body_received();
        }
        Self { body, state }
    }
}

impl HttpBody for TrackedRequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.state.on_body_received();
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

impl Drop for TrackedRequestBody {
    fn drop(&mut self) {
        self.state.on_body_received();
    }
}

/// A response body. The response is finished when the body ends.
#[derive(Debug)]
pub(super) struct TrackedResponseBody {
    body: Body,
    state: ConnectionState,
}

impl TrackedResponseBody {
    pub(super) fn new(body: Body, state: ConnectionState) -> Self {
        Self { body, state }
    }
}

impl HttpBody for TrackedResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedResponseBody {
    fn drop(&mut self) {
        self.state.on_response_finished();
    }
}
