//! Certificates of the tests.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use sha2::{Digest, Sha256};

/// A certificate authority.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key, both in PEM.
pub(crate) struct Certified {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// The SHA-256 of the certificate, in the form of `openssl x509 -fingerprint -sha256`.
    pub(crate) fingerprint: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Names differ, because OpenSSL takes a certificate with the name of its issuer as self-signed.
        params.distinguished_name.push(DnType::CommonName, "authority");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate with these DNS names and addresses.
    pub(crate) fn sign(&self, names: &[&str]) -> Certified {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.0).unwrap();
        let digest = Sha256::digest(certificate.der());
        let digits: Vec<String> = digest.iter().map(|byte| format!("{byte:02X}")).collect();
        Certified {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            fingerprint: digits.join(":"),
        }
    }
}

/// A folder with a configuration, its certificates, and the authority that signs them.
pub(crate) struct CertificateFolder {
    pub(crate) path: PathBuf,
    pub(crate) authority: Authority,
}

impl CertificateFolder {
    /// Creates a folder with `ca.pem`, and `cert.pem` and `key.pem` for loopback addresses.
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("toolpost-tls-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let folder = Self { path, authority: Authority::new() };
        folder.write("ca.pem", &folder.authority.pem());
        folder.renew();
        folder
    }

    /// Writes another certificate and key, and returns the certificate.
    pub(crate) fn renew(&self) -> Certified {
        let server = self.authority.sign(&["localhost", "127.0.0.1"]);
        self.write("cert.pem", &server.certificate);
        self.write("key.pem", &server.key);
        server
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Replaces a file atomically.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let part = self.file(&format!("{name}.part"));
        std::fs::write(&part, text).unwrap();
        std::fs::rename(&part, self.file(name)).unwrap();
    }
}

impl AsRef<Path> for CertificateFolder {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl Drop for CertificateFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
