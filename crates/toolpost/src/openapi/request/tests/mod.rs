//! Requests as they arrive: a real service on this machine says what it was sent.

mod bodies;
pub(in crate::openapi) mod far;
mod parameters;
mod parsers;
pub(in crate::openapi) mod plans;
mod properties;
mod reading;
mod refusals;
mod style_table;
