//! A token: its parts, and whether a key has signed it.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

use super::key::Key;
use super::{Algorithm, JwtError};

/// A token that is not checked yet.
#[derive(Debug)]
pub(super) struct Signed<'t> {
    pub(super) algorithm: Algorithm,
    key_id: Option<String>,
    message: &'t [u8],
    signature: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

/// Why a set of keys does not hold for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignedError {
    /// None of the keys can be the one that is meant.
    UnknownKey,
    /// The one that is meant has not signed it.
    Wrong,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    typ: Option<String>,
    /// What a reader must understand; nothing is.
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

impl<'t> Signed<'t> {
    /// Takes a token apart. Keys that it carries or points to itself are not looked at.
    pub(super) fn read(token: &'t str, accepted: &[Algorithm]) -> Result<Self, JwtError> {
        let unreadable = JwtError::Unreadable;
        let (message, signature) = token.rsplit_once('.').ok_or(unreadable("it has no parts"))?;
        let (header, payload) = message.split_once('.').ok_or(unreadable("it has two parts"))?;
        let decode = |text: &str| BASE64URL_NOPAD.decode(text.as_bytes());
        let bad = |_| unreadable("a part is not base64url");
        let header = decode(header).map_err(bad)?;
        let header: Header =
            serde_json::from_slice(&header).map_err(|_| unreadable("its header is not one"))?;
        let algorithm = header.alg.parse::<Algorithm>().ok();
        let algorithm = algorithm.filter(|algorithm| accepted.contains(algorithm));
        let algorithm = algorithm.ok_or(JwtError::Algorithm)?;
        if header.crit.is_some() {
            return Err(unreadable("it asks for what is not understood here"));
        }
        if header.typ.as_deref().is_some_and(|typ| !is_access_token(typ)) {
            return Err(unreadable("it is of another type"));
        }
        let (signature, payload) = (decode(signature).map_err(bad)?, decode(payload).map_err(bad)?);
        Ok(Self { algorithm, key_id: header.kid, message: message.as_bytes(), signature, payload })
    }

    /// Whether one of the keys that can be meant has signed it.
    pub(super) fn check(&self, keys: &[Key]) -> Result<(), SignedError> {
        let is_meant = |key: &&Key| {
            let is_named = match (&self.key_id, &key.id) {
                (Some(wanted), Some(id)) => wanted == id,
                // A set of one key need not name it, and neither need the token.
                (Some(_), None) => keys.len() == 1,
                (None, _) => true,
            };
            is_named && key.serves(self.algorithm)
        };
        let mut meant = keys.iter().filter(is_meant).peekable();
        if meant.peek().is_none() {
            return Err(SignedError::UnknownKey);
        }
        let has_signed = |key: &Key| key.has_signed(self.algorithm, self.message, &self.signature);
        if meant.any(has_signed) { Ok(()) } else { Err(SignedError::Wrong) }
    }
}

/// `JWT`, and the type of access tokens; the form with `application/` means the same.
fn is_access_token(typ: &str) -> bool {
    let typ = typ.to_ascii_lowercase();
    matches!(typ.strip_prefix("application/").unwrap_or(&typ), "jwt" | "at+jwt")
}
