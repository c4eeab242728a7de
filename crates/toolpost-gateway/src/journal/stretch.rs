//! Parts of the files in which something may be found: those that the index names, and what is behind
//! the last of them.

use std::cmp::Reverse;
use std::io;

use super::archive::Chain;
use super::chain::PREFIX;
use super::index::{Block, Index, Wanted};
use super::query::QueryError;

/// A part of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    segment: u64,
    offset: u64,
    bytes: u64,
}

impl From<Block> for Stretch {
    fn from(block: Block) -> Self {
        Self { segment: block.segment, offset: block.offset, bytes: block.bytes }
    }
}

/// The records of a chain as a search sees them.
pub(super) struct Stretches<'a> {
    chain: &'a Chain,
    index: Index,
    /// The last stretch of the index when the search began. What comes behind it is read without an
    /// index, and would be found twice in a stretch that was finished meanwhile.
    last: Option<Block>,
}

impl<'a> Stretches<'a> {
    pub(super) fn new(chain: &'a Chain, index: Index) -> Result<Self, QueryError> {
        let last = index.last()?;
        Ok(Self { chain, index, last })
    }

    pub(super) fn gateway_id(&self) -> &'a str {
        &self.chain.gateway_id
    }

    /// Every file whole, newest first.
    pub(super) fn files(&self) -> io::Result<impl Iterator<Item = Stretch> + use<>> {
        let list = self.chain.segments.list()?;
        let whole = |segment| Stretch { segment, offset: 0, bytes: u64::MAX };
        Ok(list.into_iter().rev().map(whole))
    }

    /// What is behind the last stretch of the index, newest first.
    pub(super) fn behind_index(&self) -> io::Result<Vec<Stretch>> {
        let known = self.last.map_or((0, 0), |last| (last.segment, last.offset + last.bytes));
        let behind = self.files()?.take_while(|file| file.segment >= known.0);
        let rest = |file: Stretch| match file.segment == known.0 {
            true => Stretch { offset: known.1, ..file },
            false => file,
        };
        Ok(behind.map(rest).collect())
    }

    /// The stretches of the index that may hold something, and those with these records, newest first.
    pub(super) fn by_index(
        &self,
        wanted: &Wanted<'_>,
        records: impl IntoIterator<Item = u64>,
    ) -> Result<Vec<Stretch>, QueryError> {
        let mut blocks = self.index.blocks(wanted)?;
        for seq in records {
            blocks.extend(self.index.holding(seq)?);
        }
        let last = self.last.map_or(i64::MIN, |last| last.id);
        blocks.retain(|block| block.id <= last);
        blocks.sort_by_key(|block| Reverse(block.id));
        blocks.dedup_by_key(|block| block.id);
        Ok(blocks.into_iter().map(Stretch::from).collect())
    }

    /// The numbers of the names that fit.
    pub(super) fn names(&self, fits: impl Fn(&str) -> bool) -> Result<Vec<i64>, QueryError> {
        let names = self.index.names()?.into_iter();
        Ok(names.filter(|(_, name)| fits(name)).map(|(id, _)| id).collect())
    }

    /// The one that a record is in.
    pub(super) fn holding(&self, seq: u64) -> Result<Option<Stretch>, QueryError> {
        Ok(self.index.holding(seq)?.map(Stretch::from))
    }

    /// The one in which a call that began in another one ended.
    pub(super) fn end_of(&self, enter: u64) -> Result<Option<Stretch>, QueryError> {
        Ok(self.index.end_of(enter)?.map(Stretch::from))
    }

    /// Nothing is in a file that was removed meanwhile.
    pub(super) fn read(&self, stretch: &Stretch) -> io::Result<Vec<u8>> {
        match self.chain.segments.read(stretch.segment, stretch.offset, stretch.bytes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }
}

/// An index that is damaged only makes the search slow: then everything is read.
pub(super) fn with_index<T>(
    chain: &Chain,
    search: impl Fn(Index) -> Result<T, QueryError>,
) -> Result<T, QueryError> {
    let file = chain.segments.folder().join(super::INDEX);
    match Index::look(&file).map_err(QueryError::from).and_then(&search) {
        Err(QueryError::Index(error)) => {
            let said = "the index of the journal cannot be used; the next start makes it again";
            tracing::warn!(%error, "{said}");
            search(Index::empty()?)
        }
        result => result,
    }
}

/// The records in a part of a file; what is not whole is left out.
pub(super) fn contents(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split_inclusive(|&byte| byte == b'\n')
        .filter_map(|line| line.strip_suffix(b"\n")?.get(PREFIX..))
}
