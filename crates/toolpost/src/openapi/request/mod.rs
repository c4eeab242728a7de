//! Builds requests from inputs. Everything that does not depend on the input is computed once, in a
//! [`RequestTemplate`].

mod accept;
mod body;
mod cookie;
mod escape;
mod header;
mod input_path;
mod media_type;
mod path_template;
mod prepared;
mod query;
mod server;
mod style;
mod template;
mod value;

pub(crate) use prepared::PreparedRequest;
pub use server::ServerSettings;
pub(crate) use server::server_url;
pub(crate) use template::RequestTemplate;

#[cfg(test)]
pub(in crate::openapi) mod tests;
