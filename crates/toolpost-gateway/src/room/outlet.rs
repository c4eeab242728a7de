//! The way to one participant: a queue that nobody waits for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::sync::CancellationToken;

/// How many messages wait for a participant who reads slowly; with one more he is let go.
const MOST: usize = 8_192;
/// How many bytes these may have together.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// The room's end.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    queue: mpsc::Sender<Utf8Bytes>,
    shared: Arc<Shared>,
}

/// The participant's end.
#[derive(Debug)]
pub(crate) struct Inlet {
    queue: mpsc::Receiver<Utf8Bytes>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes: AtomicUsize,
    closed: CancellationToken,
    goodbye: OnceLock<Goodbye>,
}

/// Why a connection ends, as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Goodbye {
    pub(crate) code: u16,
    pub(crate) reason: String,
    /// Whether what waits is sent before.
    pub(crate) is_patient: bool,
}

impl Goodbye {
    pub(crate) fn new(code: u16, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), is_patient: true }
    }

    fn too_slow() -> Self {
        let reason = "too much waited to be read; come again and ask for the history".to_owned();
        Self { code: 1013, reason, is_patient: false }
    }
}

pub(crate) fn way() -> (Outlet, Inlet) {
    let (sender, receiver) = mpsc::channel(MOST);
    let shared = Arc::<Shared>::default();
    let outlet = Outlet { queue: sender, shared: Arc::clone(&shared) };
    (outlet, Inlet { queue: receiver, shared })
}

impl Outlet {
    /// Hands something over. Whoever has left too much unread is let go: others do not wait for him, and
    /// nothing is left out that he believes to have seen.
    pub(crate) fn send(&self, text: Utf8Bytes) {
        // Nothing follows what was left out, even if there is a place again.
        if self.shared.closed.is_cancelled() {
            return;
        }
        let bytes = text.len();
        let before = self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_too_much = before > 0 && before + bytes > MOST_BYTES;
        if is_too_much || self.queue.try_send(text).is_err() {
            self.close(Goodbye::too_slow());
        }
    }

    /// Ends the connection; the first reason counts.
    pub(crate) fn close(&self, goodbye: Goodbye) {
        let _ = self.shared.goodbye.set(goodbye);
        self.shared.closed.cancel();
    }
}

impl Inlet {
    /// What is next; nothing when there is nobody any more who could send.
    pub(crate) async fn next(&mut self) -> Option<Utf8Bytes> {
        let text = self.queue.recv().await?;
        self.taken(&text);
        Some(text)
    }

    /// What is there already.
    pub(crate) fn waiting(&mut self) -> Option<Utf8Bytes> {
        let text = self.queue.try_recv().ok()?;
        self.taken(&text);
        Some(text)
    }

    fn taken(&self, text: &Utf8Bytes) {
        self.shared.bytes.fetch_sub(text.len(), Ordering::Relaxed);
    }

    /// Resolves when the connection shall end.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.shared.closed.clone()
    }

    pub(crate) fn goodbye(&self) -> Goodbye {
        let left = || Goodbye::new(1001, "the room is closed");
        self.shared.goodbye.get().cloned().unwrap_or_else(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reads_nothing_is_let_go_and_not_waited_for() {
        for (text, room_for) in [("x", MOST), (&*"x".repeat(MOST_BYTES / 4), 4)] {
            let (outlet, mut inlet) = way();
            let text = Utf8Bytes::from(text);
            for _ in 0..room_for {
                outlet.send(text.clone());
            }
            assert!(!inlet.closed().is_cancelled());
            outlet.send(text.clone());
            assert!(inlet.closed().is_cancelled());
            assert_eq!(inlet.goodbye().code, 1013);
            assert_eq!(inlet.waiting(), Some(text.clone()));
            outlet.send("behind what was left out".into());
            assert!(std::iter::from_fn(|| inlet.waiting()).all(|waiting| waiting == text));
        }
    }
}
