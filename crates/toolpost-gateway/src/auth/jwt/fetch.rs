//! Requests to the authorization server, limited in time and size. Redirects are not followed.

use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde::Deserialize;
use toolpost::http::{FetchError, FetchLimits, fetch, is_secure_url, redact_url};
use url::Url;

use super::jwk::{VerificationKey, parse_jwk_set};
use super::settings::JwtSettings;

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;

/// Error from fetching the keys of an issuer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum KeyFetchError {
    #[error("{0} is not reachable")]
    Unreachable(String),
    #[error("{0} returned status {1}")]
    Status(String, u16),
    #[error("{0} returned more than {MAX_RESPONSE_BYTES} bytes")]
    TooLarge(String),
    #[error("{0} returned an unexpected response")]
    InvalidResponse(String),
    #[error("the issuer publishes no metadata with its `issuer` and `jwks_uri`")]
    MetadataNotFound,
    /// With the error of the last attempt.
    #[error("{0}; it is retried later")]
    RecentlyFailed(String),
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
) -> Result<Vec<VerificationKey>, KeyFetchError> {
    let address = match &settings.jwks {
        Some(address) => address.clone(),
        None => discover_jwks_uri(client, settings).await?,
    };
    let text = get_bytes(client, &address, settings.fetch_timeout).await?;
    parse_jwk_set(&text).ok_or_else(|| KeyFetchError::InvalidResponse(redact_url(&address)))
}

/// Discovers the JWKS URL. Metadata of another issuer and insecure URLs are ignored.
async fn discover_jwks_uri(client: &Client, settings: &JwtSettings) -> Result<Url, KeyFetchError> {
    let mut last = KeyFetchError::MetadataNotFound;
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
            Err(KeyFetchError::Status(..)) => {}
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
    let mut addresses = Vec::from(paths.map(|path| {
        let mut address = issuer.clone();
        address.set_path(&path);
        address.set_query(None);
        address
    }));
    addresses.dedup();
    addresses
}

async fn get_bytes(
    client: &Client,
    address: &Url,
    timeout: Duration,
) -> Result<Vec<u8>, KeyFetchError> {
    let request = client.get(address.clone()).header("accept", "application/json");
    let location = redact_url(address);
    match fetch(request, FetchLimits { timeout, max_bytes: MAX_RESPONSE_BYTES }).await {
        Ok(response) if response.status == StatusCode::OK => Ok(response.body),
        Ok(response) => Err(KeyFetchError::Status(location, response.status.as_u16())),
        Err(FetchError::TooLarge(_)) => Err(KeyFetchError::TooLarge(location)),
        Err(_) => Err(KeyFetchError::Unreachable(location)),
    }
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
}
