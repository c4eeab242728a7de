//! Sets of capabilities and the decision about a message.

use serde_json::Value;
use toolpost::{Identity, IdentityKind};

use super::denial_reason::DenialReason;
use super::prefilter::PrefilterInput;
use super::{Capability, CapabilityRequest};
use crate::admin;

/// A list of capabilities in insertion order, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(Vec<Capability>);

impl Capabilities {
    /// Returns the capabilities that the token of an identity grants; `None` if it declares none.
    /// The operator has all.
    pub(crate) fn of_identity(identity: &Identity) -> Option<Self> {
        let is_operator = identity.kind == IdentityKind::Operator
            && identity.scopes.iter().any(|held| held == admin::scope::ADMIN);
        match identity.capabilities.as_slice() {
            [] => is_operator.then(|| Self::parse_all(&["*"])),
            texts => Some(Self::parse_all(texts)),
        }
    }

    /// Parses capabilities and skips invalid ones.
    pub(crate) fn parse_all(texts: &[impl AsRef<str>]) -> Self {
        Self::new(texts.iter().filter_map(|text| Capability::parse(text.as_ref()).ok()))
    }

    /// Creates a set from capabilities and drops duplicates.
    pub fn new(capabilities: impl IntoIterator<Item = Capability>) -> Self {
        let mut new = Self::default();
        for capability in capabilities {
            new.add(capability);
        }
        new
    }

    /// Returns an iterator over the capabilities in insertion order.
    pub fn iter(&self) -> std::slice::Iter<'_, Capability> {
        self.0.iter()
    }

    /// Number of capabilities.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no capabilities.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the capabilities as written.
    pub fn values(&self) -> Vec<Value> {
        self.iter().map(|capability| capability.value().clone()).collect()
    }

    /// Adds a capability unless an equal one is present. Returns whether it was added.
    pub fn add(&mut self, capability: Capability) -> bool {
        let new = !self.0.contains(&capability);
        if new {
            self.0.push(capability);
        }
        new
    }

    /// Returns the first capability that allows a message, or why none does.
    ///
    /// # Errors
    ///
    /// No capability of the set allows the message.
    pub fn check<'a>(
        &'a self,
        request: &'a CapabilityRequest<'a>,
    ) -> Result<&'a Capability, DenialReason<'a>> {
        let input = PrefilterInput::new(request);
        let allows = |capability: &&Capability| capability.allows(&input);
        let by = if request.is_reserved() { None } else { self.0.iter().find(allows) };
        by.ok_or_else(|| DenialReason::new(self, request))
    }

    /// Whether a single capability of the set allows everything that `other` allows.
    pub fn covers(&self, other: &Capability) -> bool {
        self.iter().any(|own| own.covers(other))
    }
}
