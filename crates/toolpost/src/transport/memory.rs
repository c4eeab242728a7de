//! In-process transport: events are passed without serialization.

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use super::event_queue::{self, EventReceiver, EventSender};
use super::{Channel, CloseHandle, CloseReason, ConnectError, Connector};

/// Size of the events in a queue at which no more is read.
const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;

/// Creates the two ends of an in-process connection.
pub fn memory_pair() -> (Channel, Channel) {
    let handle = CloseHandle::default();
    let (to_right, at_right) = event_queue::channel(MAX_QUEUED_BYTES, &handle);
    let (to_left, at_left) = event_queue::channel(MAX_QUEUED_BYTES, &handle);
    (channel_end(to_right, at_left, &handle), channel_end(to_left, at_right, &handle))
}

/// Builds one end of the pair. Both ends share one close handle, so closing either end closes both.
fn channel_end(
    outgoing: EventSender,
    mut incoming: EventReceiver,
    handle: &CloseHandle,
) -> Channel {
    let events = futures::stream::poll_fn(move |cx| incoming.poll_recv(cx)).map(Ok);
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
