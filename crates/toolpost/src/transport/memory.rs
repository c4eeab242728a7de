//! In-process transport: events are passed without serialization.

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use super::{Channel, CloseHandle, CloseReason, ConnectError, Connector, SEND_QUEUE_CAPACITY};

/// Creates the two ends of an in-process connection.
pub fn memory_pair() -> (Channel, Channel) {
    let handle = CloseHandle::default();
    let (to_right, at_right) = mpsc::channel(SEND_QUEUE_CAPACITY);
    let (to_left, at_left) = mpsc::channel(SEND_QUEUE_CAPACITY);
    (channel_end(to_right, at_left, &handle), channel_end(to_left, at_right, &handle))
}

/// Builds one end of the pair. Both ends share one close handle, so closing either end closes both.
fn channel_end(
    outgoing: mpsc::Sender<crate::protocol::CallEvent>,
    incoming: mpsc::Receiver<crate::protocol::CallEvent>,
    handle: &CloseHandle,
) -> Channel {
    let events = futures::stream::unfold(incoming, async |mut incoming| {
        incoming.recv().await.map(|event| (Ok(event), incoming))
    });
    let closed = handle.clone();
    let peer_sender = outgoing.clone();
    let pump = async move {
        tokio::select! {
            () = closed.closed() => {}
            () = peer_sender.closed() => closed.close(CloseReason::abnormal("the peer closed the channel")),
        }
    };
    Channel { outgoing, incoming: events.boxed(), pump: pump.boxed(), close_handle: handle.clone() }
}

/// Opens channels inside this process. The receiver from [`MemoryConnector::new`] gets the other
/// end of each channel.
#[derive(Debug, Clone)]
pub struct MemoryConnector(mpsc::Sender<Channel>);

impl MemoryConnector {
    /// Creates a connector and the receiver of the other channel ends.
    pub fn new() -> (Self, mpsc::Receiver<Channel>) {
        let (sender, receiver) = mpsc::channel(16);
        (Self(sender), receiver)
    }
}

impl Connector for MemoryConnector {
    fn connect(&self) -> BoxFuture<'static, Result<Channel, ConnectError>> {
        let (ours, theirs) = memory_pair();
        let sender = self.0.clone();
        async move {
            match sender.send(theirs).await {
                Ok(()) => Ok(ours),
                Err(_) => Err(ConnectError::unreachable("this process", "no listener")),
            }
        }
        .boxed()
    }

    fn target(&self) -> String {
        "this process".to_owned()
    }
}
