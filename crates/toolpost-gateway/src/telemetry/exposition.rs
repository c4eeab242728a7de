//! The Prometheus text format.

use std::fmt::{Display, Write};

use toolpost::Endpoint;

/// The name and the value of a label.
pub(super) type Label<'a> = (&'a str, &'a str);

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

    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> MetricFamily<'_> {
        self.family(name, "counter", help)
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> MetricFamily<'_> {
        self.family(name, "gauge", help)
    }

    pub(super) fn family(
        &mut self,
        name: &'static str,
        kind: &str,
        help: &str,
    ) -> MetricFamily<'_> {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        MetricFamily { out: &mut self.0, name }
    }

    /// Writes the current state of the gateway and the process metrics.
    pub(crate) fn write_gauges(&mut self, state: &GatewayGauges) {
        let version = env!("CARGO_PKG_VERSION");
        self.gauge("toolpost_build_info", "Build information.").sample(&[("version", version)], 1);
        self.gauge("toolpost_ready", "Whether the gateway accepts new calls.")
            .sample(&[], u8::from(state.is_ready));
        let connections = state.connections.iter().map(|(at, count)| (at.as_str(), *count));
        self.gauge("toolpost_connections", "Open connections and sessions by endpoint.")
            .samples("endpoint", connections);
        let up = state.sources.iter().map(|(name, health)| (&**name, health.is_up.into()));
        self.gauge("toolpost_source_up", "Whether a source is ready.").samples("source", up);
        let queues = state.queues.iter().map(|(name, count)| (&**name, *count));
        self.gauge("toolpost_queue_depth", "Calls queued for a permit of their source.")
            .samples("source", queues);
        let help = "Whether the circuit breaker of a source is open or half-open.";
        let tripped =
            state.sources.iter().map(|(name, health)| (&**name, health.is_breaker_tripped.into()));
        self.gauge("toolpost_source_breaker_open", help).samples("source", tripped);
        super::process::write(self);
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

/// The samples of one metric.
pub(super) struct MetricFamily<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl MetricFamily<'_> {
    /// Writes one sample with its labels.
    pub(super) fn sample(&mut self, labels: &[Label<'_>], number: impl Display) {
        self.part("", labels, number);
    }

    /// Writes one sample for each value of a label.
    fn samples<'l>(&mut self, label: &str, values: impl Iterator<Item = (&'l str, usize)>) {
        for (value, number) in values {
            self.sample(&[(label, value)], number);
        }
    }

    /// Writes one sample of a part of a histogram.
    pub(super) fn part(&mut self, suffix: &str, labels: &[Label<'_>], number: impl Display) {
        let _ = write!(self.out, "{}{suffix}", self.name);
        let mut separator = '{';
        for (label, text) in labels {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.out, "{separator}{label}=\"{text}\"");
            separator = ',';
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.out, "{end} {number}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut exposition = Exposition::default();
        let mut family = exposition.counter("x_total", "Counts.");
        family.sample(&[], 1);
        family.sample(&[("a", "plain"), ("b", "\"\\\n")], 2.5);
        assert_eq!(
            exposition.into_string(),
            "# HELP x_total Counts.\n# TYPE x_total counter\nx_total 1\nx_total{a=\"plain\",b=\"\\\"\\\\\\n\"} 2.5\n"
        );
    }
}
