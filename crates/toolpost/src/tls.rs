//! Connections to other machines: which certificates are trusted, and where credentials are sent.

use url::{Host, Url};

/// How a client protects its connections to other machines.
///
/// # Examples
///
/// ```
/// use toolpost::ClientTls;
///
/// let tls = ClientTls::default();
/// assert!(tls.check_credentials(&"https://api.example".parse()?).is_ok());
/// assert!(tls.check_credentials(&"http://127.0.0.1:8080".parse()?).is_ok());
/// assert!(tls.check_credentials(&"http://api.example".parse()?).is_err());
/// # Ok::<(), url::ParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientTls {
    /// Trusted CA certificates in PEM, in addition to those of the system.
    pub ca_certificates: Option<String>,
    /// Whether credentials are sent to other machines without encryption.
    pub insecure: bool,
}

/// Error for a URL to which credentials would be sent without encryption.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "credentials would be sent to another machine without encryption; use {scheme}://, or set \
     `insecure` to allow it"
)]
pub struct UnencryptedError {
    scheme: &'static str,
}

impl ClientTls {
    /// Checks that credentials may be sent to a URL: the connection is encrypted, or it does not
    /// leave this machine, or `insecure` is set.
    ///
    /// # Errors
    ///
    /// The credentials would be sent to another machine without encryption.
    pub fn check_credentials(&self, url: &Url) -> Result<(), UnencryptedError> {
        if self.insecure || is_protected(url) {
            return Ok(());
        }
        let scheme = if url.scheme() == "ws" { "wss" } else { "https" };
        Err(UnencryptedError { scheme })
    }

    /// Adds the CA certificates to those that an HTTP client trusts.
    ///
    /// # Errors
    ///
    /// The certificates are invalid.
    #[cfg(any(feature = "mcp", feature = "openapi"))]
    pub fn configure(
        &self,
        builder: reqwest::ClientBuilder,
    ) -> reqwest::Result<reqwest::ClientBuilder> {
        Ok(match &self.ca_certificates {
            Some(pem) => {
                builder.tls_certs_merge(reqwest::Certificate::from_pem_bundle(pem.as_bytes())?)
            }
            None => builder,
        })
    }

    /// Returns the TLS configuration of WebSockets.
    #[cfg(feature = "ws")]
    pub(crate) fn client_config(&self) -> Result<std::sync::Arc<rustls::ClientConfig>, String> {
        use std::sync::Arc;

        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pem = self.ca_certificates.as_deref().unwrap_or_default();
        let extra = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
        let extra = extra.map_err(|_| "the CA file is not a PEM file with certificates")?;
        let verifier =
            rustls_platform_verifier::Verifier::new_with_extra_roots(extra, Arc::clone(&provider));
        let verifier = verifier.map_err(|error| format!("no CA certificates: {error}"))?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        // WebSockets use HTTP/1.1.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// Whether requests to the URL cannot be intercepted: they are encrypted, or sent to a loopback
/// host.
pub(crate) fn is_protected(url: &Url) -> bool {
    matches!(url.scheme(), "https" | "wss") || is_loopback(url)
}

/// Whether the host of the URL is `localhost` or a loopback address.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_require_encryption_or_loopback() {
        for (address, expected) in [
            ("https://a.example", true),
            ("wss://a.example", true),
            ("http://a.example", false),
            ("ws://a.example:7411", false),
            ("ws://192.168.0.2", false),
            ("ws://127.0.0.1:7411", true),
            ("ws://localhost:7411", true),
            ("http://[::1]", true),
            ("http://localhost.evil.example", false),
        ] {
            let url = Url::parse(address).unwrap();
            let mut tls = ClientTls::default();
            assert_eq!(tls.check_credentials(&url).is_ok(), expected, "{address}");
            tls.insecure = true;
            assert!(tls.check_credentials(&url).is_ok(), "{address}");
        }
        let error = ClientTls::default().check_credentials(&Url::parse("ws://a.example").unwrap());
        let message = error.unwrap_err().to_string();
        assert!(message.contains("without encryption; use wss://"), "{message}");
    }
}
