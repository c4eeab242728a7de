//! The Prometheus text format.

use std::fmt::{Display, Write};
use toolpost::Endpoint;

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

    pub(crate) fn counter(&mut self, name: &str, help: &str) {
        self.describe(name, "counter", help);
    }

    pub(crate) fn gauge(&mut self, name: &str, help: &str) {
        self.describe(name, "gauge", help);
    }

    pub(crate) fn histogram(&mut self, name: &str, help: &str) {
        self.describe(name, "histogram", help);
    }

    fn describe(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes one sample with its labels.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], number: impl Display) {
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
        self.gauge("toolpost_build_info", "Build information.");
        self.sample("toolpost_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.gauge("toolpost_ready", "Whether the gateway accepts new calls.");
        self.sample("toolpost_ready", &[], u8::from(state.is_ready));
        self.gauge("toolpost_connections", "Open connections and sessions by endpoint.");
        for (endpoint, number) in &state.connections {
            self.sample("toolpost_connections", &[("endpoint", endpoint.as_str())], number);
        }
        self.gauge("toolpost_source_up", "Whether a source is ready.");
        for (source, source_state) in &state.sources {
            self.sample("toolpost_source_up", &[("source", source)], u8::from(source_state.is_up));
        }
        self.gauge("toolpost_queue_depth", "Calls queued for a permit of their source.");
        for (source, waiting) in &state.queues {
            self.sample("toolpost_queue_depth", &[("source", source)], waiting);
        }
        self.gauge(
            "toolpost_source_breaker_open",
            "Whether the circuit breaker of a source is open or half-open.",
        );
        for (source, source_state) in &state.sources {
            let is_open = u8::from(source_state.is_breaker_tripped);
            self.sample("toolpost_source_breaker_open", &[("source", source)], is_open);
        }
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
