//! What a server says beside the protocol: its standard error, line by line, in our log.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use super::stderr_tail::StderrTail;

/// The longest line that is logged, in bytes; what is beyond is dropped.
const MAX_LINE_BYTES: usize = 8 * 1024;
/// The most lines that are logged in a [`WINDOW`]; the others are counted.
const MAX_LINES_PER_WINDOW: u64 = 200;
const WINDOW: Duration = Duration::from_secs(1);

/// One entry for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StderrEntry {
    /// A line that cannot harm a terminal.
    Line(String),
    /// So many lines came too fast.
    Dropped(u64),
}

/// Writes an entry to the log.
pub(super) fn log_entry(source: &str, entry: &StderrEntry) {
    match entry {
        StderrEntry::Line(line) => {
            tracing::info!(target: "toolpost::mcp::stderr", source, "{line}");
        }
        StderrEntry::Dropped(lines) => {
            tracing::warn!(target: "toolpost::mcp::stderr", source, lines, "stderr rate limit exceeded; lines dropped");
        }
    }
}

/// Reads until the end, so that a server never waits for somebody to take its words.
pub(super) async fn read_stderr(
    mut stderr: impl AsyncRead + Unpin,
    tail: Arc<StderrTail>,
    mut emit: impl FnMut(StderrEntry),
) {
    let mut lines = LineSplitter::default();
    let mut limiter = LineRateLimiter::new();
    let mut chunk = vec![0; MAX_LINE_BYTES];
    loop {
        let read = tokio::select! {
            read = stderr.read(&mut chunk) => read,
            () = tokio::time::sleep_until(limiter.window_end), if limiter.dropped > 0 => {
                limiter.start_window(&mut emit);
                continue;
            }
        };
        let count = read.unwrap_or(0);
        let mut take = |line: &[u8]| {
            tail.push(line);
            limiter.accept(line, &mut emit);
        };
        if count == 0 {
            lines.finish(&mut take);
            break;
        }
        lines.push(&chunk[..count], &mut take);
    }
    limiter.start_window(&mut emit);
}

/// Makes lines out of chunks.
#[derive(Default)]
struct LineSplitter {
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
    /// The line was long enough to be taken already; the rest of it is dropped.
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

/// Lets so many lines through in a window of time.
struct LineRateLimiter {
    window_end: Instant,
    accepted: u64,
    dropped: u64,
}

impl LineRateLimiter {
    fn new() -> Self {
        Self { window_end: Instant::now() + WINDOW, accepted: 0, dropped: 0 }
    }

    fn accept(&mut self, line: &[u8], emit: &mut impl FnMut(StderrEntry)) {
        if Instant::now() >= self.window_end {
            self.start_window(emit);
        }
        if self.accepted == MAX_LINES_PER_WINDOW {
            self.dropped += 1;
            return;
        }
        self.accepted += 1;
        emit(StderrEntry::Line(sanitize_line(line)));
    }

    /// Begins a new window, and says what the old one dropped.
    fn start_window(&mut self, emit: &mut impl FnMut(StderrEntry)) {
        if self.dropped > 0 {
            emit(StderrEntry::Dropped(self.dropped));
        }
        *self = Self::new();
    }
}

/// A text that does nothing to a terminal: colors are left out, other control characters, and those
/// that turn the direction of writing, are shown as their numbers.
pub(super) fn sanitize_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.trim_end().chars();
    while let Some(character) = rest.next() {
        match character {
            '\t' => clean.push(' '),
            '\u{1b}' if rest.as_str().starts_with('[') => skip_escape_sequence(&mut rest),
            _ if needs_escape(character) => clean.extend(character.escape_unicode()),
            _ => clean.push(character),
        }
    }
    clean
}

/// The parameters of a control sequence, and the letter that ends it.
fn skip_escape_sequence(rest: &mut std::str::Chars<'_>) {
    rest.next();
    while rest.as_str().starts_with(|c: char| matches!(c, ' '..='?')) {
        rest.next();
    }
    if rest.as_str().starts_with(|c: char| matches!(c, '@'..='~')) {
        rest.next();
    }
}

fn needs_escape(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn read_entries(input: &[u8]) -> (Vec<StderrEntry>, String) {
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
            let expected: Vec<StderrEntry> =
                expected.iter().map(|l| StderrEntry::Line((*l).to_owned())).collect();
            assert_eq!(
                read_entries(input).await.0,
                expected,
                "{:?}",
                String::from_utf8_lossy(input)
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stderr_flood_is_rate_limited_counted_and_kept_in_tail() {
        let (mut writer, reader) = tokio::io::duplex(1 << 16);
        let tail = Arc::new(StderrTail::default());
        let (sender, mut log) = tokio::sync::mpsc::channel(1000);
        let reading =
            read_stderr(reader, tail.clone(), move |entry| sender.try_send(entry).unwrap());
        let reading = tokio::spawn(reading);
        let limiter: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        writer.write_all(limiter.as_bytes()).await.unwrap();
        for n in 0..MAX_LINES_PER_WINDOW {
            assert_eq!(log.recv().await, Some(StderrEntry::Line(format!("line {n}"))));
        }
        // Nothing more comes, and still the count is told when the second is over.
        assert_eq!(log.recv().await, Some(StderrEntry::Dropped(800)));
        assert!(tail.text().ends_with("line 998\nline 999"), "{}", tail.text());
        writer.write_all(b"later\n").await.unwrap();
        assert_eq!(log.recv().await, Some(StderrEntry::Line("later".to_owned())));
        drop(writer);
        reading.await.unwrap();
        assert_eq!(log.recv().await, None);
    }
}
