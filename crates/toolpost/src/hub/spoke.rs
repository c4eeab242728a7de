//! Spokes: processes that register their operations with a hub.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::register::RegisterOutput;
use crate::connection::{
    CallHandler, CallerIdentity, Client, ConnectionStatus, ReconnectSettings, ReconnectingClient,
    wait_connected,
};
use crate::error::CallError;
use crate::operation::{Operation, OperationError};
use crate::pipeline::{CallRequest, Pipeline};
use crate::registry::Registry;
use crate::transport::Connector;

/// Timeout of a registration.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(30);

/// A named set of operations that this process provides to a hub.
///
/// ```no_run
/// # #[cfg(feature = "ws")]
/// # async fn offer() -> Result<(), Box<dyn std::error::Error>> {
/// use toolpost::{HandlerError, Operation};
/// use toolpost::hub::Spoke;
/// use toolpost::transport::WsConnector;
///
/// let greet = async |name: String| Ok::<_, HandlerError>(format!("Hello, {name}"));
/// let spoke = Spoke::new("box").operation(Operation::query("text.greet", greet).build()?)?;
/// let session = spoke.connect(WsConnector::new("ws://127.0.0.1:7411", None)?);
/// session.ready().await?; // `box.text.greet` can be called now
/// # session.close().await;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Spoke {
    name: String,
    registry: Registry,
    settings: ReconnectSettings,
}

impl Spoke {
    /// Creates a spoke without operations.
    pub fn new(name: impl Into<String>) -> Self {
        Self::with_registry(name, Registry::new())
    }

    /// Creates a spoke that registers the operations of `registry` and keeps them up to date.
    pub fn with_registry(name: impl Into<String>, registry: Registry) -> Self {
        Self { name: name.into(), registry, settings: ReconnectSettings::default() }
    }

    /// Adds an operation.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Duplicate`] if the id is already registered.
    pub fn operation(self, operation: Operation) -> Result<Self, OperationError> {
        self.registry.register(operation)?;
        Ok(self)
    }

    /// Sets the reconnect backoff and the connection limits.
    #[must_use]
    pub fn settings(mut self, settings: ReconnectSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Connects to the hub and registers the operations. Reconnects and registers again when the
    /// connection is lost.
    pub fn connect(self, connector: impl Connector) -> SpokeHandle {
        let pipeline = Pipeline::new(self.registry.clone());
        let handler = CallHandler::new(pipeline.clone(), CallerIdentity::Forwarded);
        let registration = Arc::new(SpokeRegistration { name: self.name, registry: self.registry });
        let shared_registration = Arc::clone(&registration);
        let on_connect = Arc::new(move |client: Client| {
            let registration = Arc::clone(&shared_registration);
            async move { registration.register(&client).await }.boxed()
        });
        // Subscribe before the first registration, so that no change is missed.
        let changes = registration.registry.watch_changes();
        let session = ReconnectingClient::start_with_on_connect(
            connector,
            Some(handler),
            on_connect,
            self.settings,
        );
        let reregister_task =
            tokio::spawn(registration.reregister_on_change(changes, session.status()));
        SpokeHandle { client: Some(session), reregister_task, pipeline }
    }
}

struct SpokeRegistration {
    name: String,
    registry: Registry,
}

impl SpokeRegistration {
    async fn register(&self, client: &Client) -> Result<(), CallError> {
        let catalog = self.registry.catalog();
        let specs: Vec<_> = catalog.list().iter().map(|operation| operation.spec()).collect();
        let registration = json!({"name": self.name, "operations": specs});
        let request = CallRequest::new("hub.register", registration).timeout(REGISTER_TIMEOUT);
        let reply = client.call(request).await?;
        let registered: RegisterOutput = reply.envelope.data.into_typed().map_err(|error| {
            CallError::execution(format!("unexpected response from the hub: {error}"))
        })?;
        for rejection in &registered.refused {
            tracing::warn!(
                operation = rejection.id,
                reason = rejection.reason,
                "operation rejected by hub"
            );
        }
        tracing::info!(spoke = self.name, registered = registered.registered.len(), "registered");
        Ok(())
    }

    /// Registers again when the registry changes. A connection attempt in progress may have read
    /// the registry before the change, so this waits for the connection and registers again, which
    /// is sometimes redundant.
    async fn reregister_on_change(
        self: Arc<Self>,
        mut changes: watch::Receiver<u64>,
        status: watch::Receiver<ConnectionStatus>,
    ) {
        while changes.changed().await.is_ok() {
            let Ok(client) = wait_connected(status.clone()).await else { return };
            if let Err(error) = self.register(&client).await {
                tracing::warn!(%error, "failed to register changed operations");
            }
        }
    }
}

/// Handle to a running spoke. Dropping it disconnects the spoke.
#[derive(Debug)]
pub struct SpokeHandle {
    client: Option<ReconnectingClient>,
    reregister_task: JoinHandle<()>,
    pipeline: Pipeline,
}

impl SpokeHandle {
    /// Waits until the spoke is registered, and returns a client that calls the hub.
    ///
    /// # Errors
    ///
    /// Returns `UNAVAILABLE` if the session has ended.
    pub async fn ready(&self) -> Result<Client, CallError> {
        self.client().wait_connected().await
    }

    /// Returns the client that calls the hub.
    pub fn client(&self) -> &ReconnectingClient {
        self.client.as_ref().expect("taken only on close or drop")
    }

    /// Returns the pipeline that runs the calls from the hub.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Disconnects from the hub.
    pub async fn close(mut self) {
        if let Some(session) = self.client.take() {
            session.close().await;
        }
    }
}

impl Drop for SpokeHandle {
    fn drop(&mut self) {
        self.reregister_task.abort();
    }
}
