//! Programs that are started to be measured or to be called.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A program that ends with whoever has started it.
pub(crate) struct Program(pub(crate) Child);

impl Program {
    /// Starts a program, and gives the first line that it prints.
    pub(crate) fn start(mut command: Command) -> (Self, String) {
        let mut program = Self(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(program.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{command:?} ended before it said anything");
        (program, line.trim().to_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that is gone already cannot be killed, and need not be.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
