//! What a link must give to be tested.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use toolpost::Pipeline;
use toolpost::connection::{
    CallHandler, CallerIdentity, Client, Connection, ConnectionSettings, IncomingRequests,
    ReconnectSettings, ReconnectingClient,
};
use toolpost::protocol::RequestEvent;
use toolpost::transport::{Channel, Connector};

/// A way between callers and a pipeline.
pub(super) trait TestTransport: Sync {
    /// Serves on a wire of its own that nobody else uses.
    fn start(&self, responses: RequestSource) -> BoxFuture<'static, Box<dyn TransportHarness>>;

    /// How many values a source may be ahead of a consumer who takes none.
    fn max_buffered_values(&self) -> usize;
}

/// Both ends of a wire at work.
pub(super) trait TransportHarness: Send + Sync {
    /// A client of its own, with a connection of its own where there are any.
    fn client(&self) -> BoxFuture<'_, Client>;

    /// How many requests the serving side works on.
    fn inflight_count(&self) -> usize;

    /// The serving side's client of each connection so far.
    fn servers(&self) -> Vec<Client> {
        Vec::new()
    }

    /// Cuts every connection there is, without a word to either side.
    fn disconnect_all(&self) {
        panic!("this wire has no connection that could be cut");
    }

    /// A client that connects again.
    fn reconnecting_client(&self) -> ReconnectingClient {
        panic!("this wire has no connection that could be made again");
    }
}

/// Who answers.
#[derive(Clone)]
pub(super) enum RequestSource {
    Pipeline(Pipeline),
    Manual(mpsc::Sender<RequestEvent>),
}

impl RequestSource {
    fn incoming_requests(&self) -> IncomingRequests {
        match self {
            Self::Pipeline(pipeline) => {
                let callers = CallerIdentity::Authenticated(None);
                IncomingRequests::Call(CallHandler::new(pipeline.clone(), callers))
            }
            Self::Manual(sender) => IncomingRequests::Channel(sender.clone()),
        }
    }
}

/// The ends of a wire on which every client has a link of its own.
pub(super) struct ChannelHarness<C> {
    connector: C,
    servers: Arc<Mutex<Vec<Client>>>,
    cut: Box<dyn Fn() + Send + Sync>,
}

impl<C: Connector + Clone> ChannelHarness<C> {
    /// Serves the far ends of the links that the connector makes.
    pub(super) fn serve(
        responses: RequestSource,
        connector: C,
        mut links: mpsc::Receiver<Channel>,
        cut: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let servers = Arc::<Mutex<Vec<Client>>>::default();
        let accepted = Arc::clone(&servers);
        tokio::spawn(async move {
            while let Some(link) = links.recv().await {
                let settings = ConnectionSettings::default();
                let (client, connection) =
                    Connection::new(link, responses.incoming_requests(), settings);
                accepted.lock().unwrap().push(client);
                tokio::spawn(connection.run());
            }
        });
        Self { connector, servers, cut: Box::new(cut) }
    }
}

impl<C: Connector + Clone> TransportHarness for ChannelHarness<C> {
    fn client(&self) -> BoxFuture<'_, Client> {
        Box::pin(async {
            let link = self.connector.connect().await.unwrap();
            let settings = ConnectionSettings::default();
            let (client, connection) = Connection::new(link, IncomingRequests::Reject, settings);
            tokio::spawn(connection.run());
            client
        })
    }

    fn inflight_count(&self) -> usize {
        self.servers.lock().unwrap().iter().map(Client::inflight_count).sum()
    }

    fn servers(&self) -> Vec<Client> {
        self.servers.lock().unwrap().clone()
    }

    fn disconnect_all(&self) {
        (self.cut)();
    }

    fn reconnecting_client(&self) -> ReconnectingClient {
        let mut settings = ReconnectSettings::default();
        settings.min_backoff = Duration::from_millis(1);
        ReconnectingClient::start(self.connector.clone(), None, settings)
    }
}
