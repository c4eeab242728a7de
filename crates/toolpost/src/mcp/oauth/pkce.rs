//! Random verifiers and states, and PKCE challenges (RFC 7636).

use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

use super::error::OAuthError;
use crate::protocol::Secret;

/// Returns 256 random bits as unpadded base64url.
pub(super) fn random_token() -> Result<Secret, OAuthError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| OAuthError::Internal {
        reason: "the system random number generator failed",
    })?;
    Ok(Secret::new(BASE64URL_NOPAD.encode(&bytes)))
}

/// Returns the S256 code challenge of a verifier.
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
