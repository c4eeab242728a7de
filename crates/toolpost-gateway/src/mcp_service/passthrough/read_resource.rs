//! Reads a resource by its qualified URI or by the URI that its source uses.

use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::{Map, Value, json};
use toolpost::mcp::server_error;
use toolpost::view::ProtocolGeneration;
use toolpost::{CallError, ErrorCode};

use toolpost::json_rpc::RpcError;

use super::list::{RESOURCES, TEMPLATES};
use super::list_page::ListEntry;
use super::qualified_name::{NameForm, matches_template};
use super::result_hints::ResultHints;
use super::source_methods::{SourceMethods, route, source_methods};
use super::{MISSING_META, Passthrough, READ, string_param};

/// How well a source matches a URI, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ResourceMatch {
    /// The source lists the URI.
    Listed,
    /// A template of the source matches the URI.
    Template,
    /// It does not list the URI, but lists others with the same scheme.
    SameScheme,
    /// It lists nothing with this scheme. It is not queried, since a URI may be confidential.
    None,
}

impl Passthrough<'_> {
    /// Reads a resource. A qualified URI is routed to its source. Any other URI is one that a
    /// source uses itself, such as in a resource link of a tool result.
    pub(super) async fn read_resource(
        &self,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, RpcError> {
        let uri = string_param(&params, "uri")?.to_owned();
        let mut sources = source_methods(self.client);
        sources.retain(|source| source.supports(READ));
        if let Some((source, own)) = route(sources.iter(), NameForm::Uri, &uri) {
            return Ok(self.read_from(source, own, params, None).await?);
        }
        match sources.as_slice() {
            [only] => Ok(self.read_from(only, &uri, params, None).await?),
            sources => self.read_from_candidates(sources, &uri, params).await,
        }
    }

    /// Queries the sources from the best match to the worst and returns the first result.
    async fn read_from_candidates(
        &self,
        sources: &[SourceMethods],
        uri: &str,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, RpcError> {
        let claims = join_all(sources.iter().map(|source| self.match_resource(source, uri))).await;
        let (mut candidates, mut rejection, mut missing) = (Vec::new(), None, Vec::new());
        for (source, claim) in sources.iter().zip(claims) {
            match claim {
                Ok(claim) => candidates.push((claim, source)),
                Err(error) => missing.push(source.missing_entry(&error)),
            }
        }
        candidates.retain(|(claim, _)| *claim != ResourceMatch::None);
        candidates.sort_by_key(|(claim, _)| *claim);
        // Input responses and state belong to one source and must not be sent to another.
        let client_channel = self.client_channel.filter(|_| candidates.len() == 1);
        let passthrough = Passthrough { client_channel, ..*self };
        for (claim, source) in candidates {
            // A source that does not list the URI must not delay the others.
            let timeout = (claim == ResourceMatch::SameScheme).then_some(self.source_timeout());
            match passthrough.read_from(source, uri, params.clone(), timeout).await {
                Ok(result) => return Ok(result),
                Err(error) if claim != ResourceMatch::SameScheme => {
                    rejection = rejection.or(Some(error));
                }
                Err(error) if server_error(&error).is_some() => {}
                Err(error) => missing.push(source.missing_entry(&error)),
            }
        }
        // The error of a source that lists the URI, directly or by a template, takes precedence.
        Err(match rejection {
            Some(error) => error.into(),
            None => unknown_resource(self.client.generation, uri, &missing),
        })
    }

    async fn read_from(
        &self,
        source: &SourceMethods,
        uri: &str,
        mut params: Map<String, Value>,
        timeout: Option<Duration>,
    ) -> Result<Vec<u8>, CallError> {
        let operation = source.operation(READ).expect("the source was selected by this method");
        params.insert("uri".to_owned(), uri.into());
        self.forward(
            operation,
            params,
            timeout,
            ResultHints::Cached(self.cache_visibility(source, READ)),
        )
        .await
    }

    /// Matches a URI against the lists of a source. A source without lists does not match. Fails if
    /// the source is unavailable, so that further requests to it are useless.
    pub(super) async fn match_resource(
        &self,
        source_methods: &SourceMethods,
        uri: &str,
    ) -> Result<ResourceMatch, CallError> {
        let (mut by_list, mut by_template) = (ResourceMatch::None, ResourceMatch::None);
        let same_scheme = |name: &str| match scheme(name) == scheme(uri) {
            true => ResourceMatch::SameScheme,
            false => ResourceMatch::None,
        };
        let mut look = |entry: ListEntry<'_>| {
            by_list = by_list.min(match entry.name == uri {
                true => ResourceMatch::Listed,
                false => same_scheme(&entry.name),
            });
        };
        let mut compare = |entry: ListEntry<'_>| {
            by_template = by_template.min(match matches_template(&entry.name, uri) {
                true => ResourceMatch::Template,
                false => same_scheme(&entry.name),
            });
        };
        let listing = self.for_each_entry(&RESOURCES, source_methods, &mut look);
        let matching = self.for_each_entry(&TEMPLATES, source_methods, &mut compare);
        let (listed, matched) = join(listing, matching).await;
        for error in [listed, matched].into_iter().filter_map(Result::err) {
            if *error.code() == ErrorCode::Unavailable {
                return Err(error);
            }
            tracing::debug!(source = source_methods.label, %error, "listing resources of a source failed");
        }
        Ok(by_list.min(by_template))
    }
}

/// The error for a URI that no source has. `missing` lists the sources that could not be queried.
pub(super) fn unknown_resource(
    generation: ProtocolGeneration,
    uri: &str,
    missing: &[Value],
) -> RpcError {
    /// Error code for clients before 2026-07-28.
    const RESOURCE_NOT_FOUND: i64 = -32_002;
    let uri = &uri[..uri.floor_char_boundary(500)];
    let mut data = json!({"uri": uri});
    if !missing.is_empty() {
        data[MISSING_META] = missing.into();
    }
    let code = match generation {
        ProtocolGeneration::Modern => RpcError::INVALID_PARAMS,
        _ => RESOURCE_NOT_FOUND,
    };
    RpcError { data: Some(data), ..RpcError::new(code, format!("unknown resource `{uri}`")) }
}

/// Returns the text before the first colon.
fn scheme(uri: &str) -> Option<&str> {
    uri.split_once(':').map(|(scheme, _)| scheme)
}
