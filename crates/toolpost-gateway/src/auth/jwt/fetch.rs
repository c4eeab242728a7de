//! Requests to the authorization server, limited in time and size. Redirects are not followed.

use std::time::Duration;

use reqwest::{Client, StatusCode, redirect};
use serde::Deserialize;
use url::Url;

use super::jwk::{VerificationKey, parse_jwk_set};
use super::settings::JwtSettings;

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// Error from fetching the keys of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{0} is not reachable")]
    Unreachable(String),
    #[error("{0} returned status {1}")]
    Status(String, u16),
    #[error("{0} returned more than {MAX_RESPONSE_BYTES} bytes")]
    TooLarge(String),
    #[error("{0} returned an unexpected response")]
    InvalidResponse(String),
    #[error("the issuer publishes no metadata that name it and its keys")]
    MetadataNotFound,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// Fetches the issuer's keys from the configured or discovered JWKS URL.
pub(super) async fn fetch_keys(
    client: &Client,
    settings: &JwtSettings,
) -> Result<Vec<VerificationKey>, FetchError> {
    let address = match &settings.jwks {
        Some(address) => address.clone(),
        None => discover_jwks_uri(client, settings).await?,
    };
    let text = get_bytes(client, &address, settings.fetch_timeout).await?;
    parse_jwk_set(&text).ok_or_else(|| FetchError::InvalidResponse(redacted_url(&address)))
}

/// Discovers the JWKS URL from the issuer's metadata. Metadata of another issuer and insecure URLs
/// are ignored.
async fn discover_jwks_uri(client: &Client, settings: &JwtSettings) -> Result<Url, FetchError> {
    let mut last = FetchError::MetadataNotFound;
    for address in metadata_urls(&settings.issuer) {
        match get_bytes(client, &address, settings.fetch_timeout).await {
            Ok(text) => {
                let metadata = serde_json::from_slice::<Metadata>(&text).ok();
                let metadata = metadata.filter(|found| found.issuer == settings.issuer);
                let address = metadata.and_then(|found| Url::parse(&found.jwks_uri).ok());
                if let Some(address) = address.filter(is_secure_url) {
                    return Ok(address);
                }
            }
            Err(FetchError::Status(..)) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns the metadata URLs of an issuer as defined by RFC 8414 and OpenID Connect Discovery.
fn metadata_urls(issuer: &str) -> Vec<Url> {
    let Ok(issuer) = Url::parse(issuer) else { return Vec::new() };
    let path = issuer.path().trim_end_matches('/');
    let paths = [
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("{path}/.well-known/openid-configuration"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    let mut addresses: Vec<Url> = Vec::new();
    for path in paths {
        let mut address = issuer.clone();
        address.set_path(&path);
        address.set_query(None);
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// Whether the URL cannot be intercepted: it uses HTTPS or a loopback host.
pub(crate) fn is_secure_url(address: &Url) -> bool {
    let is_loopback = match address.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    address.scheme() == "https" || address.scheme() == "http" && is_loopback
}

async fn get_bytes(
    client: &Client,
    address: &Url,
    request_timeout: Duration,
) -> Result<Vec<u8>, FetchError> {
    let reading = async {
        let unreachable = |_| FetchError::Unreachable(redacted_url(address));
        let request = client.get(address.clone()).header("accept", "application/json");
        let mut response = request.send().await.map_err(unreachable)?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(redacted_url(address), response.status().as_u16()));
        }
        let mut text = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if text.len() + chunk.len() > MAX_RESPONSE_BYTES {
                return Err(FetchError::TooLarge(redacted_url(address)));
            }
            text.extend_from_slice(&chunk);
        }
        Ok(text)
    };
    let read = tokio::time::timeout(request_timeout, reading).await;
    read.unwrap_or_else(|_| Err(FetchError::Unreachable(redacted_url(address))))
}

/// Formats a URL for messages, without the query and the password, which may be secret.
fn redacted_url(address: &Url) -> String {
    let mut redacted = address.clone();
    redacted.set_query(None);
    let _ = redacted.set_password(None);
    redacted.into()
}

/// Builds the HTTP client. It does not follow redirects: keys are only read from the configured
/// URL.
pub(super) fn build_client() -> Option<Client> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().redirect(redirect::Policy::none()).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_urls_follow_rfc8414_and_oidc() {
        let found = |issuer: &str| -> Vec<String> {
            metadata_urls(issuer).into_iter().map(Into::into).collect()
        };
        assert_eq!(
            found("https://as.example"),
            [
                "https://as.example/.well-known/oauth-authorization-server",
                "https://as.example/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            found("https://as.example/tenant/"),
            [
                "https://as.example/.well-known/oauth-authorization-server/tenant",
                "https://as.example/tenant/.well-known/openid-configuration",
                "https://as.example/.well-known/openid-configuration/tenant",
            ]
        );
    }

    #[test]
    fn key_url_requires_tls_or_loopback() {
        for (address, expected) in [
            ("https://as.example/keys", true),
            ("http://as.example/keys", false),
            ("http://127.0.0.1:80/keys", true),
            ("http://[::1]/keys", true),
            ("http://localhost/keys", true),
            ("http://localhost.evil.example/keys", false),
            ("ftp://as.example/keys", false),
            ("file:///keys", false),
        ] {
            assert_eq!(is_secure_url(&Url::parse(address).unwrap()), expected, "{address}");
        }
    }
}
