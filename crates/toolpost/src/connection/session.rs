//! A connection that is made again whenever it is lost.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{CallHandler, Client, Connection, ConnectionSettings, Serve};
use crate::error::{CallError, ErrorCode};
use crate::link::{CloseReason, Connector};
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::pipeline::CallRequest;

/// How a session waits between two tries, and what bounds its connections.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionSettings {
    /// The wait after the first loss; it doubles with every try that fails.
    pub shortest_wait: Duration,
    /// It never grows beyond this.
    pub longest_wait: Duration,
    /// What bounds each connection.
    pub connection: ConnectionSettings,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            shortest_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(15),
            connection: ConnectionSettings::default(),
        }
    }
}

/// Where a session stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Status {
    /// It is trying; these are the words of the last failure, if there was one.
    Connecting(Option<String>),
    /// There is a connection, and what is done first on each has been done.
    Connected(Client),
    /// It was told to end.
    Ended,
}

/// What is done first on every new connection, such as registering.
pub(crate) type Greeting =
    Arc<dyn Fn(Client) -> BoxFuture<'static, Result<(), CallError>> + Send + Sync>;

/// A way to one far end that survives the loss of its connections. Dropping it ends it.
#[derive(Debug)]
pub struct Session {
    status: watch::Receiver<Status>,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Session {
    /// A session that calls, and answers calls if `handler` says how.
    pub fn start(
        connector: impl Connector,
        handler: Option<CallHandler>,
        settings: SessionSettings,
    ) -> Self {
        let nothing: Greeting = Arc::new(|_| Box::pin(std::future::ready(Ok(()))));
        Self::greeting(connector, handler, nothing, settings)
    }

    pub(crate) fn greeting(
        connector: impl Connector,
        handler: Option<CallHandler>,
        greeting: Greeting,
        settings: SessionSettings,
    ) -> Self {
        let (sender, status) = watch::channel(Status::Connecting(None));
        let stop = CancellationToken::new();
        let keeper = Keeper {
            connector: Box::new(connector),
            handler,
            greeting,
            settings,
            status: sender,
            stop: stop.clone(),
        };
        Self { status, stop, task: Some(tokio::spawn(keeper.keep())) }
    }

    /// The connection of this moment; `None` while there is none.
    pub fn client(&self) -> Option<Client> {
        match &*self.status.borrow() {
            Status::Connected(client) if !client.is_closed() => Some(client.clone()),
            _ => None,
        }
    }

    /// Follows where the session stands.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Waits until there is a connection.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE`: the session was told to end.
    pub async fn connected(&self) -> Result<Client, CallError> {
        connected(self.status.clone()).await
    }

    /// A subscription that is asked for again on the next connection whenever one is lost. Values
    /// that came in between are not made up for.
    pub fn resubscribe(
        &self,
        operation: &str,
        input: Value,
    ) -> BoxStream<'static, Result<Outcome, CallError>> {
        let (operation, status) = (operation.to_owned(), self.status.clone());
        let state = Resuming { operation, input, status, values: None };
        futures::stream::unfold(Some(state), async |state| {
            let mut state = state?;
            let item = state.next().await?;
            let is_last = item.is_err();
            Some((item, (!is_last).then_some(state)))
        })
        .boxed()
    }

    /// Ends the session, after what is queued has been sent.
    pub async fn close(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

/// Waits until there is a connection.
pub(crate) async fn connected(mut status: watch::Receiver<Status>) -> Result<Client, CallError> {
    let ended = || CallError::unavailable("the session has ended").before_sending();
    let usable = |status: &Status| match status {
        Status::Connected(client) => !client.is_closed(),
        Status::Ended => true,
        Status::Connecting(_) => false,
    };
    match &*status.wait_for(usable).await.map_err(|_| ended())? {
        Status::Connected(client) => Ok(client.clone()),
        _ => Err(ended()),
    }
}

/// How long a hub that ends a stream may take to end its connection too.
const SETTLING: Duration = Duration::from_secs(15);

struct Resuming {
    operation: String,
    input: Value,
    status: watch::Receiver<Status>,
    values: Option<(Client, BoxStream<'static, Result<Outcome, CallError>>)>,
}

impl Resuming {
    async fn next(&mut self) -> Option<Result<Outcome, CallError>> {
        loop {
            if self.values.is_none() {
                match connected(self.status.clone()).await {
                    Ok(client) => self.ask(client),
                    Err(error) => return Some(Err(error)),
                }
            }
            let (client, values) = self.values.as_mut()?;
            match values.next().await {
                // Lost with its connection, or about to be: a hub that stops ends streams first.
                Some(Err(error)) if *error.code() == ErrorCode::Unavailable => {
                    let closed = tokio::time::timeout(SETTLING, client.closed()).await;
                    if closed.is_err() {
                        return Some(Err(error));
                    }
                    self.values = None;
                }
                item => return item,
            }
        }
    }

    fn ask(&mut self, client: Client) {
        let input = Payload::from(self.input.clone());
        let values = client.subscribe(CallRequest::new(&self.operation, input));
        self.values = Some((client, values));
    }
}

struct Keeper {
    connector: Box<dyn Connector>,
    handler: Option<CallHandler>,
    greeting: Greeting,
    settings: SessionSettings,
    status: watch::Sender<Status>,
    stop: CancellationToken,
}

impl Keeper {
    async fn keep(self) {
        let mut failures = 0;
        while !self.stop.is_cancelled() {
            let words = match self.once(&mut failures).await {
                Ok(reason) => reason.to_string(),
                Err(words) => words,
            };
            if self.stop.is_cancelled() {
                break;
            }
            let target = self.connector.target();
            tracing::info!(target_address = target, reason = words, "no connection; trying again");
            self.status.send_replace(Status::Connecting(Some(words)));
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = tokio::time::sleep(self.wait(failures)) => {}
            }
            failures += 1;
        }
        self.status.send_replace(Status::Ended);
    }

    /// One connection from its beginning to its end.
    async fn once(&self, failures: &mut u32) -> Result<CloseReason, String> {
        let link = tokio::select! {
            () = self.stop.cancelled() => return Ok(CloseReason::done()),
            link = self.connector.connect() => link.map_err(|error| error.to_string())?,
        };
        let serve = self.handler.clone().map_or(Serve::Nothing, Serve::Operations);
        let (client, connection) = Connection::new(link, serve, self.settings.connection.clone());
        let mut running = std::pin::pin!(connection.run());
        let greeted = tokio::select! {
            reason = &mut running => return Ok(reason),
            greeted = (self.greeting)(client.clone()) => greeted,
        };
        if let Err(error) = greeted {
            client.close(CloseReason::done());
            running.await;
            return Err(error.to_string());
        }
        *failures = 0;
        self.status.send_replace(Status::Connected(client.clone()));
        tokio::select! {
            reason = &mut running => Ok(reason),
            () = self.stop.cancelled() => {
                client.close(CloseReason::done());
                Ok(running.await)
            }
        }
    }

    /// Doubles with every failure, and is never the same for two processes that lost the same hub.
    fn wait(&self, failures: u32) -> Duration {
        let longest = self.settings.longest_wait;
        let wait = self.settings.shortest_wait.saturating_mul(1 << failures.min(16)).min(longest);
        // Between half of it and all of it.
        let draw = RandomState::new().hash_one(failures) % 1_000;
        wait.mul_f64(0.5 + f64::from(u32::try_from(draw).unwrap_or(0)) / 2_000.0)
    }
}
