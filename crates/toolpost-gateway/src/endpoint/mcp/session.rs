//! Sessions of clients before 2026-07-28.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolpost::Identity;

use crate::mcp_service::{ClientState, McpEndpointSettings};

/// All open sessions, by id.
#[derive(Debug, Default)]
pub(super) struct SessionStore {
    sessions: Mutex<HashMap<Box<str>, Arc<ClientSession>>>,
}

/// A session, created by `initialize`.
#[derive(Debug)]
pub(super) struct ClientSession {
    /// The identity that created the session. Other identities cannot use it.
    owner: Arc<Identity>,
    /// The negotiated protocol version.
    pub(super) version: &'static str,
    pub(super) client: Arc<ClientState>,
    state: Mutex<SessionActivity>,
}

#[derive(Debug)]
struct SessionActivity {
    last_used: Instant,
    /// Whether the session was used after `initialize`.
    is_reused: bool,
    /// Ends the listener stream of the client. A session has at most one.
    stream: Option<CancellationToken>,
}

impl SessionStore {
    /// Returns the number of sessions.
    pub(super) fn count(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Ends the sessions of revoked identities and returns their number.
    pub(super) fn disconnect_identities(&self, is_revoked: &dyn Fn(&Identity) -> bool) -> usize {
        let ended: Vec<_> =
            self.sessions.lock().extract_if(|_, session| is_revoked(&session.owner)).collect();
        for (_, session) in &ended {
            session.close();
        }
        ended.len()
    }

    /// Creates a session and returns its id; `None` if the limit is reached and no session is idle.
    pub(super) fn create(
        &self,
        settings: &McpEndpointSettings,
        owner: &Arc<Identity>,
        version: &'static str,
        client: ClientState,
    ) -> Option<String> {
        // A random id cannot be guessed. No session is created without randomness.
        let mut random = [0; 32];
        getrandom::fill(&mut random).ok()?;
        let id = HEXLOWER.encode(&random);
        let state = SessionActivity { last_used: Instant::now(), is_reused: false, stream: None };
        let session = ClientSession {
            owner: Arc::clone(owner),
            version,
            client: Arc::new(client),
            state: Mutex::new(state),
        };
        let (max, longest) = (settings.max_sessions, settings.session_idle_timeout);
        let mut sessions = self.sessions.lock();
        if sessions.len() >= max {
            sessions.retain(|_, session| session.idle_for().is_none_or(|idle| idle < longest));
        }
        if sessions.len() >= max {
            let longest = eviction_candidate(&sessions, &session.owner)?;
            sessions.remove(&longest);
        }
        sessions.insert(id.as_str().into(), Arc::new(session));
        Some(id)
    }

    /// Returns the session with this id if it belongs to the caller, and marks it as used.
    pub(super) fn get(&self, id: &str, caller: &Identity) -> Option<Arc<ClientSession>> {
        let session = self.sessions.lock().get(id).cloned();
        let session = session.filter(|session| session.owner.is_same(caller))?;
        let mut state = session.state.lock();
        (state.last_used, state.is_reused) = (Instant::now(), true);
        drop(state);
        Some(session)
    }

    /// Ends a session of the caller. Returns false if there is none.
    pub(super) fn end(&self, id: &str, caller: &Identity) -> bool {
        let mut sessions = self.sessions.lock();
        let is_own = sessions.get(id).is_some_and(|session| session.owner.is_same(caller));
        let ended = if is_own { sessions.remove(id) } else { None };
        ended.map(|session| session.close()).is_some()
    }
}

/// Returns the idle session to evict. Sessions of the same owner are evicted first, then sessions
/// without a request after `initialize`, then the longest idle.
fn eviction_candidate(
    sessions: &HashMap<Box<str>, Arc<ClientSession>>,
    owner: &Identity,
) -> Option<Box<str>> {
    let idle = sessions.iter().filter_map(|(id, session)| {
        let (is_own, is_reused) = (session.owner.is_same(owner), session.state.lock().is_reused);
        Some(((is_own, !is_reused, session.idle_for()?), id))
    });
    idle.max_by_key(|(order, _)| *order).map(|(_, id)| id.clone())
}

impl ClientSession {
    /// Opens the listener stream and ends the previous one. The returned token ends the stream and
    /// must be canceled when the client disconnects.
    pub(super) fn open_stream(&self) -> CancellationToken {
        let token = CancellationToken::new();
        let mut state = self.state.lock();
        if let Some(before) = state.stream.replace(token.clone()) {
            before.cancel();
        }
        token
    }

    /// Ends everything that is not a request. Requests in flight finish.
    fn close(&self) {
        self.client.close();
        if let Some(stream) = self.state.lock().stream.take() {
            stream.cancel();
        }
    }

    /// Returns the time since the last use; `None` while a stream or request is active.
    fn idle_for(&self) -> Option<Duration> {
        let state = self.state.lock();
        let listens = state.stream.as_ref().is_some_and(|stream| !stream.is_cancelled());
        (!listens && !self.client.has_requests()).then(|| state.last_used.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(max_sessions: usize) -> (SessionStore, McpEndpointSettings) {
        (SessionStore::default(), McpEndpointSettings { max_sessions, ..Default::default() })
    }

    #[test]
    fn session_flood_evicts_only_own_unused_sessions() {
        let (sessions, settings) = store(8);
        let (ann, bob) = (Arc::new(Identity::new("ann")), Arc::new(Identity::new("bob")));
        let of_ann =
            sessions.create(&settings, &ann, "2025-11-25", ClientState::default()).unwrap();
        let works = sessions.create(&settings, &bob, "2025-11-25", ClientState::default()).unwrap();
        assert!(sessions.get(&works, &bob).is_some());
        for _ in 0..100 {
            sessions.create(&settings, &bob, "2025-11-25", ClientState::default()).unwrap();
        }
        assert!(sessions.get(&of_ann, &ann).is_some(), "sessions of other identities are kept");
        assert!(sessions.get(&works, &bob).is_some(), "it was used");
        assert_eq!(sessions.count(), 8);
    }

    #[test]
    fn session_is_bound_to_owner_and_idle_one_is_evicted() {
        let (sessions, settings) = store(2);
        let (ann, bob) = (Arc::new(Identity::new("ann")), Arc::new(Identity::new("bob")));
        let first = sessions.create(&settings, &ann, "2025-11-25", ClientState::default()).unwrap();
        let second =
            sessions.create(&settings, &ann, "2025-11-25", ClientState::default()).unwrap();
        assert!(sessions.get(&first, &ann).is_some());
        assert!(sessions.get(&first, &bob).is_none());
        assert!(!sessions.end(&first, &bob));
        let third = sessions.create(&settings, &bob, "2025-11-25", ClientState::default()).unwrap();
        assert!(sessions.get(&second, &ann).is_none(), "it was idle for the longest time");
        let streams: Vec<_> = [(&first, &ann), (&third, &bob)]
            .map(|(id, identity)| sessions.get(id, identity).unwrap().open_stream())
            .into();
        assert!(
            sessions.create(&settings, &ann, "2025-11-25", ClientState::default()).is_none(),
            "both are listening"
        );
        assert!(sessions.end(&first, &ann));
        assert!(streams[0].is_cancelled() && !streams[1].is_cancelled());
        assert!(sessions.create(&settings, &ann, "2025-11-25", ClientState::default()).is_some());
    }
}
