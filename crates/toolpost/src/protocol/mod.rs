//! The call protocol without I/O: events, their encoding, and pending requests on both sides.

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
