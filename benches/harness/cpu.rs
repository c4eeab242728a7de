//! Processor time of another process.

/// The processor time that all threads of a process have used, in microseconds.
pub(crate) fn cpu_micros(process: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let nanos = threads.map(|thread| {
        // A thread may have exited since the listing; worker threads stay.
        let path = thread.unwrap().path().join("schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0)
    });
    nanos.sum::<f64>() / 1e3
}
