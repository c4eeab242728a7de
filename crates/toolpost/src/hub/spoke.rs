//! A process that offers operations to a hub.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::register::Registered;
use crate::connection::{
    CallHandler, Callers, Client, Session, SessionSettings, Status, connected,
};
use crate::error::CallError;
use crate::link::Connector;
use crate::operation::{Operation, OperationError};
use crate::pipeline::{CallRequest, Pipeline};
use crate::registry::Registry;

/// How long a hub may take to take an offer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Operations under one name, offered to a hub for as long as the session lives.
///
/// ```no_run
/// # #[cfg(feature = "ws")]
/// # async fn offer() -> Result<(), Box<dyn std::error::Error>> {
/// use toolpost::{HandlerError, Operation};
/// use toolpost::hub::Spoke;
/// use toolpost::link::WsConnector;
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
    settings: SessionSettings,
}

impl Spoke {
    /// A spoke without operations.
    pub fn new(name: impl Into<String>) -> Self {
        Self::with(name, Registry::new())
    }

    /// A spoke that offers a registry, and every change of it.
    pub fn with(name: impl Into<String>, registry: Registry) -> Self {
        Self { name: name.into(), registry, settings: SessionSettings::default() }
    }

    /// Offers one more operation.
    ///
    /// # Errors
    ///
    /// [`OperationError::Duplicate`].
    pub fn operation(self, operation: Operation) -> Result<Self, OperationError> {
        self.registry.register(operation)?;
        Ok(self)
    }

    /// How it waits, and what bounds it.
    #[must_use]
    pub fn settings(mut self, settings: SessionSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Connects, registers, and does both again whenever the connection is lost.
    pub fn connect(self, connector: impl Connector) -> SpokeSession {
        let pipeline = Pipeline::new(self.registry.clone());
        let handler = CallHandler::new(pipeline.clone(), Callers::AsTold);
        let offer = Arc::new(Offer { name: self.name, registry: self.registry });
        let greeted = Arc::clone(&offer);
        let greeting = Arc::new(move |client: Client| {
            let offer = Arc::clone(&greeted);
            async move { offer.make(&client).await }.boxed()
        });
        // From before the first offer, so that no change falls between the two.
        let changes = offer.registry.changes();
        let session = Session::greeting(connector, Some(handler), greeting, self.settings);
        let renewing = tokio::spawn(offer.renew(changes, session.status()));
        SpokeSession { session: Some(session), renewing, pipeline }
    }
}

struct Offer {
    name: String,
    registry: Registry,
}

impl Offer {
    async fn make(&self, client: &Client) -> Result<(), CallError> {
        let catalog = self.registry.catalog();
        let specs: Vec<_> = catalog.list().iter().map(|operation| operation.spec()).collect();
        let offer = json!({"name": self.name, "operations": specs});
        let request = CallRequest::new("hub.register", offer).timeout(PATIENCE);
        let answer = client.call(request).await?;
        let registered: Registered = answer.envelope.data.into_typed().map_err(|error| {
            CallError::execution(format!("the hub gave an odd answer: {error}"))
        })?;
        for refused in &registered.refused {
            tracing::warn!(operation = refused.id, reason = refused.reason, "refused by the hub");
        }
        tracing::info!(spoke = self.name, registered = registered.registered.len(), "registered");
        Ok(())
    }

    /// Offers again whenever the registry has changed. Whoever is connecting may have read it before
    /// the change, so this waits for the connection and offers once more than may be needed.
    async fn renew(
        self: Arc<Self>,
        mut changes: watch::Receiver<u64>,
        status: watch::Receiver<Status>,
    ) {
        while changes.changed().await.is_ok() {
            let Ok(client) = connected(status.clone()).await else { return };
            if let Err(error) = self.make(&client).await {
                tracing::warn!(%error, "the changed offer was not registered");
            }
        }
    }
}

/// A spoke at work. Dropping it ends it.
#[derive(Debug)]
pub struct SpokeSession {
    session: Option<Session>,
    renewing: JoinHandle<()>,
    pipeline: Pipeline,
}

impl SpokeSession {
    /// Waits until the hub has taken the offer, and gives a client of the hub.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE`: the session has ended.
    pub async fn ready(&self) -> Result<Client, CallError> {
        self.session().connected().await
    }

    /// The session with the hub.
    pub fn session(&self) -> &Session {
        self.session.as_ref().expect("it is taken only when this is closed or dropped")
    }

    /// The pipeline that runs the calls of the hub.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Leaves the hub.
    pub async fn close(mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }
}

impl Drop for SpokeSession {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}
