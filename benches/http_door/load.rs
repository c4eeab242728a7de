//! Somebody under the load of `wrk`, and what the load costs it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::spread::median;

/// How many requests are in flight.
pub(crate) const IN_FLIGHT: usize = 32;

/// A process, an address of it, and what requests to it cost.
pub(crate) struct Load {
    process: u32,
    url: String,
    script: PathBuf,
    /// Processor time per request of each turn, in microseconds.
    pub(crate) cpu: Vec<f64>,
    /// Requests per second of each turn.
    pub(crate) rates: Vec<f64>,
    /// The times below which half and 99 % of the answers came, of each turn.
    pub(crate) times: Vec<(f64, f64)>,
}

/// What `wrk` said.
struct Said {
    requests: f64,
    rate: f64,
    times: (f64, f64),
}

impl Load {
    pub(crate) fn new(process: u32, url: String, script: &Path) -> Self {
        let script = script.to_owned();
        Self { process, url, script, cpu: Vec::new(), rates: Vec::new(), times: Vec::new() }
    }

    /// One turn: a second of requests from another process.
    pub(crate) fn turn(&mut self) {
        let cpu = cpu_micros(self.process);
        let said = self.wrk();
        // What is done after the last answer belongs to it, and the system counts when threads rest.
        std::thread::sleep(Duration::from_millis(2));
        self.cpu.push((cpu_micros(self.process) - cpu) / said.requests);
        self.rates.push(said.rate);
        self.times.push(said.times);
    }

    fn wrk(&self) -> Said {
        let mut command = Command::new("wrk");
        command.args(["-t1", "-d1s", "--latency", &format!("-c{IN_FLIGHT}"), "-s"]);
        command.arg(&self.script).arg(&self.url);
        let output = command.output().expect("`wrk` is installed: it is Debian's package wrk");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !text.contains("Non-2xx"), "{text}");
        let line = |word: &str| text.lines().map(str::trim).find(|line| line.contains(word));
        let word = |line: Option<&str>, at: usize| {
            line.and_then(|line| line.split_whitespace().nth(at))
                .expect("as wrk says it")
                .to_owned()
        };
        let percentile = |name: &str| micros(&word(line(name), 1));
        Said {
            requests: word(line("requests in"), 0).parse().unwrap(),
            rate: word(line("Requests/sec:"), 1).parse().unwrap(),
            times: (percentile("50%"), percentile("99%")),
        }
    }

    /// Forgets what was measured.
    pub(crate) fn forget(&mut self) {
        self.cpu.clear();
        self.rates.clear();
        self.times.clear();
    }

    /// What usually holds, in words.
    pub(crate) fn words(&self) -> String {
        let (half, most): (Vec<_>, Vec<_>) = self.times.iter().copied().unzip();
        format!(
            "{:6.0} a second, p50 {:6.0} p99 {:6.0} µs",
            median(self.rates.clone()),
            median(half),
            median(most)
        )
    }
}

/// A time as `wrk` writes it: `812.00us`, `1.03ms`, `1.00s`.
fn micros(text: &str) -> f64 {
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
    let factor = match &text[unit..] {
        "us" => 1.0,
        "ms" => 1e3,
        _ => 1e6,
    };
    text[..unit].parse::<f64>().unwrap() * factor
}

/// The processor time that all threads of a process have used, in microseconds.
fn cpu_micros(process: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let nanos = threads.map(|thread| {
        // A thread that has just ended is not there any more; those that work stay.
        let path = thread.unwrap().path().join("schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0)
    });
    nanos.sum::<f64>() / 1e3
}
