//! Reaps orphaned processes, which become children of process 1. Linux only: it needs the process
//! table.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};

use super::process_table::{self, ProcessEntry};

/// Interval between two scans of the process table. A server that this process started is reaped by
/// its supervisor within that time.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Reaps the children that nothing else reaps, if this process is process 1, as in a container
/// without an init process. Never returns otherwise.
pub async fn reap_orphans() {
    let own = rustix::process::getpid();
    if own != Pid::INIT {
        return std::future::pending().await;
    }
    let mut seen = HashSet::new();
    loop {
        tokio::time::sleep(SCAN_INTERVAL).await;
        let table = process_table::read().unwrap_or_default().into_iter();
        let ended = table.filter(|entry| entry.is_zombie && entry.parent == own.as_raw_pid());
        let ended: HashSet<ProcessEntry> = ended.collect();
        for orphan in ended.intersection(&seen).filter_map(|entry| Pid::from_raw(entry.id)) {
            // Fails if it was reaped meanwhile.
            let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
        }
        seen = ended;
    }
}
