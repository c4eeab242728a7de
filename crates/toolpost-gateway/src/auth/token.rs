//! Access tokens. A token is generated and displayed once; only its SHA-256 is stored.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use sha2::{Digest, Sha256};

/// Prefix of every generated token, recognizable to people and secret scanners.
const PREFIX: &str = "tpt_";

/// A secret that authenticates an identity. Only [`Token::reveal`] returns its text.
///
/// ```
/// use toolpost_gateway::auth::Token;
///
/// let token = Token::generate()?;
/// assert_eq!(format!("{token} {token:?}"), "tpt_… Token(tpt_…)");
/// assert_eq!(token.reveal().len(), "tpt_".len() + 43);
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Generates a token: `tpt_` followed by 32 random bytes in base64url.
    ///
    /// # Errors
    ///
    /// The operating system provides no random bytes.
    pub fn generate() -> std::io::Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))))
    }

    /// Returns the secret text, to send or display it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the hash that is stored instead of the token.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

/// Wraps a token that was generated elsewhere. Any text is accepted.
impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tpt_…")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(tpt_…)")
    }
}

/// The SHA-256 of a token. It identifies the token without revealing it.
///
/// A plain hash is sufficient because a generated token has 256 random bits and cannot be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenHash([u8; 32]);

/// Error for a string that is not 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a token hash: the 64 hexadecimal digits of a SHA-256; create one with `toolpost token new`"
)]
pub struct TokenHashError;

impl TokenHash {
    /// Returns the hash of the text of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Returns the credential generation of the identity with this token. It does not reveal the
    /// hash.
    pub(crate) fn generation(&self) -> String {
        HEXLOWER.encode(&Sha256::digest(self.0)[..16])
    }
}

impl FromStr for TokenHash {
    type Err = TokenHashError;

    fn from_str(text: &str) -> Result<Self, TokenHashError> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| TokenHashError)?;
        bytes.try_into().map(Self).map_err(|_| TokenHashError)
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_redacted() {
        let (one, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert_ne!(one.reveal(), other.reveal());
        let secret = one.reveal().strip_prefix("tpt_").unwrap();
        assert_eq!(secret.len(), 43);
        assert!(secret.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')));
        assert!(!format!("{one:?} {one}").contains(secret));
    }

    #[test]
    fn token_hash_parses_64_hex_digits() {
        // The SHA-256 digest of "abc" as given in the standard.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(TokenHash::of("abc").to_string(), abc);
        let (upper, short, long) = (abc.to_uppercase(), &abc[1..], format!("{abc}0"));
        let wrong_digit = abc.replace('b', "g");
        for (text, expected) in [
            (abc, true),
            (&upper, true),
            (short, false),
            (&abc[2..], false),
            (&long, false),
            (&wrong_digit, false),
            ("", false),
            ("✓", false),
        ] {
            let parsed = text.parse::<TokenHash>();
            assert_eq!(parsed.is_ok(), expected, "{text}");
            assert!(parsed.is_err() || parsed == Ok(TokenHash::of("abc")), "{text}");
        }
    }
}
