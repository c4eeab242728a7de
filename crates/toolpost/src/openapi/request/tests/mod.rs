//! Requests as they arrive: a real service on this machine says what it was sent.

mod bodies;
mod decode;
pub(in crate::openapi) mod echo_server;
mod external_parsers;
mod parameters;
pub(in crate::openapi) mod plans;
mod properties;
mod rejections;
mod style_table;
