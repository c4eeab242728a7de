//! The OpenAPI 3.1 document of the gateway's HTTP API.
//!
//! | file | contents |
//! |---|---|
//! | `operation` | one operation: its path and path item |
//! | `parameter` | the input as query parameters, and the call options |
//! | `response` | success and error responses |
//! | `links` | links from a response to other operations |
//! | `components` | component schemas and the references to them |
//! | `shared_defs` | component schemas with shared definitions |
//! | `publish` | schemas that all OpenAPI tools accept |
//! | `shared` | the parts that every document has |
//! | `name` | names for code generators |

mod components;
mod links;
mod name;
mod operation;
mod parameter;
mod publish;
mod response;
mod shared;
mod shared_defs;

use serde_json::{Map, Value, json};

use crate::operation::Operation;
use components::Components;
use name::UniqueNames;

/// Describes operations as an HTTP API in an OpenAPI 3.1 document.
///
/// ```
/// use toolpost::view::HttpApi;
/// use toolpost::{HandlerError, Operation};
///
/// let double = async |number: i64| Ok::<_, HandlerError>(number * 2);
/// let operation = Operation::query("demo.double", double).build()?;
/// let document = HttpApi::new("1.0.0").document([&operation]);
/// assert_eq!(document["openapi"], "3.1.0");
/// let described = &document["paths"]["/api/demo/double"]["post"];
/// assert_eq!(described["operationId"], "demo.double");
/// assert_eq!(described["x-toolpost-operation"]["type"], "query");
/// # Ok::<_, toolpost::OperationError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpApi {
    /// Title of the API.
    pub title: String,
    /// Version of the server.
    pub version: String,
    /// Whether the API requires a bearer token.
    pub needs_token: bool,
    /// Path under which the API is mounted; empty for the root.
    pub base_path: String,
}

impl HttpApi {
    /// Creates an API without authentication.
    pub fn new(version: impl Into<String>) -> Self {
        let (title, base_path) = ("Toolpost".to_owned(), String::new());
        Self { title, version: version.into(), needs_token: false, base_path }
    }

    /// Returns the OpenAPI document for the operations. The output is deterministic.
    pub fn document<'a>(&self, operations: impl IntoIterator<Item = &'a Operation>) -> Value {
        let (mut components, mut names) = (Components::new(), UniqueNames::default());
        let (mut paths, mut tags) = (Map::new(), Vec::new());
        for operation in operations {
            let namespace = operation.id().namespace();
            if tags.last().is_none_or(|tag: &Value| tag["name"] != namespace) {
                tags.push(json!({"name": namespace}));
            }
            let item = operation::path_item(operation, &mut components, &mut names);
            paths.insert(name::path(operation.id()), item);
        }
        links::add(&mut paths);
        let mut document = json!({
            "openapi": "3.1.0",
            "info": {"title": self.title, "version": self.version, "description": shared::API_DESCRIPTION},
            "x-toolpost": {"version": self.version},
            "servers": [{"url": if self.base_path.is_empty() { "/" } else { &self.base_path }}],
            "tags": tags,
            "paths": paths,
            "components": {
                "schemas": components.into_schemas(),
                "parameters": shared::parameters(),
                "headers": shared::headers(),
                "responses": shared::responses(),
            },
        });
        if self.needs_token {
            document["security"] = json!([{"token": []}]);
            document["components"]["securitySchemes"] = json!({
                "token": {"type": "http", "scheme": "bearer", "description": "Created with `toolpost token new`."},
            });
        }
        document
    }
}

#[cfg(test)]
#[cfg(feature = "openapi")]
mod import_tests;
#[cfg(test)]
mod tests;
