//! Child processes, and waits that fail after a time limit.

use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Maximum time to wait for an expected event, generous enough for a busy machine.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time for a command to end. The conformance suite is the longest.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(300);

/// Polls until the condition holds.
pub(super) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Polls until there is a value and returns it.
pub(super) fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = poll() {
            return value;
        }
        assert!(start.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// As [`wait_until`], for a condition that needs the runtime.
pub(super) async fn wait_until_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A process that is killed on drop.
pub(super) struct Process(Child);

impl Process {
    pub(super) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Starts `serve`, and returns it with its address and the lines that it prints. Standard error
    /// is where the caller directs it.
    pub(super) fn serve(command: &mut Command) -> (Self, String, OutputLines) {
        let mut process = Self::spawn(command.stdout(Stdio::piped()));
        let mut lines = process.stdout_lines();
        let first = lines.next().expect("the gateway prints its address");
        let address = first.trim().rsplit_once("http://").unwrap_or_else(|| panic!("{first}")).1;
        (process, address.to_owned(), lines)
    }

    pub(super) fn stdout_lines(&mut self) -> OutputLines {
        OutputLines::of(self.stdout.take().unwrap())
    }

    pub(super) fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Waits for the end of the process.
    pub(super) fn exit_status(&mut self) -> ExitStatus {
        wait_for("the process ends", || self.try_wait().unwrap())
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that a process writes. A thread reads them, so that the process is never blocked and
/// waiting for a line has a limit.
pub(super) struct OutputLines(mpsc::Receiver<String>);

impl OutputLines {
    pub(super) fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self(receiver)
    }
}

impl Iterator for OutputLines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self.0.recv_timeout(TIMEOUT) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no line within {TIMEOUT:?}"),
        }
    }
}

/// Runs a command to its end, within a time limit.
pub(super) fn run(command: &mut Command) -> Output {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    output_of(piped.spawn().unwrap())
}

/// Waits for the end of a process, within a time limit, and returns its output.
pub(super) fn output_of(child: Child) -> Output {
    let id = child.id().to_string();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    receiver.recv_timeout(COMMAND_TIMEOUT).map(Result::unwrap).unwrap_or_else(|_| {
        let _ = Command::new("kill").args(["-KILL", &id]).status();
        panic!("the command did not end within {COMMAND_TIMEOUT:?}")
    })
}
