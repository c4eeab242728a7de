//! Collects the values of a subscription into one result.

use serde_json::Value;

use super::tool::Tool;
use crate::envelope::Envelope;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::{Issue, Normalized};

/// Collects the first values of a subscription, up to a limit.
#[derive(Debug)]
pub struct Collector {
    values: Vec<Payload>,
    normalized: Normalized,
    /// Whether the pipeline has found every value valid.
    matches_schema: bool,
    max_values: usize,
    remaining_bytes: usize,
}

impl Collector {
    /// Creates a collector for up to `max_values` values and `max_bytes`, except for the last.
    pub fn new(max_values: usize, max_bytes: usize) -> Self {
        let normalized = Normalized::default();
        let (values, matches_schema, remaining_bytes) = (Vec::new(), true, max_bytes);
        Self { values, normalized, matches_schema, max_values, remaining_bytes }
    }

    /// Returns the number of collected values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether no values have been collected.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether a limit is reached.
    pub fn is_full(&self) -> bool {
        self.values.len() >= self.max_values || self.remaining_bytes == 0
    }

    /// Records why the list of values is incomplete.
    pub fn mark_incomplete(&mut self, reason: impl Into<String>) {
        self.normalized.issues.push(Issue::new("", reason));
    }

    /// Adds a value. If a limit is reached, drops the value and records a warning.
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
        self.matches_schema &= outcome.matches_schema;
        let data = outcome.envelope.data;
        let length = match data.as_raw() {
            Some(raw) => raw.get().len(),
            None => serde_json::to_string(&data).expect("payloads serialize").len(),
        };
        self.remaining_bytes = self.remaining_bytes.saturating_sub(length);
        self.values.push(data);
    }

    /// Returns the list of values as the outcome of a call to the tool.
    pub fn finish(self, tool: &Tool) -> Outcome {
        let envelope = Envelope::local(join_values(self.values), tool.id().to_shared());
        let mut outcome = Outcome::new(envelope);
        outcome.matches_schema = self.matches_schema;
        outcome.add_findings(self.normalized);
        outcome
    }
}

/// Joins values into a list: parsed if all values are parsed, otherwise as JSON text.
fn join_values(values: Vec<Payload>) -> Payload {
    if values.iter().all(|value| value.as_value().is_some()) {
        let trees = values.into_iter().filter_map(|value| value.into_value().ok());
        return Value::Array(trees.collect()).into();
    }
    let text = serde_json::to_string(&values).expect("payloads serialize");
    Payload::from_json(text).expect("serialized JSON is valid")
}
