//! A client that reconnects when its connection is lost.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::{CallHandler, Client, Connection, ConnectionSettings, IncomingRequests};
use crate::error::{CallError, ErrorCode};
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::pipeline::CallRequest;
use crate::transport::{CloseReason, Connector};

/// Reconnect backoff and connection limits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReconnectSettings {
    /// Delay before the first reconnect attempt. It doubles with each failed attempt.
    pub min_backoff: Duration,
    /// Maximum delay.
    pub max_backoff: Duration,
    /// Limits of each connection.
    pub connection: ConnectionSettings,
}

impl Default for ReconnectSettings {
    fn default() -> Self {
        Self {
            min_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(15),
            connection: ConnectionSettings::default(),
        }
    }
}

/// State of a reconnecting client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConnectionStatus {
    /// Connecting, with the message of the last failure if there was one.
    Connecting(Option<String>),
    /// Connected, and the connect hook has completed.
    Connected(Client),
    /// The client was closed.
    Closed,
}

/// Hook that runs first on every new connection, for example to register operations.
pub(crate) type OnConnect =
    Arc<dyn Fn(Client) -> BoxFuture<'static, Result<(), CallError>> + Send + Sync>;

/// A client that reconnects when its connection is lost. Dropping it ends the session.
#[derive(Debug)]
pub struct ReconnectingClient {
    status: watch::Receiver<ConnectionStatus>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl ReconnectingClient {
    /// Starts a client. If `handler` is set, it also serves requests from the peer.
    pub fn start(
        connector: impl Connector,
        handler: Option<CallHandler>,
        settings: ReconnectSettings,
    ) -> Self {
        let noop: OnConnect = Arc::new(|_| Box::pin(std::future::ready(Ok(()))));
        Self::start_with_on_connect(connector, handler, noop, settings)
    }

    pub(crate) fn start_with_on_connect(
        connector: impl Connector,
        handler: Option<CallHandler>,
        on_connect: OnConnect,
        settings: ReconnectSettings,
    ) -> Self {
        let (sender, status) = watch::channel(ConnectionStatus::Connecting(None));
        let stop = CancellationToken::new();
        let reconnect_loop = ReconnectLoop {
            connector: Box::new(connector),
            handler,
            on_connect,
            settings,
            status: sender,
            stop: stop.clone(),
        };
        Self { status, stop, task: Some(tokio::spawn(reconnect_loop.run())) }
    }

    /// Returns the client of the current connection, or `None` while disconnected.
    pub fn client(&self) -> Option<Client> {
        match &*self.status.borrow() {
            ConnectionStatus::Connected(client) if !client.is_closed() => Some(client.clone()),
            _ => None,
        }
    }

    /// Returns a receiver of the connection status.
    pub fn status(&self) -> watch::Receiver<ConnectionStatus> {
        self.status.clone()
    }

    /// Waits until the client is connected.
    ///
    /// # Errors
    ///
    /// Returns `UNAVAILABLE` if the client was closed.
    pub async fn wait_connected(&self) -> Result<Client, CallError> {
        wait_connected(self.status.clone()).await
    }

    /// Subscribes to an operation, and again after each reconnect. Values sent while disconnected
    /// are lost.
    pub fn subscribe(
        &self,
        operation: &str,
        input: Value,
    ) -> BoxStream<'static, Result<Outcome, CallError>> {
        let (operation, status) = (operation.to_owned(), self.status.clone());
        let state = ReconnectingSubscription { operation, input, status, values: None };
        futures::stream::unfold(Some(state), async |state| {
            let mut state = state?;
            let item = state.next().await?;
            let is_last = item.is_err();
            Some((item, (!is_last).then_some(state)))
        })
        .boxed()
    }

    /// Closes the client after the queued events have been sent.
    pub async fn close(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }
}

