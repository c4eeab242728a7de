//! Sessions of clients from before 2026-07-28, and the calls that are running for somebody.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use tokio_util::sync::CancellationToken;
use toolpost::{AbortHandle, Identity};

use super::following::Following;
use super::inquiry::Questions;
use super::level::Asked;
use super::message::Id;

/// The sessions there are.
#[derive(Debug)]
pub(super) struct Sessions {
    known: Mutex<HashMap<Box<str>, Arc<Session>>>,
    bounds: Mutex<Bounds>,
}

/// How many there may be, and after which time of idleness one may end.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    most: usize,
    idle: Duration,
}

/// A client that said hello.
#[derive(Debug)]
pub(super) struct Session {
    /// Who said hello; for anybody else the session is not there.
    owner: Arc<Identity>,
    /// The version that was agreed on.
    pub(super) version: &'static str,
    pub(super) calls: Arc<Calls>,
    /// What its client wants to hear.
    pub(super) level: Arc<Asked>,
    /// The resources that its client follows.
    pub(super) following: Arc<Following>,
    /// What its client is asked, if it can be.
    pub(super) questions: Option<Arc<Questions>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    used: Instant,
    /// Whether there was a request after the first.
    came_back: bool,
    /// Ends the stream that the client listens on; there is one at a time.
    stream: Option<CancellationToken>,
}

/// The requests of one client that are being answered, by their ids, so that it can cancel them.
#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<HashMap<Id, Arc<Cancellable>>>);

/// A request that its client may cancel, from its first moment on.
#[derive(Debug, Default)]
pub(super) struct Cancellable {
    token: CancellationToken,
    call: OnceLock<AbortHandle>,
}

impl Cancellable {
    pub(super) fn cancel(&self, reason: &str) {
        self.token.cancel();
        if let Some(call) = self.call.get() {
            call.abort(reason);
        }
    }

