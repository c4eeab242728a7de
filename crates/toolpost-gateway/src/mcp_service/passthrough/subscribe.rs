//! Subscriptions to resource updates of a source.

use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;
use toolpost::view::ProtocolGeneration;
use toolpost::{CallError, CallRequest, Subscription};

use toolpost::json_rpc::RpcError;

use super::qualified_name::NameForm;
use super::read_resource::{ResourceMatch, unknown_resource};
use super::source_methods::{SourceMethods, route, source_methods};
use super::{Passthrough, READ, SUBSCRIBE};

/// Maximum time for a source to confirm a subscription of a client before 2026-07-28. For a later
/// client, which subscribes to all resources in one request, it is the source timeout.
const LEGACY_CONFIRM_TIMEOUT: Duration = Duration::from_secs(60);

impl Passthrough<'_> {
    /// Subscribes to a resource on behalf of a caller with read access. Returns the operation id
    /// and a subscription with a value for each update.
    pub(in crate::mcp_service) async fn subscribe(
        &self,
        uri: &str,
    ) -> Result<(String, Subscription), RpcError> {
        let mut sources = source_methods(self.client);
        sources.retain(|source| source.supports(READ));
        let (source, own) = match route(sources.iter(), NameForm::Uri, uri) {
            Some(found) => found,
            None => match sources.as_slice() {
                [only] => (only, uri),
                sources => (self.best_match(sources, uri).await?, uri),
            },
        };
        let operation = source.operation(SUBSCRIBE).ok_or_else(|| {
            let read = source.operation(READ).map(|operation| operation.id().as_str());
            let name = read.and_then(|id| id.strip_suffix(READ)?.strip_suffix('.'));
            let name = name.unwrap_or_default();
            let message = format!("the source `{name}` does not support resource subscriptions");
            RpcError::new(RpcError::METHOD_NOT_FOUND, message)
        })?;
        let request = CallRequest::resolved(operation, json!({"uri": own}));
        let request = request.endpoint(self.client.endpoint);
        let pipeline = &self.client.service.pipeline;
        let mut changes = pipeline.start_subscription(request, self.client.authority());
        let confirm_timeout = match self.client.generation {
            ProtocolGeneration::Modern => self.source_timeout(),
            _ => LEGACY_CONFIRM_TIMEOUT,
        };
        let first = tokio::time::timeout(confirm_timeout, changes.next()).await.map_err(|_| {
            CallError::timeout(format!("subscription not confirmed within {confirm_timeout:?}"))
        })?;
        let closed = || CallError::unavailable("the source closed the subscription immediately");
        first.ok_or_else(closed)??;
        Ok((operation.id().to_string(), changes))
    }

    /// Returns the source that matches an unqualified URI best. Of equal matches, a source that
    /// supports subscriptions is preferred.
    async fn best_match<'o>(
        &self,
        sources: &'o [SourceMethods],
        uri: &str,
    ) -> Result<&'o SourceMethods, RpcError> {
        let claims = join_all(sources.iter().map(|source| self.match_resource(source, uri))).await;
        let claims =
            sources.iter().zip(claims).filter_map(|(source, claim)| Some((claim.ok()?, source)));
        let surest = claims
            .filter(|(claim, _)| matches!(claim, ResourceMatch::Listed | ResourceMatch::Template))
            .min_by_key(|(claim, source)| (*claim, !source.supports(SUBSCRIBE)));
        surest
            .map(|(_, source)| source)
            .ok_or_else(|| unknown_resource(self.client.generation, uri, &[]))
    }
}
