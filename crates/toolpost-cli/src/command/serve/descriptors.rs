//! Raises the file descriptor limit to match the gateway's connection limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors reserved for servers and their pipes, outgoing calls and logs.
const RESERVED_DESCRIPTORS: u64 = 1_024;

/// Raises the file descriptor limit to cover the configured connections and WebSockets. Warns if
/// the system grants fewer, because a gateway without free descriptors cannot accept connections.
pub(super) fn raise_limit(connections: usize) {
    let needed = u64::try_from(connections).unwrap_or(u64::MAX).saturating_mul(2);
    let needed = needed.saturating_add(RESERVED_DESCRIPTORS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // `None` means unlimited.
    let Some(before) = current.filter(|current| *current < needed) else { return };
    let granted = maximum.map_or(needed, |maximum| maximum.min(needed));
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(granted), maximum }) {
        tracing::warn!(%error, limit = before, needed, "open file limit not raised");
    } else if granted < needed {
        tracing::warn!(
            limit = granted,
            needed,
            "open file limit is too low for all connections; raise `ulimit -Hn`"
        );
    }
}
