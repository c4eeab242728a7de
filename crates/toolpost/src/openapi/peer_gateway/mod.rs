//! Calls to other Toolpost gateways, which preserve envelopes, events and errors.
//!
//! | file | contents |
//! |---|---|
//! | `request` | the input as the body, with the remaining timeout |
//! | `response` | envelopes and problems |
//! | `event` | events of a stream |

mod event;
mod request;
mod response;

pub(super) use event::PeerEvent;
pub(super) use request::{build_request, set_trace_headers};
pub(super) use response::{is_problem, parse_error, parse_outcome};
