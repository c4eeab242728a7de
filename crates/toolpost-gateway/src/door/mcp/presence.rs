//! Who is there without a session, so that somebody who is nobody any more can be sent away.

use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The streams that are open, each with whose it is. Those that have ended make room for new ones.
#[derive(Debug, Default)]
pub(super) struct Presence(Mutex<Vec<(Box<str>, CancellationToken)>>);

impl Presence {
    /// A token that ends the stream; whoever leaves cancels it.
    pub(super) fn enter(&self, identity: &str) -> CancellationToken {
        let token = CancellationToken::new();
        let mut there = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        there.retain(|(_, token)| !token.is_cancelled());
        there.push((identity.into(), token.clone()));
        token
    }

    /// Ends the streams of some identities, and says how many these were.
    pub(super) fn dismiss(&self, is_over: &dyn Fn(&str) -> bool) -> usize {
        let mut there = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let meant = there.extract_if(.., |(owner, _)| is_over(owner));
        meant
            .filter(|(_, token)| !token.is_cancelled())
            .inspect(|(_, token)| token.cancel())
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_streams_of_the_one_who_is_meant_end() {
        let presence = Presence::default();
        let [left, ada, bob] = ["ada", "ada", "bob"].map(|who| presence.enter(who));
        left.cancel();
        assert_eq!(presence.dismiss(&|who| who == "ada"), 1, "one had left");
        assert!(ada.is_cancelled() && !bob.is_cancelled());
        assert_eq!(presence.dismiss(&|who| who == "ada"), 0);
    }
}
