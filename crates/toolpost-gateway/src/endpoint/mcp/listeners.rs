//! Open listener streams, so that revoked and expired identities can be disconnected.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolpost::Identity;

/// Open streams with their identities. Ended streams are removed on the next registration.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<Vec<(Arc<Identity>, CancellationToken)>>);

impl Listeners {
    /// Registers a stream with the token that ends it.
    pub(super) fn register(&self, identity: &Arc<Identity>, ended: &CancellationToken) {
        let mut streams = self.0.lock();
        streams.retain(|(_, ended)| !ended.is_cancelled());
        streams.push((Arc::clone(identity), ended.clone()));
    }

    /// Ends the streams of matching identities and returns their number.
    pub(super) fn disconnect_identities(&self, is_revoked: &dyn Fn(&Identity) -> bool) -> usize {
        let mut streams = self.0.lock();
        let revoked = streams.extract_if(.., |(owner, _)| is_revoked(owner));
        revoked
            .filter(|(_, token)| !token.is_cancelled())
            .inspect(|(_, token)| token.cancel())
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disconnect_identities_ends_only_matching_streams() {
        let presence = Listeners::default();
        let [canceled, ada, bob] = ["ada", "ada", "bob"].map(|id| {
            let ended = CancellationToken::new();
            presence.register(&Arc::new(Identity::new(id)), &ended);
            ended
        });
        canceled.cancel();
        assert_eq!(
            presence.disconnect_identities(&|identity| identity.id == "ada"),
            1,
            "one listener had disconnected"
        );
        assert!(ada.is_cancelled() && !bob.is_cancelled());
        assert_eq!(presence.disconnect_identities(&|identity| identity.id == "ada"), 0);
    }
}
