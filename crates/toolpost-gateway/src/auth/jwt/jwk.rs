//! Verification keys of a JWK set.

use data_encoding::BASE64URL_NOPAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;

use super::Algorithm;

/// Maximum number of keys read from a JWK set.
const MAX_KEYS: usize = 64;

/// A public key that verifies signatures.
#[derive(Debug, PartialEq)]
pub(super) struct VerificationKey {
    pub(super) id: Option<String>,
    /// The only algorithm that the key may be used with, if the JWK names one.
    algorithm: Option<Algorithm>,
    material: KeyMaterial,
}

#[derive(Debug, PartialEq)]
enum KeyMaterial {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point of an elliptic curve, uncompressed except for Ed25519, and its only algorithm.
    Point(Algorithm, Vec<u8>),
}

#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Returns the keys of a JWK set that can verify signatures. Other keys are skipped, since a set
/// may contain keys of other types and for other uses.
pub(super) fn parse_jwk_set(text: &[u8]) -> Option<Vec<VerificationKey>> {
    let set: JwkSet = serde_json::from_slice(text).ok()?;
    let keys = set
        .keys
        .into_iter()
        .filter_map(|key| VerificationKey::from_jwk(serde_json::from_value(key).ok()?));
    Some(keys.take(MAX_KEYS).collect())
}

impl VerificationKey {
    fn from_jwk(jwk: Jwk) -> Option<Self> {
        if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        // A key for an unsupported algorithm is skipped.
        let algorithm = jwk.alg.as_deref().map(str::parse).transpose().ok()?;
        let material = KeyMaterial::from_jwk(&jwk)?;
        Some(Self { id: jwk.kid, algorithm, material })
    }

    /// Whether the key type fits the algorithm. The token names the algorithm, but the key
    /// restricts it, which prevents algorithm confusion.
    pub(super) fn supports(&self, algorithm: Algorithm) -> bool {
        let is_kind = match &self.material {
            KeyMaterial::Rsa { .. } => algorithm.rsa().is_some(),
            KeyMaterial::Point(own, _) => *own == algorithm,
        };
        is_kind && self.algorithm.is_none_or(|only| only == algorithm)
    }

    /// Whether the signature was made with this key, which must support the algorithm.
    pub(super) fn verify_signature(
        &self,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        match (&self.material, algorithm.rsa()) {
            (KeyMaterial::Rsa { n, e }, Some(how)) => {
                RsaPublicKeyComponents { n, e }.verify(how, message, signature).is_ok()
            }
            (KeyMaterial::Point(own, point), None) if *own == algorithm => {
                let how: &dyn signature::VerificationAlgorithm = match own {
                    Algorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
                    Algorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
                    _ => &signature::ED25519,
                };
                UnparsedPublicKey::new(how, point).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}

impl KeyMaterial {
    fn from_jwk(jwk: &Jwk) -> Option<Self> {
        match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Some(Self::Rsa {
                n: decode_integer(jwk.n.as_ref())?,
                e: decode_integer(jwk.e.as_ref())?,
            }),
            ("EC", Some("P-256")) => Some(Self::Point(Algorithm::Es256, decode_point(jwk, 32)?)),
            ("EC", Some("P-384")) => Some(Self::Point(Algorithm::Es384, decode_point(jwk, 48)?)),
            ("OKP", Some("Ed25519")) => {
                let x = decode_base64url(jwk.x.as_ref())?;
                (x.len() == 32).then_some(Self::Point(Algorithm::EdDsa, x))
            }
            _ => None,
        }
    }
}

fn decode_base64url(text: Option<&String>) -> Option<Vec<u8>> {
    BASE64URL_NOPAD.decode(text?.as_bytes()).ok()
}

/// Decodes an integer and strips leading zeros, which ring rejects.
fn decode_integer(text: Option<&String>) -> Option<Vec<u8>> {
    let bytes = decode_base64url(text)?;
    let first = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[first..].to_vec())
}

fn decode_point(jwk: &Jwk, size: usize) -> Option<Vec<u8>> {
    let (x, y) = (decode_base64url(jwk.x.as_ref())?, decode_base64url(jwk.y.as_ref())?);
    let has_full_size = x.len() == size && y.len() == size;
    has_full_size.then(|| [&[4][..], &x, &y].concat())
}
