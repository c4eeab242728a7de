//! What lies between two gateways, and can be cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Hands on what comes to a port of its own, until it is cut; newcomers are handed on again.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    /// Counts the cuts, which ends whatever is handed on.
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

    /// How many connections were cut.
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
