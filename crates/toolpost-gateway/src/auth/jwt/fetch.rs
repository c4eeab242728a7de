//! Requests to the authorization server: bounded in time and size, and to no other host.

use std::time::Duration;

use reqwest::{Client, StatusCode, redirect};
use serde::Deserialize;
use url::Url;

use super::key::{Key, read_set};
use super::settings::JwtSettings;

/// The largest answer that is read.
const MOST_BYTES: usize = 1024 * 1024;

/// Why there are no keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FetchError {
    #[error("{0} is not reachable")]
    Unreachable(String),
    #[error("{0} answered {1}")]
    Status(String, u16),
    #[error("{0} answered with more than {MOST_BYTES} bytes")]
    TooLarge(String),
    #[error("{0} answered with something else than was asked for")]
    Odd(String),
    #[error("the issuer publishes no metadata that name it and its keys")]
    NoMetadata,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// The keys of the issuer, from where they are said to be.
pub(super) async fn keys(client: &Client, settings: &JwtSettings) -> Result<Vec<Key>, FetchError> {
    let address = match &settings.jwks {
        Some(address) => address.clone(),
        None => discover(client, settings).await?,
    };
    let text = get(client, &address, settings.fetch_timeout).await?;
    read_set(&text).ok_or_else(|| FetchError::Odd(shown(&address)))
}

/// Where the issuer says that its keys are. Metadata of somebody else are not believed, and neither
/// are keys that anybody on the way could replace.
async fn discover(client: &Client, settings: &JwtSettings) -> Result<Url, FetchError> {
    let mut last = FetchError::NoMetadata;
    for address in metadata_addresses(&settings.issuer) {
        match get(client, &address, settings.fetch_timeout).await {
            Ok(text) => {
                let metadata = serde_json::from_slice::<Metadata>(&text).ok();
                let metadata = metadata.filter(|found| found.issuer == settings.issuer);
                let address = metadata.and_then(|found| Url::parse(&found.jwks_uri).ok());
                if let Some(address) = address.filter(is_safe) {
                    return Ok(address);
                }
            }
            Err(FetchError::Status(..)) => {}
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// As RFC 8414 and OpenID Connect put them.
fn metadata_addresses(issuer: &str) -> Vec<Url> {
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

/// Whether nobody on the way can answer instead: TLS, or this machine.
pub(crate) fn is_safe(address: &Url) -> bool {
    let is_loopback = match address.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    };
    address.scheme() == "https" || address.scheme() == "http" && is_loopback
}

async fn get(client: &Client, address: &Url, limit: Duration) -> Result<Vec<u8>, FetchError> {
    let reading = async {
        let unreachable = |_| FetchError::Unreachable(shown(address));
        let request = client.get(address.clone()).header("accept", "application/json");
        let mut response = request.send().await.map_err(unreachable)?;
        if response.status() != StatusCode::OK {
            return Err(FetchError::Status(shown(address), response.status().as_u16()));
        }
        let mut text = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if text.len() + chunk.len() > MOST_BYTES {
                return Err(FetchError::TooLarge(shown(address)));
            }
            text.extend_from_slice(&chunk);
        }
        Ok(text)
    };
    let read = tokio::time::timeout(limit, reading).await;
    read.unwrap_or_else(|_| Err(FetchError::Unreachable(shown(address))))
}

/// An address as it may be told: a query may hold a secret.
fn shown(address: &Url) -> String {
    let mut shown = address.clone();
    shown.set_query(None);
    let _ = shown.set_password(None);
    shown.into()
}

/// Redirects are not followed: keys are where they are said to be.
pub(super) fn client() -> Option<Client> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().redirect(redirect::Policy::none()).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_are_looked_for_where_they_can_be() {
        let found = |issuer: &str| -> Vec<String> {
            metadata_addresses(issuer).into_iter().map(Into::into).collect()
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
    fn keys_come_by_tls_or_from_this_machine() {
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
            assert_eq!(is_safe(&Url::parse(address).unwrap()), expected, "{address}");
        }
    }
}
