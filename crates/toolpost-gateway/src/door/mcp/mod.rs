//! Operations as tools of MCP, over streamable HTTP and over a pair of streams.
//!
//! | file | holds |
//! |---|---|
//! | `http`, `stream`, `batch`, `era` | `/mcp`: requests, their headers, responses as JSON and as events |
//! | `stdio` | one client on a pair of streams |
//! | `message`, `params` | JSON-RPC, and what requests say |
//! | `ask`, `call` | a request and its answer, whatever carried it |
//! | `in_room` | requests out of rooms |
//! | `passing` | resources and prompts, which are their sources' |
//! | `inquiry` | what clients are asked while their requests run |
//! | `outlet`, `level`, `changes` | what clients are told before an answer, and without having asked |
//! | `following` | the resources that one client follows |
//! | `session`, `boxes`, `presence` | what is kept between requests |

mod ask;
mod batch;
mod boxes;
mod call;
mod changes;
mod era;
mod following;
mod http;
mod in_room;
mod inquiry;
mod level;
mod message;
mod outlet;
mod params;
mod passing;
mod presence;
mod refused_call;
mod session;
mod settings;
mod stdio;
mod stream;
mod text;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;

pub(super) use http::serve;
pub(crate) use in_room::{RoomRequest, answer as answer_room, masked as masked_in_room};
pub use settings::{McpDoorSettings, McpView};
pub(crate) use stdio::serve as serve_streams;

/// What the door keeps between requests.
#[derive(Debug)]
pub(crate) struct McpDoor {
    /// What holds for requests that come now.
    settings: ArcSwap<McpDoorSettings>,
    started: tokio::time::Instant,
    boxes: boxes::Boxes,
    sessions: session::Sessions,
    /// Who listens for changes without a session.
    listening: presence::Presence,
    /// The places for streams of what changes.
    listeners: Arc<Semaphore>,
    /// The places for resources that are followed.
    followed: Arc<Semaphore>,
}

impl McpDoor {
    pub(crate) fn new(settings: &McpDoorSettings) -> Self {
        let sessions = session::Sessions::new(settings.sessions, settings.session_idle);
        let listeners = Arc::new(Semaphore::new(settings.listeners.min(Semaphore::MAX_PERMITS)));
        let followed = Arc::new(Semaphore::new(settings.followed.min(Semaphore::MAX_PERMITS)));
        let (started, boxes) = (tokio::time::Instant::now(), boxes::Boxes::default());
        let (settings, listening) =
            (ArcSwap::from_pointee(settings.clone()), presence::Presence::default());
        Self { settings, started, boxes, sessions, listening, listeners, followed }
    }

    /// What holds for a request that comes now.
    pub(super) fn settings(&self) -> Arc<McpDoorSettings> {
        self.settings.load_full()
    }

    /// Other settings for the requests that come from now on. The numbers of places for listeners and
    /// followed resources stay, since somebody may have one.
    pub(crate) fn change(&self, settings: &McpDoorSettings) {
        let before = self.settings();
        let mut settings = settings.clone();
        (settings.listeners, settings.followed) = (before.listeners, before.followed);
        settings.start_patience = before.start_patience;
        self.sessions.bound(settings.sessions, settings.session_idle);
        self.settings.store(Arc::new(settings));
        self.boxes.clear();
    }

    /// Ends the sessions and the streams of some identities, and says how many these were.
    pub(crate) fn dismiss(&self, is_over: &dyn Fn(&str) -> bool) -> usize {
        self.sessions.dismiss(is_over) + self.listening.dismiss(is_over)
    }

    /// How many sessions there are.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.count()
    }
}
