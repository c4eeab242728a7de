//! Operations as MCP tools: the listings and results that clients see.

mod fixture;
mod golden;
mod listings;
mod properties;
mod results;
mod sdk_validators;
