//! Reads journals: the one of this gateway and those of other gateways in the same folder.

use std::io;
use std::path::Path;

use serde_json::Value;

use super::index::BlockMark;
use super::layout::JournalLayout;
use super::messages::{MessageFilter, MessageQuery};
use super::query::{CallFilter, QueryError};
use super::segment::Segments;
use super::verify::{Anchor, ChainReport};
use super::writer::SignedFiles;
use super::{Journal, JournalSettings, call_view, messages, query, verify};

/// Maximum size of the messages in one response, so that it fits into a protocol message.
const MAX_MESSAGE_BYTES: usize = 8 * 1024 * 1024;

/// Reader for the journals of a data folder. Cheap to clone.
#[derive(Debug, Clone)]
pub struct JournalReader {
    layout: JournalLayout,
    /// The journal that this process writes.
    live: Option<Journal>,
}

/// A chain opened for reading.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) gateway_id: String,
    pub(super) segments: Segments,
    pub(super) signed_files: SignedFiles,
}

impl JournalReader {
    /// Creates a reader for the journals of a data folder, which need not exist.
    pub fn new(data: &Path, settings: &JournalSettings) -> Self {
        Self::with_layout(JournalLayout::new(data, settings))
    }

    pub(super) fn with_layout(layout: JournalLayout) -> Self {
        Self { layout, live: None }
    }

    /// Adds the journal that this process writes.
    #[must_use]
    pub fn with_live(mut self, journal: &Journal) -> Self {
        self.live = Some(journal.clone());
        self
    }

    pub(super) fn live(&self) -> Option<(&Journal, Chain)> {
        let journal = self.live.as_ref()?;
        Some((journal, self.chain(journal.gateway_id().to_owned())))
    }

    fn chain(&self, gateway_id: String) -> Chain {
        let segments = self.layout.segments(&gateway_id);
        let seals = self.layout.signed_files(&gateway_id);
        Chain { gateway_id, segments, signed_files: seals }
    }

    pub(super) fn chains(&self) -> io::Result<Vec<Chain>> {
        let found = self.layout.chains()?;
        Ok(found.into_iter().map(|gateway_id| self.chain(gateway_id)).collect())
    }

    /// Returns the ids of the journals, this process's own first.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn gateway_ids(&self) -> io::Result<Vec<String>> {
        let mut found = self.layout.chains()?;
        let own = self.live.as_ref().map(Journal::gateway_id);
        found.sort_by_key(|gateway_id| Some(gateway_id.as_str()) != own);
        Ok(found)
    }

    /// Returns the calls that match, newest first. Sequence numbers are per journal: with several
    /// journals, paginate one at a time.
    ///
    /// # Errors
    ///
    /// The files cannot be read.
    pub fn calls(&self, filter: &CallFilter) -> Result<Vec<Value>, QueryError> {
        let mut found = Vec::new();
        let is_selected = |chain: &Chain| {
            filter.gateway.as_ref().is_none_or(|requested| *requested == chain.gateway_id)
        };
        for chain in self.chains()?.into_iter().filter(is_selected) {
            found.extend(query::calls(&chain, filter)?);
        }
        for call in &mut found {
            self.mark_interrupted(&mut call.value);
        }
        found.sort_by_key(|call| std::cmp::Reverse((call.time, call.seq)));
        found.truncate(filter.limit);
        Ok(found.into_iter().map(|call| call.value).collect())
    }

    /// Returns room messages and rejections, newest first, as one object each.
    pub(super) fn messages(&self, filter: &MessageFilter) -> Result<Vec<Value>, QueryError> {
        let is_selected = |chain: &Chain| {
            filter.gateway.as_ref().is_none_or(|requested| *requested == chain.gateway_id)
        };
        let marks = if filter.errors {
            &[BlockMark::Rejection][..]
        } else {
            &[BlockMark::Message, BlockMark::Rejection]
        };
        let fits = |room: &str| filter.room.matches(room);
        let MessageFilter { since, before, limit: max, .. } = *filter;
        let sender = filter.identity.as_deref();
        let max_bytes = MAX_MESSAGE_BYTES;
        let message_query = MessageQuery {
            identity: sender,
            since,
            before,
            marks,
            max_count: max,
            max_bytes,
            min_count: 1,
            ..MessageQuery::all_in(&fits)
        };
        let mut found = Vec::new();
        for chain in self.chains()?.into_iter().filter(is_selected) {
            for record in messages::search(&chain, &message_query)? {
                let value = call_view::record_view(&chain.gateway_id, &record.content);
                found.push(((record.time, record.seq), value));
            }
        }
        found.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
        found.truncate(filter.limit);
        Ok(found.into_iter().map(|(_, value)| value).collect())
    }

    /// Marks a call without an exit record as interrupted if it started before this process opened
    /// the journal. Calls of other journals are not marked, because their writers may still be
    /// running.
    fn mark_interrupted(&self, call: &mut Value) {
        let Some(journal) = &self.live else { return };
        let is_before = call["seq"].as_u64().is_some_and(|seq| seq <= journal.0.last_seq_at_open);
        if is_before && call["gatewayId"] == journal.gateway_id() && call.get("endSeq").is_none() {
            call["outcome"] = "interrupted".into();
        }
    }

    /// Returns a call by its request id or by the sequence number of its first record. If several
    /// calls have the request id, returns the newest.
    ///
    /// # Errors
    ///
    /// Returns an error if the files cannot be read.
    pub fn call(&self, id: &str) -> Result<Option<Value>, QueryError> {
        let mut chains = self.chains()?;
        let own = self.live.as_ref().map(Journal::gateway_id);
        // A sequence number may exist in several journals; this gateway's own has precedence.
        chains.sort_by_key(|chain| Some(chain.gateway_id.as_str()) != own);
        for chain in chains {
            if let Some(mut found) = query::call(&chain, id)? {
                self.mark_interrupted(&mut found);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Verifies every journal. The journal of `anchor` is also compared with it, and is reported if
    /// it is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if the files cannot be read.
    pub fn verify(&self, anchor: Option<&Anchor>) -> io::Result<Vec<ChainReport>> {
        let chains = self.chains()?;
        let mut verdicts: Vec<ChainReport> =
            chains.iter().map(|chain| verify::verify(chain, anchor)).collect();
        if let Some(anchor) = anchor
            && !chains.iter().any(|chain| chain.gateway_id == anchor.gateway_id())
        {
            verdicts.push(ChainReport::for_missing_chain(anchor));
        }
        Ok(verdicts)
    }
}
