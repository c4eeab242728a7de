//! Finding out who gives tokens for a server, and how.

use serde::de::DeserializeOwned;
use url::Url;

use super::address;
use super::error::{OAuthError, excerpt, shown};
use super::fetch::{Answer, Http};
use super::metadata::{Pkce, ResourceDocument, Server, ServerDocument};
use super::scope;

const RESOURCE_METADATA: &str = "metadata of the MCP server";
const SERVER_METADATA: &str = "metadata of the authorization server";

/// Who gives tokens for a server, and how.
#[derive(Debug, Clone)]
pub(super) struct Discovered {
    /// What the resource is called toward the authorization server, sign by sign.
    pub(super) resource: String,
    /// What its metadata proposes to ask for.
    pub(super) scopes: Vec<String>,
    pub(super) server: Server,
}

/// Finds the authorization server of a resource. `hint` is where the server says its metadata is,
/// and `known` are the issuers that there are credentials of already.
pub(super) async fn discover(
    http: &Http,
    resource: &Url,
    hint: Option<&str>,
    known: &[String],
) -> Result<Discovered, OAuthError> {
    let document = resource_document(http, resource, hint).await?;
    let Some(document) = document else {
        // As 2025-03-26 has it: the server is its own authorization server.
        let server = own_server(http, resource).await?;
        let resource = address::canonical(resource);
        return Ok(Discovered { resource, scopes: Vec::new(), server });
    };
    let server = match choose(&document.authorization_servers, known) {
        Some(issuer) => named_server(http, issuer).await?,
        None => own_server(http, resource).await?,
    };
    let scopes = scope::clean(&document.scopes_supported);
    Ok(Discovered { resource: document.resource, scopes, server })
}

/// One of several servers: one that is known already, else the first.
fn choose<'a>(servers: &'a [String], known: &[String]) -> Option<&'a String> {
    let is_known = |server: &&String| known.iter().any(|known| address::same_issuer(known, server));
    servers.iter().find(is_known).or_else(|| servers.first())
}

async fn resource_document(
    http: &Http,
    resource: &Url,
    hint: Option<&str>,
) -> Result<Option<ResourceDocument>, OAuthError> {
    let hint = hint.map(|hint| http.reach.parse(RESOURCE_METADATA, hint)).transpose()?;
    let mut places: Vec<Url> = hint.clone().into_iter().collect();
    let usual = address::resource_metadata(resource);
    places.extend(usual.into_iter().filter(|place| Some(place) != hint.as_ref()));
    let probed = probe::<ResourceDocument>(http, RESOURCE_METADATA, &places).await?;
    let (document, place) = match probed {
        Probed::Found(document, place) => (document, place),
        Probed::Missing(Some(problem)) => return Err(problem),
        Probed::Missing(None) if hint.is_some() => {
            let issuer = address::canonical(resource);
            return Err(OAuthError::NoMetadata { issuer, tried: list(&places) });
        }
        Probed::Missing(None) => return Ok(None),
    };
    if !address::is_about(&document.resource, resource) {
        return Err(OAuthError::ResourceMismatch {
            address: shown(place.as_str()),
            stated: shown(&document.resource),
            resource: shown(resource.as_str()),
        });
    }
    Ok(Some(document))
}

async fn named_server(http: &Http, issuer: &str) -> Result<Server, OAuthError> {
    let url = http.reach.parse("authorization server", issuer)?;
    let places = address::server_metadata(&url);
    match server_at(http, issuer, &places, Pkce::Stated).await? {
        Probed::Found(server, _) => Ok(server),
        Probed::Missing(Some(problem)) => Err(problem),
        Probed::Missing(None) => {
            Err(OAuthError::NoMetadata { issuer: shown(issuer), tried: list(&places) })
        }
    }
}

async fn own_server(http: &Http, resource: &Url) -> Result<Server, OAuthError> {
    let usual = Server::usual(resource);
    let places = address::server_metadata(&address::at(resource, "/"));
    match server_at(http, &usual.issuer, &places, Pkce::Assumed).await? {
        Probed::Found(server, _) => Ok(server),
        Probed::Missing(Some(problem)) => Err(problem),
        Probed::Missing(None) => Ok(usual),
    }
}

async fn server_at(
    http: &Http,
    issuer: &str,
    places: &[Url],
    pkce: Pkce,
) -> Result<Probed<Server>, OAuthError> {
    let probed = probe::<ServerDocument>(http, SERVER_METADATA, places).await?;
    let (document, place) = match probed {
        Probed::Found(document, place) => (document, place),
        Probed::Missing(problem) => return Ok(Probed::Missing(problem)),
    };
    if !address::same_issuer(&document.issuer, issuer) {
        return Err(OAuthError::IssuerMismatch {
            address: shown(place.as_str()),
            stated: shown(&document.issuer),
            expected: shown(issuer),
        });
    }
    Ok(Probed::Found(Server::new(document, http.reach, pkce)?, place))
}

enum Probed<T> {
    Found(T, Url),
    /// Nowhere; with the first answer that was not a plain "not here".
    Missing(Option<OAuthError>),
}

/// Looks at one place after another until there is a document.
///
/// Many servers answer a path they do not know with a page or a redirect, so an answer that is not
/// the document does not end the search. A server that cannot be reached does.
async fn probe<T: DeserializeOwned>(
    http: &Http,
    what: &'static str,
    places: &[Url],
) -> Result<Probed<T>, OAuthError> {
    let mut problem = None;
    for place in places {
        let failed = match http.get(what, place).await {
            Ok(answer) if answer.status == 200 => match document(&answer) {
                Ok(document) => return Ok(Probed::Found(document, place.clone())),
                // A page for people says nothing; JSON of another shape is a mistake to be shown.
                Err(error) if answer.body.first() == Some(&b'{') => error,
                Err(_) => continue,
            },
            Ok(answer) if (400..500).contains(&answer.status) && answer.status != 429 => continue,
            Ok(answer) => answer.unusable(format!("it has status {}", answer.status)),
            Err(error @ OAuthError::Answer { .. }) => error,
            Err(error) => return Err(error),
        };
        problem.get_or_insert(failed);
    }
    Ok(Probed::Missing(problem))
}

fn document<T: DeserializeOwned>(answer: &Answer) -> Result<T, OAuthError> {
    serde_json::from_slice(&answer.body)
        .map_err(|error| answer.unusable(excerpt(&error.to_string())))
}

fn list(places: &[Url]) -> String {
    let places: Vec<String> = places.iter().map(|place| shown(place.as_str())).collect();
    places.join(", ")
}
