//! The id that follows a call from its door to the far end and back.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The id of one call: given by the caller, or fresh.
///
/// A fresh id is a random number of this process and a counter, written out only when somebody
/// reads it: most calls are never looked at.
#[derive(Clone)]
pub struct RequestId(Form);

#[derive(Clone)]
enum Form {
    Fresh(u64),
    Given(Arc<str>),
}

static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("toolpost"));
static NEXT: AtomicU64 = AtomicU64::new(1);

impl RequestId {
    /// An id that nobody else has.
    pub fn fresh() -> Self {
        Self(Form::Fresh(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The id as text, shared where it was given as text.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        match &self.0 {
            Form::Fresh(number) => fresh_text(*number).into(),
            Form::Given(text) => Arc::clone(text),
        }
    }
}

impl<T: Into<Arc<str>>> From<T> for RequestId {
    fn from(text: T) -> Self {
        Self(Form::Given(text.into()))
    }
}

// An id that went out fresh comes back as text, and is still the same id.
impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Fresh(own), Form::Fresh(other)) => own == other,
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
            Form::Fresh(number) => f.write_str(&fresh_text(*number)),
            Form::Given(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

/// The digits of a fresh id. `format!` would take longer than the rest of sending it.
fn fresh_text(number: u64) -> FreshText {
    let mut text = FreshText { bytes: [b'0'; 32], start: 8 };
    let mut write = |mut number: u64, mut at: usize, least: usize| {
        let end = at - least;
        while number > 0 || at > end {
            at -= 1;
            text.bytes[at] = b"0123456789abcdef"[(number & 15) as usize];
            number >>= 4;
        }
        at
    };
    let start = write(number, 32, 8);
    text.start = write(*PROCESS, start, 16);
    text
}

struct FreshText {
    bytes: [u8; 32],
    start: usize,
}

impl std::ops::Deref for FreshText {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.bytes[self.start..]).expect("it is made of digits")
    }
}

impl From<FreshText> for Arc<str> {
    fn from(text: FreshText) -> Self {
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
    fn a_fresh_id_is_sixteen_digits_of_the_process_and_at_least_eight_of_its_own() {
        for number in [0, 1, 0xabc, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            assert_eq!(&*fresh_text(number), format!("{:016x}{number:08x}", *PROCESS));
        }
    }

    #[test]
    fn an_id_is_the_same_after_it_was_written() {
        let fresh = RequestId::fresh();
        let back = RequestId::from(fresh.to_string());
        assert_eq!(fresh, back);
        assert!(HashSet::from([fresh.clone()]).contains(&back));
        assert_ne!(fresh, RequestId::fresh());
        assert_ne!(RequestId::from("a"), RequestId::from("b"));
    }
}
