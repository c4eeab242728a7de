//! Resources and prompts through a real pipeline, from operations that pretend to be servers and from
//! servers.

mod hubs;
mod lists;
mod reads;
mod real;
mod routes;
mod world;
