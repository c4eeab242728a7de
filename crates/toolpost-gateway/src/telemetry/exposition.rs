//! The Prometheus text format.

use std::fmt::{Display, Write};

use toolpost::Endpoint;

/// The name and the value of a label.
pub(super) type Label<'a> = (&'a str, &'a str);

/// The labels of a metric with one sample.
pub(super) const NO_LABELS: [Label<'static>; 0] = [];

/// Metrics in the Prometheus text format, each preceded by its description.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

/// Current state of the gateway for a scrape.
#[derive(Debug)]
pub(crate) struct GatewayGauges {
    pub(crate) connections: Vec<(Endpoint, usize)>,
    pub(crate) sources: Vec<(String, SourceHealth)>,
    /// Number of queued calls for each source that was called.
    pub(crate) queues: Vec<(String, usize)>,
    pub(crate) is_ready: bool,
}

/// Health of a source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceHealth {
    /// Whether the source is available.
    pub(crate) is_up: bool,
    /// Whether its circuit breaker is open or half-open.
    pub(crate) is_breaker_tripped: bool,
}

impl Exposition {
    /// Content type of the Prometheus text format.
    pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

    /// Writes a counter with its samples.
    pub(crate) fn counter<'a, L: AsRef<[Label<'a>]>>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, impl Display)>,
    ) {
        self.describe(name, "counter", help);
        samples.into_iter().for_each(|(labels, number)| self.sample(name, labels.as_ref(), number));
    }

    /// Writes a gauge with its samples.
    pub(crate) fn gauge<'a, L: AsRef<[Label<'a>]>>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, impl Display)>,
    ) {
        self.describe(name, "gauge", help);
        samples.into_iter().for_each(|(labels, number)| self.sample(name, labels.as_ref(), number));
    }

    /// Writes a gauge without labels.
    pub(crate) fn value(&mut self, name: &str, help: &str, number: impl Display) {
        self.gauge(name, help, [(NO_LABELS, number)]);
    }

    pub(crate) fn describe(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes one sample with its labels.
    pub(crate) fn sample(&mut self, name: &str, labels: &[Label<'_>], number: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            escape(&mut self.0, text);
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {number}");
    }

    /// Writes the current state of the gateway and the process metrics.
    pub(crate) fn write_gauges(&mut self, state: &GatewayGauges) {
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        self.gauge("toolpost_build_info", "Build information.", [(version, 1)]);
        let help = "Whether the gateway accepts new calls.";
        self.value("toolpost_ready", help, u8::from(state.is_ready));
        let connections = state.connections.iter();
        let connections = connections.map(|(endpoint, n)| ([("endpoint", endpoint.as_str())], n));
        let help = "Open connections and sessions by endpoint.";
        self.gauge("toolpost_connections", help, connections);
        let by_source = |is_set: fn(&SourceHealth) -> bool| {
            let sources = state.sources.iter();
            sources.map(move |(source, health)| ([("source", &**source)], u8::from(is_set(health))))
        };
        self.gauge("toolpost_source_up", "Whether a source is ready.", by_source(|one| one.is_up));
        let queues = state.queues.iter().map(|(source, queued)| ([("source", &**source)], queued));
        self.gauge("toolpost_queue_depth", "Calls queued for a permit of their source.", queues);
        let help = "Whether the circuit breaker of a source is open or half-open.";
        let breakers = by_source(|one| one.is_breaker_tripped);
        self.gauge("toolpost_source_breaker_open", help, breakers);
        super::process::write(self);
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut exposition = Exposition::default();
        exposition.sample("x_total", &[], 1);
        exposition.sample("x_total", &[("a", "plain"), ("b", "\"\\\n")], 2.5);
        assert_eq!(
            exposition.into_string(),
            "x_total 1\nx_total{a=\"plain\",b=\"\\\"\\\\\\n\"} 2.5\n"
        );
    }
}
