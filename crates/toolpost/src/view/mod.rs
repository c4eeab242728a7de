//! Presents operations to clients: as MCP tools, and as the OpenAPI document of an HTTP API
//! ([`HttpApi`]).
//!
//! This module performs no I/O. An endpoint creates a [`ToolSet`] for each catalog snapshot,
//! responds to `tools/list` with a page of a [`Listing`], looks up a [`Tool`] by name, and uses it
//! to write the result of a call. Every result matches the output schema that the tool publishes.
//!
//! ```
//! use toolpost::view::{ListMode, ProtocolGeneration, ToolSet, ViewSettings};
//! use toolpost::{Authority, CallRequest, HandlerError, Operation, Pipeline, Registry};
//! use serde_json::{Value, json};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::new();
//! let double = async |number: i64| Ok::<_, HandlerError>(number * 2);
//! registry.register(Operation::query("demo.double", double).build()?)?;
//!
//! let tools = ToolSet::new(registry.catalog(), ViewSettings::default());
//! let listing = tools.listing(ListMode::All, ProtocolGeneration::Legacy, |_| true);
//! let mut page = Vec::new();
//! listing.page(None)?.write(&mut page, None);
//! let page: Value = serde_json::from_slice(&page)?;
//! assert_eq!(page["tools"][0]["name"], "demo__double");
//! assert_eq!(page["tools"][0]["outputSchema"]["required"], json!(["result"]));
//!
//! let tool = tools.tool("demo__double").ok_or("no such tool")?;
//! let input = tool.input(serde_json::from_value(json!({"input": 21}))?)?;
//! let request = CallRequest::new(tool.id().as_str(), input);
//! let ended = Pipeline::new(registry).call(request, Authority::untrusted(None)).await;
//! let mut result = Vec::new();
//! tool.write_result(&mut result, ProtocolGeneration::Legacy, ended);
//! let result: Value = serde_json::from_slice(&result)?;
//! assert_eq!(result["structuredContent"], json!({"result": 42}));
//! # Ok(()) }
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `settings` | dialects, protocol generations, and which tools are listed |
//! | `name` | tool names |
//! | `input`, `output`, `json_types` | input and output schemas of a tool |
//! | `boolean_schemas` | conversion of boolean schemas to objects |
//! | `portable` | schemas that all clients interpret the same way |
//! | `tool`, `annotations` | a tool, and the metadata from its server |
//! | `tool_set`, `listing` | the tools of a catalog, and pages of a tool list |
//! | `result` | call results in each dialect |
//! | `summary` | tools that return short text by default |
//! | `collector` | subscriptions as a single result |
//! | `openapi` | operations as an OpenAPI document |

mod annotations;
mod boolean_schemas;
mod collector;
mod input;
mod json_types;
mod listing;
mod name;
mod openapi;
mod output;
mod portable;
mod result;
mod settings;
mod summary;
mod tool;
mod tool_set;

pub use crate::header_params::decode as decode_header;
pub use collector::Collector;
pub use listing::{CacheHints, CacheScope, CursorError, Listing, ToolPage};
pub use name::tool_name;
pub use openapi::HttpApi;
pub use result::{
    ERROR_META, REPAIRS_META, REPLAYED_META, ResultStatus, WARNINGS_META, WRAPPED_META,
};
pub use settings::{Dialect, ListMode, ProtocolGeneration, UnknownNameError, ViewSettings};
pub use tool::Tool;
pub use tool_set::ToolSet;
