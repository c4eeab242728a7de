//! A bad network: connections through it are late, fall silent, and break.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Numbers that look random and are the same for the same seed.
#[derive(Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }
}

pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    weather: Arc<Weather>,
    accepting: JoinHandle<()>,
}

#[derive(Default)]
struct Weather {
    is_bad: AtomicBool,
    refused: AtomicU64,
    cut: AtomicU64,
    silenced: AtomicU64,
}

/// What a connection will come to.
#[derive(Clone, Copy)]
enum Fate {
    Refused,
    /// Both ends see it break after this time, in the middle of whatever is on its way.
    Cut(Duration),
    /// From this time on nothing comes through, and nobody is told.
    Silenced(Duration),
}

impl Proxy {
    pub(super) async fn start(to: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let weather = Arc::new(Weather::default());
        let accepting = tokio::spawn(accept(listener, to, Dice::new(seed), Arc::clone(&weather)));
        Self { address, weather, accepting }
    }

    /// From now on, for the connections that there are too.
    pub(super) fn make_trouble(&self) {
        self.weather.is_bad.store(true, Ordering::Relaxed);
    }

    pub(super) fn calm_down(&self) {
        self.weather.is_bad.store(false, Ordering::Relaxed);
    }

    pub(super) fn summary(&self) -> String {
        let [refused, cut, silenced] =
            [&self.weather.refused, &self.weather.cut, &self.weather.silenced]
                .map(|count| count.load(Ordering::Relaxed));
        format!("{cut} connections cut, {silenced} silenced, {refused} refused")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, mut dice: Dice, weather: Arc<Weather>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let near = accepted.unwrap().0;
                let dice = Dice::new(dice.roll());
                connections.spawn(carry(near, to, dice, Arc::clone(&weather)));
            }
        }
    }
}

async fn carry(near: TcpStream, to: SocketAddr, mut dice: Dice, weather: Arc<Weather>) {
    let Ok(far) = TcpStream::connect(to).await else { return };
    let is_bad = weather.is_bad.load(Ordering::Relaxed);
    let life = Duration::from_millis(50 + dice.below(2_000));
    let fate = match dice.below(8) {
        0 if is_bad => Fate::Refused,
        1 => Fate::Silenced(life),
        _ => Fate::Cut(life),
    };
    if matches!(fate, Fate::Refused) {
        weather.refused.fetch_add(1, Ordering::Relaxed);
        return;
    }
    for stream in [&near, &far] {
        stream.set_nodelay(true).unwrap();
    }
    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
    let silent = AtomicBool::new(false);
    let dices = (Dice::new(dice.roll()), Dice::new(dice.roll()));
    tokio::select! {
        () = copy(near_read, far_write, dices.0, &weather, &silent) => {}
        () = copy(far_read, near_write, dices.1, &weather, &silent) => {}
        () = meet(fate, &weather, &silent) => {}
    }
}

/// Waits for bad weather, and for the fate of the connection in it.
async fn meet(fate: Fate, weather: &Weather, silent: &AtomicBool) {
    let wait = async |time: Duration| loop {
        tokio::time::sleep(time).await;
        if weather.is_bad.load(Ordering::Relaxed) {
            return;
        }
    };
    match fate {
        Fate::Refused => {}
        Fate::Cut(life) => {
            wait(life).await;
            weather.cut.fetch_add(1, Ordering::Relaxed);
        }
        Fate::Silenced(life) => {
            wait(life).await;
            weather.silenced.fetch_add(1, Ordering::Relaxed);
            silent.store(true, Ordering::Relaxed);
            std::future::pending::<()>().await;
        }
    }
}

/// Carries bytes in pieces, each a little late.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut dice: Dice,
    weather: &Weather,
    silent: &AtomicBool,
) {
    let mut room = vec![0; 8 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut room).await else { return };
        if weather.is_bad.load(Ordering::Relaxed) && dice.below(4) == 0 {
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
