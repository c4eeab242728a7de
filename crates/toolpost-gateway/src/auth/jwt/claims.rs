//! Validation of the claims of a token.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use toolpost::{Identity, IdentityKind};

use super::super::is_resource_id;
use super::JwtError;
use super::settings::JwtSettings;

/// Maximum length of an identity name, in bytes.
const MAX_NAME_LEN: usize = 255;

/// The claims of a token with a valid signature.
#[derive(Debug)]
pub(super) struct Claims(Map<String, Value>);

impl Claims {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, JwtError> {
        let claims = serde_json::from_slice(payload);
        claims.map(Self).map_err(|_| JwtError::Malformed("its claims are not an object"))
    }

    /// Returns the identity of the token if all claims are valid at `now`, in seconds since 1970.
    pub(super) fn identity(&self, settings: &JwtSettings, now: u64) -> Result<Identity, JwtError> {
        self.read_identity(settings, now).map_err(|reason| JwtError::Claims(reason.to_owned()))
    }

    fn read_identity(&self, settings: &JwtSettings, now: u64) -> Result<Identity, &'static str> {
        self.validate(settings, now)?;
        let kind = IdentityKind::Jwt { issuer: settings.issuer.as_str().into() };
        let mut identity = Identity::new(self.subject(settings)?).with_kind(kind);
        identity.scopes = self.scopes(settings.scopes_claim.as_deref());
        if let Some(claim) = &settings.resources_claim {
            const MESSAGE: &str = "its resources are invalid";
            identity.resources = self.optional_claim(claim, MESSAGE)?;
            if !identity.resources.keys().all(|resource| is_resource_id(resource)) {
                return Err(MESSAGE);
            }
        }
        if let Some(claim) = &settings.capabilities_claim {
            identity.capabilities = self.optional_claim(claim, "its capabilities are invalid")?;
        }
        Ok(identity)
    }

    /// Reads an optional claim; the default if it is absent. A malformed claim fails the token,
    /// because it may be meant to grant less than it appears to.
    fn optional_claim<T: DeserializeOwned + Default>(
        &self,
        claim: &str,
        reason: &'static str,
    ) -> Result<T, &'static str> {
        let value = self.0.get(claim);
        value.map_or_else(|| Ok(T::default()), |value| T::deserialize(value).map_err(|_| reason))
    }

    /// Returns the expiration time including leeway, in seconds since the Unix epoch.
    pub(super) fn expires_at(&self, settings: &JwtSettings) -> u64 {
        self.numeric_date("exp")
            .flatten()
            .unwrap_or_default()
            .saturating_add(settings.leeway.as_secs())
    }

    fn validate(&self, settings: &JwtSettings, now: u64) -> Result<(), &'static str> {
        if self.0.get("iss").and_then(Value::as_str) != Some(&settings.issuer) {
            return Err("it is from another issuer");
        }
        let is_accepted = |value: &Value| {
            value
                .as_str()
                .is_some_and(|text| settings.audience.iter().any(|accepted| accepted == text))
        };
        let is_for_us = match self.0.get("aud") {
            Some(Value::Array(audience)) => audience.iter().any(is_accepted),
            Some(accepted) => is_accepted(accepted),
            None => false,
        };
        if !is_for_us {
            return Err("it is for another audience");
        }
        let leeway = settings.leeway.as_secs();
        match self.numeric_date("exp") {
            Some(Some(until)) if now < until.saturating_add(leeway) => {}
            Some(Some(_)) => return Err("it has expired"),
            _ => return Err("it has no valid expiration time"),
        }
        match self.numeric_date("nbf") {
            None => Ok(()),
            Some(Some(from)) if from <= now.saturating_add(leeway) => Ok(()),
            Some(Some(_)) => Err("it is not valid yet"),
            Some(None) => Err("its `nbf` is not a valid time"),
        }
    }

    /// Returns a time claim in seconds since the Unix epoch, rounded down. The outer `Option` is
    /// `None` if the claim is absent, the inner one if its value is not a valid time.
    fn numeric_date(&self, claim: &str) -> Option<Option<u64>> {
        let value = self.0.get(claim)?;
        let integer = value.as_u64();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and saturates"
        )]
        let cut = || value.as_f64().filter(|time| *time >= 0.0).map(|time| time as u64);
        Some(integer.or_else(cut))
    }

    fn subject(&self, settings: &JwtSettings) -> Result<&str, &'static str> {
        let name = self.0.get(&settings.identity_claim).and_then(Value::as_str).unwrap_or_default();
        let is_plain = !name.is_empty() && !name.chars().any(char::is_control);
        if !is_plain || name.len() > MAX_NAME_LEN {
            return Err("it has no valid subject");
        }
        if settings.reserved_names.iter().any(|taken| taken == name) {
            return Err("its subject is the name of another identity of this gateway");
        }
        Ok(name)
    }

    fn scopes(&self, claim: Option<&str>) -> Vec<String> {
        let names = match &claim {
            None => &["scope", "scp", "permissions"][..],
            Some(name) => std::slice::from_ref(name),
        };
        match names.iter().find_map(|name| self.0.get(*name)) {
            Some(Value::String(text)) => text.split_ascii_whitespace().map(str::to_owned).collect(),
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings() -> JwtSettings {
        let mut settings =
            JwtSettings::new("https://as.example", vec!["a".to_owned(), "b".to_owned()]);
        settings.reserved_names = vec!["operator".to_owned()];
        settings.resources_claim = Some("may".to_owned());
        settings.capabilities_claim = Some("can".to_owned());
        settings
    }

    /// Each row: a change to valid claims at time 1000, and the expected error.
    #[test]
    fn invalid_claims_are_rejected_with_reason() {
        let rows = [
            (json!({}), Ok(())),
            (json!({"iss": "https://as.example/"}), Err("another issuer")),
            (json!({"iss": "https://AS.example"}), Err("another issuer")),
            (json!({"iss": null}), Err("another issuer")),
            (json!({"iss": ["https://as.example"]}), Err("another issuer")),
            (json!({"aud": "b"}), Ok(())),
            (json!({"aud": ["x", "a"]}), Ok(())),
            (json!({"aud": "c"}), Err("another audience")),
            (json!({"aud": []}), Err("another audience")),
            (json!({"aud": null}), Err("another audience")),
            (json!({"aud": "a b"}), Err("another audience")),
            (json!({"exp": 1000}), Ok(())),
            (json!({"exp": 971}), Ok(())),
            (json!({"exp": 970}), Err("expired")),
            (json!({"exp": 970.9}), Err("expired")),
            (json!({"exp": 2000.5}), Ok(())),
            (json!({"exp": null}), Err("no valid expiration time")),
            (json!({"exp": "2000"}), Err("no valid expiration time")),
            (json!({"exp": -1}), Err("no valid expiration time")),
            (json!({"exp": u64::MAX}), Ok(())),
            (json!({"nbf": 1030}), Ok(())),
            (json!({"nbf": 1031}), Err("not valid yet")),
            (json!({"nbf": "1"}), Err("`nbf` is not a valid time")),
            (json!({"sub": ""}), Err("no valid subject")),
            (json!({"sub": 7}), Err("no valid subject")),
            (json!({"sub": "a\nb"}), Err("no valid subject")),
            (json!({"sub": "x".repeat(256)}), Err("no valid subject")),
            (json!({"sub": "operator"}), Err("another identity of this gateway")),
            (json!({"may": {"repo:x": ["read"], "repo:*": []}, "can": ["a:b", ""]}), Ok(())),
            (json!({"may": {}, "can": []}), Ok(())),
            (json!({"may": ["repo:x"]}), Err("resources are invalid")),
            (json!({"may": "repo:x"}), Err("resources are invalid")),
            (json!({"may": {"repo": ["read"]}}), Err("resources are invalid")),
            (json!({"may": {":x": ["read"]}}), Err("resources are invalid")),
            (json!({"may": {"repo:x": "read"}}), Err("resources are invalid")),
            (json!({"may": {"repo:x": ["read", 5]}}), Err("resources are invalid")),
            (json!({"can": "a:b"}), Err("capabilities are invalid")),
            (json!({"can": ["a:b", 5]}), Err("capabilities are invalid")),
            (json!({"can": {"a:b": true}}), Err("capabilities are invalid")),
        ];
        for (different, expected) in rows {
            let mut claims = json!({"iss": "https://as.example", "aud": "a", "exp": 2000,
                "sub": "ada"});
            let row = different.to_string();
            for (name, value) in different.as_object().unwrap() {
                match value {
                    Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                    value => claims[name] = value.clone(),
                }
            }
            let claims = Claims::parse(claims.to_string().as_bytes()).unwrap();
            match (claims.identity(&settings(), 1_000), expected) {
                (Ok(identity), Ok(())) => assert_eq!(identity.id, "ada", "{row}"),
                (Err(error), Err(reason)) => {
                    assert!(error.to_string().contains(reason), "{row}: {error}");
                }
                (found, _) => panic!("{row}: {found:?}"),
            }
        }
    }

    #[test]
    fn grants_are_read_from_configured_claims() {
        let base = json!({"iss": "https://as.example", "aud": "a", "exp": 2000, "sub": "ada",
            "may": {"repo:x": ["read"]}, "can": ["a:b"], "scope": "s"});
        let claims = Claims::parse(base.to_string().as_bytes()).unwrap();
        let kind = IdentityKind::Jwt { issuer: "https://as.example".into() };
        let expected = Identity::new("ada").with_kind(kind).with_scopes(["s"]);
        let granted = expected.clone().with_resource("repo:x", ["read"]).with_capabilities(["a:b"]);
        assert_eq!(claims.identity(&settings(), 1_000), Ok(granted));
        let mut nothing = settings();
        (nothing.resources_claim, nothing.capabilities_claim) = (None, None);
        assert_eq!(claims.identity(&nothing, 1_000), Ok(expected));
    }

    #[test]
    fn scopes_are_read_from_known_claims() {
        let custom_claim = Some("https://x.example/roles");
        for (claims, claim, expected) in [
            (json!({"scope": "a b  c"}), None, vec!["a", "b", "c"]),
            (json!({"scp": ["a", "b", 3]}), None, vec!["a", "b"]),
            (json!({"scp": "a b"}), None, vec!["a", "b"]),
            (json!({"permissions": ["a:b"]}), None, vec!["a:b"]),
            (json!({"scope": "a", "permissions": ["b"]}), None, vec!["a"]),
            (json!({"scope": "a", "https://x.example/roles": ["b"]}), custom_claim, vec!["b"]),
            (json!({"scope": "a"}), custom_claim, vec![]),
            (json!({"scope": {"a": true}}), None, vec![]),
            (json!({}), None, vec![]),
        ] {
            let read = Claims::parse(claims.to_string().as_bytes()).unwrap();
            assert_eq!(read.scopes(claim), expected, "{claims}");
        }
    }
}
