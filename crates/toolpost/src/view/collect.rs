//! The values of a subscription as one result.

use serde_json::Value;

use super::tool::Tool;
use crate::envelope::Envelope;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::{Issue, Normalized};

/// Keeps the first values of a subscription, up to a bound.
#[derive(Debug)]
pub struct Collector {
    values: Vec<Payload>,
    findings: Normalized,
    most: usize,
    bytes_left: usize,
}

impl Collector {
    /// A collector of at most so many values, which have so many bytes together; the last may go
    /// beyond that.
    pub fn new(most: usize, most_bytes: usize) -> Self {
        let findings = Normalized::default();
        Self { values: Vec::new(), findings, most, bytes_left: most_bytes }
    }

    /// How many values it holds.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether it takes no more.
    pub fn is_full(&self) -> bool {
        self.values.len() >= self.most || self.bytes_left == 0
    }

    /// Says why there are no more values than these.
    pub fn end_early(&mut self, reason: impl Into<String>) {
        self.findings.issues.push(Issue::new("", reason));
    }

    /// Takes a value; beyond the bound it is dropped, and the result says so.
    pub fn push(&mut self, outcome: Outcome) {
        if self.is_full() {
            let only = format!("the values beyond the first {} were left out", self.values.len());
            if self.findings.issues.last().is_none_or(|last| last.message != only) {
                self.end_early(only);
            }
            return;
        }
        let position = self.values.len();
        for repair in outcome.repairs() {
            let mut repair = repair.clone();
            repair.path = format!("/{position}{}", repair.path.as_str()).as_str().into();
            self.findings.repairs.push(repair);
        }
        for issue in outcome.warnings() {
            let path = format!("/{position}{}", issue.path);
            self.findings.issues.push(Issue::new(path, issue.message.clone()));
        }
        self.bytes_left = self.bytes_left.saturating_sub(size(&outcome.envelope.data));
        self.values.push(outcome.envelope.data);
    }

    /// The list of the values, as what a call of the tool ended with.
    pub fn finish(self, tool: &Tool) -> Outcome {
        let envelope = Envelope::local(joined(self.values), tool.id().to_shared());
        let mut outcome = Outcome::new(envelope);
        outcome.note(self.findings);
        outcome
    }
}

/// How many bytes a payload has as text.
fn size(payload: &Payload) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match payload.as_raw() {
        Some(raw) => raw.get().len(),
        None => {
            serde_json::to_writer(&mut count, payload).expect("payloads are JSON");
            count.0
        }
    }
}

/// Trees become a tree, texts a text.
fn joined(values: Vec<Payload>) -> Payload {
    if values.iter().all(|value| value.as_value().is_some()) {
        let trees = values.into_iter().filter_map(|value| value.into_value().ok());
        return Value::Array(trees.collect()).into();
    }
    let text = serde_json::to_string(&values).expect("payloads are JSON");
    Payload::from_json(text).expect("a list of JSON is JSON")
}
