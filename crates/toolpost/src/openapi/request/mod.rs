//! From an input to a request: what can be settled before a call is settled once, in a [`Template`].

mod accept;
mod body;
mod cookie;
mod escape;
mod header;
mod media;
mod path;
mod place;
mod prepared;
mod query;
mod server;
mod style;
mod template;
mod value;

pub(crate) use prepared::Prepared;
pub use server::ServerSettings;
pub(crate) use server::address;
pub(crate) use template::Template;

#[cfg(test)]
pub(in crate::openapi) mod tests;
