//! The last lines that a server wrote to its standard error.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::stderr::sanitize_line;

/// The most lines that are remembered.
const MAX_LINES: usize = 20;
/// The most bytes of one line.
const MAX_LINE_BYTES: usize = 1024;
/// The most bytes of all of them.
const MAX_BYTES: usize = 4096;

/// A bounded memory: the oldest lines make room for new ones.
#[derive(Debug, Default)]
pub(super) struct StderrTail(Mutex<TailBuffer>);

#[derive(Debug, Default)]
struct TailBuffer {
    /// As they came, since most of them are never looked at.
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl StderrTail {
    /// Remembers the beginning of a line; an empty one says nothing.
    pub(super) fn push(&self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let line = line[..line.len().min(MAX_LINE_BYTES)].to_vec();
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.bytes += line.len();
        buffer.lines.push_back(line);
        while buffer.lines.len() > MAX_LINES || buffer.bytes > MAX_BYTES {
            let oldest = buffer.lines.pop_front();
            buffer.bytes -= oldest.map_or(0, |line| line.len());
        }
    }

    /// The lines, oldest first.
    pub(super) fn text(&self) -> String {
        let buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.lines.iter().map(|line| sanitize_line(line)).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stderr_tail_limits_lines_line_length_and_bytes() {
        let check = |lines: &[Vec<u8>], count: usize, bytes: usize, last: &str| {
            let tail = StderrTail::default();
            lines.iter().for_each(|line| tail.push(line));
            let text = tail.text();
            assert_eq!(text.lines().count(), count);
            assert_eq!(text.len(), bytes);
            assert!(text.ends_with(last), "{text}");
        };
        check(&[], 0, 0, "");
        check(&[b"one".to_vec(), b" \t".to_vec(), b"two".to_vec()], 2, 7, "one\ntwo");
        let numbers: Vec<Vec<u8>> = (10..99).map(|n: u32| n.to_string().into_bytes()).collect();
        check(&numbers, 20, 59, "97\n98");
        check(&[vec![b'x'; 5000]], 1, 1024, "x");
        check(&vec![vec![b'x'; 5000]; 9], 4, 4 * 1024 + 3, "x");
    }
}
