//! Many participants in one process. They read only the length of each frame, to stay cheap.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::Notify;

pub(crate) const PARTICIPANTS: u64 = 100;

/// Number of messages in flight.
const WINDOW: u64 = 64;
/// Duration of one round.
const ROUND_DURATION: Duration = Duration::from_millis(1_500);
/// Shorter frames are presence notifications.
const MIN_FRAME_LEN: usize = 900;

/// One sender and many receivers in one room.
pub(crate) struct ParticipantLoad {
    sender: tokio::net::tcp::OwnedWriteHalf,
    /// Keeps the connections of the receivers open.
    _receivers: Vec<tokio::net::tcp::OwnedWriteHalf>,
    deliveries: Arc<DeliveryCounter>,
    frame: Vec<u8>,
    sent: u64,
}

#[derive(Default)]
struct DeliveryCounter {
    count: AtomicU64,
    changed: Notify,
}

impl ParticipantLoad {
    pub(crate) async fn connect_all(address: &str, path: &str) -> Self {
        let deliveries = Arc::<DeliveryCounter>::default();
        let mut writers = Vec::new();
        for number in 0..PARTICIPANTS {
            let (reader, writer) = connect(address, &format!("{path}p{number}")).await;
            writers.push(writer);
            tokio::spawn(count_frames(reader, Arc::clone(&deliveries)));
        }
        let sender = writers.remove(0);
        Self { sender, _receivers: writers, deliveries, frame: chat_frame(), sent: 0 }
    }

    /// Sends messages for one round and returns the deliveries per second.
    pub(crate) async fn run_round(&mut self) -> f64 {
        let before = self.deliveries.count.load(Ordering::Relaxed);
        let start = Instant::now();
        while start.elapsed() < ROUND_DURATION {
            self.deliveries.wait_for(self.sent.saturating_sub(WINDOW) * PARTICIPANTS).await;
            self.sender.write_all(&self.frame).await.unwrap();
            self.sent += 1;
        }
        self.deliveries.wait_for(self.sent * PARTICIPANTS).await;
        let deliveries = self.deliveries.count.load(Ordering::Relaxed) - before;
        #[expect(clippy::cast_precision_loss, reason = "the count is small enough to be exact")]
        let rate = deliveries as f64 / start.elapsed().as_secs_f64();
        rate
    }
}

impl DeliveryCounter {
    /// Waits until `expected` frames have arrived.
    async fn wait_for(&self, expected: u64) {
        let reached = async {
            while self.count.load(Ordering::Relaxed) < expected {
                self.changed.notified().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), reached).await;
        assert!(waited.is_ok(), "{} of {expected} arrived", self.count.load(Ordering::Relaxed));
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
    // Byte by byte, so that no frame is consumed.
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    stream.into_split()
}

/// Counts the chat frames.
async fn count_frames(mut reader: OwnedReadHalf, deliveries: Arc<DeliveryCounter>) {
    let mut buffer = Vec::with_capacity(256 * 1024);
    while reader.read_buf(&mut buffer).await.is_ok_and(|read| read > 0) {
        let (mut offset, mut frames) = (0, 0);
        while let Some((head, length)) = frame_header(&buffer[offset..])
            && buffer.len() >= offset + head + length
        {
            frames += u64::from(length >= MIN_FRAME_LEN);
            offset += head + length;
        }
        buffer.drain(..offset);
        if frames > 0 {
            deliveries.count.fetch_add(frames, Ordering::Relaxed);
            deliveries.changed.notify_one();
        }
    }
}

/// The lengths of the header and of the payload of a frame.
fn frame_header(bytes: &[u8]) -> Option<(usize, usize)> {
    match *bytes.get(1)? {
        126 => Some((4, usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)))),
        127 => {
            let length = u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?);
            Some((10, usize::try_from(length).ok()?))
        }
        length => Some((2, usize::from(length))),
    }
}

/// A chat message of 1 KB as one frame, with an all-zero mask.
fn chat_frame() -> Vec<u8> {
    let text = "x".repeat(960);
    let message =
        format!(r#"{{"protocol":"mcpx/v0.1","kind":"chat","payload":{{"text":"{text}"}}}}"#);
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    let head = [0x81, 0x80 | 126, length[0], length[1], 0, 0, 0, 0];
    [&head, message.as_bytes()].concat()
}
