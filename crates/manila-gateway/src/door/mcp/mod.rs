//! Operations as tools of MCP, over streamable HTTP and over a pair of streams.
//!
//! | file | holds |
//! |---|---|
//! | `http`, `stream`, `batch`, `era` | `/mcp`: requests, their headers, responses as JSON and as events |
//! | `stdio` | one client on a pair of streams |
//! | `message`, `params` | JSON-RPC, and what requests say |
//! | `ask`, `call` | a request and its answer, whatever carried it |
//! | `passing` | resources and prompts, which are their sources' |
//! | `inquiry` | what clients are asked while their requests run |
//! | `outlet`, `level`, `changes` | what clients are told before an answer, and without having asked |
//! | `following` | the resources that one client follows |
//! | `session`, `boxes` | what is kept between requests |

mod ask;
mod batch;
mod boxes;
mod call;
mod changes;
mod era;
mod following;
mod http;
mod inquiry;
mod level;
mod message;
mod outlet;
mod params;
mod passing;
mod session;
mod settings;
mod stdio;
mod stream;
mod text;

use std::sync::Arc;

use tokio::sync::Semaphore;

pub(super) use http::serve;
pub use settings::{McpDoorSettings, McpView};
pub(crate) use stdio::serve as serve_streams;

/// What the door keeps between requests.
#[derive(Debug)]
pub(crate) struct McpDoor {
    started: tokio::time::Instant,
    boxes: boxes::Boxes,
    sessions: session::Sessions,
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
        let started = tokio::time::Instant::now();
        Self { started, boxes: boxes::Boxes::default(), sessions, listeners, followed }
    }
}
