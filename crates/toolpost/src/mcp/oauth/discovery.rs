//! Discovers the authorization server of an MCP server.

use serde::de::DeserializeOwned;
use url::Url;

use super::error::{OAuthError, redact_url};
use super::fetch::{FetchClient, endpoint_error, invalid_response};
use super::metadata::{
    AuthorizationServer, AuthorizationServerMetadata, PkceRequirement, ProtectedResourceMetadata,
};
use super::scope;
use super::url_policy;
use crate::http::excerpt;
use crate::json::error_message;
use crate::token_endpoint::TokenError;

const RESOURCE_METADATA: &str = "metadata of the MCP server";
const SERVER_METADATA: &str = "metadata of the authorization server";

/// The authorization server of a resource.
#[derive(Debug, Clone)]
pub(super) struct DiscoveryResult {
    /// Resource identifier for the authorization server, as in the metadata if there is any.
    pub(super) resource: String,
    /// Scopes from the metadata of the resource.
    pub(super) scopes: Vec<String>,
    pub(super) server: AuthorizationServer,
}

/// Discovers the authorization server of a resource. `hint` is the metadata URL that the server
/// stated, and `known` are the issuers with stored credentials.
pub(super) async fn discover(
    http: &FetchClient,
    resource: &Url,
    hint: Option<&str>,
    known: &[String],
) -> Result<DiscoveryResult, OAuthError> {
    let document = fetch_resource_metadata(http, resource, hint).await?;
    let Some(document) = document else {
        // 2025-03-26: the MCP server is its own authorization server.
        let server = resource_as_server(http, resource).await?;
        let resource = url_policy::canonical_resource(resource);
        return Ok(DiscoveryResult { resource, scopes: Vec::new(), server });
    };
    // An issuer with stored credentials is preferred.
    let is_known =
        |server: &&String| known.iter().any(|known| url_policy::is_same_issuer(known, server));
    let issuers = &document.authorization_servers;
    let server = match issuers.iter().find(is_known).or_else(|| issuers.first()) {
        Some(issuer) => fetch_server(http, issuer).await?,
        None => resource_as_server(http, resource).await?,
    };
    let scopes = scope::valid_scopes(&document.scopes_supported);
    Ok(DiscoveryResult { resource: document.resource, scopes, server })
}

async fn fetch_resource_metadata(
    http: &FetchClient,
    resource: &Url,
    hint: Option<&str>,
) -> Result<Option<ProtectedResourceMetadata>, OAuthError> {
    let hint = hint.map(|hint| http.url_policy.parse(RESOURCE_METADATA, hint)).transpose()?;
    let mut urls: Vec<Url> = hint.clone().into_iter().collect();
    let defaults = url_policy::resource_metadata_urls(resource);
    urls.extend(defaults.into_iter().filter(|url| Some(url) != hint.as_ref()));
    let probed = probe::<ProtectedResourceMetadata>(http, RESOURCE_METADATA, &urls).await?;
    let (document, url) = match probed {
        Some(found) => found,
        None if hint.is_some() => {
            return Err(no_metadata(&url_policy::canonical_resource(resource), &urls));
        }
        None => return Ok(None),
    };
    if !url_policy::covers_resource(&document.resource, resource) {
        return Err(OAuthError::Metadata(format!(
            "the metadata at `{}` describes the resource `{}` instead of `{}`",
            redact_url(url.as_str()),
            redact_url(&document.resource),
            redact_url(resource.as_str()),
        )));
    }
    Ok(Some(document))
}

async fn fetch_server(http: &FetchClient, issuer: &str) -> Result<AuthorizationServer, OAuthError> {
    let url = http.url_policy.parse("authorization server", issuer)?;
    let urls = url_policy::server_metadata_urls(&url);
    let server = fetch_server_metadata(http, issuer, &urls, PkceRequirement::Advertised).await?;
    server.ok_or_else(|| no_metadata(&redact_url(issuer), &urls))
}

async fn resource_as_server(
    http: &FetchClient,
    resource: &Url,
) -> Result<AuthorizationServer, OAuthError> {
    let defaults = AuthorizationServer::with_default_endpoints(resource);
    let urls = url_policy::server_metadata_urls(&url_policy::with_path(resource, "/"));
    let server =
        fetch_server_metadata(http, &defaults.issuer, &urls, PkceRequirement::Assumed).await?;
    Ok(server.unwrap_or(defaults))
}

async fn fetch_server_metadata(
    http: &FetchClient,
    issuer: &str,
    urls: &[Url],
    pkce: PkceRequirement,
) -> Result<Option<AuthorizationServer>, OAuthError> {
    let probed = probe::<AuthorizationServerMetadata>(http, SERVER_METADATA, urls).await?;
    let Some((document, url)) = probed else { return Ok(None) };
    if !url_policy::is_same_issuer(&document.issuer, issuer) {
        return Err(OAuthError::Metadata(format!(
            "the metadata at `{}` names the issuer `{}` instead of `{}`",
            redact_url(url.as_str()),
            redact_url(&document.issuer),
            redact_url(issuer),
        )));
    }
    AuthorizationServer::new(document, http.url_policy, pkce).map(Some)
}

/// Tries each URL until one returns the document. Returns `None` if it is not found, and fails with
/// the first unexpected response if there is one.
///
/// Many servers respond to an unknown path with a page or a redirect, so an unexpected response
/// does not end the search. An unreachable server does.
async fn probe<T: DeserializeOwned>(
    http: &FetchClient,
    what: &'static str,
    urls: &[Url],
) -> Result<Option<(T, Url)>, OAuthError> {
    let mut problem = None;
    for url in urls {
        let failed = match http.get(what, url).await {
            Ok(response) if response.status == 200 => {
                match serde_json::from_slice(&response.body) {
                    Ok(document) => return Ok(Some((document, url.clone()))),
                    // Ignore HTML pages, and report JSON with an unexpected structure.
                    Err(error) if response.body.first() == Some(&b'{') => {
                        invalid_response(what, url, excerpt(&error_message(&error)))
                    }
                    Err(_) => continue,
                }
            }
            Ok(response) if response.status.is_client_error() && response.status != 429 => continue,
            Ok(response) => endpoint_error(what, url, TokenError::Status(response.status)),
            Err(error @ OAuthError::InvalidResponse { .. }) => error,
            Err(error) => return Err(error),
        };
        problem.get_or_insert(failed);
    }
    problem.map_or(Ok(None), Err)
}

fn no_metadata(issuer: &str, tried: &[Url]) -> OAuthError {
    let tried: Vec<String> = tried.iter().map(|url| redact_url(url.as_str())).collect();
    OAuthError::Metadata(format!(
        "the authorization server `{issuer}` publishes no metadata; tried {}",
        tried.join(", ")
    ))
}
