//! Message bodies that can share a large segment with other messages.

use bytes::Bytes;

/// Minimum size of a shared segment in bytes. Shorter ones are copied.
const MIN_SHARED_BYTES: usize = 16 << 10;

/// A message under construction: own bytes, an optional shared segment, own bytes.
#[derive(Debug, Default)]
pub(crate) struct SegmentedBody {
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
    pub(crate) fn tail_mut(&mut self) -> &mut Vec<u8> {
        if self.shared.is_some() { &mut self.tail } else { &mut self.head }
    }

    /// Appends bytes that other messages contain too. Large ones are shared instead of copied.
    pub(crate) fn push_shared(&mut self, bytes: &Bytes) {
        if self.shared.is_some() || bytes.len() < MIN_SHARED_BYTES {
            self.tail_mut().extend_from_slice(bytes);
        } else {
            self.shared = Some(bytes.clone());
        }
    }

    /// Returns the message as one contiguous buffer.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let Some(shared) = self.shared else { return self.head };
        [&*self.head, &*shared, &*self.tail].concat()
    }

    /// Returns the message in segments.
    pub(crate) fn into_segments(self) -> [Bytes; 3] {
        [self.head.into(), self.shared.unwrap_or_default(), self.tail.into()]
    }
}
