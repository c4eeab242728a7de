//! Whose turn it is on a connection, told by the bodies that go by.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, Incoming, SizeHint};

use super::seat::Seat;

/// The body of a request: until its end, the client keeps us waiting.
#[derive(Debug)]
pub(super) struct Asking {
    body: Incoming,
    seat: Seat,
}

impl Asking {
    pub(super) fn new(body: Incoming, seat: Seat) -> Self {
        if body.is_end_stream() {
            seat.body_came();
        }
        Self { body, seat }
    }
}

impl HttpBody for Asking {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            self.seat.body_came();
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

impl Drop for Asking {
    fn drop(&mut self) {
        self.seat.body_came();
    }
}

/// The body of a response: when it ends, the next word is the client's.
#[derive(Debug)]
pub(super) struct Answering {
    body: Body,
    seat: Seat,
}

impl Answering {
    pub(super) fn new(body: Body, seat: Seat) -> Self {
        Self { body, seat }
    }
}

impl HttpBody for Answering {
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

impl Drop for Answering {
    fn drop(&mut self) {
        self.seat.answered();
    }
}
