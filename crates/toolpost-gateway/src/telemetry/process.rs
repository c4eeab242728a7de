//! Process metrics from the operating system.

use super::exposition::Exposition;

/// Writes the number of async tasks, and on Linux memory, file descriptors and CPU time.
pub(super) fn write(exposition: &mut Exposition) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let tasks = runtime.metrics().num_alive_tasks();
        exposition.gauge("toolpost_tasks", "Async tasks of the runtime.").sample(&[], tasks);
    }
    #[cfg(target_os = "linux")]
    linux::write(exposition);
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use super::Exposition;

    /// Clock ticks per second in `/proc` (`USER_HZ`), which is 100 on Linux.
    const TICKS_PER_SECOND: f64 = 100.0;

    pub(super) fn write(exposition: &mut Exposition) {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (key, name, help) in [
            ("VmRSS:", "process_resident_memory_bytes", "Resident memory in bytes."),
            ("VmSize:", "process_virtual_memory_bytes", "Virtual memory in bytes."),
        ] {
            if let Some(kibibytes) = parse_field(&status, key) {
                exposition.gauge(name, help).sample(&[], kibibytes * 1_024);
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // Excludes the descriptor of the open folder.
            let count = open.count().saturating_sub(1);
            exposition.gauge("process_open_fds", "Open file descriptors.").sample(&[], count);
        }
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        if let Some(max) = parse_field(&limits, "Max open files") {
            exposition
                .gauge("process_max_fds", "Maximum number of open file descriptors.")
                .sample(&[], max);
        }
        if let Some(seconds) = cpu_seconds() {
            let help = "User and system CPU time, in seconds.";
            exposition.counter("process_cpu_seconds_total", help).sample(&[], seconds);
        }
    }

    fn parse_field(text: &str, key: &str) -> Option<u64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
        rest.split_whitespace().next()?.parse().ok()
    }

    fn cpu_seconds() -> Option<f64> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The program name is in parentheses and may contain any character.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u32>().ok();
        Some(f64::from(ticks()?.saturating_add(ticks()?)) / TICKS_PER_SECOND)
    }
}
