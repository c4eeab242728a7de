//! All that somebody may, and what follows for a message.

use serde_json::Value;

use super::denial_reason::DenialReason;
use super::prefilter::PrefilterInput;
use super::{Capability, CapabilityRequest};

/// What somebody may do: capabilities in the order in which he got them, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(Vec<Capability>);

/// Whether a message may be sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum Decision<'a> {
    /// It may.
    Allowed {
        /// The first capability that allows it.
        by: &'a Capability,
    },
    /// It may not.
    Denied {
        /// Why, for people. Nothing is worded before it is shown.
        reason: DenialReason<'a>,
    },
}

impl Decision<'_> {
    /// Whether it may be sent.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }
}

impl Capabilities {
    /// These, without those that are there twice.
    pub fn new(capabilities: impl IntoIterator<Item = Capability>) -> Self {
        let mut new = Self::default();
        for capability in capabilities {
            new.add(capability);
        }
        new
    }

    /// In their order.
    pub fn iter(&self) -> std::slice::Iter<'_, Capability> {
        self.0.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As they were written.
    pub fn values(&self) -> Vec<Value> {
        self.iter().map(|capability| capability.value().clone()).collect()
    }

    /// Adds one, unless one that is written the same is there; whether it was added.
    pub fn add(&mut self, capability: Capability) -> bool {
        let new = !self.0.contains(&capability);
        if new {
            self.0.push(capability);
        }
        new
    }

    /// Takes the one away that is written so; whether it was there.
    pub fn remove_equal(&mut self, value: &Value) -> bool {
        let before = self.0.len();
        self.0.retain(|capability| capability.value() != value);
        self.0.len() < before
    }

    /// Whether a message may be sent.
    pub fn decide<'a>(&'a self, request: &'a CapabilityRequest<'a>) -> Decision<'a> {
        let input = PrefilterInput::new(request);
        let allows = |capability: &&Capability| capability.allows(&input);
        let by = if request.is_reserved() { None } else { self.0.iter().find(allows) };
        match by {
            Some(by) => Decision::Allowed { by },
            None => Decision::Denied { reason: DenialReason::new(self, request) },
        }
    }

    /// Whether one of these allows everything that `other` allows.
    pub fn covers(&self, other: &Capability) -> bool {
        self.iter().any(|own| own.covers(other))
    }
}

impl<'a> IntoIterator for &'a Capabilities {
    type Item = &'a Capability;
    type IntoIter = std::slice::Iter<'a, Capability>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<T: IntoIterator<Item = Capability>>(capabilities: T) -> Self {
        Self::new(capabilities)
    }
}
