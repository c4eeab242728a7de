//! Polls the files of a configuration for changes.
//!
//! Polling takes a few system calls and detects changes that file system notifications miss: files
//! replaced by editors, changed symlinks and network file systems.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Weak;
use std::time::Duration;

use super::reload::{ReloadTrigger, Reloader};
use crate::config::FileFingerprint;

/// How long files must be unchanged before they are read, since some are written in several steps.
const DEBOUNCE: Duration = Duration::from_millis(100);

type Fingerprints = BTreeMap<PathBuf, Option<FileFingerprint>>;

/// Reloads the configuration when one of its files changes, until the reloader is dropped.
pub(super) async fn watch(reloader: Weak<Reloader>, interval: Duration) {
    // Starts empty, so that the first poll reloads: changes since the initial load are not missed.
    let mut before = Fingerprints::new();
    loop {
        tokio::time::sleep(interval).await;
        let Some(mut now) = read_fingerprints(&reloader).await else { return };
        if now == before {
            continue;
        }
        loop {
            tokio::time::sleep(DEBOUNCE).await;
            let Some(rested) = read_fingerprints(&reloader).await else { return };
            if rested == now {
                break;
            }
            now = rested;
        }
        let Some(living) = reloader.upgrade() else { return };
        // The reloader logs the result.
        let _ = living.reload(ReloadTrigger::FileChange).await;
        // The fingerprints from before the reload, so that a change during it is noticed. A newly
        // referenced file is not among them, which causes one more reload.
        before = now;
    }
}

async fn read_fingerprints(reloader: &Weak<Reloader>) -> Option<Fingerprints> {
    let files = reloader.upgrade()?.files().await;
    let read = |file: PathBuf| {
        let fingerprint = FileFingerprint::read(&file);
        (file, fingerprint)
    };
    tokio::task::spawn_blocking(move || files.into_iter().map(read).collect()).await.ok()
}
