//! A link inside one process: events are handed over as they are.

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use super::{CloseReason, Closing, ConnectError, Connector, Link, QUEUE};

/// The two ends of a link.
pub fn memory() -> (Link, Link) {
    let closing = Closing::default();
    let (to_right, at_right) = mpsc::channel(QUEUE);
    let (to_left, at_left) = mpsc::channel(QUEUE);
    (end(to_right, at_left, &closing), end(to_left, at_right, &closing))
}

/// Whoever closes one end closes both; there is nothing in between that could fail.
fn end(
    outgoing: mpsc::Sender<crate::protocol::Event>,
    incoming: mpsc::Receiver<crate::protocol::Event>,
    closing: &Closing,
) -> Link {
    let events = futures::stream::unfold(incoming, async |mut incoming| {
        incoming.recv().await.map(|event| (Ok(event), incoming))
    });
    let closed = closing.clone();
    let left = outgoing.clone();
    let pump = async move {
        tokio::select! {
            () = closed.closed() => {}
            () = left.closed() => closed.close(CloseReason::lost("the other end is gone")),
        }
    };
    Link { outgoing, incoming: events.boxed(), pump: pump.boxed(), closing: closing.clone() }
}

/// Makes links inside this process; the other end of each goes to whoever accepts.
#[derive(Debug, Clone)]
pub struct MemoryConnector(mpsc::Sender<Link>);

impl MemoryConnector {
    /// A connector, and where the other ends come out.
    pub fn new() -> (Self, mpsc::Receiver<Link>) {
        let (sender, receiver) = mpsc::channel(16);
        (Self(sender), receiver)
    }
}

impl Connector for MemoryConnector {
    fn connect(&self) -> BoxFuture<'static, Result<Link, ConnectError>> {
        let (ours, theirs) = memory();
        let sender = self.0.clone();
        async move {
            match sender.send(theirs).await {
                Ok(()) => Ok(ours),
                Err(_) => Err(ConnectError::unreachable("this process", "nobody accepts links")),
            }
        }
        .boxed()
    }

    fn target(&self) -> String {
        "this process".to_owned()
    }
}
