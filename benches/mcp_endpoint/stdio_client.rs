//! A client on the standard input and output of a process.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::http_client::excerpt;
use super::message::MessageTemplate;

/// The bytes before the variable digits of a response id.
const ID_PREFIX: &[u8] = br#""id":1"#;

/// A server process that is called over stdio.
pub(crate) struct StdioClient {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    last_id: u32,
    line: Vec<u8>,
}

impl StdioClient {
    pub(crate) fn start(command: Command) -> Self {
        let mut child = tokio::process::Command::from(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let stdout = BufReader::with_capacity(64 << 10, stdout);
        Self { child, stdin, stdout, last_id: 0, line: Vec::new() }
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, mut message: MessageTemplate) {
        self.stdin.write_all(message.with_id(0).0).await.unwrap();
    }

    /// Sends one request and returns the response as JSON.
    pub(crate) async fn request(&mut self, mut message: MessageTemplate) -> Value {
        self.send(&mut message).await;
        self.receive().await;
        serde_json::from_slice(&self.line).unwrap()
    }

    /// Sends `count` requests with `in_flight` of them at a time and records the duration of each.
    ///
    /// The requests in flight fit into the pipe buffer, so writing cannot deadlock.
    pub(crate) async fn repeat(
        &mut self,
        message: &mut MessageTemplate,
        in_flight: usize,
        count: usize,
        min_len: usize,
        times: &mut Vec<Duration>,
    ) {
        let first = self.last_id + 1;
        let mut sent = Vec::with_capacity(count);
        while sent.len() < in_flight {
            sent.push(Instant::now());
            self.send(message).await;
        }
        for _ in 0..count {
            let id = self.receive().await;
            times.push(sent[(id - first) as usize].elapsed());
            let is_error = memmem::find(&self.line, br#""isError":true"#).is_some();
            let is_good = self.line.len() >= min_len && !is_error;
            assert!(is_good, "{}", excerpt(&self.line));
            if sent.len() < count {
                sent.push(Instant::now());
                self.send(message).await;
            }
        }
    }

    async fn send(&mut self, message: &mut MessageTemplate) {
        self.last_id += 1;
        self.stdin.write_all(message.with_id(self.last_id).0).await.unwrap();
    }

    /// Returns the id of the next response; skips messages without one.
    async fn receive(&mut self) -> u32 {
        loop {
            self.line.clear();
            let read = self.stdout.read_until(b'\n', &mut self.line).await.unwrap();
            assert!(read > 0, "connection closed");
            if let Some(offset) = memmem::find(&self.line, ID_PREFIX) {
                let digits = self.line[offset + ID_PREFIX.len()..].iter();
                let digits = digits.take_while(|byte| byte.is_ascii_digit());
                return digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
            }
        }
    }
}
