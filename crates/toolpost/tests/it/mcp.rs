//! MCP servers as sources: what a caller sees of them through registry and pipeline.
//!
//! | file | holds |
//! |---|---|
//! | `rig` | a server, its source, and a pipeline; and what the server wrote down |
//! | `starts` | eras, versions, servers that are slow, silent, or gone |
//! | `lists` | odd tools, many tools, changes |
//! | `answers` | every odd way to answer a call |
//! | `sizes` | answers that are too large |
//! | `losses` | servers that die, and what is repeated |
//! | `patience` | cancellation, deadlines, silence and progress |
//! | `over_http` | what only happens over HTTP |
//! | `real` | servers that others wrote |
//!
//! Rows of a table run at the same time, so that the slow ones cost no more than the slowest.

mod answers;
mod lists;
mod losses;
mod over_http;
mod patience;
mod real;
mod rig;
mod sizes;
mod starts;
