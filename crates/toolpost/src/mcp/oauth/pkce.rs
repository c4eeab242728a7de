//! What only the one who asked can know: PKCE (RFC 7636) and the state.

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

use super::error::OAuthError;
use crate::protocol::Secret;

/// A text that nobody can guess: 256 bits, in signs that need no escaping.
pub(super) fn random_token() -> Result<Secret, OAuthError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|_| OAuthError::Internal { reason: "the system gives no randomness" })?;
    Ok(Secret::new(BASE64URL_NOPAD.encode(&bytes)))
}

/// What is shown of a verifier before the verifier itself is.
pub(super) fn s256(verifier: &Secret) -> String {
    BASE64URL_NOPAD.encode(&Sha256::digest(verifier.reveal()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s256_matches_rfc_7636_example() {
        let verifier = Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(s256(&verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn pkce_verifiers_are_unique_and_43_chars() {
        let [one, other] = [random_token().unwrap(), random_token().unwrap()];
        assert_eq!(one.reveal().len(), 43);
        assert_ne!(one, other);
    }
}
