//! A message, of which a part may be shared with the messages to others.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// What is shorter is copied, which costs less than a piece of its own.
const WORTH_SHARING: usize = 16 << 10;

/// A message as it is written.
#[derive(Debug, Default)]
pub(super) struct Text {
    begin: Vec<u8>,
    shared: Option<Bytes>,
    end: Vec<u8>,
}

impl From<Vec<u8>> for Text {
    fn from(begin: Vec<u8>) -> Self {
        Self { begin, ..Self::default() }
    }
}

impl Text {
    /// Where the next bytes go.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        if self.shared.is_some() { &mut self.end } else { &mut self.begin }
    }

    /// Appends bytes that others send too.
    pub(super) fn share(&mut self, bytes: &Bytes) {
        if self.shared.is_some() || bytes.len() < WORTH_SHARING {
            self.end().extend_from_slice(bytes);
        } else {
            self.shared = Some(bytes.clone());
        }
    }

    /// The whole message in one place.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let Some(shared) = self.shared else { return self.begin };
        [&*self.begin, &*shared, &*self.end].concat()
    }

    /// The message as a body, which copies nothing.
    pub(super) fn into_body(self) -> Body {
        match self.shared {
            None => self.begin.into(),
            Some(shared) => {
                let pieces = [self.begin.into(), shared, self.end.into()];
                Body::new(Pieces { pieces, sent: 0 })
            }
        }
    }
}

struct Pieces {
    pieces: [Bytes; 3],
    sent: usize,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let sent = self.sent;
        let piece = self.pieces.get_mut(sent).map(std::mem::take);
        self.sent += 1;
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent >= self.pieces.len()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.pieces.iter().map(Bytes::len).sum::<usize>();
        SizeHint::with_exact(u64::try_from(rest).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_message_is_the_same_in_one_piece_and_in_three() {
        for length in [0, 1, WORTH_SHARING - 1, WORTH_SHARING, 3 * WORTH_SHARING] {
            let write = || {
                let mut text = Text::from(b"begin ".to_vec());
                text.share(&Bytes::from(vec![b'x'; length]));
                text.end().extend_from_slice(b" end");
                text
            };
            let expected = format!("begin {} end", "x".repeat(length));
            assert_eq!(String::from_utf8(write().into_bytes()).unwrap(), expected);
            let body = write().into_body();
            assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
            assert_eq!(body.collect().await.unwrap().to_bytes(), expected);
        }
    }
}
