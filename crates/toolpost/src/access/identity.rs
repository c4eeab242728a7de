//! Caller identities and the key by which they are compared.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A caller authenticated by an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Identity {
    /// Id of the identity, unique among the identities of the same kind and issuer.
    pub id: String,
    /// How the identity was authenticated.
    #[serde(default, skip_serializing_if = "IdentityKind::is_token")]
    pub kind: IdentityKind,
    /// Scopes that the identity holds.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Actions that the identity may perform on resources, keyed by `type:id`. The key `type:*`
    /// covers every resource of the type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Vec<String>>,
    /// Room messages that the identity may send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// When the credential expires, in seconds since the Unix epoch; never if absent. The endpoint
    /// that authenticated the identity closes its connections and streams then.
    #[serde(skip)]
    pub expires_at: Option<u64>,
    /// Identifies the credential with which the identity authenticates, if it can be replaced. It
    /// never leaves the process.
    #[serde(skip)]
    pub generation: Option<Arc<str>>,
}

/// How an identity was authenticated. Identities of different kinds are never equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum IdentityKind {
    /// A configured identity with an access token.
    #[default]
    Token,
    /// The subject of a JWT.
    Jwt {
        /// The issuer of the JWT.
        issuer: Arc<str>,
    },
    /// A participant invited to one room.
    Guest {
        /// The room.
        room: Arc<str>,
        /// The identity that sent the invitation, and, if that is a guest, its inviters.
        inviters: Arc<[IdentityKey<'static>]>,
    },
    /// A caller without a token, where none is required.
    Local,
    /// The operator of a gateway.
    Operator,
    /// A gateway itself.
    Gateway,
}

impl IdentityKind {
    fn is_token(&self) -> bool {
        *self == Self::Token
    }
}

/// The kind, issuer and id of an identity in one text. Identities are equal if their keys are.
///
/// The text is `ID` for a token, `local`, `operator`, `jwt:ISSUER#ID`, `guest:ROOM/ID` or
/// `gateway:ID`. Ids that would be ambiguous are prefixed with their kind, as in `token:local`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdentityKey<'a>(Cow<'a, str>);

impl<'a> IdentityKey<'a> {
    /// Creates the key of the identity with this kind and id.
    pub fn new(kind: &IdentityKind, id: &'a str) -> Self {
        const PLAIN_KINDS: [&str; 2] = ["local", "operator"];
        let prefix = match kind {
            IdentityKind::Token if id.contains(':') || PLAIN_KINDS.contains(&id) => "token",
            IdentityKind::Token => return Self(Cow::Borrowed(id)),
            IdentityKind::Local if id == "local" => return Self(Cow::Borrowed(id)),
            IdentityKind::Operator if id == "operator" => return Self(Cow::Borrowed(id)),
            IdentityKind::Jwt { issuer } => {
                let issuer = issuer.replace('%', "%25").replace('#', "%23");
                return Self(format!("jwt:{issuer}#{id}").into());
            }
            IdentityKind::Guest { room, .. } => {
                let room = room.replace('%', "%25").replace('/', "%2F");
                return Self(format!("guest:{room}/{id}").into());
            }
            IdentityKind::Local => "local",
            IdentityKind::Operator => "operator",
            IdentityKind::Gateway => "gateway",
        };
        Self(format!("{prefix}:{id}").into())
    }

    /// Returns a key that borrows nothing.
    pub fn into_owned(self) -> IdentityKey<'static> {
        IdentityKey(self.0.into_owned().into())
    }
}

