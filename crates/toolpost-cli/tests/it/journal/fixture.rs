//! A gateway with a journal, called and read as people do it.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::{TempFolder, command, stdout, toolpost};

/// How long something that has to come may take.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(in super::super) struct Gateway {
    child: Child,
    pub(in super::super) address: String,
    data: String,
}

impl Gateway {
    pub(in super::super) fn start(folder: &TempFolder) -> Self {
        Self::run(command(&[]), folder)
    }

    /// One whose files may not grow beyond so many blocks; what is told to it instead of a signal is
    /// an error.
    pub(in super::super) fn start_with_file_limit(folder: &TempFolder, blocks: u32) -> Self {
        let mut shell = Command::new("sh");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_toolpost")]).env_remove("TOOLPOST_LOG");
        Self::run(shell, folder)
    }

    fn run(mut command: Command, folder: &TempFolder) -> Self {
        let data = folder.path().join("data").display().to_string();
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0", "--data", &data])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.rsplit_once("http://").unwrap().1.to_owned();
        Self { child, address, data }
    }

    /// As it ends when nothing can be done about it.
    pub(in super::super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(in super::super) fn stop(&mut self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
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

    pub(in super::super) fn get_with(&self, path: &str, headers: &[&str]) -> (u16, String) {
        request(&self.address, "GET", path, "", headers).unwrap()
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

    /// Starts a command of the operator's.
    pub(in super::super) fn spawn(&self, arguments: &[&str]) -> Child {
        let url = self.url();
        let mut command =
            command(&[arguments, &["--url", &url, "--data", &self.data, "--json"]].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Waits until an operation is there.
    pub(in super::super) fn wait_for(&self, operation: &str) {
        poll_until(|| {
            stdout(&toolpost(&["list", "--json", "--url", &self.url()])).contains(operation)
        });
    }

    /// Waits until so many calls of an operation are in the journal, which may take a moment.
    pub(in super::super) fn wait_for_calls(&self, operation: &str, many: usize) {
        poll_until(|| {
            let calls = stdout(&self.log(&["--op", operation]));
            calls.lines().filter(|call| call.contains("\"endSeq\"")).count() >= many
        });
    }

    /// Waits until a call of an operation has begun.
    pub(in super::super) fn wait_for_enter(&self, operation: &str) {
        poll_until(|| stdout(&self.log(&["--op", operation])).contains(operation));
    }

    pub(in super::super) fn follow(&self, arguments: &[&str]) -> LogFollower {
        let url = self.url();
        let all = ["log", "--follow", "--json", "--url", &url, "--data", &self.data];
        let mut command = command(&[&all, arguments].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        LogFollower { child, lines }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Somebody who watches calls end.
pub(in super::super) struct LogFollower {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl LogFollower {
    pub(in super::super) fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// Does something again and again until a call comes: nobody says when he has begun to watch.
    pub(in super::super) fn next_after(&mut self, act: impl Fn() + Sync) -> Value {
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    act();
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
            let line = self.lines.next().unwrap().unwrap();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            serde_json::from_str(&line).unwrap()
        })
    }
}

impl Drop for LogFollower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The journal of a gateway that does not run.
pub(in super::super) fn offline(folder: &TempFolder, arguments: &[&str]) -> Output {
    let data = folder.path().join("data").display().to_string();
    let mut command = command(&[arguments, &["--data", &data]].concat());
    command.env("TOOLPOST_URL", "ws://127.0.0.1:9").current_dir(folder.path()).output().unwrap()
}

/// The only file of records.
pub(in super::super) fn segment(folder: &TempFolder) -> PathBuf {
    let mut found = segments(folder);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// The files of records of the only journal.
pub(in super::super) fn segments(folder: &TempFolder) -> Vec<PathBuf> {
    let chains = std::fs::read_dir(folder.path().join("data/journal")).unwrap();
    let chain = chains.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let files = std::fs::read_dir(chain).unwrap().map(|entry| entry.unwrap().path());
    let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    files.filter(is_log).collect()
}

pub(in super::super) fn post(
    address: &str,
    path: &str,
    body: &Value,
    headers: &[&str],
) -> Option<(u16, String)> {
    request(address, "POST", path, &body.to_string(), headers)
}

/// `None` where nobody answered to the end.
fn request(
    address: &str,
    method: &str,
    path: &str,
    body: &str,
    headers: &[&str],
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
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
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// One of these, another each time.
pub(in super::super) fn random_in(range: Range<usize>) -> usize {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    range.start + now.subsec_nanos() as usize % range.len()
}

/// What comes in the end.
pub(in super::super) fn poll_until_some<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    poll_until(|| {
        found = poll();
        found.is_some()
    });
    found.expect("it was waited for")
}

pub(in super::super) fn poll_until(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < deadline, "it did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}
