//! The call protocol without any I/O: events, their text, and what they do to the requests that are
//! pending on either side.

mod event;
mod pending;
mod schemas;
mod serving;
#[cfg(test)]
mod tests;
mod wire;

pub use event::{Control, Event, Requested, Secret};
pub use pending::{Consumer, Expired, Patience, Pending, Received};
pub use schemas::CALL_EVENT_SCHEMA;
pub use serving::{Serving, Topics};
pub use wire::FrameError;
