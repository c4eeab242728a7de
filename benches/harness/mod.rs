//! Minimal timing: the median of many batches and its noise.

mod claim;

use std::fmt;
use std::time::{Duration, Instant};

pub(crate) use claim::claim;

/// The cost of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    /// The median over the batches, for one run.
    pub(crate) nanos: f64,
    /// Half the distance between the 10th and the 90th percentile, relative to the median.
    pub(crate) noise: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.nanos {
            nanos if nanos < 1e3 => (nanos, "ns"),
            nanos if nanos < 1e6 => (nanos / 1e3, "µs"),
            nanos => (nanos / 1e6, "ms"),
        };
        write!(f, "{number:8.1} {unit} ±{:2.0} %", self.noise * 100.0)
    }
}

/// Runs `run` in batches that last about two milliseconds each, for about half a second.
pub(crate) fn measure(mut run: impl FnMut()) -> Cost {
    let [cost] = measure_together([&mut run]);
    cost
}

/// Measures several functions in alternating batches, so that a temporary slowdown of the machine
/// affects all of them.
pub(crate) fn measure_together<const N: usize>(mut runs: [&mut dyn FnMut(); N]) -> [Cost; N] {
    let mut batches = [1_u32; N];
    for (run, batch) in runs.iter_mut().zip(&mut batches) {
        // The first run includes one-time initialization.
        run();
        while time(*batch, run) < Duration::from_millis(2) {
            *batch *= 2;
        }
    }
    let mut samples = [const { Vec::new() }; N];
    for _ in 0..200 {
        for ((run, batch), samples) in runs.iter_mut().zip(batches).zip(&mut samples) {
            samples.push(time(batch, run).as_nanos() as f64 / f64::from(batch));
        }
    }
    samples.map(|mut samples| {
        samples.sort_by(f64::total_cmp);
        let percentile = |percent: usize| samples[samples.len() * percent / 100];
        Cost {
            nanos: percentile(50),
            noise: (percentile(90) - percentile(10)) / 2.0 / percentile(50),
        }
    })
}

fn time(batch: u32, run: &mut dyn FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..batch {
        run();
    }
    start.elapsed()
}
