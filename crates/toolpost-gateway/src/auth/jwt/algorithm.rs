//! Signature algorithms of JWTs.

use ring::signature;
use schemars::JsonSchema;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

/// An asymmetric signature algorithm. `none` and the algorithms with a shared secret are not
/// supported: any party that can verify such a token can also forge one.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantArray,
)]
#[strum(serialize_all = "UPPERCASE")]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
#[non_exhaustive]
pub enum Algorithm {
    /// RSA PKCS#1 v1.5 with SHA-256.
    Rs256,
    /// RSA PKCS#1 v1.5 with SHA-384.
    Rs384,
    /// RSA PKCS#1 v1.5 with SHA-512.
    Rs512,
    /// RSA PSS with SHA-256.
    Ps256,
    /// RSA PSS with SHA-384.
    Ps384,
    /// RSA PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    #[strum(serialize = "EdDSA")]
    EdDsa,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Returns the name used in tokens and in the configuration.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the verification parameters for RSA keys; `None` for other algorithms.
    pub(super) fn rsa(self) -> Option<&'static signature::RsaParameters> {
        Some(match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::EdDsa => return None,
        })
    }
}

/// Parses the name. The error for a symmetric algorithm explains why it is not supported.
impl<'de> Deserialize<'de> for Algorithm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(|_| {
            if name.eq_ignore_ascii_case("none") || name.to_uppercase().starts_with("HS") {
                let message = "symmetric algorithms are not accepted; use one with public keys";
                return D::Error::custom(message);
            }
            let known: Vec<_> = Self::ALL.iter().map(|one| one.as_str()).collect();
            let known = known.join("`, `");
            D::Error::custom(format_args!("unknown algorithm; expected one of `{known}`"))
        })
    }
}
