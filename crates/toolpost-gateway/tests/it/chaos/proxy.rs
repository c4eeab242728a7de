//! A faulty network: connections are delayed, stop forwarding data, and break.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Deterministic pseudorandom numbers from a seed.
#[derive(Clone)]
pub(super) struct SeededRng(u64);

impl SeededRng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}

pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    faults: Arc<NetworkFaults>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct NetworkFaults {
    is_enabled: AtomicBool,
    rejected: AtomicU64,
    reset: AtomicU64,
    blackholed: AtomicU64,
}

/// How a connection fails.
#[derive(Clone, Copy)]
enum Fault {
    Reject,
    /// Both ends see a reset after this time, even in the middle of a message.
    Reset(Duration),
    /// After this time, data is discarded without an error.
    Blackhole(Duration),
}

impl Proxy {
    pub(super) async fn start(to: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let weather = Arc::new(NetworkFaults::default());
        let accepting =
            tokio::spawn(accept(listener, to, SeededRng::new(seed), Arc::clone(&weather)));
        Self { address, faults: weather, accepting }
    }

    /// Enables faults, also on existing connections.
    pub(super) fn enable_faults(&self) {
        self.faults.is_enabled.store(true, Ordering::Relaxed);
    }

    pub(super) fn disable_faults(&self) {
        self.faults.is_enabled.store(false, Ordering::Relaxed);
    }

    pub(super) fn summary(&self) -> String {
        let [rejection, cut, silenced] =
            [&self.faults.rejected, &self.faults.reset, &self.faults.blackholed]
                .map(|count| count.load(Ordering::Relaxed));
        format!("{cut} connections cut, {silenced} silenced, {rejection} rejected")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    to: SocketAddr,
    mut dice: SeededRng,
    weather: Arc<NetworkFaults>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let near = accepted.unwrap().0;
                let dice = SeededRng::new(dice.next_u64());
                connections.spawn(relay(near, to, dice, Arc::clone(&weather)));
            }
        }
    }
}

async fn relay(near: TcpStream, to: SocketAddr, mut dice: SeededRng, weather: Arc<NetworkFaults>) {
    let Ok(far) = TcpStream::connect(to).await else { return };
    let is_bad = weather.is_enabled.load(Ordering::Relaxed);
    let life = Duration::from_millis(50 + dice.below(2_000));
    let fate = match dice.below(8) {
        0 if is_bad => Fault::Reject,
        1 => Fault::Blackhole(life),
        _ => Fault::Reset(life),
    };
    if matches!(fate, Fault::Reject) {
        weather.rejected.fetch_add(1, Ordering::Relaxed);
        return;
    }
    for stream in [&near, &far] {
        stream.set_nodelay(true).unwrap();
    }
    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
    let silent = AtomicBool::new(false);
    let dices = (SeededRng::new(dice.next_u64()), SeededRng::new(dice.next_u64()));
    tokio::select! {
        () = copy(near_read, far_write, dices.0, &weather, &silent) => {}
        () = copy(far_read, near_write, dices.1, &weather, &silent) => {}
        () = apply_fault(fate, &weather, &silent) => {}
    }
}

/// Waits until the fault is due and faults are enabled, then applies it. The connection closes when
/// this returns.
async fn apply_fault(fate: Fault, weather: &NetworkFaults, silent: &AtomicBool) {
    let wait = async |time: Duration| loop {
        tokio::time::sleep(time).await;
        if weather.is_enabled.load(Ordering::Relaxed) {
            return;
        }
    };
    match fate {
        Fault::Reject => {}
        Fault::Reset(life) => {
            wait(life).await;
            weather.reset.fetch_add(1, Ordering::Relaxed);
        }
        Fault::Blackhole(life) => {
            wait(life).await;
            weather.blackholed.fetch_add(1, Ordering::Relaxed);
            silent.store(true, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
    }
}

/// Copies bytes in chunks and delays some of them.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut dice: SeededRng,
    weather: &NetworkFaults,
    silent: &AtomicBool,
) {
    let mut room = vec![0; 8 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut room).await else { return };
        if weather.is_enabled.load(Ordering::Relaxed) && dice.below(4) == 0 {
            tokio::time::sleep(Duration::from_millis(dice.below(10))).await;
        }
        if silent.load(Ordering::Relaxed) {
            continue;
        }
        if to.write_all(&room[..read]).await.is_err() {
            return;
        }
    }
}
