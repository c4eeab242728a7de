//! File descriptors: as many as the gateway's own limits promise.

/// What is needed beside connections: servers and their pipes, calls to them, logs.
const RESERVED_DESCRIPTORS: u64 = 1_024;

/// Asks the system for as many descriptors as there may be connections and WebSockets, and says so if
/// it gives fewer: a gateway without a descriptor left accepts nobody, and nobody would know why.
#[cfg(unix)]
pub(super) fn raise_limit(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let needed = u64::try_from(connections).unwrap_or(u64::MAX).saturating_mul(2);
    let needed = needed.saturating_add(RESERVED_DESCRIPTORS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None is no limit at all.
    let Some(before) = current.filter(|current| *current < needed) else { return };
    let granted = maximum.map_or(needed, |maximum| maximum.min(needed));
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(granted), maximum }) {
        tracing::warn!(%error, limit = before, needed, "cannot raise the open file limit");
    } else if granted < needed {
        tracing::warn!(
            limit = granted,
            needed,
            "too few open files are allowed for all connections; raise `ulimit -Hn`"
        );
    }
}

#[cfg(not(unix))]
pub(super) fn raise_limit(_connections: usize) {}
