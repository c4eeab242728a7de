//! Requests as a local server receives them.

mod bodies;
mod decode;
pub(in crate::openapi) mod echo_server;
mod external_parsers;
mod parameters;
pub(in crate::openapi) mod plans;
mod properties;
mod rejections;
mod style_table;
