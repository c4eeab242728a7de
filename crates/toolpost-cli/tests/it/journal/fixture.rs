//! A gateway with a journal, used through HTTP and the command line.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::process::{OutputLines, Process, TIMEOUT, run, wait_until};
use crate::{TempFolder, command, stdout};

/// Length of the hash and the authentication code of a line.
const LINE_PREFIX_LEN: usize = 98;

pub(in super::super) struct Gateway {
    process: Process,
    pub(in super::super) address: String,
    folder: PathBuf,
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
        in_folder(&mut command, folder.path()).args(["serve", "--listen", "127.0.0.1:0"]);
        let (process, address, _) = Process::serve(command.stderr(Stdio::null()));
        Self { process, address, folder: folder.path().to_owned() }
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

    /// Sends a GET request and returns the head and the body of the response.
    pub(in super::super) fn fetch(&self, path: &str, headers: &[&str]) -> (String, String) {
        exchange(&self.address, "GET", path, "", headers).unwrap()
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

    /// Returns a command that uses this gateway.
    pub(in super::super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        in_folder(&mut command, &self.folder);
        command
    }

    pub(in super::super) fn toolpost(&self, first: &[&str], rest: &[&str]) -> Output {
        run(&mut self.command(&[first, rest, &["--json"]].concat()))
    }

    pub(in super::super) fn log(&self, arguments: &[&str]) -> Output {
        self.toolpost(&["log"], arguments)
    }

    pub(in super::super) fn replay(&self, arguments: &[&str]) -> Output {
        self.toolpost(&["replay"], arguments)
    }

    /// Starts a command as the operator.
    pub(in super::super) fn spawn(&self, arguments: &[&str]) -> Process {
        let mut command = self.command(&[arguments, &["--json"]].concat());
        Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Waits until an operation is listed.
    pub(in super::super) fn wait_for(&self, operation: &str) {
        wait_until(operation, || stdout(&self.toolpost(&["list"], &[])).contains(operation));
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
        let mut command = self.command(&[&["log", "--follow", "--json"], arguments].concat());
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

/// Sets the folder and the data folder of a command.
pub(in super::super) fn in_folder<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    command.current_dir(folder).env("XDG_DATA_HOME", folder.join("data"))
}

/// Returns the data folder of gateways that were started in this folder.
pub(in super::super) fn data(folder: &TempFolder) -> PathBuf {
    folder.path().join("data/toolpost")
}

/// Runs a command on the journal files, not through a running gateway.
pub(in super::super) fn offline(folder: &TempFolder, arguments: &[&str]) -> Output {
    let data = data(folder).display().to_string();
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
    segments_in(&data(folder))
}

/// Returns the segments of the only journal in a data folder.
pub(in super::super) fn segments_in(data: &Path) -> Vec<PathBuf> {
    let chains = std::fs::read_dir(data.join("journal")).unwrap();
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
    let previous = HEXLOWER.decode(&prefix.as_bytes()[..64]).unwrap();
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

/// Sends a request and returns the head and the body; `None` if there is no complete response. A
/// response that is not UTF-8 is returned with one character for each byte.
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
    let mut response = Vec::new();
    stream.read_to_end(&mut response).ok()?;
    let response = String::from_utf8(response)
        .unwrap_or_else(|error| error.into_bytes().into_iter().map(char::from).collect());
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// Returns a number in the range that varies with the clock.
pub(in super::super) fn random_in(range: Range<usize>) -> usize {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    range.start + now.subsec_nanos() as usize % range.len()
}
