//! The id that follows a call from its door to the far end and back.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use serde::{Serialize, Serializer};

/// The id of one call: given by the caller, or fresh.
///
/// A fresh id is a random number of this process and a counter, written out only when somebody
/// reads it: most calls are never looked at.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Fresh(u64),
    Given(Arc<str>),
}

static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("manila"));
static NEXT: AtomicU64 = AtomicU64::new(1);

impl RequestId {
    /// An id that nobody else has.
    pub fn fresh() -> Self {
        Self(Form::Fresh(NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}

impl<T: Into<Arc<str>>> From<T> for RequestId {
    fn from(text: T) -> Self {
        Self(Form::Given(text.into()))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Fresh(number) => write!(f, "{:016x}{number:08x}", *PROCESS),
            Form::Given(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
