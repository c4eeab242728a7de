//! MCP servers as sources, tested through registry and pipeline.
//!
//! | file | contains |
//! |---|---|
//! | `fixture` | a server, its source, a pipeline, and the log of the server |
//! | `startup` | protocol versions, slow, silent and missing servers |
//! | `tool_lists` | malformed tools, many tools, list changes |
//! | `responses` | malformed and unusual responses to a call |
//! | `message_size` | oversized responses |
//! | `disconnects` | servers that exit, and what is retried |
//! | `timeouts` | cancellation, deadlines, idle timeouts and progress |
//! | `http_transport` | behavior specific to HTTP |
//! | `real_servers` | third-party servers |
//!
//! The rows of a table run concurrently, so a table takes only as long as its slowest row.

mod disconnects;
mod fixture;
mod http_transport;
mod message_size;
mod real_servers;
mod responses;
mod startup;
mod timeouts;
mod tool_lists;
