//! The last lines that a server wrote to standard error.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::stderr::sanitize_line;

/// Maximum number of lines.
const MAX_LINES: usize = 20;
/// Maximum number of bytes per line.
const MAX_LINE_BYTES: usize = 1024;
/// Maximum number of bytes of all lines.
const MAX_BYTES: usize = 4096;

/// Bounded buffer of lines; the oldest lines are removed first.
#[derive(Debug, Default)]
pub(crate) struct StderrTail(Mutex<TailBuffer>);

#[derive(Debug, Default)]
struct TailBuffer {
    /// Raw lines; they are sanitized when read, which is rare.
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Number of lines that were removed.
    removed: usize,
}

impl StderrTail {
    /// Adds a line, truncated; blank lines are skipped.
    pub(super) fn push(&self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let line = line[..line.len().min(MAX_LINE_BYTES)].to_vec();
        let mut buffer = self.0.lock();
        buffer.bytes += line.len();
        buffer.lines.push_back(line);
        while buffer.lines.len() > MAX_LINES || buffer.bytes > MAX_BYTES {
            let oldest = buffer.lines.pop_front();
            buffer.bytes -= oldest.map_or(0, |line| line.len());
            buffer.removed += 1;
        }
    }

    /// Returns the number of lines so far.
    pub(crate) fn position(&self) -> usize {
        let buffer = self.0.lock();
        buffer.removed + buffer.lines.len()
    }

    /// Adds the lines after a position to a message, each on a line of its own.
    pub(crate) fn append_to(&self, mut message: String, position: usize) -> String {
        let buffer = self.0.lock();
        let lines = buffer.lines.iter().skip(position.saturating_sub(buffer.removed));
        for (number, line) in lines.enumerate() {
            message.push_str(if number == 0 { "; standard error:\n    " } else { "\n    " });
            message.push_str(&sanitize_line(line));
        }
        message
    }

    /// Returns the sanitized lines, oldest first.
    #[cfg(test)]
    pub(super) fn text(&self) -> String {
        let buffer = self.0.lock();
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

    #[test]
    fn stderr_tail_appends_only_lines_after_position() {
        let tail = StderrTail::default();
        (0..30).for_each(|n: u32| tail.push(n.to_string().as_bytes()));
        let position = tail.position();
        assert_eq!(position, 30);
        assert_eq!(tail.append_to("it ended".to_owned(), position), "it ended");
        tail.push(b"one");
        tail.push(b"two");
        let message = tail.append_to("it ended".to_owned(), position);
        assert_eq!(message, "it ended; standard error:\n    one\n    two");
        assert_eq!(tail.append_to(String::new(), 0).lines().count(), MAX_LINES + 1);
    }
}
