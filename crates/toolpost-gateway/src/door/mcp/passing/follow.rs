//! A resource that is followed: its source tells when it changes.

use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use serde_json::json;
use toolpost::view::Era;
use toolpost::{CallError, CallRequest, Subscription};

use super::Fault;
use super::name::Form;
use super::offer::{self, Offer};
use super::read::Claim;
use super::{Passing, READ, SUBSCRIBE};

/// How long a client of before 2026-07-28 waits for the agreement of a source; a later one is told about
/// all that it follows at once, and so waits for none of them longer than for a list.
const AGREEMENT: Duration = Duration::from_secs(60);

impl Passing<'_> {
    /// Follows a resource on behalf of whoever may read it. Gives the operation behind it, and a value
    /// for every change from now on.
    pub(in crate::door::mcp) async fn follow(
        &self,
        uri: &str,
    ) -> Result<(String, Subscription), Fault> {
        let mut offers = self.offers();
        offers.retain(|offer| offer.has(READ));
        let (offer, own) = match offer::route(offers.iter(), Form::Address, uri) {
            Some(found) => found,
            None => match offers.as_slice() {
                [only] => (only, uri),
                offers => (self.claimant(offers, uri).await?, uri),
            },
        };
        let Some(operation) = offer.operation(SUBSCRIBE) else { return Err(untold(offer)) };
        let id = operation.id().as_str();
        let request = CallRequest::new(id, json!({"uri": own})).door("mcp");
        let mut changes = self.pipeline.start_subscription(request, self.caller.clone());
        let patience = if self.era == Era::Modern { self.patience } else { AGREEMENT };
        let first = tokio::time::timeout(patience, changes.next()).await;
        match first {
            Ok(Some(Ok(_))) => Ok((id.to_owned(), changes)),
            Ok(Some(Err(error))) => Err(error.into()),
            Ok(None) => Err(CallError::unavailable("the source ended at once").into()),
            Err(_) => Err(CallError::timeout(format!("no agreement within {patience:?}")).into()),
        }
    }

    /// Who has a resource that does not name its source, among those who tell of changes if there are
    /// several.
    async fn claimant<'o>(&self, offers: &'o [Offer], uri: &str) -> Result<&'o Offer, Fault> {
        let claims = join_all(offers.iter().map(|offer| self.claim(offer, uri))).await;
        let claims =
            offers.iter().zip(claims).filter_map(|(offer, claim)| Some((claim.ok()?, offer)));
        let surest = claims
            .filter(|(claim, _)| matches!(claim, Claim::Listed | Claim::Likely))
            .min_by_key(|(claim, offer)| (*claim, !offer.has(SUBSCRIBE)));
        surest.map(|(_, offer)| offer).ok_or_else(|| Fault::unknown_resource(self.era, uri, &[]))
    }
}

/// What is said about a source that does not tell of changes.
fn untold(offer: &Offer) -> Fault {
    let read = offer.operation(READ).map(|operation| operation.id().as_str());
    let source = read.and_then(|id| id.strip_suffix(READ)?.strip_suffix('.')).unwrap_or_default();
    let words = format!("the source `{source}` does not tell when its resources change");
    Fault::new(Fault::METHOD_NOT_FOUND, words)
}
