//! Client certificates as identities.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, DnsName, ServerName};
use rustls::server::ParsedCertificate;
use sha2::{Digest, Sha256};

/// A SHA-256 digest.
pub(crate) type Sha256Digest = [u8; 32];

/// The certificate of a client, which the gateway has verified.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    der: CertificateDer<'static>,
    fingerprint: Sha256Digest,
    /// Digest of the certificate authorities that it was verified with.
    pub(super) client_ca: Sha256Digest,
}

impl ClientCertificate {
    pub(crate) fn new(der: &[u8], client_ca: Sha256Digest) -> Self {
        let fingerprint = Sha256::digest(der).into();
        Self { der: CertificateDer::from(der.to_vec()), fingerprint, client_ca }
    }
}

/// The certificate of an identity, as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CertificateName {
    /// The SHA-256 of one certificate.
    Fingerprint([u8; 32]),
    /// A DNS name of the certificate (`subjectAltName`), signed by any of the authorities.
    DnsName(String),
}

/// Error for a text that is neither a fingerprint nor a DNS name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected the SHA-256 fingerprint of a certificate (`openssl x509 -fingerprint -sha256`) or a \
     DNS name in it"
)]
pub struct CertificateNameError;

impl CertificateName {
    pub(super) fn matches(&self, certificate: &ClientCertificate) -> bool {
        match self {
            Self::Fingerprint(fingerprint) => *fingerprint == certificate.fingerprint,
            Self::DnsName(name) => {
                let name = ServerName::try_from(name.as_str());
                let parsed = ParsedCertificate::try_from(&certificate.der);
                match (parsed, name) {
                    (Ok(parsed), Ok(name)) => verify_server_name(&parsed, &name).is_ok(),
                    _ => false,
                }
            }
        }
    }
}

impl FromStr for CertificateName {
    type Err = CertificateNameError;

    fn from_str(text: &str) -> Result<Self, CertificateNameError> {
        // `openssl` separates the digits with colons.
        let digits = text.replace(':', "").to_ascii_lowercase();
        if digits.len() == 64 {
            let bytes = HEXLOWER.decode(digits.as_bytes()).map_err(|_| CertificateNameError)?;
            return bytes.try_into().map(Self::Fingerprint).map_err(|_| CertificateNameError);
        }
        let name = DnsName::try_from(text).map_err(|_| CertificateNameError)?;
        Ok(Self::DnsName(name.as_ref().to_ascii_lowercase()))
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fingerprint(fingerprint) => f.write_str(&HEXLOWER.encode(fingerprint)),
            Self::DnsName(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_name_is_fingerprint_or_dns_name() {
        let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let pairs: Vec<&str> = (0..32).map(|byte| &digits[2 * byte..2 * byte + 2]).collect();
        let colons = pairs.join(":").to_uppercase();
        for (text, expected) in [
            (digits, Some(digits)),
            (&colons, Some(digits)),
            ("CI.example", Some("ci.example")),
            ("ci", Some("ci")),
            ("", None),
            ("a b", None),
            ("*.example", None),
            (&digits.replace('b', "g"), None),
            ("CN=ci", None),
        ] {
            let parsed = text.parse::<CertificateName>().ok().map(|name| name.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        }
    }
}
