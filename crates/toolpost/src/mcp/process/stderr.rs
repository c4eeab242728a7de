//! Logs the standard error of a server line by line.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::stderr_tail::StderrTail;

/// Maximum length of a logged line in bytes; the rest is dropped.
const MAX_LINE_BYTES: usize = 8 * 1024;
/// Writes a sanitized line to the log.
pub(super) fn log_line(source: &str, line: &str) {
    tracing::info!(target: "toolpost::mcp::stderr", source, "{line}");
}

/// Reads until the end, so that the server never blocks on a full pipe.
pub(super) async fn read_stderr(
    mut stderr: impl AsyncRead + Unpin,
    tail: Arc<StderrTail>,
    mut emit: impl FnMut(String),
) {
    let mut lines = LineSplitter::default();
    let mut chunk = vec![0; MAX_LINE_BYTES];
    loop {
        let count = stderr.read(&mut chunk).await.unwrap_or(0);
        let mut take = |line: &[u8]| {
            tail.push(line);
            emit(sanitize_line(line));
        };
        if count == 0 {
            return lines.finish(&mut take);
        }
        lines.push(&chunk[..count], &mut take);
    }
}

/// Splits chunks into lines.
#[derive(Default)]
struct LineSplitter {
    /// Start of a line whose end was not read yet.
    partial: Vec<u8>,
    /// Whether the line reached the maximum length and was emitted; its rest is dropped.
    is_truncated: bool,
}

impl LineSplitter {
    fn push(&mut self, mut chunk: &[u8], take: &mut impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            self.extend(&chunk[..end], take);
            self.finish(take);
            chunk = &chunk[end + 1..];
        }
        self.extend(chunk, take);
    }

    fn extend(&mut self, part: &[u8], take: &mut impl FnMut(&[u8])) {
        if self.is_truncated {
            return;
        }
        let capacity = MAX_LINE_BYTES - self.partial.len();
        self.partial.extend_from_slice(&part[..part.len().min(capacity)]);
        if part.len() > capacity {
            self.partial.extend_from_slice("…".as_bytes());
            take(&self.partial);
            self.partial.clear();
            self.is_truncated = true;
        }
    }

    fn finish(&mut self, take: &mut impl FnMut(&[u8])) {
        if !self.partial.is_empty() {
            take(&self.partial);
        }
        self.partial.clear();
        self.is_truncated = false;
    }
}

/// Makes a line safe for a terminal: escape sequences such as colors are removed, other control
/// characters and bidirectional controls are escaped.
pub(super) fn sanitize_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.trim_end().chars();
    while let Some(character) = rest.next() {
        match character {
            '\t' => clean.push(' '),
            '\u{1b}' if rest.as_str().starts_with('[') => skip_escape_sequence(&mut rest),
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                clean.extend(character.escape_unicode());
            }
            _ if character.is_control() => clean.extend(character.escape_unicode()),
            _ => clean.push(character),
        }
    }
    clean
}

/// Skips the parameters and the final byte of a control sequence.
fn skip_escape_sequence(rest: &mut std::str::Chars<'_>) {
    rest.next();
    while rest.as_str().starts_with(|c: char| matches!(c, ' '..='?')) {
        rest.next();
    }
    if rest.as_str().starts_with(|c: char| matches!(c, '@'..='~')) {
        rest.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_entries(input: &[u8]) -> (Vec<String>, String) {
        let tail = Arc::new(StderrTail::default());
        let mut all = Vec::new();
        read_stderr(input, tail.clone(), |entry| all.push(entry)).await;
        (all, tail.text())
    }

    #[tokio::test]
    async fn stderr_lines_are_split_truncated_and_sanitized() {
        let long = [vec![b'x'; MAX_LINE_BYTES + 1], b"\nnext".to_vec()].concat();
        let exact = [vec![b'x'; MAX_LINE_BYTES], b"\nnext".to_vec()].concat();
        let cut = "x".repeat(MAX_LINE_BYTES) + "…";
        let rows: [(&[u8], Vec<&str>); 9] = [
            (b"", vec![]),
            (b"one\ntwo\r\n\n", vec!["one", "two"]),
            (b"no end", vec!["no end"]),
            (&long, vec![&cut, "next"]),
            (&exact, vec![&cut[..MAX_LINE_BYTES], "next"]),
            (b"bad \xff byte", vec!["bad \u{fffd} byte"]),
            (b"\x1b[1;31mred\x1b[0m\tand \x1b]0;title\x07", vec![r"red and \u{1b}]0;title\u{7}"]),
            ("a\u{202e}b\u{9b}c".as_bytes(), vec![r"a\u{202e}b\u{9b}c"]),
            (b"end \x1b[", vec!["end "]),
        ];
        for (input, expected) in rows {
            let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(
                read_entries(input).await.0,
                expected,
                "{:?}",
                String::from_utf8_lossy(input)
            );
        }
    }
}
