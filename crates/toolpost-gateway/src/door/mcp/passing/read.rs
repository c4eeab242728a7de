//! A resource by its address here or at its source.

use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::{Map, Value};
use toolpost::mcp::server_error;
use toolpost::{CallError, ErrorCode};

use super::Fault;
use super::list::{RESOURCES, TEMPLATES};
use super::name::{self, Form};
use super::object::Hints;
use super::offer::{self, Offer};
use super::page::Entry;
use super::{Passing, READ, text_in};

/// How sure it is that a source has a resource; the surest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// It lists the address.
    Listed,
    /// One of its templates could make it.
    Likely,
    /// It says nothing about it, and lists others of the same scheme.
    Open,
    /// It has nothing of that kind, and is not asked: an address may hold what is not for everybody.
    None,
}

impl Passing<'_> {
    /// An address that names its source goes there. Any other is one that a source used itself, as in
    /// a link that its tool gave.
    pub(super) async fn read(&self, params: Map<String, Value>) -> Result<Vec<u8>, Fault> {
        let uri = text_in(&params, "uri")?.to_owned();
        let mut offers = self.offers();
        offers.retain(|offer| offer.has(READ));
        if let Some((offer, own)) = offer::route(offers.iter(), Form::Address, &uri) {
            return Ok(self.read_at(offer, own, params, None).await?);
        }
        match offers.as_slice() {
            [only] => Ok(self.read_at(only, &uri, params, None).await?),
            offers => self.search(offers, &uri, params).await,
        }
    }

    /// Asks those who claim the address, then the others; the first who can read it answers.
    async fn search(
        &self,
        offers: &[Offer],
        uri: &str,
        params: Map<String, Value>,
    ) -> Result<Vec<u8>, Fault> {
        let claims = join_all(offers.iter().map(|offer| self.claim(offer, uri))).await;
        let (mut ranked, mut refusal, mut missing) = (Vec::new(), None, Vec::new());
        for (offer, claim) in offers.iter().zip(claims) {
            match claim {
                Ok(claim) => ranked.push((claim, offer)),
                Err(error) => missing.push(offer.missing(&error)),
            }
        }
        ranked.retain(|(claim, _)| *claim != Claim::None);
        ranked.sort_by_key(|(claim, _)| *claim);
        // What the client brings along is for one source, and must not be told to another.
        let respondent = self.respondent.filter(|_| ranked.len() == 1);
        let asking = Passing { respondent, ..*self };
        for (claim, offer) in ranked {
            // Whoever claims nothing may not keep the others waiting.
            let patience = (claim == Claim::Open).then_some(self.patience);
            match asking.read_at(offer, uri, params.clone(), patience).await {
                Ok(result) => return Ok(result),
                Err(error) if claim != Claim::Open => drop(refusal.get_or_insert(error)),
                Err(error) if server_error(&error).is_some() => {}
                Err(error) => missing.push(offer.missing(&error)),
            }
        }
        // Whoever claims an address knows best why it cannot be read.
        Err(match refusal {
            Some(error) => error.into(),
            None => Fault::unknown_resource(self.era, uri, &missing),
        })
    }

    async fn read_at(
        &self,
        offer: &Offer,
        uri: &str,
        mut params: Map<String, Value>,
        patience: Option<Duration>,
    ) -> Result<Vec<u8>, CallError> {
        let operation = offer.operation(READ).expect("the offer was chosen by it");
        params.insert("uri".to_owned(), uri.into());
        self.pass(operation, params, patience, Hints::Cached(self.scope(offer, READ))).await
    }

    /// What the lists of a source say about an address; one that has none says nothing.
    ///
    /// # Errors
    ///
    /// It is away, so that asking it for more is of no use.
    pub(super) async fn claim(&self, offer: &Offer, uri: &str) -> Result<Claim, CallError> {
        let (mut is_listed, mut is_likely) = (false, false);
        let (mut is_alike, mut is_made_alike) = (false, false);
        let mut look = |entry: Entry<'_>| {
            is_listed |= entry.name == uri;
            is_alike |= scheme(&entry.name) == scheme(uri);
        };
        let mut compare = |entry: Entry<'_>| {
            is_likely |= name::could_match(&entry.name, uri);
            is_made_alike |= scheme(&entry.name) == scheme(uri);
        };
        let listing = self.walk(&RESOURCES, offer, &mut look);
        let matching = self.walk(&TEMPLATES, offer, &mut compare);
        let (listed, matched) = join(listing, matching).await;
        for error in [listed, matched].into_iter().filter_map(Result::err) {
            if *error.code() == ErrorCode::Unavailable {
                return Err(error);
            }
            tracing::debug!(source = offer.label, %error, "a source does not say what it has");
        }
        Ok(match (is_listed, is_likely) {
            (true, _) => Claim::Listed,
            (false, true) => Claim::Likely,
            (false, false) if is_alike || is_made_alike => Claim::Open,
            (false, false) => Claim::None,
        })
    }
}

/// What stands before the first colon.
fn scheme(uri: &str) -> Option<&str> {
    uri.split_once(':').map(|(scheme, _)| scheme)
}
