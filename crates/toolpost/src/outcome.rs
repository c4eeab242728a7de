//! The outcome of a successful call.

use std::collections::HashSet;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::envelope::{Envelope, Meta};
use crate::json::JsonObject;
use crate::payload::Payload;
use crate::schema::{Issue, Normalized, Repair};

/// An envelope with the repairs and warnings of its data.
///
/// It serializes as the envelope, with `repairs` and `warnings` next to `data` and `meta` if there
/// are any, and `replayed` if it is the outcome of an earlier call.
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
    /// Whether the outcome is that of an earlier call with the same idempotency key.
    replayed: bool,
}

impl Outcome {
    pub(crate) fn new(envelope: Envelope<Payload>) -> Self {
        Self { envelope, findings: None, matches_schema: false, replayed: false }
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

    /// Marks the outcome as that of an earlier call.
    #[must_use]
    pub(crate) fn into_replayed(self) -> Self {
        Self { replayed: true, ..self }
    }

    /// Whether the outcome is that of an earlier call with the same idempotency key.
    pub fn is_replayed(&self) -> bool {
        self.replayed
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
        if self.replayed {
            map.serialize_entry("replayed", &true)?;
        }
        map.end()
    }
}

/// Reads the serialized form.
impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct OutcomeIn {
            data: Payload,
            meta: JsonObject,
            #[serde(default)]
            repairs: Vec<Repair>,
            #[serde(default)]
            warnings: Vec<Issue>,
            #[serde(default)]
            replayed: bool,
        }
        let wire = OutcomeIn::deserialize(deserializer)?;
        let meta = Meta::from_members(wire.meta)
            .map_err(|_| serde::de::Error::custom("`meta` is not that of a response envelope"))?;
        let envelope = Envelope { data: wire.data, meta };
        let mut outcome = Self { replayed: wire.replayed, ..Self::new(envelope) };
        let mut findings = Normalized::default();
        (findings.repairs, findings.issues) = (wire.repairs, wire.warnings);
        outcome.add_findings(findings);
        Ok(outcome)
    }
}
