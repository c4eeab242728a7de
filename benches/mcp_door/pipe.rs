//! A client on the standard input and output of a program.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::message::Message;
use super::wire::beginning;

/// Stands before the number of an answer.
const ID: &[u8] = br#""id":1"#;

/// A program that is spoken to in lines.
pub(crate) struct Pipe {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    number: u32,
    line: Vec<u8>,
}

impl Pipe {
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
        Self { child, stdin, stdout, number: 0, line: Vec::new() }
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Says something that is not answered.
    pub(crate) async fn tell(&mut self, mut message: Message) {
        self.stdin.write_all(message.under(0).0).await.unwrap();
    }

    /// Sends one request and looks at what comes back as at JSON.
    pub(crate) async fn ask(&mut self, mut message: Message) -> Value {
        self.send(&mut message).await;
        self.receive().await;
        serde_json::from_slice(&self.line).unwrap()
    }

    /// Sends so many requests, keeps so many of them in flight, and notes how long each took.
    ///
    /// What is in flight fits into a pipe, so nobody waits here for somebody who waits for us.
    pub(crate) async fn repeat(
        &mut self,
        message: &mut Message,
        in_flight: usize,
        count: usize,
        least: usize,
        times: &mut Vec<Duration>,
    ) {
        let first = self.number + 1;
        let mut sent = Vec::with_capacity(count);
        while sent.len() < in_flight {
            sent.push(Instant::now());
            self.send(message).await;
        }
        for _ in 0..count {
            let number = self.receive().await;
            times.push(sent[(number - first) as usize].elapsed());
            let is_error = memmem::find(&self.line, br#""isError":true"#).is_some();
            let is_good = self.line.len() >= least && !is_error;
            assert!(is_good, "{}", beginning(&self.line));
            if sent.len() < count {
                sent.push(Instant::now());
                self.send(message).await;
            }
        }
    }

    async fn send(&mut self, message: &mut Message) {
        self.number += 1;
        self.stdin.write_all(message.under(self.number).0).await.unwrap();
    }

    /// The number of the next answer; what has none is for nobody here.
    async fn receive(&mut self) -> u32 {
        loop {
            self.line.clear();
            let read = self.stdout.read_until(b'\n', &mut self.line).await.unwrap();
            assert!(read > 0, "hung up");
            if let Some(at) = memmem::find(&self.line, ID) {
                let digits = self.line[at + ID.len()..].iter();
                let digits = digits.take_while(|byte| byte.is_ascii_digit());
                return digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
            }
        }
    }
}
