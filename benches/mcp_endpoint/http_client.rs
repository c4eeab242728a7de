//! A minimal HTTP client, because it competes with the measured process for the cores.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::message::MessageTemplate;

/// A keep-alive HTTP connection with one request at a time.
pub(crate) struct HttpConnection {
    stream: TcpStream,
    message: MessageTemplate,
    last_id: u32,
    response: Vec<u8>,
}

impl HttpConnection {
    /// Connects; the first request id follows `last_id`.
    pub(crate) async fn connect(
        address: SocketAddr,
        message: MessageTemplate,
        last_id: u32,
    ) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, message, last_id, response: Vec::with_capacity(8 << 10) }
    }

    /// Sends `count` requests one after another and records the duration of each.
    pub(crate) async fn repeat(&mut self, count: usize, min_len: usize, times: &mut Vec<Duration>) {
        for _ in 0..count {
            let start = Instant::now();
            let id = self.exchange().await;
            times.push(start.elapsed());
            let response = &self.response;
            let is_good = response.starts_with(b"HTTP/1.1 200")
                && response.len() >= min_len
                && memmem::find(response, &id).is_some()
                && memmem::find(response, br#""isError":true"#).is_none();
            assert!(is_good, "{}", excerpt(response));
        }
    }

    /// Sends one request and returns the response body as JSON.
    pub(crate) async fn request(&mut self) -> Value {
        self.exchange().await;
        parse_body(&self.response)
    }

    /// Sets the message that the next requests send.
    pub(crate) fn set_message(&mut self, message: MessageTemplate) {
        self.message = message;
    }

    /// The value of a header of the last response.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let head = &self.response[..memmem::find(&self.response, b"\r\n\r\n")?];
        let head = std::str::from_utf8(head).unwrap();
        let mut headers = head.lines().filter_map(|line| line.split_once(": "));
        headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    }

    async fn exchange(&mut self) -> [u8; 10] {
        self.last_id += 1;
        let (request, id) = self.message.with_id(self.last_id);
        self.stream.write_all(request).await.unwrap();
        self.response.clear();
        let mut end = None;
        while !end.is_some_and(|end: ResponseEnd| end.is_reached(&self.response)) {
            assert!(
                self.stream.read_buf(&mut self.response).await.unwrap() > 0,
                "connection closed"
            );
            end = end.or_else(|| ResponseEnd::from_head(&self.response));
        }
        id
    }
}

/// The end of a response; nothing follows it, because requests are not pipelined.
#[derive(Clone, Copy)]
enum ResponseEnd {
    At(usize),
    LastChunk,
}

impl ResponseEnd {
    /// The end according to the head of the response, once the head is complete.
    fn from_head(response: &[u8]) -> Option<Self> {
        let head = memmem::find(response, b"\r\n\r\n")?;
        let Some(offset) = memmem::find(&response[..head], b"content-length: ") else {
            let is_chunked = memmem::find(&response[..head], b"chunked").is_some();
            return Some(if is_chunked { Self::LastChunk } else { Self::At(head + 4) });
        };
        let digits = response[offset + 16..].iter().take_while(|byte| byte.is_ascii_digit());
        let length = digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
        Some(Self::At(head + 4 + length))
    }

    fn is_reached(self, response: &[u8]) -> bool {
        match self {
            Self::At(end) => response.len() >= end,
            Self::LastChunk => response.ends_with(b"\r\n0\r\n\r\n"),
        }
    }
}

/// The JSON in a response body.
fn parse_body(response: &[u8]) -> Value {
    let text = String::from_utf8_lossy(response);
    let json = text.find('{').zip(text.rfind('}')).map(|(begin, end)| &text[begin..=end]);
    serde_json::from_str(json.unwrap_or("null"))
        .unwrap_or_else(|error| panic!("{error}: {}", excerpt(response)))
}

/// The first 800 bytes of a response, for messages.
pub(crate) fn excerpt(response: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&response[..response.len().min(800)])
}
