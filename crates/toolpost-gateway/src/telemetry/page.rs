//! Numbers as Prometheus reads them.

use std::fmt::{Display, Write};

/// A page of numbers, each behind its description.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

/// What the gateway knows at the moment of asking.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) connections: Vec<(&'static str, usize)>,
    pub(crate) sources: Vec<(String, Standing)>,
    /// How many wait at each source that was called.
    pub(crate) queues: Vec<(String, usize)>,
    pub(crate) is_ready: bool,
}

/// How a source is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// Whether it is there.
    pub(crate) is_up: bool,
    /// Whether it failed again and again, and is not asked for a while.
    pub(crate) is_left_alone: bool,
}

impl Page {
    /// What the numbers are called.
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

    /// One number with its labels.
    pub(crate) fn value(&mut self, name: &str, labels: &[(&str, &str)], number: impl Display) {
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

    /// What the gateway knows at this moment, and what the system knows of the process.
    pub(crate) fn state(&mut self, state: &State) {
        self.gauge("toolpost_build_info", "Which gateway this is.");
        self.value("toolpost_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        self.gauge("toolpost_ready", "Whether new calls are wanted.");
        self.value("toolpost_ready", &[], u8::from(state.is_ready));
        self.gauge("toolpost_connections", "What is open at each door.");
        for (door, number) in &state.connections {
            self.value("toolpost_connections", &[("door", door)], number);
        }
        self.gauge("toolpost_source_up", "Whether a source is there.");
        for (source, standing) in &state.sources {
            self.value("toolpost_source_up", &[("source", source)], u8::from(standing.is_up));
        }
        self.gauge("toolpost_queue_depth", "Calls that wait for a place at their source.");
        for (source, waiting) in &state.queues {
            self.value("toolpost_queue_depth", &[("source", source)], waiting);
        }
        self.gauge("toolpost_source_breaker_open", "Whether a source is left alone for a while.");
        for (source, standing) in &state.sources {
            let is_open = u8::from(standing.is_left_alone);
            self.value("toolpost_source_breaker_open", &[("source", source)], is_open);
        }
        super::process::write(self);
    }

    pub(crate) fn into_text(self) -> String {
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
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.value("x_total", &[], 1);
        page.value("x_total", &[("a", "plain"), ("b", "\"\\\n")], 2.5);
        assert_eq!(page.into_text(), "x_total 1\nx_total{a=\"plain\",b=\"\\\"\\\\\\n\"} 2.5\n");
    }
}
