//! The files of a configuration, looked at from time to time.
//!
//! Looking costs a handful of system calls, and sees what notifications of the system do not: files
//! that editors replace, links that move, and folders of other machines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Weak;
use std::time::Duration;

use super::reload::{ReloadTrigger, Reloader};
use crate::config::FileFingerprint;

/// How long files must have rested before they are read: some are written in several steps.
const DEBOUNCE: Duration = Duration::from_millis(100);

type Fingerprints = BTreeMap<PathBuf, Option<FileFingerprint>>;

/// Reads the configuration again whenever one of its files has changed, until there is nobody who
/// wants that.
pub(super) async fn watch(reloader: Weak<Reloader>, interval: Duration) {
    // What changed between the first reading and the first look is not missed: they are read once more.
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
        // What came of it, it has said itself.
        let _ = living.reload(ReloadTrigger::FileChange).await;
        // As they were before they were read, so that what has changed since is seen the next time. A
        // file that was named only now is not among them, and everything is read once more.
        before = now;
    }
}

async fn read_fingerprints(reloader: &Weak<Reloader>) -> Option<Fingerprints> {
    let files = reloader.upgrade()?.files().await;
    let looking = tokio::task::spawn_blocking(|| {
        files
            .into_iter()
            .map(|file| {
                let stamp = FileFingerprint::read(&file);
                (file, stamp)
            })
            .collect()
    });
    looking.await.ok()
}
