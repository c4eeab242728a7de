//! Caller identities, the access control of operations, and the authority of a call.

mod identity;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::CallError;

pub use identity::{Identity, IdentityKey, IdentityKind};

/// Requirements for calling an operation. An untrusted caller must meet all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AccessControl {
    /// Scopes that the caller must hold.
    #[serde(default)]
    pub required_scopes: Vec<String>,
    /// Scopes of which the caller must hold at least one. Ignored if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_scopes_any: Vec<String>,
    /// Type of the resource on which the caller must hold `resource_action`. Ignored if
    /// `resource_action` is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_type: Option<String>,
    /// Action that the caller must hold on a resource of `resource_type`. Ignored if
    /// `resource_type` is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_action: Option<String>,
    /// JSON Pointer to the input field that contains the resource id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_field: Option<String>,
}

impl AccessControl {
    /// Whether every caller may call the operation, authenticated or not.
    pub fn is_open(&self) -> bool {
        self.required_scopes.is_empty()
            && self.required_scopes_any.is_empty()
            && self.resource().is_none()
    }

    /// Whether the access check depends on the input.
    pub(crate) fn reads_input(&self) -> bool {
        self.resource().is_some() && self.resource_field.is_some()
    }

    fn resource(&self) -> Option<(&str, &str)> {
        self.resource_type.as_deref().zip(self.resource_action.as_deref())
    }

    /// Checks whether `identity` may call with this input. `input` is used only if `resource_field`
    /// is set.
    ///
    /// # Errors
    ///
    /// Returns `ACCESS_DENIED` with the requirement that is not met.
    pub fn check(
        &self,
        identity: Option<&Identity>,
        input: Option<&Value>,
    ) -> Result<(), CallError> {
        if self.is_open() {
            return Ok(());
        }
        let Some(identity) = identity else {
            return Err(unauthenticated());
        };
        self.check_scopes(identity)?;
        self.check_resource(identity, input)
    }

    /// Whether `identity` may call the operation with at least one possible input. Listings include
    /// only such operations.
    pub fn is_callable_by(&self, identity: Option<&Identity>) -> bool {
        self.check_callable(identity).is_ok()
    }

    /// Like [`AccessControl::is_callable_by`], but returns the reason as an error. Used when the
    /// caller specifies the operation id.
    ///
    /// # Errors
    ///
    /// Returns `ACCESS_DENIED` with the requirement that is not met.
    pub fn check_callable(&self, identity: Option<&Identity>) -> Result<(), CallError> {
        if self.is_open() {
            return Ok(());
        }
        let Some(identity) = identity else { return Err(unauthenticated()) };
        self.check_scopes(identity)?;
        match self.resource() {
            Some((kind, action)) if !identity.has_permission(action, kind, None) => {
                Err(denied(identity, &format!("is not allowed to `{action}` any `{kind}`")))
            }
            _ => Ok(()),
        }
    }

    /// Checks whether `identity`, which passed the check of `before`, may continue a subscription
    /// under this access control. The input is no longer available.
    ///
    /// # Errors
    ///
    /// Returns `ACCESS_DENIED` with the requirement that is not met, or if the requirement for the
    /// resource in the input has changed.
    pub(crate) fn check_continued(
        &self,
        before: &Self,
        identity: Option<&Identity>,
    ) -> Result<(), CallError> {
        let has_same_resource =
            self.resource() == before.resource() && self.resource_field == before.resource_field;
        if self.reads_input() && !has_same_resource {
            let message = "the access control of the operation has changed; subscribe again";
            return Err(CallError::access_denied(message));
        }
        self.check_callable(identity)
    }

    /// Returns the scopes that `identity` needs for a call, or `None` if it holds them already.
    pub fn missing_scopes(&self, identity: &Identity) -> Option<Vec<&str>> {
        self.check_scopes(identity).err()?;
        let all = self.required_scopes.iter();
        // One of these scopes is enough. A scope that the identity holds is preferred over the
        // first one.
        let held = |scope: &&String| identity.has_scope(scope);
        let any = self.required_scopes_any.iter().find(held).or(self.required_scopes_any.first());
        Some(all.chain(any).map(String::as_str).collect())
    }

    fn check_scopes(&self, identity: &Identity) -> Result<(), CallError> {
        if let Some(missing) = self.required_scopes.iter().find(|scope| !identity.has_scope(scope))
        {
            return Err(denied(identity, &format!("lacks the scope `{missing}`")));
        }
        let any = &self.required_scopes_any;
        if !any.is_empty() && !any.iter().any(|scope| identity.has_scope(scope)) {
            let list = any.join("`, `");
            return Err(denied(identity, &format!("needs one of the scopes `{list}`")));
        }
        Ok(())
    }

    fn check_resource(&self, identity: &Identity, input: Option<&Value>) -> Result<(), CallError> {
        let Some((resource_type, action)) = self.resource() else { return Ok(()) };
        let resource_id = match &self.resource_field {
            Some(pointer) => Some(resource_from_input(pointer, input)?),
            None => None,
        };
        if identity.has_permission(action, resource_type, resource_id.as_deref()) {
            return Ok(());
        }
        let what = resource_id.map_or_else(
            || format!("any `{resource_type}`"),
            |id| format!("`{resource_type}:{id}`"),
        );
        Err(denied(identity, &format!("is not allowed to `{action}` {what}")))
    }
}

fn resource_from_input(pointer: &str, input: Option<&Value>) -> Result<String, CallError> {
    match input.and_then(|input| input.pointer(pointer)) {
        Some(Value::String(id)) => Ok(id.clone()),
        Some(Value::Number(id)) => Ok(id.to_string()),
        _ => Err(CallError::access_denied(format!(
            "the input does not name a resource at `{pointer}`, so access cannot be decided"
        ))),
    }
}

