//! A TCP relay between two gateways whose connections can be cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Forwards connections from its own port until they are cut. New connections are forwarded again.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    /// Number of cuts; a change ends all forwarded connections.
    disconnect: watch::Sender<usize>,
    disconnected: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(super) async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, ended) = (watch::Sender::new(0), Arc::<AtomicUsize>::default());
        let (cuts, counted) = (cut.clone(), Arc::clone(&ended));
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (mut cuts, counted) = (cuts.subscribe(), Arc::clone(&counted));
                tokio::spawn(async move {
                    tokio::select! {
                        () = forward(near, target) => {}
                        _ = cuts.changed() => drop(counted.fetch_add(1, Ordering::SeqCst)),
                    }
                });
            }
        });
        Self { address, disconnect: cut, disconnected: ended, task }
    }

    pub(super) fn disconnect(&self) {
        self.disconnect.send_modify(|cuts| *cuts += 1);
    }

    /// Returns the number of connections that were cut.
    pub(super) fn disconnects(&self) -> usize {
        self.disconnected.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut near: TcpStream, target: SocketAddr) {
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
}
