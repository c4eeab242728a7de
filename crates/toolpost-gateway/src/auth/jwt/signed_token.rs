//! Parsing of a token and verification of its signature.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

use super::jwk::VerificationKey;
use super::{Algorithm, JwtError};

/// A parsed token whose signature is not verified yet.
#[derive(Debug)]
pub(super) struct SignedToken<'t> {
    pub(super) algorithm: Algorithm,
    key_id: Option<String>,
    signing_input: &'t [u8],
    signature: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

/// The reason why a key set does not verify a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureError {
    /// No key matches the key id and algorithm of the token.
    UnknownKey,
    /// The signature does not verify with any matching key.
    Invalid,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Extensions that the recipient must understand. None is supported.
    crit: Option<serde_json::Value>,
}

impl<'t> SignedToken<'t> {
    /// Splits and decodes a token. Keys that the token contains or references are ignored.
    pub(super) fn parse(token: &'t str, accepted: &[Algorithm]) -> Result<Self, JwtError> {
        let unreadable = JwtError::Malformed;
        let (message, signature) =
            token.rsplit_once('.').ok_or(unreadable("expected three parts separated by `.`"))?;
        let (header, payload) =
            message.split_once('.').ok_or(unreadable("expected three parts separated by `.`"))?;
        let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes());
        let bad = |_| unreadable("a part is not base64url");
        let header = decode(header).map_err(bad)?;
        let header: Header =
            serde_json::from_slice(&header).map_err(|_| unreadable("its header is invalid"))?;
        let algorithm = header.alg.parse().ok().filter(|algorithm| accepted.contains(algorithm));
        let algorithm = algorithm.ok_or(JwtError::Algorithm)?;
        if header.crit.is_some() {
            return Err(unreadable("it has an unsupported critical header"));
        }
        if header.typ.as_deref().is_some_and(|typ| !is_access_token(typ)) {
            return Err(unreadable("its `typ` is not an access token"));
        }
        let (signature, payload) = (decode(signature).map_err(bad)?, decode(payload).map_err(bad)?);
        Ok(Self {
            algorithm,
            key_id: header.kid,
            signing_input: message.as_bytes(),
            signature,
            payload,
        })
    }

    /// Verifies the signature with the keys that match the key id and algorithm of the token.
    pub(super) fn verify(&self, keys: &[VerificationKey]) -> Result<(), SignatureError> {
        let is_meant = |key: &&VerificationKey| {
            let has_matching_id = match (&self.key_id, &key.id) {
                (Some(key_id), Some(id)) => key_id == id,
                // A key that is alone in its set needs no id, and a token needs no key id.
                (Some(_), None) => keys.len() == 1,
                (None, _) => true,
            };
            has_matching_id && key.supports(self.algorithm)
        };
        let mut meant = keys.iter().filter(is_meant).peekable();
        if meant.peek().is_none() {
            return Err(SignatureError::UnknownKey);
        }
        let has_signed = |key: &VerificationKey| {
            key.verify_signature(self.algorithm, self.signing_input, &self.signature)
        };
        if meant.any(has_signed) { Ok(()) } else { Err(SignatureError::Invalid) }
    }
}

/// Whether the type is `JWT` or `at+jwt`, with or without the prefix `application/`.
fn is_access_token(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}