    /// The call that the request is about has been made; if it came too late, it ends at once.
    pub(super) fn started(&self, call: AbortHandle) {
        // A request makes one call.
        let _ = self.call.set(call);
        if let Some(call) = self.call.get().filter(|_| self.is_cancelled()) {
            call.abort("the client canceled it");
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    pub(super) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Sessions {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(super) fn new(most: usize, idle: Duration) -> Self {
        Self { known: Mutex::default(), bounds: Mutex::new(Bounds { most, idle }) }
    }

    /// Other bounds from now on; sessions that are there stay until somebody needs their room.
    pub(super) fn bound(&self, most: usize, idle: Duration) {
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner) = Bounds { most, idle };
    }

    /// Ends every session of some identities, and says how many.
    pub(super) fn dismiss(&self, is_over: &dyn Fn(&str) -> bool) -> usize {
        let ended: Vec<_> =
            self.lock().extract_if(|_, session| is_over(&session.owner.id)).collect();
        for (_, session) in &ended {
            session.stop();
        }
        ended.len()
    }

    /// Begins a session and says its id; `None` if there is no room.
    pub(super) fn begin(
        &self,
        owner: &Arc<Identity>,
        version: &'static str,
        questions: Option<Arc<Questions>>,
    ) -> Option<String> {
        // Nobody guesses 32 random bytes. Without randomness there are no sessions.
        let mut random = [0; 32];
        getrandom::fill(&mut random).ok()?;
        let id = HEXLOWER.encode(&random);
        let state = State { used: Instant::now(), came_back: false, stream: None };
        let owner = Arc::clone(owner);
        let session = Session {
            owner,
            version,
            calls: Arc::default(),
            level: Arc::default(),
            following: Arc::default(),
            questions,
            state: Mutex::new(state),
        };
        let Bounds { most, idle: longest } =
            *self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.lock();
        if known.len() >= most {
            known.retain(|_, session| session.idle().is_none_or(|idle| idle < longest));
        }
        if known.len() >= most {
            let longest = longest_idle(&known, &session.owner)?;
            known.remove(&longest);
        }
        known.insert(id.as_str().into(), Arc::new(session));
        Some(id)
    }

    /// The session of that id, if it is that of this caller.
    pub(super) fn get(&self, id: &str, caller: &Identity) -> Option<Arc<Session>> {
        let session =
            self.lock().get(id).filter(|session| session.owner.id == caller.id).cloned()?;
        let mut state = session.lock();
        (state.used, state.came_back) = (Instant::now(), true);
        drop(state);
        Some(session)
    }

    /// Ends a session, the stream of its client, and what the client is asked.
    pub(super) fn end(&self, id: &str, caller: &Identity) -> bool {
        let mut known = self.lock();
        let is_own = known.get(id).is_some_and(|session| session.owner.id == caller.id);
        let ended = if is_own { known.remove(id) } else { None };
        ended.map(|session| session.stop()).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<Session>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session that is missed the least. Whoever begins many ends his own, and those that only said
/// hello go before those that work.
fn longest_idle(known: &HashMap<Box<str>, Arc<Session>>, owner: &Identity) -> Option<Box<str>> {
    let idle = known.iter().filter_map(|(id, session)| {
        let (is_own, came_back) = (session.owner.id == owner.id, session.came_back());
        Some(((is_own, !came_back, session.idle()?), id))
    });
    idle.max_by_key(|(order, _)| *order).map(|(_, id)| id.clone())
}

impl Session {
    /// Makes room for a stream; one that is there already ends. The token ends this one, and is to
    /// be canceled when the client left.
    pub(super) fn listen(&self) -> CancellationToken {
        let token = CancellationToken::new();
        let mut state = self.lock();
        if let Some(before) = state.stream.replace(token.clone()) {
            before.cancel();
        }
        token
    }

    /// Ends what goes on without a request; those that are running hold the session for a while.
    fn stop(&self) {
        self.following.clear();
        self.questions.as_ref().inspect(|questions| questions.close());
        if let Some(stream) = self.lock().stream.take() {
            stream.cancel();
        }
    }

    /// For how long nothing has happened; `None` while something is going on.
    fn idle(&self) -> Option<Duration> {
        let state = self.lock();
        let listens = state.stream.as_ref().is_some_and(|stream| !stream.is_cancelled());
        (!listens && self.calls.is_empty()).then(|| state.used.elapsed())
    }

    fn came_back(&self) -> bool {
        self.lock().came_back
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Calls {
    /// Cancels a request, as its client asked. One that was answered is not disturbed.
    pub(super) fn cancel(&self, id: &Id, reason: &str) {
        if let Some(request) = self.lock().remove(id) {
            request.cancel(reason);
        }
    }

    /// Begins a request. Of several under one id, which no client should make, the last can be
    /// canceled.
    pub(super) fn begin(&self, id: Id) -> Arc<Cancellable> {
        let request = Arc::<Cancellable>::default();
        self.lock().insert(id, Arc::clone(&request));
        request
    }

    /// Ends that request.
    pub(super) fn end(&self, id: &Id, request: &Arc<Cancellable>) {
        let mut requests = self.lock();
        if requests.get(id).is_some_and(|known| Arc::ptr_eq(known, request)) {
            requests.remove(id);
        }
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Arc<Cancellable>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_begins_many_sessions_ends_only_his_own_unused_ones() {
        let sessions = Sessions::new(8, Duration::from_secs(3_600));
        let (ann, bob) = (Arc::new(Identity::new("ann")), Arc::new(Identity::new("bob")));
        let of_ann = sessions.begin(&ann, "2025-11-25", None).unwrap();
        let works = sessions.begin(&bob, "2025-11-25", None).unwrap();
        assert!(sessions.get(&works, &bob).is_some());
        for _ in 0..100 {
            sessions.begin(&bob, "2025-11-25", None).unwrap();
        }
        assert!(sessions.get(&of_ann, &ann).is_some(), "it is somebody else's");
        assert!(sessions.get(&works, &bob).is_some(), "it was used");
        assert_eq!(sessions.lock().len(), 8);
    }

    #[test]
    fn a_session_is_its_owners_and_the_idle_one_makes_room() {
        let sessions = Sessions::new(2, Duration::from_secs(3_600));
        let (ann, bob) = (Arc::new(Identity::new("ann")), Arc::new(Identity::new("bob")));
        let first = sessions.begin(&ann, "2025-11-25", None).unwrap();
        let second = sessions.begin(&ann, "2025-11-25", None).unwrap();
        assert!(sessions.get(&first, &ann).is_some());
        assert!(sessions.get(&first, &bob).is_none());
        assert!(!sessions.end(&first, &bob));
        let third = sessions.begin(&bob, "2025-11-25", None).unwrap();
        assert!(sessions.get(&second, &ann).is_none(), "it was idle for the longest time");
        let streams: Vec<_> = [(&first, &ann), (&third, &bob)]
            .map(|(id, who)| sessions.get(id, who).unwrap().listen())
            .into();
        assert!(sessions.begin(&ann, "2025-11-25", None).is_none(), "both are listening");
        assert!(sessions.end(&first, &ann));
        assert!(streams[0].is_cancelled() && !streams[1].is_cancelled());
        assert!(sessions.begin(&ann, "2025-11-25", None).is_some());
    }
}
