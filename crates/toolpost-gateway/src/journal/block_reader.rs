//! The file ranges to search: the blocks that the index selects, and the records after the last
//! indexed block.

use std::cmp::Reverse;
use std::io;

use super::chain::LINE_PREFIX_LEN;
use super::index::{Block, BlockQuery, Index};
use super::query::QueryError;
use super::reader::Chain;

/// A range of bytes in a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockRange {
    segment: u64,
    offset: u64,
    bytes: u64,
}

impl From<Block> for BlockRange {
    fn from(block: Block) -> Self {
        Self { segment: block.segment, offset: block.offset, bytes: block.bytes }
    }
}

/// Reads the records of a chain for a search, using the index.
pub(super) struct BlockReader<'a> {
    chain: &'a Chain,
    index: Index,
    /// Last block of the index when the search started. Records after it are read without the
    /// index; a block closed during the search would yield them twice.
    last: Option<Block>,
}

impl<'a> BlockReader<'a> {
    pub(super) fn new(chain: &'a Chain, index: Index) -> Result<Self, QueryError> {
        let last = index.last()?;
        Ok(Self { chain, index, last })
    }

    pub(super) fn gateway_id(&self) -> &'a str {
        &self.chain.gateway_id
    }

    /// Returns every segment as a range, newest first.
    pub(super) fn segments(&self) -> io::Result<impl Iterator<Item = BlockRange> + use<>> {
        let list = self.chain.segments.list()?;
        let full_range = |segment| BlockRange { segment, offset: 0, bytes: u64::MAX };
        Ok(list.into_iter().rev().map(full_range))
    }

    /// Returns the ranges after the last indexed block, newest first.
    pub(super) fn unindexed(&self) -> io::Result<Vec<BlockRange>> {
        let known = self.last.map_or((0, 0), |last| (last.segment, last.offset + last.bytes));
        let behind = self.segments()?.take_while(|file| file.segment >= known.0);
        let rest = |file: BlockRange| match file.segment == known.0 {
            true => BlockRange { offset: known.1, ..file },
            false => file,
        };
        Ok(behind.map(rest).collect())
    }

    /// Returns the indexed blocks that match the query or contain one of these records, newest
    /// first.
    pub(super) fn indexed(
        &self,
        query: &BlockQuery<'_>,
        records: impl IntoIterator<Item = u64>,
    ) -> Result<Vec<BlockRange>, QueryError> {
        let mut blocks = self.index.blocks(query)?;
        for seq in records {
            blocks.extend(self.index.block_containing(seq)?);
        }
        let last = self.last.map_or(i64::MIN, |last| last.id);
        blocks.retain(|block| block.id <= last);
        blocks.sort_by_key(|block| Reverse(block.id));
        blocks.dedup_by_key(|block| block.id);
        Ok(blocks.into_iter().map(BlockRange::from).collect())
    }

    /// Returns the ids of the indexed names that match.
    pub(super) fn name_ids(&self, fits: impl Fn(&str) -> bool) -> Result<Vec<i64>, QueryError> {
        let names = self.index.names()?.into_iter();
        Ok(names.filter(|(_, name)| fits(name)).map(|(id, _)| id).collect())
    }

    /// Returns the block that contains a record.
    pub(super) fn block_containing(&self, seq: u64) -> Result<Option<BlockRange>, QueryError> {
        Ok(self.index.block_containing(seq)?.map(BlockRange::from))
    }

    /// Returns the block with the exit record of a call that started in another block.
    pub(super) fn exit_block(&self, enter: u64) -> Result<Option<BlockRange>, QueryError> {
        Ok(self.index.exit_block(enter)?.map(BlockRange::from))
    }

    /// Reads a block. Returns no data if its segment was removed in the meantime.
    pub(super) fn read(&self, block: &BlockRange) -> io::Result<Vec<u8>> {
        match self.chain.segments.read(block.segment, block.offset, block.bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }
}

/// Runs a search with the index. If the index is damaged, the search is repeated without it and
/// reads every record.
pub(super) fn with_index_fallback<T>(
    chain: &Chain,
    search: impl Fn(Index) -> Result<T, QueryError>,
) -> Result<T, QueryError> {
    let file = chain.segments.folder().join(super::INDEX_FILE);
    match Index::open_read_only(&file).map_err(QueryError::from).and_then(&search) {
        Err(QueryError::Index(error)) => {
            let message = "the index of the journal cannot be used; the next start makes it again";
            tracing::warn!(%error, "{message}");
            search(Index::empty()?)
        }
        result => result,
    }
}

/// Returns the contents of the records in a file range. Incomplete lines are skipped.
pub(super) fn record_contents(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
        .filter_map(|line| line.strip_suffix(b"\n")?.get(LINE_PREFIX_LEN..))
}
