//! What a server says beside the protocol: its standard error, line by line, in our log.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use super::last_words::LastWords;

/// The longest line that is logged, in bytes; what is beyond is dropped.
const LINE_BYTES: usize = 8 * 1024;
/// The most lines that are logged in a [`WINDOW`]; the others are counted.
const LINES_PER_WINDOW: u64 = 200;
const WINDOW: Duration = Duration::from_secs(1);

/// One entry for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A line that cannot harm a terminal.
    Line(String),
    /// So many lines came too fast.
    Dropped(u64),
}

/// Writes an entry to the log.
pub(super) fn log(source: &str, said: &Said) {
    match said {
        Said::Line(line) => tracing::info!(target: "toolpost::mcp::stderr", source, "{line}"),
        Said::Dropped(lines) => {
            tracing::warn!(target: "toolpost::mcp::stderr", source, lines, "lines came too fast and were dropped");
        }
    }
}

/// Reads until the end, so that a server never waits for somebody to take its words.
pub(super) async fn read(
    mut stderr: impl AsyncRead + Unpin,
    words: Arc<LastWords>,
    mut say: impl FnMut(Said),
) {
    let mut lines = Lines::default();
    let mut flood = Flood::new();
    let mut chunk = vec![0; LINE_BYTES];
    loop {
        let read = tokio::select! {
            read = stderr.read(&mut chunk) => read,
            () = tokio::time::sleep_until(flood.window_end), if flood.dropped > 0 => {
                flood.report(&mut say);
                continue;
            }
        };
        let count = read.unwrap_or(0);
        let mut take = |line: &[u8]| {
            words.push(line);
            flood.take(line, &mut say);
        };
        if count == 0 {
            lines.finish(&mut take);
            break;
        }
        lines.push(&chunk[..count], &mut take);
    }
    flood.report(&mut say);
}

/// Makes lines out of chunks.
#[derive(Default)]
struct Lines {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// The line was long enough to be taken already; the rest of it is dropped.
    is_cut: bool,
}

impl Lines {
    fn push(&mut self, mut chunk: &[u8], take: &mut impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            self.extend(&chunk[..end], take);
            self.finish(take);
            chunk = &chunk[end + 1..];
        }
        self.extend(chunk, take);
    }

    fn extend(&mut self, part: &[u8], take: &mut impl FnMut(&[u8])) {
        if self.is_cut {
            return;
        }
        let room = LINE_BYTES - self.begun.len();
        self.begun.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() > room {
            self.begun.extend_from_slice("…".as_bytes());
            take(&self.begun);
            self.begun.clear();
            self.is_cut = true;
        }
    }

    fn finish(&mut self, take: &mut impl FnMut(&[u8])) {
        if !self.begun.is_empty() {
            take(&self.begun);
        }
        self.begun.clear();
        self.is_cut = false;
    }
}

/// Lets so many lines through in a window of time.
struct Flood {
    window_end: Instant,
    taken: u64,
    dropped: u64,
}

impl Flood {
    fn new() -> Self {
        Self { window_end: Instant::now() + WINDOW, taken: 0, dropped: 0 }
    }

    fn take(&mut self, line: &[u8], say: &mut impl FnMut(Said)) {
        if Instant::now() >= self.window_end {
            self.report(say);
        }
        if self.taken == LINES_PER_WINDOW {
            self.dropped += 1;
            return;
        }
        self.taken += 1;
        say(Said::Line(harmless(line)));
    }

    /// Begins a new window, and says what the old one dropped.
    fn report(&mut self, say: &mut impl FnMut(Said)) {
        if self.dropped > 0 {
            say(Said::Dropped(self.dropped));
        }
        *self = Self::new();
    }
}

/// A text that does nothing to a terminal: colors are left out, other control characters, and those
/// that turn the direction of writing, are shown as their numbers.
pub(super) fn harmless(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.trim_end().chars();
    while let Some(character) = rest.next() {
        match character {
            '\t' => clean.push(' '),
            '\u{1b}' if rest.as_str().starts_with('[') => skip_sequence(&mut rest),
            _ if is_harmful(character) => clean.extend(character.escape_unicode()),
            _ => clean.push(character),
        }
    }
    clean
}

/// The parameters of a control sequence, and the letter that ends it.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    rest.next();
    while rest.as_str().starts_with(|c: char| matches!(c, ' '..='?')) {
        rest.next();
    }
    if rest.as_str().starts_with(|c: char| matches!(c, '@'..='~')) {
        rest.next();
    }
}

fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn said(input: &[u8]) -> (Vec<Said>, String) {
        let words = Arc::new(LastWords::default());
        let mut all = Vec::new();
        read(input, words.clone(), |said| all.push(said)).await;
        (all, words.text())
    }

    #[tokio::test]
    async fn lines_are_told_apart_cut_and_made_harmless() {
        let long = [vec![b'x'; LINE_BYTES + 1], b"\nnext".to_vec()].concat();
        let exact = [vec![b'x'; LINE_BYTES], b"\nnext".to_vec()].concat();
        let cut = "x".repeat(LINE_BYTES) + "…";
        let rows: [(&[u8], Vec<&str>); 9] = [
            (b"", vec![]),
            (b"one\ntwo\r\n\n", vec!["one", "two"]),
            (b"no end", vec!["no end"]),
            (&long, vec![&cut, "next"]),
            (&exact, vec![&cut[..LINE_BYTES], "next"]),
            (b"bad \xff byte", vec!["bad \u{fffd} byte"]),
            (b"\x1b[1;31mred\x1b[0m\tand \x1b]0;title\x07", vec![r"red and \u{1b}]0;title\u{7}"]),
            ("a\u{202e}b\u{9b}c".as_bytes(), vec![r"a\u{202e}b\u{9b}c"]),
            (b"end \x1b[", vec!["end "]),
        ];
        for (input, expected) in rows {
            let expected: Vec<Said> =
                expected.iter().map(|l| Said::Line((*l).to_owned())).collect();
            assert_eq!(said(input).await.0, expected, "{:?}", String::from_utf8_lossy(input));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_cut_and_counted_and_its_end_is_remembered() {
        let (mut near, far) = tokio::io::duplex(1 << 16);
        let words = Arc::new(LastWords::default());
        let (sender, mut log) = tokio::sync::mpsc::channel(1000);
        let reading = read(far, words.clone(), move |said| sender.try_send(said).unwrap());
        let reading = tokio::spawn(reading);
        let flood: String = (0..1000).map(|n| format!("line {n}\n")).collect();
        near.write_all(flood.as_bytes()).await.unwrap();
        for n in 0..LINES_PER_WINDOW {
            assert_eq!(log.recv().await, Some(Said::Line(format!("line {n}"))));
        }
        // Nothing more comes, and still the count is told when the second is over.
        assert_eq!(log.recv().await, Some(Said::Dropped(800)));
        assert!(words.text().ends_with("line 998\nline 999"), "{}", words.text());
        near.write_all(b"later\n").await.unwrap();
        assert_eq!(log.recv().await, Some(Said::Line("later".to_owned())));
        drop(near);
        reading.await.unwrap();
        assert_eq!(log.recv().await, None);
    }
}
