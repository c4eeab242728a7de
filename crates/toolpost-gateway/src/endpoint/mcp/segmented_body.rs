//! Message bodies that can share a large segment with other messages.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};

/// Minimum size of a shared segment in bytes. Copying a shorter one is cheaper than a separate
/// segment.
const MIN_SHARED_BYTES: usize = 16 << 10;

/// A message under construction: own bytes, an optional shared segment, own bytes.
#[derive(Debug, Default)]
pub(super) struct SegmentedBody {
    head: Vec<u8>,
    shared: Option<Bytes>,
    tail: Vec<u8>,
}

impl From<Vec<u8>> for SegmentedBody {
    fn from(begin: Vec<u8>) -> Self {
        Self { head: begin, ..Self::default() }
    }
}

impl SegmentedBody {
    /// Returns the buffer for the next bytes.
    pub(super) fn tail_mut(&mut self) -> &mut Vec<u8> {
        if self.shared.is_some() { &mut self.tail } else { &mut self.head }
    }

    /// Appends bytes that other messages contain too. Large ones are shared instead of copied.
    pub(super) fn push_shared(&mut self, bytes: &Bytes) {
        if self.shared.is_some() || bytes.len() < MIN_SHARED_BYTES {
            self.tail_mut().extend_from_slice(bytes);
        } else {
            self.shared = Some(bytes.clone());
        }
    }

    /// Returns the message as one contiguous buffer.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let Some(shared) = self.shared else { return self.head };
        [&*self.head, &*shared, &*self.tail].concat()
    }

    /// Returns the message as an HTTP body without copying it.
    pub(super) fn into_body(self) -> Body {
        match self.shared {
            None => self.head.into(),
            Some(shared) => {
                let parts = [self.head.into(), shared, self.tail.into()];
                Body::new(SegmentStream { segments: parts, sent: 0 })
            }
        }
    }
}

struct SegmentStream {
    segments: [Bytes; 3],
    sent: usize,
}

impl HttpBody for SegmentStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let sent = self.sent;
        let segment = self.segments.get_mut(sent).map(std::mem::take);
        self.sent += 1;
        Poll::Ready(segment.map(|segment| Ok(Frame::data(segment))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent >= self.segments.len()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.segments.iter().map(Bytes::len).sum::<usize>();
        SizeHint::with_exact(u64::try_from(rest).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn segmented_body_equals_contiguous_bytes() {
        for length in [0, 1, MIN_SHARED_BYTES - 1, MIN_SHARED_BYTES, 3 * MIN_SHARED_BYTES] {
            let write = || {
                let mut text = SegmentedBody::from(b"begin ".to_vec());
                text.push_shared(&Bytes::from(vec![b'x'; length]));
                text.tail_mut().extend_from_slice(b" end");
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
