//! Reading journals: that of this gateway, and those of others who write into the same folder.

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

/// How many bytes of messages are given at once, so that an answer fits into a message to a client.
const MAX_MESSAGE_BYTES: usize = 8 * 1024 * 1024;

/// The journals of a data folder, to be read. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct JournalReader {
    layout: JournalLayout,
    /// The one that this process writes.
    live: Option<Journal>,
}

/// One chain, as it is read.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) gateway_id: String,
    pub(super) segments: Segments,
    pub(super) signed_files: SignedFiles,
}

impl JournalReader {
    /// The journals of a folder; it need not be there.
    pub fn new(data: &Path, settings: &JournalSettings) -> Self {
        Self::with_layout(JournalLayout::new(data, settings))
    }

    pub(super) fn with_layout(layout: JournalLayout) -> Self {
        Self { layout, live: None }
    }

    /// With the one that is written by this process.
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

    /// Whose journals there are, that of this process first.
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

    /// The calls that fit, newest first. Numbers count in one journal: where there are several, pages
    /// are made of one at a time.
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

    /// What was said in rooms and what was refused, newest first, as one object each.
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

    /// A call of this process's journal that began before the process did, and has no end, will have
    /// none. Of other journals nobody can tell: whoever writes them may still be at it.
    fn mark_interrupted(&self, call: &mut Value) {
        let Some(journal) = &self.live else { return };
        let is_before = call["seq"].as_u64().is_some_and(|seq| seq <= journal.0.last_seq_at_open);
        if is_before && call["gatewayId"] == journal.gateway_id() && call.get("endSeq").is_none() {
            call["outcome"] = "interrupted".into();
        }
    }

    /// A call by its request id, the newest of that id, or by the number of its first record.
    ///
    /// # Errors
    ///
    /// The files cannot be read.
    pub fn call(&self, id: &str) -> Result<Option<Value>, QueryError> {
        let mut chains = self.chains()?;
        let own = self.live.as_ref().map(Journal::gateway_id);
        // A number may stand in several journals; this gateway's own is meant.
        chains.sort_by_key(|chain| Some(chain.gateway_id.as_str()) != own);
        for chain in chains {
            if let Some(mut found) = query::call(&chain, id)? {
                self.mark_interrupted(&mut found);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Whether every journal is as it was written.
    ///
    /// # Errors
    ///
    /// The files cannot be read.
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
