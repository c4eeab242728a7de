//! Requests that a door refuses before they are calls, written down like every other.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use toolpost::{Authority, CallError, CallRequest, Identity, epoch_ms};

use crate::app::Gateway;

/// How many refusals of nobody in particular are written down in a second. Whoever has no token must
/// not be able to fill the journal and push out what is in it.
const MOST_A_SECOND: u32 = 20;

/// How many strangers were refused in this second.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    second: AtomicI64,
    count: AtomicU32,
}

impl Strangers {
    fn has_room(&self, second: i64) -> bool {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.count.store(0, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed) < MOST_A_SECOND
    }
}

/// Writes down that somebody's request was refused, and gives what to say instead where he calls too
/// often.
pub(super) async fn note(
    gateway: &Gateway,
    request: CallRequest<'_>,
    identity: &Arc<Identity>,
    error: &CallError,
) -> Option<CallError> {
    let authority = Authority::outside(Some(Arc::clone(identity)));
    gateway.pipeline().refuse(request, authority, error).await
}

/// Writes down that somebody was refused of whom it is not known who he is.
pub(super) async fn note_stranger(gateway: &Gateway, request: CallRequest<'_>, said: &str) {
    if gateway.0.strangers.has_room(epoch_ms() / 1_000) {
        let error = CallError::access_denied(said.to_owned());
        gateway.pipeline().refuse(request, Authority::outside(None), &error).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_strangers_is_not_written_down_whole() {
        let strangers = Strangers::default();
        for second in [7, 8] {
            let noted = (0..100).filter(|_| strangers.has_room(second)).count();
            assert_eq!(noted, MOST_A_SECOND as usize);
        }
    }
}
