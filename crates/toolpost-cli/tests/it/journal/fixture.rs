//! A gateway with a journal, used through HTTP and the command line.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::process::{OutputLines, Process, TIMEOUT, run, wait_until};
use crate::{TempFolder, command, stdout, toolpost};

/// Length of the hash and the authentication code of a line.
const LINE_PREFIX_LEN: usize = 98;

pub(in super::super) struct Gateway {
    process: Process,
    pub(in super::super) address: String,
    data: String,
}

impl Gateway {
    pub(in super::super) fn start(folder: &TempFolder) -> Self {
        Self::run(command(&[]), folder)
    }

    /// Starts a gateway with a file size limit in blocks. SIGXFSZ is ignored, so that exceeding the
    /// limit is a write error.
    pub(in super::super) fn start_with_file_limit(folder: &TempFolder, blocks: u32) -> Self {
        let mut shell = Command::new("sh");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_toolpost")]).env_remove("TOOLPOST_LOG");
        Self::run(shell, folder)
    }

    fn run(mut command: Command, folder: &TempFolder) -> Self {
        let data = folder.path().join("data").display().to_string();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", &data]);
        let (process, address, _) =
            Process::serve(command.current_dir(folder.path()).stderr(Stdio::null()));
        Self { process, address, data }
    }

    /// Kills the process without a graceful shutdown.
    pub(in super::super) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.exit_status();
    }

    pub(in super::super) fn stop(&mut self) {
        self.process.signal("-TERM");
        assert_eq!(self.process.exit_status().code(), Some(0));
    }

    pub(in super::super) fn post(&self, path: &str, body: &Value) -> (u16, String) {
        post(&self.address, path, body, &[]).unwrap()
    }

    pub(in super::super) fn post_with(
        &self,
        path: &str,
        body: &Value,
        headers: &[&str],
    ) -> (u16, String) {
        post(&self.address, path, body, headers).unwrap()
    }

    /// Sends a POST request and returns the head and the body of the response.
    pub(in super::super) fn exchange(&self, path: &str, body: &Value) -> (String, String) {
        exchange(&self.address, "POST", path, &body.to_string(), &[]).unwrap()
    }

    pub(in super::super) fn get_with(&self, path: &str, headers: &[&str]) -> (u16, String) {
        request(&self.address, "GET", path, "", headers).unwrap()
    }

    /// Returns the number of bytes that the process has read, from files and connections.
    #[cfg(target_os = "linux")]
    pub(in super::super) fn bytes_read(&self) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.process.id())).unwrap();
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.unwrap().parse().unwrap()
    }

    pub(in super::super) fn health(&self) -> Value {
        let (_, body) = request(&self.address, "GET", "/health", "", &[]).unwrap();
        serde_json::from_str(&body).unwrap()
    }

    pub(in super::super) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    pub(in super::super) fn toolpost(&self, first: &[&str], rest: &[&str]) -> Output {
        let url = self.url();
        toolpost(&[first, rest, &["--url", &url, "--data", &self.data, "--json"]].concat())
    }

    pub(in super::super) fn log(&self, arguments: &[&str]) -> Output {
        let url = self.url();
        let mut all = [&["log"], arguments, &["--url", &url, "--data", &self.data]].concat();
        if arguments.first() != Some(&"export") {
            all.push("--json");
        }
        toolpost(&all)
    }

    pub(in super::super) fn replay(&self, arguments: &[&str]) -> Output {
        self.toolpost(&["replay"], arguments)
    }

    /// Starts a command as the operator.
    pub(in super::super) fn spawn(&self, arguments: &[&str]) -> Process {
        let url = self.url();
        let mut command =
            command(&[arguments, &["--url", &url, "--data", &self.data, "--json"]].concat());
        Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Waits until an operation is listed.
    pub(in super::super) fn wait_for(&self, operation: &str) {
        wait_until(operation, || {
            stdout(&toolpost(&["list", "--json", "--url", &self.url()])).contains(operation)
        });
    }

    /// Waits until the journal contains this many ended calls to an operation.
    pub(in super::super) fn wait_for_calls(&self, operation: &str, many: usize) {
        wait_until(operation, || {
            let calls = stdout(&self.log(&["--op", operation]));
            calls.lines().filter(|call| call.contains("\"endSeq\"")).count() >= many
        });
    }

    /// Waits until the journal contains a call to an operation, ended or not.
    pub(in super::super) fn wait_for_enter(&self, operation: &str) {
        wait_until(operation, || stdout(&self.log(&["--op", operation])).contains(operation));
    }

    pub(in super::super) fn follow(&self, arguments: &[&str]) -> LogFollower {
        let url = self.url();
        let all = ["log", "--follow", "--json", "--url", &url, "--data", &self.data];
        let mut command = command(&[&all, arguments].concat());
        let mut process = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let lines = process.stdout_lines();
        LogFollower { _process: process, lines }
    }
}

