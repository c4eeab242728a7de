//! Operations as MCP tools: every listing and result that clients see.

mod golden;
mod lists;
mod properties;
mod results;
mod world;
