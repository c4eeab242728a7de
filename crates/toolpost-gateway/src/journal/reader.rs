//! Reads journals: the one of this gateway and those of other gateways in the same folder.

use std::cmp::Reverse;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::layout::{Chain, JournalLayout};
use super::record::CallOutcome;
use super::search::{QueryError, RecordFilter, find_call, find_request, search};
use super::verify::{Anchor, ChainReport};
use super::{Journal, JournalSettings, verify};

/// Maximum number of calls to return for an ambiguous id.
const MAX_CANDIDATES: usize = 8;

/// Reader for the journals of a data folder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct JournalReader {
    layout: JournalLayout,
    /// The journal that this process writes.
    live: Option<Journal>,
}

impl JournalReader {
    /// Creates a reader for the journals of a data folder, which need not exist.
    pub fn new(data: &Path, settings: &JournalSettings) -> Self {
        Self { layout: JournalLayout::new(data, settings), live: None }
    }

    /// Adds the journal that this process writes.
    #[must_use]
    pub fn with_live(mut self, journal: &Journal) -> Self {
        self.live = Some(journal.clone());
        self
    }

    pub(super) fn live(&self) -> Option<(&Journal, Chain)> {
        let journal = self.live.as_ref()?;
        Some((journal, self.layout.chain(journal.gateway_id())))
    }

    /// Returns the chains, this process's own first.
    pub(super) fn chains(&self) -> io::Result<Vec<Chain>> {
        let mut chains = self.layout.chains()?;
        let own = self.live.as_ref().map(Journal::gateway_id);
        chains.sort_by_key(|chain| Some(chain.gateway_id.as_str()) != own);
        Ok(chains)
    }

    /// Returns the calls or messages that match, newest first, as one object each. Sequence numbers
    /// are per journal: with several journals, paginate one at a time.
    pub(super) fn records(&self, filter: &RecordFilter) -> Result<Vec<Value>, QueryError> {
        let mut chains = self.chains()?;
        chains.retain(|chain| filter.gateway.as_ref().is_none_or(|id| *id == chain.gateway_id));
        let mut found = Vec::new();
        for chain in &chains {
            found.extend(search(chain, filter)?.into_iter().map(|record| (chain, record)));
        }
        found.sort_by_key(|(_, record)| Reverse((record.time, record.seq)));
        found.truncate(filter.limit);
        let views = found.iter().map(|(chain, record)| record.view(&chain.gateway_id));
        Ok(views.map(|call| self.mark_interrupted(call)).collect())
    }

    /// Marks a call without an exit record as interrupted if it started before this process opened
    /// the journal. Calls of other journals are not marked, because their writers may still be
    /// running.
    fn mark_interrupted(&self, mut call: Value) -> Value {
        if let Some(journal) = &self.live
            && call["seq"].as_u64().is_some_and(|seq| seq <= journal.0.last_seq_at_open)
            && call["gatewayId"] == journal.gateway_id()
            // Messages have a kind.
            && ["kind", "endSeq"].iter().all(|member| call.get(member).is_none())
        {
            call["outcome"] = CallOutcome::Interrupted.as_str().into();
        }
        call
    }

    /// Returns the calls that an id refers to: `<gateway id>:<seq>`, of which the gateway id may be
    /// shortened or omitted, or a request id. Returns at most [`MAX_CANDIDATES`] calls.
    pub(super) fn calls_with_id(&self, id: &str) -> Result<Vec<Value>, QueryError> {
        let (prefix, number) = id.rsplit_once(':').unwrap_or(("", id));
        let is_number = number.len() < 16 && number.bytes().all(|byte| byte.is_ascii_digit());
        let seq = number.parse().ok().filter(|_| is_number);
        let mut calls = Vec::new();
        for chain in self.chains()? {
            let max = MAX_CANDIDATES - calls.len();
            match seq {
                Some(seq) if chain.gateway_id.starts_with(prefix) => {
                    calls.extend(find_call(&chain, seq)?.filter(|_| max > 0));
                }
                Some(_) => {}
                None => calls.extend(find_request(&chain, id, max)?),
            }
        }
        Ok(calls.into_iter().map(|call| self.mark_interrupted(call)).collect())
    }

    /// Verifies every journal. The journal of `anchor` is also compared with it, and is reported if
    /// it is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if the files cannot be read.
    pub fn verify(&self, anchor: Option<&Anchor>) -> io::Result<Vec<ChainReport>> {
        let chains = self.layout.chains()?;
        let verify = |chain: &Chain| {
            let key = self.layout.read_key(&chain.gateway_id).ok();
            verify::verify(chain, key.as_ref(), anchor)
        };
        let mut reports: Vec<ChainReport> = chains.iter().map(verify).collect();
        if let Some(anchor) = anchor
            && !chains.iter().any(|chain| chain.gateway_id == anchor.gateway_id())
        {
            reports.push(ChainReport::for_missing_chain(anchor));
        }
        Ok(reports)
    }
}
