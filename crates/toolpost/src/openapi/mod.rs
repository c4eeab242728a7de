//! HTTP services with an OpenAPI document as operations.
//!
//! A document is loaded together with the files it refers to, and imported into a request plan for
//! each operation.
//!
//! | file | contents |
//! |---|---|
//! | `settings` | settings of a source |
//! | `source`, `embed`, `build` | loading, refreshing and registering documents |
//! | `load`, `document` | files that refer to each other, as compact trees |
//! | `import`, `schema` | operations with their plans and schemas, and the import report |
//! | `inspect` | lists the operations of a document without registering them |
//! | `plan` | how an operation is called: the interface between import and calls |
//! | `request`, `credential` | the request for an input, and its credentials |
//! | `media_type` | media types of requests and responses |
//! | `client` | allowed hosts, timeouts, size limits, retries |
//! | `handler`, `response`, `stream` | a call, its response as an envelope, streams of values |
//! | `peer_gateway` | calls to services that are Toolpost gateways |

mod build;
mod client;
mod credential;
mod document;
mod embed;
mod handler;
mod import;
mod inspect;
mod load;
mod media_type;
#[doc(hidden)]
pub mod parsers;
mod peer_gateway;
mod plan;
mod request;
mod response;
mod schema;
mod settings;
mod source;
mod stream;

pub use build::{OpenApiError, ServiceInfo};
pub use credential::{Credential, Credentials, OAuth2Client};
pub use embed::from_openapi;
pub use import::{ImportError, ImportReport, OPENAPI_META, OperationCounts, SkippedOperation};
pub use inspect::{Inspection, inspect};
pub use load::{DocumentLocation, LoadError, LoadSettings};
pub use request::ServerSettings;
pub use schema::DocumentWarning;
pub use settings::{BreakerSettings, ClientSettings, Namespaces, OpenApiSettings, RetrySettings};
pub use source::{OpenApiSource, ServiceHosts};
