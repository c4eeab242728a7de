//! The head of a record: what the index needs at the start of the gateway.

use std::mem::size_of;

/// A keyed digest, truncated to 128 bits.
pub(super) type Digest = [u8; 16];

/// The change of an entry that a record describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// The handler is about to run.
    Started,
    /// The call has ended; the body is its result.
    Finished,
    /// The call has ended without a result. The key can be used again.
    Released,
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub(super) kind: RecordKind,
    /// Whether the call can be repeated without harm: a query or an idempotent operation.
    pub(super) is_repeatable: bool,
    /// Identity, operation and key.
    pub(super) claim: Digest,
    /// The input.
    pub(super) input: Digest,
    /// Milliseconds since the Unix epoch.
    pub(super) time: i64,
    /// The number of the call in the journal; 0 if it is not recorded.
    pub(super) journal_seq: u64,
}

const CLAIM: usize = 2;
const INPUT: usize = CLAIM + size_of::<Digest>();
const TIME: usize = INPUT + size_of::<Digest>();
const JOURNAL_SEQ: usize = TIME + size_of::<i64>();

impl RecordHead {
    pub(super) const BYTES: usize = JOURNAL_SEQ + size_of::<u64>();

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = match self.kind {
            RecordKind::Started => 1,
            RecordKind::Finished => 2,
            RecordKind::Released => 3,
        };
        bytes[1] = self.is_repeatable.into();
        bytes[CLAIM..INPUT].copy_from_slice(&self.claim);
        bytes[INPUT..TIME].copy_from_slice(&self.input);
        bytes[TIME..JOURNAL_SEQ].copy_from_slice(&self.time.to_le_bytes());
        bytes[JOURNAL_SEQ..].copy_from_slice(&self.journal_seq.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        Some(Self {
            kind: match bytes[0] {
                1 => RecordKind::Started,
                2 => RecordKind::Finished,
                3 => RecordKind::Released,
                _ => return None,
            },
            is_repeatable: match bytes[1] {
                0 => false,
                1 => true,
                _ => return None,
            },
            claim: bytes[CLAIM..INPUT].try_into().ok()?,
            input: bytes[INPUT..TIME].try_into().ok()?,
            time: i64::from_le_bytes(bytes[TIME..JOURNAL_SEQ].try_into().ok()?),
            journal_seq: u64::from_le_bytes(bytes[JOURNAL_SEQ..].try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_head_round_trips_and_rejects_other_bytes() {
        for kind in [RecordKind::Started, RecordKind::Finished, RecordKind::Released] {
            for is_repeatable in [true, false] {
                let head = RecordHead {
                    kind,
                    is_repeatable,
                    claim: [7; 16],
                    input: [9; 16],
                    time: -5,
                    journal_seq: u64::MAX,
                };
                let bytes = head.encode();
                assert_eq!(RecordHead::decode(&bytes), Some(head));
                assert_eq!(RecordHead::decode(&bytes[1..]), None);
                assert_eq!(RecordHead::decode(&[&bytes[..], &[0]].concat()), None);
                for (at, byte) in [(0, 0), (0, 4), (1, 2)] {
                    let mut other = bytes;
                    other[at] = byte;
                    assert_eq!(RecordHead::decode(&other), None);
                }
            }
        }
    }
}
