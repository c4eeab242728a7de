//! Subscriptions to resource updates of a source.

use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;
use toolpost::view::ProtocolGeneration;
use toolpost::{CallError, CallRequest, Endpoint, Subscription};

use super::JsonRpcError;
use super::qualified_name::NameForm;
use super::read_resource::ResourceMatch;
use super::source_methods::{self, SourceMethods};
use super::{Passthrough, READ, SUBSCRIBE};

/// Maximum time for a source to confirm a subscription of a client before 2026-07-28. A later
/// client subscribes to all its resources in one request, so the source timeout applies to each of
/// them.
const LEGACY_CONFIRM_TIMEOUT: Duration = Duration::from_secs(60);

impl Passthrough<'_> {
    /// Subscribes to a resource on behalf of a caller with read access. Returns the operation id
    /// and a subscription with a value for each update.
    pub(in crate::endpoint::mcp) async fn subscribe(
        &self,
        uri: &str,
    ) -> Result<(String, Subscription), JsonRpcError> {
        let mut sources = self.source_methods();
        sources.retain(|source| source.supports(READ));
        let (source, own) = match source_methods::route(sources.iter(), NameForm::Uri, uri) {
            Some(found) => found,
            None => match sources.as_slice() {
                [only] => (only, uri),
                sources => (self.best_match(sources, uri).await?, uri),
            },
        };
        let Some(operation) = source.operation(SUBSCRIBE) else {
            return Err(subscriptions_unsupported(source));
        };
        let id = operation.id().as_str();
        let request = CallRequest::new(id, json!({"uri": own})).endpoint(Endpoint::Mcp);
        let mut changes = self.pipeline.start_subscription(request, self.caller.clone());
        let confirm_timeout = if self.generation == ProtocolGeneration::Modern {
            self.source_timeout
        } else {
            LEGACY_CONFIRM_TIMEOUT
        };
        let first = tokio::time::timeout(confirm_timeout, changes.next()).await;
        match first {
            Ok(Some(Ok(_))) => Ok((id.to_owned(), changes)),
            Ok(Some(Err(error))) => Err(error.into()),
            Ok(None) => {
                Err(CallError::unavailable("the source closed the subscription immediately").into())
            }
            Err(_) => Err(CallError::timeout(format!(
                "subscription not confirmed within {confirm_timeout:?}"
            ))
            .into()),
        }
    }

    /// Returns the source that matches an unqualified URI best. Of equal matches, a source that
    /// supports subscriptions is preferred.
    async fn best_match<'o>(
        &self,
        sources: &'o [SourceMethods],
        uri: &str,
    ) -> Result<&'o SourceMethods, JsonRpcError> {
        let claims = join_all(sources.iter().map(|source| self.match_resource(source, uri))).await;
        let claims =
            sources.iter().zip(claims).filter_map(|(source, claim)| Some((claim.ok()?, source)));
        let surest = claims
            .filter(|(claim, _)| matches!(claim, ResourceMatch::Listed | ResourceMatch::Template))
            .min_by_key(|(claim, source)| (*claim, !source.supports(SUBSCRIBE)));
        surest
            .map(|(_, source)| source)
            .ok_or_else(|| JsonRpcError::unknown_resource(self.generation, uri, &[]))
    }
}

/// The error for a source that does not support resource subscriptions.
fn subscriptions_unsupported(source_methods: &SourceMethods) -> JsonRpcError {
    let read = source_methods.operation(READ).map(|operation| operation.id().as_str());
    let source = read.and_then(|id| id.strip_suffix(READ)?.strip_suffix('.')).unwrap_or_default();
    let message = format!("the source `{source}` does not support resource subscriptions");
    JsonRpcError::new(JsonRpcError::METHOD_NOT_FOUND, message)
}
