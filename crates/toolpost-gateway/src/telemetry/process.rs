//! What the system knows of this process.

use super::exposition::Exposition;

/// The tasks of the runtime, and on Linux memory, descriptors and processor time.
pub(super) fn write(exposition: &mut Exposition) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let tasks = runtime.metrics().num_alive_tasks();
        exposition.gauge("toolpost_tasks", "Tasks of the runtime.");
        exposition.sample("toolpost_tasks", &[], tasks);
    }
    #[cfg(target_os = "linux")]
    linux::write(exposition);
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use super::Exposition;

    /// How many ticks of `/proc` a second has, on every Linux there is.
    const TICKS_PER_SECOND: f64 = 100.0;

    pub(super) fn write(exposition: &mut Exposition) {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (key, name, help) in [
            ("VmRSS:", "process_resident_memory_bytes", "Memory in use."),
            ("VmSize:", "process_virtual_memory_bytes", "Memory that was asked for."),
        ] {
            if let Some(kibibytes) = parse_field(&status, key) {
                exposition.gauge(name, help);
                exposition.sample(name, &[], kibibytes * 1_024);
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            exposition.gauge("process_open_fds", "Descriptors that are open.");
            // The one that looks is open, too.
            exposition.sample("process_open_fds", &[], open.count().saturating_sub(1));
        }
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        if let Some(max) = parse_field(&limits, "Max open files") {
            exposition.gauge("process_max_fds", "Descriptors that may be open.");
            exposition.sample("process_max_fds", &[], max);
        }
        if let Some(seconds) = cpu_seconds() {
            exposition.counter("process_cpu_seconds_total", "Processor time in use.");
            exposition.sample("process_cpu_seconds_total", &[], seconds);
        }
    }

    fn parse_field(text: &str, key: &str) -> Option<u64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
        rest.split_whitespace().next()?.parse().ok()
    }

    fn cpu_seconds() -> Option<f64> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program stands in brackets and may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u32>().ok();
        Some(f64::from(ticks()?.saturating_add(ticks()?)) / TICKS_PER_SECOND)
    }
}
