//! Encryption of the parts of a file.

use ring::aead::{self, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

/// Length of the salt of a file.
pub(super) const SALT_BYTES: usize = 32;

/// Length that sealing adds to a part.
pub(super) const TAG_BYTES: usize = 16;

/// Seals the parts of one file. Each part has a number that is used once, because it is the nonce.
pub(super) struct FileKey(LessSafeKey);

impl FileKey {
    pub(super) fn new(secret: &[u8; 32], salt: &[u8; SALT_BYTES]) -> Self {
        let mut key = [0; 32];
        let derived = Salt::new(HKDF_SHA256, salt).extract(secret);
        derived
            .expand(&[b"durable calls"], HKDF_SHA256)
            .and_then(|bytes| bytes.fill(&mut key))
            .expect("the length of the key is that of the hash");
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key);
        Self(LessSafeKey::new(key.expect("the key has the length of the algorithm")))
    }

    /// Appends the sealed part to `out`.
    pub(super) fn seal(&self, number: u64, part: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(part);
        let sealed =
            self.0.seal_in_place_separate_tag(nonce(number), Aad::empty(), &mut out[start..]);
        out.extend_from_slice(sealed.expect("parts are shorter than 256 GiB").as_ref());
    }

    /// Opens a sealed part in place. Returns `None` if it was not sealed with this key and number.
    pub(super) fn open<'a>(&self, number: u64, sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        self.0.open_in_place(nonce(number), Aad::empty(), sealed).ok()
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; aead::NONCE_LEN];
    bytes[..size_of::<u64>()].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}
