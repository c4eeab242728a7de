//! Request ids, used on every transport and in logs and records.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Id of a call, provided by the caller or generated.
///
/// A generated id consists of a random prefix per process and a counter. It is formatted only when
/// it is read.
#[derive(Clone)]
pub struct RequestId(RequestIdRepr);

#[derive(Clone)]
enum RequestIdRepr {
    Generated(u64),
    Provided(Arc<str>),
}

static PROCESS_PREFIX: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("toolpost"));
static NEXT_SEQUENCE: AtomicU64 = AtomicU64::new(1);

impl RequestId {
    /// Generates a unique id.
    pub fn generate() -> Self {
        Self(RequestIdRepr::Generated(NEXT_SEQUENCE.fetch_add(1, Ordering::Relaxed)))
    }

    /// Whether this process generated the id. Otherwise the caller chose it.
    pub fn is_generated(&self) -> bool {
        matches!(self.0, RequestIdRepr::Generated(_))
    }

    /// Returns the id as text. An id that was provided as text is not copied.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        match &self.0 {
            RequestIdRepr::Generated(number) => generated_text(*number).into(),
            RequestIdRepr::Provided(text) => Arc::clone(text),
        }
    }
}

impl<T: Into<Arc<str>>> From<T> for RequestId {
    fn from(text: T) -> Self {
        Self(RequestIdRepr::Provided(text.into()))
    }
}

// A generated id equals its text form, because peers send it back as text.
impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (RequestIdRepr::Generated(own), RequestIdRepr::Generated(other)) => own == other,
            _ => self.to_string() == other.to_string(),
        }
    }
}

impl Eq for RequestId {}

impl Hash for RequestId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_string().hash(state);
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            RequestIdRepr::Generated(number) => f.write_str(&generated_text(*number)),
            RequestIdRepr::Provided(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

/// Formats a generated id. `format!` would take longer than the rest of sending the request.
fn generated_text(number: u64) -> GeneratedText {
    let mut text = GeneratedText { bytes: [b'0'; 32], start: 8 };
    let mut write = |mut number: u64, mut at: usize, min: usize| {
        let end = at - min;
        while number > 0 || at > end {
            at -= 1;
            text.bytes[at] = b"0123456789abcdef"[(number & 15) as usize];
            number >>= 4;
        }
        at
    };
    let start = write(number, 32, 8);
    text.start = write(*PROCESS_PREFIX, start, 16);
    text
}

struct GeneratedText {
    bytes: [u8; 32],
    start: usize,
}

impl std::ops::Deref for GeneratedText {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[self.start..]).expect("digits are ASCII")
    }
}

impl From<GeneratedText> for Arc<str> {
    fn from(text: GeneratedText) -> Self {
        Arc::from(&*text)
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RequestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn generated_request_id_has_process_prefix_and_sequence() {
        for number in [0, 1, 0xabc, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            assert_eq!(&*generated_text(number), format!("{:016x}{number:08x}", *PROCESS_PREFIX));
        }
    }

    #[test]
    fn request_id_equal_after_serialization() {
        let fresh = RequestId::generate();
        let back = RequestId::from(fresh.to_string());
        assert_eq!(fresh, back);
        assert!(HashSet::from([fresh.clone()]).contains(&back));
        assert_ne!(fresh, RequestId::generate());
        assert_ne!(RequestId::from("a"), RequestId::from("b"));
    }
}
