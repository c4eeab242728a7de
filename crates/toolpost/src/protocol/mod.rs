//! The call protocol without any I/O: events, their text, and what they do to the requests that are
//! pending on either side.

mod codec;
mod event;
mod inflight;
mod pending;
mod schemas;
#[cfg(test)]
mod tests;

pub use codec::FrameError;
pub use event::{CallEvent, Control, RequestEvent, Secret};
pub use inflight::{InflightRequests, Topics};
pub use pending::{Consumer, EventEffect, ExpiredRequest, PendingRequests, RequestTimeouts};
pub use schemas::CALL_EVENT_SCHEMA;
