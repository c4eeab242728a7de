//! Resources and prompts through a real pipeline, from operations that pretend to be servers and from
//! servers.

mod fixture;
mod hubs;
mod lists;
mod reads;
mod real_servers;
mod routing;
