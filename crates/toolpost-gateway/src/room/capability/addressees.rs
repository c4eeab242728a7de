//! The addressees that a capability is limited to.

use serde_json::Value;

use super::error::{CapabilityError, CompileBudget};
use super::glob::{Glob, GlobSyntax};

/// Names of participants, in which `*` matches any run of characters.
#[derive(Debug)]
pub(super) struct AddresseePattern(Box<[Glob]>);

impl AddresseePattern {
    /// Compiles a name or a list of names.
    pub(super) fn compile(
        budget: &mut CompileBudget,
        value: &Value,
    ) -> Result<Self, CapabilityError> {
        let names = match value {
            Value::Array(names) if !names.is_empty() => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        let mut compile = |name: &Value| {
            let name = name.as_str().filter(|name| !name.is_empty());
            let name = name.ok_or(CapabilityError::InvalidAddressees)?;
            budget.take_node()?;
            budget.take_string(name)?;
            Ok(Glob::new(GlobSyntax::Flat, name))
        };
        Ok(Self(names.iter().map(&mut compile).collect::<Result<_, _>>()?))
    }

    /// Whether the message has addressees, all of them in the list. A message without addressees is
    /// for all participants.
    pub(super) fn matches(&self, to: &[Box<str>]) -> bool {
        !to.is_empty() && self.first_uncovered(to).is_none()
    }

    /// Returns the first addressee that is not in the list.
    pub(super) fn first_uncovered<'a>(&self, to: &'a [Box<str>]) -> Option<&'a str> {
        let is_listed = |name: &str| self.0.iter().any(|glob| glob.matches(name));
        to.iter().map(|name| &**name).find(|name| !is_listed(name))
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|name| self.0.iter().any(|own| own.covers(name)))
    }
}
