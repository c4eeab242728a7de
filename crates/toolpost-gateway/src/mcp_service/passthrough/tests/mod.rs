//! Resources and prompts through a real pipeline, with simulated and real MCP servers.

mod fixture;
mod hubs;
mod lists;
mod reads;
mod real_servers;
mod routing;
