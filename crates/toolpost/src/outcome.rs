//! The outcome of a successful call.

use std::collections::HashSet;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::envelope::Envelope;
use crate::payload::Payload;
use crate::schema::{Issue, Normalized, Repair};

/// An envelope with the repairs and warnings of its data.
///
/// It serializes as the envelope, with `repairs` and `warnings` next to `data` and `meta` if there
/// are any.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outcome {
    /// The data and its metadata.
    pub envelope: Envelope<Payload>,
    /// Boxed, because most outcomes have none and an outcome is moved at every stage.
    findings: Option<Box<Normalized>>,
    /// Whether the pipeline of this process has found the data valid for the output schema of the
    /// operation. If not, the data may be invalid or was not validated.
    pub(crate) matches_schema: bool,
}

impl Outcome {
    pub(crate) fn new(envelope: Envelope<Payload>) -> Self {
        Self { envelope, findings: None, matches_schema: false }
    }

    /// Adds repairs and warnings to the existing ones. Drops duplicate warnings, which occur when
    /// two gateways validate the same data.
    pub(crate) fn add_findings(&mut self, mut findings: Normalized) {
        if findings.repairs.is_empty() && findings.issues.is_empty() {
            return;
        }
        match &mut self.findings {
            Some(known) => {
                let known_issues: HashSet<(&str, &str)> =
                    known.issues.iter().map(|issue| (&*issue.path, &*issue.message)).collect();
                findings
                    .issues
                    .retain(|issue| !known_issues.contains(&(&*issue.path, &*issue.message)));
                known.repairs.append(&mut findings.repairs);
                known.issues.append(&mut findings.issues);
            }
            None => self.findings = Some(Box::new(findings)),
        }
    }

    /// Returns the changes that normalization made to the data.
    pub fn repairs(&self) -> &[Repair] {
        self.findings.as_ref().map_or(&[], |findings| &findings.repairs)
    }

    /// Returns the remaining mismatches between the data and the declared schema.
    pub fn warnings(&self) -> &[Issue] {
        self.findings.as_ref().map_or(&[], |findings| &findings.issues)
    }
}

impl From<Envelope<Payload>> for Outcome {
    fn from(envelope: Envelope<Payload>) -> Self {
        Self::new(envelope)
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("data", &self.envelope.data)?;
        map.serialize_entry("meta", &self.envelope.meta)?;
        if !self.repairs().is_empty() {
            map.serialize_entry("repairs", self.repairs())?;
        }
        if !self.warnings().is_empty() {
            map.serialize_entry("warnings", self.warnings())?;
        }
        map.end()
    }
}
