//! Somebody under load, and what the load costs it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures::future::join_all;
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::spread::median;

/// How many requests are in flight.
pub(crate) const IN_FLIGHT: usize = 32;

/// How many requests each connection sends in a turn.
const EACH: usize = 60;

/// A process, connections to it, and what their requests cost.
pub(crate) struct Load {
    process: u32,
    wires: Vec<TcpStream>,
    request: String,
    /// Processor time per request of each turn, in microseconds.
    pub(crate) cpu: Vec<f64>,
    pub(crate) rates: Vec<f64>,
    pub(crate) times: Vec<Duration>,
}

impl Load {
    pub(crate) async fn connect(process: u32, address: SocketAddr, request: String) -> Self {
        let wires = (0..IN_FLIGHT).map(|_| async {
            let wire = TcpStream::connect(address).await.unwrap();
            wire.set_nodelay(true).unwrap();
            wire
        });
        let wires = join_all(wires).await;
        Self { process, wires, request, cpu: Vec::new(), rates: Vec::new(), times: Vec::new() }
    }

    /// One turn: every connection sends its requests one after another.
    pub(crate) async fn turn(&mut self) {
        let (began, cpu) = (Instant::now(), cpu_micros(self.process));
        let running = self.wires.iter_mut().map(|wire| repeat(wire, self.request.as_bytes()));
        self.times.extend(join_all(running).await.into_iter().flatten());
        let count = (IN_FLIGHT * EACH) as f64;
        self.rates.push(count / began.elapsed().as_secs_f64());
        // What is done after the last answer belongs to it, and the system counts when threads rest.
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.cpu.push((cpu_micros(self.process) - cpu) / count);
    }

    /// Forgets what was measured: the first turns pay for what is made on first use.
    pub(crate) fn forget(&mut self) {
        self.cpu.clear();
        self.rates.clear();
        self.times.clear();
    }

    /// How many times as much it costs as another, turn by turn.
    pub(crate) fn beside(&self, other: &Self) -> f64 {
        median(self.cpu.iter().zip(&other.cpu).map(|(ours, other)| ours / other).collect())
    }
}

async fn repeat(wire: &mut TcpStream, request: &[u8]) -> Vec<Duration> {
    let (mut times, mut answer) = (Vec::with_capacity(EACH), Vec::with_capacity(1 << 10));
    for _ in 0..EACH {
        let began = Instant::now();
        wire.write_all(request).await.unwrap();
        answer.clear();
        while !is_whole(&answer) {
            assert!(wire.read_buf(&mut answer).await.unwrap() > 0, "hung up");
        }
        times.push(began.elapsed());
        let is_good =
            answer.starts_with(b"HTTP/1.1 200") && memmem::find(&answer, br#"{"sum":5}"#).is_some();
        assert!(is_good, "{}", String::from_utf8_lossy(&answer));
    }
    times
}

/// Whether the body is there that the head announces; nothing follows it.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = memmem::find(answer, b"\r\n\r\n") else { return false };
    let length = memmem::find(&answer[..head], b"content-length: ").map(|at| {
        let digits = answer[at + 16..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
    });
    answer.len() >= head + 4 + length.unwrap_or(0)
}

/// The processor time that all threads of a process have used, in microseconds.
fn cpu_micros(process: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let nanos = threads.map(|thread| {
        // A thread that has just ended is not there any more; those that work stay.
        let path = thread.unwrap().path().join("schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0)
    });
    nanos.sum::<f64>() / 1e3
}
