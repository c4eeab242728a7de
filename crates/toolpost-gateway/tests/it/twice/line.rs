//! What lies between two gateways, and can be cut.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Hands on what comes to a port of its own, until it is cut; newcomers are handed on again.
pub(super) struct Line {
    pub(super) address: SocketAddr,
    /// Counts the cuts, which ends whatever is handed on.
    cut: watch::Sender<usize>,
    ended: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Line {
    pub(super) async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, ended) = (watch::Sender::new(0), Arc::<AtomicUsize>::default());
        let (cuts, counted) = (cut.clone(), Arc::clone(&ended));
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (mut cuts, counted) = (cuts.subscribe(), Arc::clone(&counted));
                tokio::spawn(async move {
                    tokio::select! {
                        () = hand_on(near, target) => {}
                        _ = cuts.changed() => drop(counted.fetch_add(1, Ordering::SeqCst)),
                    }
                });
            }
        });
        Self { address, cut, ended, task }
    }

    pub(super) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// How many connections were cut.
    pub(super) fn cuts(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn hand_on(mut near: TcpStream, target: SocketAddr) {
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
}
