//! Traits that a transport implements to run the suite.

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

/// A transport between clients and a pipeline.
pub(super) trait TestTransport: Sync {
    /// Starts serving on a new, unshared transport.
    fn start(&self, responses: RequestSource) -> BoxFuture<'static, Box<dyn TransportHarness>>;

    /// Maximum number of values that a source may produce ahead of a consumer that does not read.
    fn max_buffered_values(&self) -> usize;
}

/// A running transport with its client and server side.
pub(super) trait TransportHarness: Send + Sync {
    /// Creates a client, with its own connection if the transport has connections.
    fn client(&self) -> BoxFuture<'_, Client>;

    /// Number of requests in flight on the server side.
    fn inflight_count(&self) -> usize;

    /// Returns the server-side client of each connection accepted so far.
    fn servers(&self) -> Vec<Client> {
        Vec::new()
    }

    /// Cuts every connection without notifying either side.
    fn disconnect_all(&self) {
        panic!("this transport has no connection to close");
    }

    /// Returns a client that reconnects.
    fn reconnecting_client(&self) -> ReconnectingClient {
        panic!("this transport has no connection to reopen");
    }
}

/// What responds to requests: a pipeline, or the test through a channel.
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

/// Harness for transports on which each client has its own connection.
pub(super) struct ChannelHarness<C> {
    connector: C,
    servers: Arc<Mutex<Vec<Client>>>,
    cut: Box<dyn Fn() + Send + Sync>,
}

impl<C: Connector + Clone> ChannelHarness<C> {
    /// Serves the server ends of the connections that the connector opens.
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
