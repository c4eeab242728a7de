//! HTTP services with an OpenAPI document as operations.
//!
//! A document is read with every file that it refers to, its operations are imported with plans, and a
//! call follows the plan of its operation.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | what is settled about a source before its document is read |
//! | `source`, `embed`, `offer` | documents that are read, kept up to date, and put into a registry |
//! | `load`, `document` | files that refer to each other, as one compact tree |
//! | `import`, `schema` | from a document to operations with plans, and to the report about the rest |
//! | `inspect` | what a document would become |
//! | `plan` | the wall between the two halves: how an operation is called |
//! | `request`, `credential` | from an input to a request, and what it shows |
//! | `client` | where requests may go, how long, how large, how often |
//! | `handler`, `response`, `stream` | a call, its answer as an envelope, values that come one by one |
//! | `native` | the same for services that are gateways like this one |

mod client;
mod credential;
mod document;
mod embed;
mod handler;
mod import;
mod inspect;
mod load;
mod native;
mod offer;
#[doc(hidden)]
pub mod parsers;
mod plan;
mod request;
mod response;
mod schema;
mod settings;
mod source;
mod stream;

pub use credential::{Credential, Credentials, OAuth2Client};
pub use embed::from_openapi;
pub use import::{Counts, ImportError, OPENAPI_META, Report, Skipped};
pub use inspect::{Inspection, inspect};
pub use load::{LoadError, LoadSettings, Location};
pub use offer::{Found, OpenApiError};
pub use request::ServerSettings;
pub use schema::Warning;
pub use settings::{BreakerSettings, ClientSettings, Namespaces, OpenApiSettings, RetrySettings};
pub use source::{Adjust, OpenApiSource, Review, ServiceHosts, SourceHooks, SourceStatus};
