//! HTTP services with an OpenAPI document as operations.
//!
//! A document is read with every file that it refers to, its operations are imported with plans, and a
//! call follows the plan of its operation.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | what is settled about a source before its document is read |
//! | `source`, `embed`, `build` | documents that are loaded, refreshed, and registered |
//! | `load`, `document` | files that refer to each other, as one compact tree |
//! | `import`, `schema` | from a document to operations with plans, and to the report about the rest |
//! | `inspect` | what a document would become |
//! | `plan` | how an operation is called: the interface between import and calls |
//! | `request`, `credential` | from an input to a request, and what it shows |
//! | `client` | where requests may go, how long, how large, how often |
//! | `handler`, `response`, `stream` | a call, its answer as an envelope, values that come one by one |
//! | `peer_gateway` | the same for services that are Toolpost gateways |

mod build;
mod client;
mod credential;
mod document;
mod embed;
mod handler;
mod import;
mod inspect;
mod load;
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
pub use source::{
    ConfigLint, OpenApiSource, OpenApiStatus, OperationTransform, ServiceHosts, SourceHooks,
};