fn unauthenticated() -> CallError {
    CallError::access_denied("this operation needs an authenticated caller")
}

fn denied(identity: &Identity, reason: &str) -> CallError {
    CallError::access_denied(format!("`{}` {reason}", identity.id))
}

/// The authority of a call: trusted or untrusted, with an optional identity.
///
/// Other crates can create only untrusted authorities, and the type cannot be deserialized. A call
/// is therefore trusted only if it was made in this process with
/// [`Pipeline::call_trusted`](crate::Pipeline::call_trusted) or by a running handler.
#[derive(Debug, Clone)]
pub struct Authority {
    trusted: bool,
    /// The caller. For a trusted call, the identity it runs on behalf of, which is only recorded.
    identity: Option<Arc<Identity>>,
}

impl Authority {
    /// Creates the authority of a caller that the endpoint authenticated; `None` means anonymous.
    pub fn untrusted(identity: Option<Arc<Identity>>) -> Self {
        Self { trusted: false, identity }
    }

    pub(crate) fn trusted(on_behalf_of: Option<Arc<Identity>>) -> Self {
        Self { trusted: true, identity: on_behalf_of }
    }

    /// Whether the access check is skipped.
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Returns whether the access check is skipped, and the identity.
    pub(crate) fn into_parts(self) -> (bool, Option<Arc<Identity>>) {
        (self.trusted, self.identity)
    }

    /// Returns the identity of the caller, or the identity that the call runs on behalf of.
    pub fn identity(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn control(json: Value) -> AccessControl {
        serde_json::from_value(json).unwrap()
    }

    /// Each row: the requirements, the identity, the input, and the expected denial reason.
    #[test]
    fn access_check_enforces_every_requirement() {
        let anonymous = || None;
        let ci = |scopes: &[&str]| Some(Identity::new("ci").with_scopes(scopes.to_vec()));
        let reader = |resource: &str| Some(Identity::new("ci").with_resource(resource, ["read"]));
        let all = json!({"requiredScopes": ["a", "b"]});
        let any = json!({"requiredScopesAny": ["x", "y"]});
        let both = json!({"requiredScopes": ["a"], "requiredScopesAny": ["x", "y"]});
        let typed = json!({"resourceType": "repo", "resourceAction": "read"});
        let exact =
            json!({"resourceType": "repo", "resourceAction": "read", "resourceField": "/repo/id"});
        let mixed =
            json!({"requiredScopes": ["a"], "resourceType": "repo", "resourceAction": "read"});
        let input = json!({"repo": {"id": "toolpost"}});

        let rows = [
            ("open, without identity", json!({}), anonymous(), None),
            ("open, with identity", json!({}), ci(&[]), None),
            ("no identity", all.clone(), anonymous(), Some("needs an authenticated caller")),
            ("all scopes", all.clone(), ci(&["b", "a", "c"]), None),
            ("one of two required", all, ci(&["a"]), Some("lacks the scope `b`")),
            ("any: one is enough", any.clone(), ci(&["y"]), None),
            ("any: none", any.clone(), ci(&["a"]), Some("needs one of the scopes `x`, `y`")),
            ("any: no identity", any, anonymous(), Some("needs an authenticated caller")),
            ("both lists", both.clone(), ci(&["a", "x"]), None),
            ("both lists, any missing", both.clone(), ci(&["a"]), Some("needs one of")),
            ("both lists, all missing", both, ci(&["x"]), Some("lacks the scope `a`")),
            ("a resource of the type", typed.clone(), reader("repo:other"), None),
            (
                "another type",
                typed.clone(),
                reader("repos:other"),
                Some("is not allowed to `read` any `repo`"),
            ),
            ("no resource", typed.clone(), ci(&["a"]), Some("is not allowed to `read` any `repo`")),
            ("resource, no identity", typed, anonymous(), Some("needs an authenticated caller")),
            ("the resource", exact.clone(), reader("repo:toolpost"), None),
            ("every resource", exact.clone(), reader("repo:*"), None),
            (
                "another resource",
                exact,
                reader("repo:x"),
                Some("is not allowed to `read` `repo:toolpost`"),
            ),
            ("scope and resource", mixed, reader("repo:x"), Some("lacks the scope `a`")),
            (
                "only one resource field is no requirement",
                json!({"resourceType": "repo"}),
                anonymous(),
                None,
            ),
            (
                "another action",
                json!({"resourceType": "repo", "resourceAction": "write"}),
                reader("repo:*"),
                Some("is not allowed to `write`"),
            ),
        ];
        for (name, access, identity, rejected) in rows {
            let result = control(access).check(identity.as_ref(), Some(&input));
            match (result, rejected) {
                (Ok(()), None) => {}
                (Err(error), Some(reason)) => {
                    assert!(error.message().contains(reason), "{name}: {error}");
                    assert_eq!(error.code().as_str(), "ACCESS_DENIED", "{name}");
                }
                (result, _) => panic!("{name}: {result:?}"),
            }
        }
    }

    #[test]
    fn access_check_rejects_input_without_resource() {
        let exact = control(
            json!({"resourceType": "repo", "resourceAction": "read", "resourceField": "/id"}),
        );
        let root = Identity::new("root").with_resource("repo:*", ["read"]);
        for input in [json!({}), json!({"id": null}), json!({"id": ["a"]}), json!(3)] {
            assert!(exact.check(Some(&root), Some(&input)).is_err(), "{input}");
        }
        assert!(exact.check(Some(&root), None).is_err());
        assert!(exact.check(Some(&root), Some(&json!({"id": 7}))).is_ok());
    }
}
