//! The Linux process table, read from `/proc`.

use std::collections::HashMap;
use std::fs;

use rustix::process::{
    Pid, PidfdFlags, RawPid, Signal, kill_process, pidfd_open, pidfd_send_signal,
};

/// A process table entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ProcessEntry {
    pub(super) id: RawPid,
    pub(super) parent: RawPid,
    pub(super) group: RawPid,
    /// Whether it has exited and was not reaped.
    pub(super) is_zombie: bool,
    /// Start time; together with the id it identifies a process even if the id is reused.
    start_time: u64,
}

/// Returns all visible processes; `None` if there is no process table.
pub(super) fn read() -> Option<Vec<ProcessEntry>> {
    let names =
        fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Some(names.filter_map(|name| read_process(name.parse().ok()?)).collect())
}

/// Returns all descendants of a process, except zombies.
pub(super) fn descendants(ancestor: Pid, table: &[ProcessEntry]) -> Vec<ProcessEntry> {
    let mut children: HashMap<RawPid, Vec<&ProcessEntry>> = HashMap::new();
    for entry in table {
        children.entry(entry.parent).or_default().push(entry);
    }
    let mut found = Vec::new();
    let mut parents = vec![ancestor.as_raw_pid()];
    while let Some(parent) = parents.pop() {
        // Removing entries prevents cycles in a table that changed while it was read.
        for entry in children.remove(&parent).unwrap_or_default() {
            parents.push(entry.id);
            found.push(*entry);
        }
    }
    found.retain(|entry| !entry.is_zombie);
    found
}

/// Sends a signal to this process, but never to another process that reuses its id.
pub(super) fn signal(entry: &ProcessEntry, signal: Signal) {
    let Some(id) = Pid::from_raw(entry.id) else { return };
    let handle = pidfd_open(id, PidfdFlags::empty());
    if read_process(entry.id).is_none_or(|now| now.start_time != entry.start_time) {
        return;
    }
    // Fails if the process is gone or cannot be signaled.
    let _ = match handle {
        Ok(handle) => pidfd_send_signal(handle, signal),
        // Kernels before 5.3 do not support pidfds.
        Err(_) => kill_process(id, signal),
    };
}

fn read_process(id: RawPid) -> Option<ProcessEntry> {
    // A process name may contain any byte.
    let line = fs::read(format!("/proc/{id}/stat")).ok()?;
    parse_stat(id, &String::from_utf8_lossy(&line))
}

/// Parses a line of proc(5) `stat`, after the process name, which may contain `) `.
fn parse_stat(id: RawPid, line: &str) -> Option<ProcessEntry> {
    let fields: Vec<&str> = line.rsplit_once(") ")?.1.split(' ').collect();
    Some(ProcessEntry {
        id,
        is_zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;

    use super::*;

    #[test]
    fn proc_stat_parses_any_process_name() {
        let fields = "5 6 7 0 -1 4194304 1 0 0 0 2 3 0 0 20 0 1 0 99 1000 10";
        for (line, expected) in [
            (format!("9 (sh) S {fields}"), Some((false, 99))),
            (format!("9 (a) Z 1 (b) R {fields}"), Some((false, 99))),
            (format!("9 (sh) Z {fields}"), Some((true, 99))),
            ("9 (sh) S 5 6".to_owned(), None),
            (String::new(), None),
        ] {
            let expected = expected.map(|(is_over, started)| ProcessEntry {
                id: 9,
                parent: 5,
                group: 6,
                is_zombie: is_over,
                start_time: started,
            });
            assert_eq!(parse_stat(9, &line), expected, "{line}");
        }
    }

    #[test]
    fn descendants_include_only_running_children() {
        let entry = |id, parent, is_over| ProcessEntry {
            id,
            parent,
            group: 1,
            is_zombie: is_over,
            start_time: 0,
        };
        let table = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 6), (7, 8), (8, 7)]
            .map(|(i, p)| entry(i, p, false));
        let table = [&table[..], &[entry(9, 2, true), entry(10, 9, false)]].concat();
        for (ancestor, expected) in
            [(1, vec![2, 3, 4, 5, 10]), (2, vec![3, 4, 10]), (4, vec![]), (7, vec![7, 8])]
        {
            let found = descendants(Pid::from_raw(ancestor).unwrap(), &table);
            let mut found: Vec<i32> = found.iter().map(|entry| entry.id).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{ancestor}");
        }
    }

    #[test]
    fn process_table_contains_current_process() {
        let table = read().unwrap();
        let us = getpid().as_raw_pid();
        assert!(
            table.iter().any(|entry| entry.id == us && !entry.is_zombie && entry.start_time > 0)
        );
    }
}
