//! Child processes that are measured or called.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A process that is killed on drop.
pub(crate) struct ChildProcess(pub(crate) Child);

impl ChildProcess {
    /// Starts a process and returns the first line it prints.
    pub(crate) fn start(mut command: Command) -> (Self, String) {
        let mut child = Self(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{command:?} exited before it printed a line");
        (child, line.trim().to_owned())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // Killing a process that has exited is an error that can be ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
