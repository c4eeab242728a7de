//! What a link must give to be tested.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use toolpost::Pipeline;
use toolpost::connection::{
    CallHandler, Callers, Client, Connection, ConnectionSettings, Serve, Session, SessionSettings,
};
use toolpost::link::{Connector, Link};
use toolpost::protocol::Requested;

/// A way between callers and a pipeline.
pub(super) trait Wire: Sync {
    /// Serves on a wire of its own that nobody else uses.
    fn start(&self, answers: Answers) -> BoxFuture<'static, Box<dyn End>>;

    /// How many values a source may be ahead of a consumer who takes none.
    fn most_ahead(&self) -> usize;
}

/// Both ends of a wire at work.
pub(super) trait End: Send + Sync {
    /// A client of its own, with a connection of its own where there are any.
    fn client(&self) -> BoxFuture<'_, Client>;

    /// How many requests the serving side works on.
    fn serving(&self) -> usize;

    /// The serving side's client of each connection so far.
    fn servers(&self) -> Vec<Client> {
        Vec::new()
    }

    /// Cuts every connection there is, without a word to either side.
    fn cut(&self) {
        panic!("this wire has no connection that could be cut");
    }

    /// A client that connects again.
    fn session(&self) -> Session {
        panic!("this wire has no connection that could be made again");
    }
}

/// Who answers.
#[derive(Clone)]
pub(super) enum Answers {
    Pipeline(Pipeline),
    ByHand(mpsc::Sender<Requested>),
}

impl Answers {
    fn serve(&self) -> Serve {
        match self {
            Self::Pipeline(pipeline) => {
                let callers = Callers::Authenticated(None);
                Serve::Operations(CallHandler::new(pipeline.clone(), callers))
            }
            Self::ByHand(taker) => Serve::Requests(taker.clone()),
        }
    }
}

/// The ends of a wire on which every client has a link of its own.
pub(super) struct Linked<C> {
    connector: C,
    servers: Arc<Mutex<Vec<Client>>>,
    cut: Box<dyn Fn() + Send + Sync>,
}

impl<C: Connector + Clone> Linked<C> {
    /// Serves the far ends of the links that the connector makes.
    pub(super) fn serve(
        answers: Answers,
        connector: C,
        mut links: mpsc::Receiver<Link>,
        cut: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let servers = Arc::<Mutex<Vec<Client>>>::default();
        let accepted = Arc::clone(&servers);
        tokio::spawn(async move {
            while let Some(link) = links.recv().await {
                let settings = ConnectionSettings::default();
                let (client, connection) = Connection::new(link, answers.serve(), settings);
                accepted.lock().unwrap().push(client);
                tokio::spawn(connection.run());
            }
        });
        Self { connector, servers, cut: Box::new(cut) }
    }
}

impl<C: Connector + Clone> End for Linked<C> {
    fn client(&self) -> BoxFuture<'_, Client> {
        Box::pin(async {
            let link = self.connector.connect().await.unwrap();
            let settings = ConnectionSettings::default();
            let (client, connection) = Connection::new(link, Serve::Nothing, settings);
            tokio::spawn(connection.run());
            client
        })
    }

    fn serving(&self) -> usize {
        self.servers.lock().unwrap().iter().map(Client::serving_count).sum()
    }

    fn servers(&self) -> Vec<Client> {
        self.servers.lock().unwrap().clone()
    }

    fn cut(&self) {
        (self.cut)();
    }

    fn session(&self) -> Session {
        let mut settings = SessionSettings::default();
        settings.shortest_wait = Duration::from_millis(1);
        Session::start(self.connector.clone(), None, settings)
    }
}
