//! Closes the connections and streams of JWTs that have expired.

use std::time::Duration;

use tokio::time::MissedTickBehavior;
use toolpost::since_epoch;

use super::Components;
use crate::auth::AccessEnd;

/// Interval between two checks, which read the wall clock: timers do not follow its changes.
const INTERVAL: Duration = Duration::from_millis(250);

/// Checks for expired JWTs until it is dropped.
pub(super) async fn disconnect_expired(components: Components) {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        if !components.authenticator.accepts_jwts() {
            continue;
        }
        let now = since_epoch().as_secs();
        let has_expired = |identity: &toolpost::Identity| identity.has_expired(now);
        let closed = components.disconnect_identities(&has_expired, AccessEnd::Expired);
        if closed > 0 {
            tracing::info!(closed, "connections of expired tokens closed");
        }
    }
}
