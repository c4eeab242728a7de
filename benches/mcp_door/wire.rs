//! A client that does as little as can be: it takes a core away from whoever is measured.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::message::Message;

/// One connection over HTTP that is kept, with one request on it at a time.
pub(crate) struct Wire {
    stream: TcpStream,
    message: Message,
    number: u32,
    answer: Vec<u8>,
}

impl Wire {
    /// A connection whose numbers begin there.
    pub(crate) async fn connect(address: SocketAddr, message: Message, number: u32) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, message, number, answer: Vec::with_capacity(8 << 10) }
    }

    /// Sends so many requests one after another, and notes how long each took.
    pub(crate) async fn repeat(&mut self, count: usize, least: usize, times: &mut Vec<Duration>) {
        for _ in 0..count {
            let began = Instant::now();
            let number = self.exchange().await;
            times.push(began.elapsed());
            let answer = &self.answer;
            let is_good = answer.starts_with(b"HTTP/1.1 200")
                && answer.len() >= least
                && memmem::find(answer, &number).is_some()
                && memmem::find(answer, br#""isError":true"#).is_none();
            assert!(is_good, "{}", beginning(answer));
        }
    }

    /// Sends one request and looks at what comes back as at JSON.
    pub(crate) async fn ask(&mut self) -> Value {
        self.exchange().await;
        read(&self.answer)
    }

    /// Sends another message from now on.
    pub(crate) fn now_send(&mut self, message: Message) {
        self.message = message;
    }

    /// What stood in such a header of the last answer.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let head = &self.answer[..memmem::find(&self.answer, b"\r\n\r\n")?];
        let head = std::str::from_utf8(head).unwrap();
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }

    async fn exchange(&mut self) -> [u8; 10] {
        self.number += 1;
        let (request, number) = self.message.under(self.number);
        self.stream.write_all(request).await.unwrap();
        self.answer.clear();
        let mut end = None;
        while !end.is_some_and(|end: End| end.is_reached(&self.answer)) {
            assert!(self.stream.read_buf(&mut self.answer).await.unwrap() > 0, "hung up");
            end = end.or_else(|| End::of(&self.answer));
        }
        number
    }
}

/// Where an answer ends; nothing ever follows it, since nothing else was asked.
#[derive(Clone, Copy)]
enum End {
    At(usize),
    LastChunk,
}

impl End {
    /// As the head of the answer says, once it is there.
    fn of(answer: &[u8]) -> Option<Self> {
        let head = memmem::find(answer, b"\r\n\r\n")?;
        let Some(at) = memmem::find(&answer[..head], b"content-length: ") else {
            let is_chunked = memmem::find(&answer[..head], b"chunked").is_some();
            return Some(if is_chunked { Self::LastChunk } else { Self::At(head + 4) });
        };
        let digits = answer[at + 16..].iter().take_while(|byte| byte.is_ascii_digit());
        let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
        Some(Self::At(head + 4 + length))
    }

    fn is_reached(self, answer: &[u8]) -> bool {
        match self {
            Self::At(end) => answer.len() >= end,
            Self::LastChunk => answer.ends_with(b"\r\n0\r\n\r\n"),
        }
    }
}

/// The JSON in an answer, whatever is around it.
fn read(answer: &[u8]) -> Value {
    let text = String::from_utf8_lossy(answer);
    let json = text.find('{').zip(text.rfind('}')).map(|(begin, end)| &text[begin..=end]);
    serde_json::from_str(json.unwrap_or("null"))
        .unwrap_or_else(|error| panic!("{error}: {}", beginning(answer)))
}

/// As much of an answer as people want to see.
pub(crate) fn beginning(answer: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&answer[..answer.len().min(800)])
}
