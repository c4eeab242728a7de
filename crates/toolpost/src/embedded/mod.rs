//! [`Toolpost`]: the operations and sources of a program in one pipeline.

#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "openapi")]
mod openapi;

use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use serde_json::Value;

use crate::access::{Authority, Identity};
use crate::connection::Client;
use crate::envelope::Envelope;
use crate::error::CallError;
use crate::operation::{Operation, OperationBuilder, OperationError};
use crate::payload::Payload;
use crate::pipeline::{Pipeline, PipelineSettings};
use crate::registry::Registry;
use crate::source::{RunningSource, Source, SourceHooks};

/// Time limit for all sources to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The operations of a program, both its own and those of its sources. Dropping it closes the
/// sources.
///
/// ```
/// use toolpost::{HandlerError, Identity, Operation, Toolpost};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let greet = async |name: String| Ok::<_, HandlerError>(format!("Hello, {name}"));
/// let toolpost = Toolpost::builder().operation(Operation::query("hello.greet", greet)).build().await?;
///
/// let greeting = toolpost.call_trusted("hello.greet", json!("Ada")).await?;
/// assert_eq!(greeting.data, "Hello, Ada");
/// let caller = toolpost.caller(Identity::new("ada"));
/// assert_eq!(caller.call("hello.greet", json!("Bob")).await?.data, "Hello, Bob");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Toolpost {
    pipeline: Pipeline,
    sources: Vec<RunningSource>,
}

impl Toolpost {
    /// Returns a builder for the operations and sources.
    pub fn builder() -> ToolpostBuilder {
        ToolpostBuilder::default()
    }

    /// Calls an operation without an access check.
    ///
    /// # Errors
    ///
    /// Returns the error of the call.
    pub async fn call_trusted(
        &self,
        operation: &str,
        input: impl Into<Payload>,
    ) -> Result<Envelope<Value>, CallError> {
        self.pipeline.call_trusted(operation, input).await
    }

    /// Returns a [`Caller`] with this identity. Access is checked for each of its calls.
    pub fn caller(&self, identity: Identity) -> Caller {
        let authority = Authority::untrusted(Some(Arc::new(identity)));
        Caller(Client::in_process(self.pipeline.clone(), authority))
    }

    /// Returns the registry of the operations.
    pub fn registry(&self) -> &Registry {
        self.pipeline.registry()
    }

    /// Returns the pipeline that runs the calls.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Returns the sources.
    pub fn sources(&self) -> &[RunningSource] {
        &self.sources
    }

    /// Closes the sources and waits until they are closed.
    pub async fn close(self) {
        futures::future::join_all(self.sources.into_iter().map(RunningSource::close)).await;
    }
}

/// The operations of a registry, without sources.
impl From<Registry> for Toolpost {
    fn from(registry: Registry) -> Self {
        Self { pipeline: Pipeline::new(registry), sources: Vec::new() }
    }
}

/// Calls operations as one identity.
#[derive(Debug, Clone)]
pub struct Caller(Client);

impl Caller {
    /// Calls an operation.
    ///
    /// # Errors
    ///
    /// Returns the error of the call.
    pub async fn call(
        &self,
        operation: &str,
        input: impl Into<Payload>,
    ) -> Result<Envelope<Value>, CallError> {
        self.0.call_json(operation, input).await
    }

    /// Returns the client, for requests with options and for subscriptions.
    pub fn client(&self) -> &Client {
        &self.0
    }
}

/// Error returned when a [`Toolpost`] cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An operation is invalid or registered twice.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The settings of a source are invalid.
    #[error("source `{name}`: {reason}")]
    #[non_exhaustive]
    Settings {
        /// Name of the source.
        name: String,
        /// What is invalid.
        reason: String,
    },
    /// A source failed to start or was not ready in time.
    #[error("source `{name}`: {error}")]
    #[non_exhaustive]
    Source {
        /// Name of the source.
        name: String,
        /// The error of the source.
        #[source]
        error: CallError,
    },
}

type StartSource = Box<dyn FnOnce(&Registry) -> Result<RunningSource, BuildError> + Send>;

/// Builder for a [`Toolpost`].
#[derive(Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct ToolpostBuilder {
    operations: Vec<Result<Operation, OperationError>>,
    sources: Vec<StartSource>,
    settings: PipelineSettings,
}

impl ToolpostBuilder {
    /// Adds an operation.
    pub fn operation(mut self, operation: OperationBuilder) -> Self {
        self.operations.push(operation.build());
        self
    }

    /// Adds a source.
    pub fn source(self, source: impl Source) -> Self {
        self.start_with(|registry| {
            Ok(RunningSource::start(registry, source, SourceHooks::default()))
        })
    }

    fn start_with(
        mut self,
        start: impl FnOnce(&Registry) -> Result<RunningSource, BuildError> + Send + 'static,
    ) -> Self {
        self.sources.push(Box::new(start));
        self
    }

    /// Sets the limits and timeouts for calls.
    pub fn pipeline_settings(mut self, settings: PipelineSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Registers the operations, starts the sources and waits until they are ready. A source that
    /// disconnects later is reconnected.
    ///
    /// # Errors
    ///
    /// Returns an error if an operation is invalid, or if a source cannot be started or is not
    /// ready in time.
    pub async fn build(self) -> Result<Toolpost, BuildError> {
        let registry = Registry::new();
        for operation in self.operations {
            registry.register(operation?)?;
        }
        let sources: Result<Vec<_>, _> =
            self.sources.into_iter().map(|start| start(&registry)).collect();
        let sources = sources?;
        try_join_all(sources.iter().map(async |source| {
            let ready = source.ready(START_TIMEOUT).await;
            ready.map_err(|error| BuildError::Source { name: source.name().to_owned(), error })
        }))
        .await?;
        let pipeline = Pipeline::builder(registry).settings(self.settings).build();
        Ok(Toolpost { pipeline, sources })
    }
}

debug_fields!(_builder: ToolpostBuilder);
