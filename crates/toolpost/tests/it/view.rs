//! Operations as MCP tools: every listing and result that clients see.

mod fixture;
mod golden;
mod listings;
mod properties;
mod results;
