//! The key that signs the positions of a gateway's chain, and authenticates its records.

use std::io;
use std::path::Path;

use data_encoding::HEXLOWER;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use ring::{hkdf, hmac};
use sha2::{Digest, Sha256};

use super::chain::{Hash, Mac};

pub(super) struct SigningKey {
    pair: Ed25519KeyPair,
    /// Derived from the signing key, because records are authenticated more often than signed.
    mac_key: hmac::Key,
    /// Source of keys for other purposes.
    secret: hkdf::Prk,
    gateway_id: String,
}

impl SigningKey {
    pub(super) fn generate() -> io::Result<(Self, Vec<u8>)> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| io::Error::other("the system random number generator failed"))?;
        let bytes = document.as_ref().to_vec();
        Ok((Self::from_bytes(&bytes)?, bytes))
    }

    pub(super) fn read(file: &Path) -> io::Result<Self> {
        Self::from_bytes(&std::fs::read(file)?)
    }

    fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        let pair = Ed25519KeyPair::from_pkcs8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "invalid signing key"))?;
        let gateway_id = fingerprint(pair.public_key().as_ref());
        let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, b"toolpost journal").extract(bytes);
        let mac_key = secret
            .expand(&[b"record authentication"], hmac::HMAC_SHA256)
            .expect("the length of the key is that of the hash")
            .into();
        Ok(Self { pair, mac_key, secret, gateway_id })
    }

    /// Id of the gateway: a prefix of the SHA-256 hash of the public key. A signature by another
    /// key does not verify for this id.
    pub(super) fn gateway_id(&self) -> &str {
        &self.gateway_id
    }

    pub(super) fn public_key(&self) -> String {
        HEXLOWER.encode(self.pair.public_key().as_ref())
    }

    pub(super) fn sign(&self, message: &[u8]) -> String {
        HEXLOWER.encode(self.pair.sign(message).as_ref())
    }

    /// Derives a key for another purpose.
    pub(super) fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        let mut key = [0; 32];
        let info = [purpose];
        let derived = self.secret.expand(&info, hkdf::HKDF_SHA256);
        derived.and_then(|derived| derived.fill(&mut key)).expect("the length is that of the hash");
        key
    }

    /// Returns the authentication code of a record with this hash.
    pub(super) fn mac(&self, hash: Hash) -> Mac {
        let tag = hmac::sign(&self.mac_key, hash.as_bytes());
        Mac::from_tag(tag.as_ref().try_into().expect("HMAC-SHA256 tags have 32 bytes"))
    }
}

/// Whether the signature is valid and the public key belongs to the gateway id.
pub(super) fn verify_signature(
    gateway_id: &str,
    public: &str,
    message: &[u8],
    signature: &str,
) -> bool {
    let decode = |text: &str| HEXLOWER.decode(text.as_bytes()).ok();
    let (Some(public), Some(signature)) = (decode(public), decode(signature)) else { return false };
    let key = UnparsedPublicKey::new(&ED25519, &public);
    fingerprint(&public) == gateway_id && key.verify(message, &signature).is_ok()
}

pub(super) fn is_gateway_id(text: &str) -> bool {
    text.len() == 16 && HEXLOWER.decode(text.as_bytes()).is_ok()
}

fn fingerprint(public: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(public)[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_verifies_only_with_matching_gateway_key() {
        let ((own, _), (other, _)) =
            (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let signature = own.sign(b"seven");
        for (id, public, message, signature, expected) in [
            (own.gateway_id(), own.public_key(), "seven", signature.clone(), true),
            (own.gateway_id(), own.public_key(), "eight", signature.clone(), false),
            (other.gateway_id(), own.public_key(), "seven", signature.clone(), false),
            (own.gateway_id(), other.public_key(), "seven", signature, false),
            (own.gateway_id(), other.public_key(), "seven", other.sign(b"seven"), false),
            (own.gateway_id(), own.public_key(), "seven", "zz".to_owned(), false),
            (own.gateway_id(), own.public_key(), "seven", String::new(), false),
        ] {
            assert_eq!(verify_signature(id, &public, message.as_bytes(), &signature), expected);
        }
    }

    #[test]
    fn authentication_code_depends_on_key_and_hash() {
        let ((own, bytes), (other, _)) =
            (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
        let (a, b) = (Hash::genesis("a"), Hash::genesis("b"));
        assert_eq!(own.mac(a), SigningKey::from_bytes(&bytes).unwrap().mac(a));
        assert_ne!(own.mac(a), own.mac(b));
        assert_ne!(own.mac(a), other.mac(a));
    }
}