/// A running `log --follow`.
pub(in super::super) struct LogFollower {
    _process: Process,
    lines: OutputLines,
}

impl LogFollower {
    pub(in super::super) fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap()).unwrap()
    }

    /// Repeats an action until a call is reported, because there is no signal that the subscription
    /// has started.
    pub(in super::super) fn next_after(&mut self, act: impl Fn() + Sync) -> Value {
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    act();
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
            let line = self.lines.next().unwrap();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            serde_json::from_str(&line).unwrap()
        })
    }
}

/// Runs a command on the journal files without a running gateway.
pub(in super::super) fn offline(folder: &TempFolder, arguments: &[&str]) -> Output {
    let data = folder.path().join("data").display().to_string();
    let mut command = command(&[arguments, &["--data", &data]].concat());
    run(command.env("TOOLPOST_URL", "ws://127.0.0.1:9").current_dir(folder.path()))
}

/// Returns the only segment.
pub(in super::super) fn segment(folder: &TempFolder) -> PathBuf {
    let mut found = segments(folder);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// Returns the segments of the only journal.
pub(in super::super) fn segments(folder: &TempFolder) -> Vec<PathBuf> {
    let chains = std::fs::read_dir(folder.path().join("data/journal")).unwrap();
    let chain = chains.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let files = std::fs::read_dir(chain).unwrap().map(|entry| entry.unwrap().path());
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    files.filter(is_log).collect()
}

/// Returns a record that follows this line, with a correct hash and the authentication code of the
/// line.
pub(in super::super) fn forge_record(last: &str) -> String {
    let (prefix, content) = last.split_at(LINE_PREFIX_LEN);
    let seq: u64 = content["{\"seq\":".len()..].split(',').next().unwrap().parse().unwrap();
    let forged = format!(r#"{{"seq":{},"kind":"exit","time":0}}"#, seq + 1);
    let previous = HEXLOWER.decode(prefix[..64].as_bytes()).unwrap();
    let hash = Sha256::new().chain_update(previous).chain_update(&forged).finalize();
    format!("{}{}{forged}", HEXLOWER.encode(&hash), &prefix[64..])
}

pub(in super::super) fn post(
    address: &str,
    path: &str,
    body: &Value,
    headers: &[&str],
) -> Option<(u16, String)> {
    request(address, "POST", path, &body.to_string(), headers)
}

fn request(
    address: &str,
    method: &str,
    path: &str,
    body: &str,
    headers: &[&str],
) -> Option<(u16, String)> {
    let (head, body) = exchange(address, method, path, body, headers)?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body))
}

/// Sends a request and returns the head and the body; `None` if there is no complete response.
fn exchange(
    address: &str,
    method: &str,
    path: &str,
    body: &str,
    headers: &[&str],
) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let more: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{more}\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// Returns a number in the range that varies with the clock.
pub(in super::super) fn random_in(range: Range<usize>) -> usize {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    range.start + now.subsec_nanos() as usize % range.len()
}
