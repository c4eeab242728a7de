//! One file a command.

mod add;
mod approval;
mod backend;
mod call;
mod cast;
mod catalog;
mod completions;
mod connect;
mod document;
mod envelope;
mod init;
mod log;
mod mcp;
mod neighbour;
mod openapi;
mod remove;
mod serve;
mod signal;
mod sources;
mod started;
mod token;

pub(crate) use add::add_mcp;
pub(crate) use approval::{approvals, approve, reject};
pub(crate) use call::{call, subscribe};
pub(crate) use cast::cast;
pub(crate) use catalog::{config_schema, envelope_schema, event_schema, list, schema, search};
pub(crate) use completions::completions;
pub(crate) use envelope::{decode, encode};
pub(crate) use init::init;
pub(crate) use log::{log, replay};
pub(crate) use mcp::mcp;
pub(crate) use openapi::{add_openapi, import};
pub(crate) use remove::remove;
pub(crate) use serve::serve;
pub(crate) use sources::sources;
pub(crate) use token::token;
