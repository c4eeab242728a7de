//! A process under the load of `wrk` and the cost of that load.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cpu::cpu_micros;
use super::stats::median;

/// Number of requests in flight.
pub(crate) const IN_FLIGHT: usize = 32;

/// A process, its URL and the cost of requests to it.
pub(crate) struct Load {
    process: u32,
    url: String,
    script: PathBuf,
    /// Processor time per request of each round, in microseconds.
    pub(crate) cpu: Vec<f64>,
    /// Requests per second of each round.
    pub(crate) rates: Vec<f64>,
    /// The 50th and the 99th percentile of the latency of each round.
    pub(crate) times: Vec<(f64, f64)>,
}

/// The results that `wrk` prints.
struct WrkReport {
    requests: f64,
    rate: f64,
    times: (f64, f64),
}

impl Load {
    pub(crate) fn new(process: u32, url: String, script: &Path) -> Self {
        let script = script.to_owned();
        Self { process, url, script, cpu: Vec::new(), rates: Vec::new(), times: Vec::new() }
    }

    /// Runs one round: one second of requests from `wrk`.
    pub(crate) fn run_round(&mut self) {
        let cpu = cpu_micros(self.process);
        let report = self.run_wrk();
        // The work after the last response counts too, and the kernel updates the processor time
        // when a thread goes idle.
        std::thread::sleep(Duration::from_millis(2));
        self.cpu.push((cpu_micros(self.process) - cpu) / report.requests);
        self.rates.push(report.rate);
        self.times.push(report.times);
    }

    fn run_wrk(&self) -> WrkReport {
        let mut command = Command::new("wrk");
        command.args(["-t1", "-d1s", "--latency", &format!("-c{IN_FLIGHT}"), "-s"]);
        command.arg(&self.script).arg(&self.url);
        let output = command.output().expect("`wrk` is installed (Debian package wrk)");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !text.contains("Non-2xx"), "{text}");
        let line = |word: &str| text.lines().map(str::trim).find(|line| line.contains(word));
        let word = |line: Option<&str>, at: usize| {
            line.and_then(|line| line.split_whitespace().nth(at))
                .expect("the output format of wrk")
                .to_owned()
        };
        let percentile = |name: &str| micros(&word(line(name), 1));
        WrkReport {
            requests: word(line("requests in"), 0).parse().unwrap(),
            rate: word(line("Requests/sec:"), 1).parse().unwrap(),
            times: (percentile("50%"), percentile("99%")),
        }
    }

    /// Discards the measurements.
    pub(crate) fn reset(&mut self) {
        self.cpu.clear();
        self.rates.clear();
        self.times.clear();
    }

    /// Formats the medians.
    pub(crate) fn summary(&self) -> String {
        let (p50, p99): (Vec<_>, Vec<_>) = self.times.iter().copied().unzip();
        format!(
            "{:6.0} a second, p50 {:6.0} p99 {:6.0} µs",
            median(self.rates.clone()),
            median(p50),
            median(p99)
        )
    }
}

/// Parses a duration as `wrk` prints it: `812.00us`, `1.03ms`, `1.00s`.
fn micros(text: &str) -> f64 {
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).unwrap();
    let factor = match &text[unit..] {
        "us" => 1.0,
        "ms" => 1e3,
        _ => 1e6,
    };
    text[..unit].parse::<f64>().unwrap() * factor
}
