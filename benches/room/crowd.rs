//! Many participants in one process, who look at as little as they can: at how long each frame is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::Notify;

pub(crate) const PARTICIPANTS: u64 = 100;

/// How many messages are on their way at the same time.
const WINDOW: u64 = 64;
/// How long one turn is.
const TURN: Duration = Duration::from_millis(1_500);
/// Shorter frames are about who comes and goes.
const LEAST: usize = 900;

pub(crate) struct Crowd {
    speaker: tokio::net::tcp::OwnedWriteHalf,
    /// They are only listened to.
    _others: Vec<tokio::net::tcp::OwnedWriteHalf>,
    heard: Arc<Heard>,
    frame: Vec<u8>,
    sent: u64,
}

#[derive(Default)]
struct Heard {
    count: AtomicU64,
    changed: Notify,
}

impl Crowd {
    pub(crate) async fn gather(address: &str, path: &str) -> Self {
        let heard = Arc::<Heard>::default();
        let mut writers = Vec::new();
        for number in 0..PARTICIPANTS {
            let (reader, writer) = connect(address, &format!("{path}p{number}")).await;
            writers.push(writer);
            tokio::spawn(listen(reader, Arc::clone(&heard)));
        }
        let speaker = writers.remove(0);
        Self { speaker, _others: writers, heard, frame: frame(), sent: 0 }
    }

    /// Speaks for a while, and says how many deliveries there were in a second.
    pub(crate) async fn turn(&mut self) -> f64 {
        let before = self.heard.count.load(Ordering::Relaxed);
        let began = Instant::now();
        while began.elapsed() < TURN {
            self.heard.reaches(self.sent.saturating_sub(WINDOW) * PARTICIPANTS).await;
            self.speaker.write_all(&self.frame).await.unwrap();
            self.sent += 1;
        }
        self.heard.reaches(self.sent * PARTICIPANTS).await;
        let heard = self.heard.count.load(Ordering::Relaxed) - before;
        #[expect(clippy::cast_precision_loss, reason = "so many are exact")]
        let rate = heard as f64 / began.elapsed().as_secs_f64();
        rate
    }
}

impl Heard {
    async fn reaches(&self, wanted: u64) {
        let reached = async {
            while self.count.load(Ordering::Relaxed) < wanted {
                self.changed.notified().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), reached).await;
        assert!(waited.is_ok(), "{} of {wanted} came", self.count.load(Ordering::Relaxed));
    }
}

async fn connect(address: &str, path: &str) -> (OwnedReadHalf, tokio::net::tcp::OwnedWriteHalf) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    // One by one, so that nothing of what follows is taken.
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    stream.into_split()
}

/// Counts frames.
async fn listen(mut reader: OwnedReadHalf, heard: Arc<Heard>) {
    let mut buffer = Vec::with_capacity(256 * 1024);
    while reader.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
        let (mut at, mut frames) = (0, 0);
        while let Some((head, length)) = measured(&buffer[at..])
            && buffer.len() >= at + head + length
        {
            frames += u64::from(length >= LEAST);
            at += head + length;
        }
        buffer.drain(..at);
        if frames > 0 {
            heard.count.fetch_add(frames, Ordering::Relaxed);
            heard.changed.notify_one();
        }
    }
}

/// How long the head and the rest of a frame are.
fn measured(bytes: &[u8]) -> Option<(usize, usize)> {
    match *bytes.get(1)? {
        126 => Some((4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)))),
        127 => {
            let length = u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?);
            Some((10, usize::try_from(length).ok()?))
        }
        length => Some((2, usize::from(length))),
    }
}

/// A chat of 1 KB as one frame. Its mask is nothing, as any mask may be.
fn frame() -> Vec<u8> {
    let text = "x".repeat(960);
    let message =
        format!(r#"{{"protocol":"mcpx/v0.1","kind":"chat","payload":{{"text":"{text}"}}}}"#);
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    let head = [0x81, 0x80 | 126, length[0], length[1], 0, 0, 0, 0];
    [&head, message.as_bytes()].concat()
}
