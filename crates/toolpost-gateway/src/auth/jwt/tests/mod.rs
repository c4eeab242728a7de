//! Signatures that another implementation has made, over the same claims. The private keys were thrown
//! away.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::key::read_set;
use super::signed::{Signed, SignedError};
use super::{Algorithm, JwtError};

#[derive(Deserialize)]
struct Tokens {
    jwks: serde_json::Value,
    good: BTreeMap<String, String>,
    /// What is said about them, and the token.
    bad: BTreeMap<String, (String, String)>,
}

fn verdict(token: &str, keys: &[super::key::Key], accepted: &[Algorithm]) -> &'static str {
    match Signed::read(token, accepted).map(|signed| signed.check(keys)) {
        Ok(Ok(())) => "good",
        Ok(Err(SignedError::UnknownKey)) => "UnknownKey",
        Ok(Err(SignedError::Wrong)) => "Signature",
        Err(JwtError::Algorithm) => "Algorithm",
        Err(JwtError::Unreadable(_)) => "Unreadable",
        Err(_) => "something else",
    }
}

#[test]
fn signatures_of_others_hold_and_tricks_do_not() {
    let tokens: Tokens = serde_json::from_str(include_str!("tokens.json")).unwrap();
    let keys = read_set(tokens.jwks.to_string().as_bytes()).unwrap();
    assert_eq!(keys.len(), 6, "a shared secret is no key, and one for encryption checks nothing");
    for (name, token) in &tokens.good {
        assert_eq!(verdict(token, &keys, &Algorithm::ALL), "good", "{name}");
        assert_eq!(verdict(token, &[], &Algorithm::ALL), "UnknownKey", "{name}");
        // Each is good only where its way to sign is.
        let named = Signed::read(token, &Algorithm::ALL).unwrap().algorithm;
        let others: Vec<_> = Algorithm::ALL.into_iter().filter(|one| *one != named).collect();
        assert_eq!(verdict(token, &keys, &others), "Algorithm", "{name}");
    }
    for (name, (expected, token)) in &tokens.bad {
        assert_eq!(verdict(token, &keys, &Algorithm::ALL), expected, "{name}");
    }
}

#[test]
fn sets_of_keys_are_read_as_far_as_they_go() {
    for (text, expected) in [
        ("{\"keys\": []}", Some(0)),
        ("{\"keys\": [{}, 7, {\"kty\": \"RSA\"}, {\"kty\": \"EC\", \"crv\": \"P-521\"}]}", Some(0)),
        ("{\"keys\": [{\"kty\": \"OKP\", \"crv\": \"Ed25519\", \"x\": \"AAAA\"}]}", Some(0)),
        ("[]", None),
        ("{}", None),
        ("", None),
    ] {
        assert_eq!(read_set(text.as_bytes()).map(|keys| keys.len()), expected, "{text}");
    }
}
