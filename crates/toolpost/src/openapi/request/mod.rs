//! Builds requests from inputs with a [`RequestTemplate`], which is computed once.

mod accept;
mod binary;
mod body;
mod cookie;
mod escape;
mod header;
mod path_template;
mod prepared;
mod query;
mod server;
mod style;
mod template;
mod value;

use crate::json::ValuePath;
use crate::schema::Issue;

pub(crate) use prepared::PreparedRequest;
pub use server::ServerSettings;
pub(crate) use server::server_url;
pub(crate) use template::RequestTemplate;

/// Percent-encodes text for a query.
pub(crate) fn escape_query(text: &str) -> String {
    escape::PercentEscape::All.escaped(text)
}

impl ValuePath<'_> {
    /// Creates an issue about the input value with this path.
    fn issue(&self, message: impl Into<String>) -> Issue {
        Issue::new(self.to_string(), message)
    }
}

#[cfg(test)]
pub(in crate::openapi) mod tests;
