//! Signatures made by another implementation over the same claims. The private keys were discarded.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::jwk::parse_jwk_set;
use super::signed_token::{SignatureError, SignedToken};
use super::{Algorithm, JwtError};

#[derive(Deserialize)]
struct Tokens {
    jwks: serde_json::Value,
    good: BTreeMap<String, String>,
    /// The expected error and the token, by name.
    bad: BTreeMap<String, (String, String)>,
}

fn verify_token(
    token: &str,
    keys: &[super::jwk::VerificationKey],
    accepted: &[Algorithm],
) -> &'static str {
    match SignedToken::parse(token, accepted).map(|signed| signed.verify(keys)) {
        Ok(Ok(())) => "good",
        Ok(Err(SignatureError::UnknownKey)) => "UnknownKey",
        Ok(Err(SignatureError::Invalid)) => "Signature",
        Err(JwtError::Algorithm) => "Algorithm",
        Err(JwtError::Malformed(_)) => "Unreadable",
        Err(_) => "something else",
    }
}

#[test]
fn valid_signatures_pass_and_forgeries_fail() {
    let tokens: Tokens = serde_json::from_str(include_str!("tokens.json")).unwrap();
    let keys = parse_jwk_set(tokens.jwks.to_string().as_bytes()).unwrap();
    assert_eq!(keys.len(), 6, "shared secrets and encryption keys are not used");
    for (name, token) in &tokens.good {
        assert_eq!(verify_token(token, &keys, Algorithm::ALL), "good", "{name}");
        assert_eq!(verify_token(token, &[], Algorithm::ALL), "UnknownKey", "{name}");
        // Each token is rejected if its algorithm is not accepted.
        let algorithm = SignedToken::parse(token, Algorithm::ALL).unwrap().algorithm;
        let others: Vec<_> =
            Algorithm::ALL.iter().copied().filter(|one| *one != algorithm).collect();
        assert_eq!(verify_token(token, &keys, &others), "Algorithm", "{name}");
    }
    for (name, (expected, token)) in &tokens.bad {
        assert_eq!(verify_token(token, &keys, Algorithm::ALL), expected, "{name}");
    }
}

#[test]
fn jwk_set_skips_unsupported_keys() {
    for (text, expected) in [
        ("{\"keys\": []}", Some(0)),
        ("{\"keys\": [{}, 7, {\"kty\": \"RSA\"}, {\"kty\": \"EC\", \"crv\": \"P-521\"}]}", Some(0)),
        ("{\"keys\": [{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"x\": \"AAAA\"}]}", Some(0)),
        ("[]", None),
        ("{}", None),
        ("", None),
    ] {
        assert_eq!(parse_jwk_set(text.as_bytes()).map(|keys| keys.len()), expected, "{text}");
    }
}