impl Drop for ReconnectingClient {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// Waits until the client is connected.
pub(crate) async fn wait_connected(
    mut status: watch::Receiver<ConnectionStatus>,
) -> Result<Client, CallError> {
    let closed_error = || CallError::unavailable("the connection was closed").not_sent();
    let is_settled = |status: &ConnectionStatus| match status {
        ConnectionStatus::Connected(client) => !client.is_closed(),
        ConnectionStatus::Closed => true,
        ConnectionStatus::Connecting(_) => false,
    };
    match &*status.wait_for(is_settled).await.map_err(|_| closed_error())? {
        ConnectionStatus::Connected(client) => Ok(client.clone()),
        _ => Err(closed_error()),
    }
}

/// How long a failed subscription waits for the connection to close before it fails.
const STREAM_CLOSE_GRACE: Duration = Duration::from_secs(15);

struct ReconnectingSubscription {
    operation: String,
    input: Value,
    status: watch::Receiver<ConnectionStatus>,
    values: Option<(Client, BoxStream<'static, Result<Outcome, CallError>>)>,
}

impl ReconnectingSubscription {
    async fn next(&mut self) -> Option<Result<Outcome, CallError>> {
        loop {
            if self.values.is_none() {
                match wait_connected(self.status.clone()).await {
                    Ok(client) => self.subscribe(client),
                    Err(error) => return Some(Err(error)),
                }
            }
            let (client, values) = self.values.as_mut()?;
            match values.next().await {
                // The connection is lost or about to close: a hub ends its streams first.
                Some(Err(error)) if *error.code() == ErrorCode::Unavailable => {
                    let closed = tokio::time::timeout(STREAM_CLOSE_GRACE, client.closed()).await;
                    if closed.is_err() {
                        return Some(Err(error));
                    }
                    self.values = None;
                }
                item => return item,
            }
        }
    }

    fn subscribe(&mut self, client: Client) {
        let input = Payload::from(self.input.clone());
        let values = client.subscribe(CallRequest::new(&self.operation, input));
        self.values = Some((client, values));
    }
}

struct ReconnectLoop {
    connector: Box<dyn Connector>,
    handler: Option<CallHandler>,
    on_connect: OnConnect,
    settings: ReconnectSettings,
    status: watch::Sender<ConnectionStatus>,
    stop: CancellationToken,
}

impl ReconnectLoop {
    async fn run(self) {
        let mut backoff = Backoff::new((self.settings.min_backoff, self.settings.max_backoff));
        while !self.stop.is_cancelled() {
            let disconnect_reason = match self.run_connection(&mut backoff).await {
                Ok(reason) => reason.to_string(),
                Err(disconnect_reason) => disconnect_reason,
            };
            if self.stop.is_cancelled() {
                break;
            }
            let target = self.connector.target();
            tracing::info!(
                target_address = target,
                reason = disconnect_reason,
                "connection failed; retrying"
            );
            self.status.send_replace(ConnectionStatus::Connecting(Some(disconnect_reason)));
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep(backoff.next()) => {}
            }
        }
        self.status.send_replace(ConnectionStatus::Closed);
    }

    /// Connects once and runs the connection until it ends.
    async fn run_connection(&self, backoff: &mut Backoff) -> Result<CloseReason, String> {
        let channel = tokio::select! {
            () = self.stop.cancelled() => return Ok(CloseReason::normal()),
            channel = self.connector.connect() => channel.map_err(|error| error.to_string())?,
        };
        let incoming_requests =
            self.handler.clone().map_or(IncomingRequests::Reject, IncomingRequests::Call);
        let (client, connection) =
            Connection::new(channel, incoming_requests, self.settings.connection.clone());
        let mut running = std::pin::pin!(connection.run());
        let initialized = tokio::select! {
            reason = &mut running => return Ok(reason),
            initialized = (self.on_connect)(client.clone()) => initialized,
        };
        if let Err(error) = initialized {
            client.close(CloseReason::normal());
            running.await;
            return Err(error.to_string());
        }
        backoff.reset();
        self.status.send_replace(ConnectionStatus::Connected(client.clone()));
        tokio::select! {
            reason = &mut running => Ok(reason),
            () = self.stop.cancelled() => {
                client.close(CloseReason::normal());
                Ok(running.await)
            }
        }
    }
}