impl Deref for IdentityKey<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for IdentityKey<'_> {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Display for IdentityKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl Identity {
    /// Creates an identity with a token, without scopes, resources or capabilities.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Sets how the identity was authenticated.
    #[must_use]
    pub fn with_kind(self, kind: IdentityKind) -> Self {
        Self { kind, ..self }
    }

    /// Adds scopes.
    #[must_use]
    pub fn with_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Adds actions on the resource `type:id`, or on all resources of a type with `type:*`.
    #[must_use]
    pub fn with_resource<S: Into<String>>(
        mut self,
        resource: impl Into<String>,
        actions: impl IntoIterator<Item = S>,
    ) -> Self {
        let held = self.resources.entry(resource.into()).or_default();
        held.extend(actions.into_iter().map(Into::into));
        self
    }

    /// Adds room capabilities.
    #[must_use]
    pub fn with_capabilities<S: Into<String>>(
        mut self,
        capabilities: impl IntoIterator<Item = S>,
    ) -> Self {
        self.capabilities.extend(capabilities.into_iter().map(Into::into));
        self
    }

    /// Sets when the credential expires, in seconds since the Unix epoch.
    #[must_use]
    pub fn with_expiry(self, expires_at: u64) -> Self {
        Self { expires_at: Some(expires_at), ..self }
    }

    /// Whether the credential has expired at `now`, in seconds since the Unix epoch.
    pub fn has_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }

    /// Sets the generation of the credential.
    #[must_use]
    pub fn with_generation(self, generation: impl Into<Arc<str>>) -> Self {
        Self { generation: Some(generation.into()), ..self }
    }

    /// Returns the key by which identities are compared.
    pub fn key(&self) -> IdentityKey<'_> {
        IdentityKey::new(&self.kind, &self.id)
    }

    /// Whether both are the same identity, with the same or other scopes.
    pub fn is_same(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    /// Whether a name in a configuration refers to this identity: its key, or the subject of a JWT.
    /// A name never refers to a guest.
    pub fn is_named(&self, name: &str) -> bool {
        match self.kind {
            IdentityKind::Guest { .. } => false,
            IdentityKind::Jwt { .. } => self.id == name || *self.key() == *name,
            _ => *self.key() == *name,
        }
    }

    /// Returns the chain of invitations of a guest; empty for other kinds.
    pub fn inviters(&self) -> &[IdentityKey<'static>] {
        match &self.kind {
            IdentityKind::Guest { inviters, .. } => inviters,
            _ => &[],
        }
    }

    pub(super) fn has_scope(&self, scope: &str) -> bool {
        self.scopes.iter().any(|held| held == scope)
    }

    /// Whether the identity may perform `action` on `resource_id`, or on any resource of the type
    /// if `resource_id` is `None`.
    pub(super) fn has_permission(
        &self,
        action: &str,
        resource_type: &str,
        resource_id: Option<&str>,
    ) -> bool {
        self.resources.iter().any(|(resource, actions)| {
            let Some((held_type, held_id)) = resource.split_once(':') else { return false };
            held_type == resource_type
                && resource_id.is_none_or(|resource_id| held_id == "*" || held_id == resource_id)
                && actions.iter().any(|held| held == action)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn jwt(issuer: &str) -> IdentityKind {
        IdentityKind::Jwt { issuer: issuer.into() }
    }

    fn guest(room: &str) -> IdentityKind {
        IdentityKind::Guest { room: room.into(), inviters: Arc::new([]) }
    }

    /// Each row: a kind, an id and the expected key.
    #[test]
    fn identity_keys_of_different_identities_differ() {
        use IdentityKind::{Gateway, Local, Operator, Token};
        let rows = [
            (Token, "ada", "ada"),
            (Token, "local", "token:local"),
            (Token, "operator", "token:operator"),
            (Token, "local:ada", "token:local:ada"),
            (Token, "jwt:https://a#ada", "token:jwt:https://a#ada"),
            (Token, "guest:lobby/ada", "token:guest:lobby/ada"),
            (Token, "token:local", "token:token:local"),
            (jwt("https://a"), "ada", "jwt:https://a#ada"),
            (jwt("https://a"), "b#ada", "jwt:https://a#b#ada"),
            (jwt("https://a#b"), "ada", "jwt:https://a%23b#ada"),
            (jwt("https://a%23b"), "ada", "jwt:https://a%2523b#ada"),
            (guest("lobby"), "ada", "guest:lobby/ada"),
            (guest("lobby"), "x/ada", "guest:lobby/x/ada"),
            (guest("lobby/x"), "ada", "guest:lobby%2Fx/ada"),
            (Local, "local", "local"),
            (Local, "ada", "local:ada"),
            (Local, "operator", "local:operator"),
            (Operator, "operator", "operator"),
            (Operator, "ada", "operator:ada"),
            (Gateway, "ada", "gateway:ada"),
        ];
        let keys: std::collections::HashSet<_> =
            rows.iter().map(|(kind, id, _)| IdentityKey::new(kind, id)).collect();
        assert_eq!(keys.len(), rows.len());
        for (kind, id, expected) in &rows {
            assert_eq!(&*IdentityKey::new(kind, id), *expected);
        }
    }

    /// Each row: an identity, and whether the configured names `ada` and `jwt:https://a#ada` refer
    /// to it.
    #[test]
    fn configured_names_never_refer_to_guests() {
        for (kind, by_name, by_key) in [
            (IdentityKind::Token, true, false),
            (jwt("https://a"), true, true),
            (guest("lobby"), false, false),
            (IdentityKind::Local, false, false),
            (IdentityKind::Gateway, false, false),
        ] {
            let ada = Identity::new("ada").with_kind(kind);
            assert_eq!(ada.is_named("ada"), by_name, "{ada:?}");
            assert_eq!(ada.is_named("jwt:https://a#ada"), by_key, "{ada:?}");
            assert!(!ada.is_named("guest:lobby/ada"), "{ada:?}");
        }
    }

    #[test]
    fn identity_kind_survives_serialization() {
        let inviters = Arc::new([IdentityKey::new(&jwt("https://a"), "ada").into_owned()]);
        let kind = IdentityKind::Guest { room: "lobby".into(), inviters };
        for (kind, expected) in [
            (IdentityKind::Token, json!({"id": "bob", "scopes": []})),
            (IdentityKind::Local, json!({"id": "bob", "kind": "local", "scopes": []})),
            (
                kind,
                json!({"id": "bob", "scopes": [], "kind": {"guest": {
                    "room": "lobby", "inviters": ["jwt:https://a#ada"],
                }}}),
            ),
        ] {
            let identity = Identity::new("bob").with_kind(kind);
            let encoded = serde_json::to_value(&identity).unwrap();
            assert_eq!(encoded, expected);
            assert_eq!(serde_json::from_value::<Identity>(encoded).unwrap(), identity);
        }
    }
}
