//! A resource by its address here or at its source.

use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::{Map, Value};
use toolpost::mcp::server_error;
use toolpost::{CallError, ErrorCode};

use super::JsonRpcError;
use super::list::{RESOURCES, TEMPLATES};
use super::list_page::ListEntry;
use super::qualified_name::{self, NameForm};
use super::raw_object::ResultHints;
use super::source_methods::{self, SourceMethods};
use super::{Passthrough, READ, string_param};

/// How sure it is that a source has a resource; the surest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ResourceMatch {
    /// It lists the address.
    Listed,
    /// One of its templates could make it.
    Template,
    /// It says nothing about it, and lists others of the same scheme.
    SameScheme,
    /// It has nothing of that kind, and is not asked: an address may hold what is not for everybody.
    None,
}

impl Passthrough<'_> {
    /// An address that names its source goes there. Any other is one that a source used itself, as in
    /// a link that its tool gave.
    pub(super) async fn read_resource(
        &self,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, JsonRpcError> {
        let uri = string_param(&params, "uri")?.to_owned();
        let mut sources = self.source_methods();
        sources.retain(|source| source.supports(READ));
        if let Some((source, own)) = source_methods::route(sources.iter(), NameForm::Uri, &uri) {
            return Ok(self.read_from(source, own, params, None).await?);
        }
        match sources.as_slice() {
            [only] => Ok(self.read_from(only, &uri, params, None).await?),
            sources => self.read_from_candidates(sources, &uri, params).await,
        }
    }

    /// Asks those who claim the address, then the others; the first who can read it answers.
    async fn read_from_candidates(
        &self,
        sources: &[SourceMethods],
        uri: &str,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, JsonRpcError> {
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
        // What the client brings along is for one source, and must not be told to another.
        let client_channel = self.client_channel.filter(|_| candidates.len() == 1);
        let passthrough = Passthrough { client_channel, ..*self };
        for (claim, source) in candidates {
            // Whoever claims nothing may not keep the others waiting.
            let timeout = (claim == ResourceMatch::SameScheme).then_some(self.source_timeout);
            match passthrough.read_from(source, uri, params.clone(), timeout).await {
                Ok(result) => return Ok(result),
                Err(error) if claim != ResourceMatch::SameScheme => {
                    rejection = rejection.or(Some(error));
                }
                Err(error) if server_error(&error).is_some() => {}
                Err(error) => missing.push(source.missing_entry(&error)),
            }
        }
        // Whoever claims an address knows best why it cannot be read.
        Err(match rejection {
            Some(error) => error.into(),
            None => JsonRpcError::unknown_resource(self.generation, uri, &missing),
        })
    }

    async fn read_from(
        &self,
        source: &SourceMethods,
        uri: &str,
        mut params: Map<String, Value>,
        timeout: Option<Duration>,
    ) -> Result<Vec<u8>, CallError> {
        let operation = source.operation(READ).expect("the offer was chosen by it");
        params.insert("uri".to_owned(), uri.into());
        self.forward(
            operation,
            params,
            timeout,
            ResultHints::Cached(self.cache_visibility(source, READ)),
        )
        .await
    }

    /// What the lists of a source say about an address; one that has none says nothing.
    ///
    /// # Errors
    ///
    /// It is away, so that asking it for more is of no use.
    pub(super) async fn match_resource(
        &self,
        source_methods: &SourceMethods,
        uri: &str,
    ) -> Result<ResourceMatch, CallError> {
        let (mut is_listed, mut is_likely) = (false, false);
        let (mut is_alike, mut is_made_alike) = (false, false);
        let mut look = |entry: ListEntry<'_>| {
            is_listed |= entry.name == uri;
            is_alike |= scheme(&entry.name) == scheme(uri);
        };
        let mut compare = |entry: ListEntry<'_>| {
            is_likely |= qualified_name::matches_template(&entry.name, uri);
            is_made_alike |= scheme(&entry.name) == scheme(uri);
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
        Ok(match (is_listed, is_likely) {
            (true, _) => ResourceMatch::Listed,
            (false, true) => ResourceMatch::Template,
            (false, false) if is_alike || is_made_alike => ResourceMatch::SameScheme,
            (false, false) => ResourceMatch::None,
        })
    }
}

/// What stands before the first colon.
fn scheme(uri: &str) -> Option<&str> {
    uri.split_once(':').map(|(scheme, _)| scheme)
}
