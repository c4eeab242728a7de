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
    normalized: Normalized,
    max_values: usize,
    remaining_bytes: usize,
}

impl Collector {
    /// Creates a collector of up to `max_values` values with up to `max_bytes` bytes in total; the
    /// last value may exceed that.
    pub fn new(max_values: usize, max_bytes: usize) -> Self {
        let normalized = Normalized::default();
        Self { values: Vec::new(), normalized, max_values, remaining_bytes: max_bytes }
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
        self.values.len() >= self.max_values || self.remaining_bytes == 0
    }

    /// Says why there are no more values than these.
    pub fn mark_incomplete(&mut self, reason: impl Into<String>) {
        self.normalized.issues.push(Issue::new("", reason));
    }

    /// Takes a value; beyond the bound it is dropped, and the result says so.
    pub fn push(&mut self, outcome: Outcome) {
        if self.is_full() {
            let message = format!("values after the first {} were omitted", self.values.len());
            if self.normalized.issues.last().is_none_or(|last| last.message != message) {
                self.mark_incomplete(message);
            }
            return;
        }
        let position = self.values.len();
        for repair in outcome.repairs() {
            let mut repair = repair.clone();
            repair.path = format!("/{position}{}", repair.path.as_str()).as_str().into();
            self.normalized.repairs.push(repair);
        }
        for issue in outcome.warnings() {
            let path = format!("/{position}{}", issue.path);
            self.normalized.issues.push(Issue::new(path, issue.message.clone()));
        }
        self.remaining_bytes =
            self.remaining_bytes.saturating_sub(json_len(&outcome.envelope.data));
        self.values.push(outcome.envelope.data);
    }

    /// The list of the values, as what a call of the tool ended with.
    pub fn finish(self, tool: &Tool) -> Outcome {
        let envelope = Envelope::local(join_values(self.values), tool.id().to_shared());
        let mut outcome = Outcome::new(envelope);
        outcome.add_findings(self.normalized);
        outcome
    }
}

/// How many bytes a payload has as text.
fn json_len(payload: &Payload) -> usize {
    struct ByteCounter(usize);
    impl std::io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    match payload.as_raw() {
        Some(raw) => raw.get().len(),
        None => {
            serde_json::to_writer(&mut count, payload).expect("payloads are JSON");
            count.0
        }
    }
}

/// Trees become a tree, texts a text.
fn join_values(values: Vec<Payload>) -> Payload {
    if values.iter().all(|value| value.as_value().is_some()) {
        let trees = values.into_iter().filter_map(|value| value.into_value().ok());
        return Value::Array(trees.collect()).into();
    }
    let text = serde_json::to_string(&values).expect("payloads are JSON");
    Payload::from_json(text).expect("a list of JSON is JSON")
}
