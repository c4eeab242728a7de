//! Services that are gateways like this one: what their documents say in `x-toolpost-operation` makes the
//! same operations here, and a call gets the same envelopes, events and errors.
//!
//! | file | holds |
//! |---|---|
//! | `request` | the input as the body, with what is left of the time |
//! | `answer` | envelopes and problems, as they came |
//! | `event` | what an event of a stream says |

mod answer;
mod event;
mod request;

pub(super) use answer::{is_problem, outcome, refusal};
pub(super) use event::Event;
pub(super) use request::{fill, trace};
