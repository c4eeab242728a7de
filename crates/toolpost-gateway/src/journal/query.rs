//! Finding calls: the index says where to look, and the records say what happened.

use std::collections::{BTreeSet, HashMap};
use std::io;

use serde_json::Value;

use super::archive::Chain;
use super::index::{Index, Mark, Wanted};
use super::joined::joined;
use super::record::{Stored, What};
use super::stretch::{Stretch, Stretches, contents, with_index};
use crate::config::Glob;

/// Which calls are wanted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Filter {
    /// Of this gateway; else of every one that writes into the folder.
    pub gateway: Option<String>,
    /// Of operations that fit; `*` stands for anything.
    pub operation: Option<Glob>,
    /// By this identity.
    pub who: Option<String>,
    /// Begun at this time or later, in milliseconds since 1970.
    pub since: i64,
    /// With a first record before this one.
    pub before: u64,
    /// Only those that failed.
    pub errors: bool,
    /// At most so many.
    pub limit: usize,
}

impl Default for Filter {
    fn default() -> Self {
        let (since, before, limit) = (i64::MIN, u64::MAX, 50);
        Self { gateway: None, operation: None, who: None, since, before, errors: false, limit }
    }
}

/// Why nothing can be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The records cannot be read.
    #[error("the journal cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The index cannot be read.
    #[error("the index of the journal cannot be read: {0}")]
    Index(#[from] rusqlite::Error),
}

/// A call that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) time: i64,
    pub(super) seq: u64,
    pub(super) value: Value,
}

/// The calls of a chain that fit, newest first.
pub(super) fn calls(chain: &Chain, filter: &Filter) -> Result<Vec<Found>, QueryError> {
    with_index(chain, |index| calls_by(chain, filter, index))
}

/// The same, with something that happens in the middle of it.
#[cfg(test)]
pub(super) fn calls_and(
    chain: &Chain,
    filter: &Filter,
    meanwhile: impl FnOnce(),
) -> Result<Vec<Found>, QueryError> {
    let index = Index::look(&chain.segments.folder().join(super::INDEX))?;
    let mut search = Search::new(chain, filter, index)?;
    search.look_behind_index()?;
    meanwhile();
    search.look_by_index()?;
    Ok(search.found)
}

/// One call: by the number of its first record, or the newest with this request id.
pub(super) fn call(chain: &Chain, id: &str) -> Result<Option<Value>, QueryError> {
    with_index(chain, |index| call_by(chain, id, index))
}

fn calls_by(chain: &Chain, filter: &Filter, index: Index) -> Result<Vec<Found>, QueryError> {
    let mut search = Search::new(chain, filter, index)?;
    search.look_behind_index()?;
    search.look_by_index()?;
    Ok(search.found)
}

fn call_by(chain: &Chain, id: &str, index: Index) -> Result<Option<Value>, QueryError> {
    let filter = Filter::default();
    let mut search = Search::new(chain, &filter, index)?;
    let is_number = id.len() < 16 && id.bytes().all(|byte| byte.is_ascii_digit());
    let seq = match id.parse() {
        Ok(number) if is_number => Some(number),
        _ => search.number_of(id)?,
    };
    let Some(seq) = seq else { return Ok(None) };
    search.call(seq)
}

struct Search<'a> {
    stretches: Stretches<'a>,
    filter: &'a Filter,
    found: Vec<Found>,
    /// The ends of calls that began before the stretches that were read.
    ends: HashMap<u64, Vec<u8>>,
    /// Calls that failed behind what is indexed, and began before that.
    failed: BTreeSet<u64>,
}

impl<'a> Search<'a> {
    fn new(chain: &'a Chain, filter: &'a Filter, index: Index) -> Result<Self, QueryError> {
        let stretches = Stretches::new(chain, index)?;
        let (found, ends, failed) = (Vec::new(), HashMap::new(), BTreeSet::new());
        Ok(Self { stretches, filter, found, ends, failed })
    }

    fn is_done(&self) -> bool {
        self.found.len() >= self.filter.limit
    }

    fn look_behind_index(&mut self) -> Result<(), QueryError> {
        for stretch in self.stretches.behind_index()? {
            self.look_into(&stretch)?;
        }
        Ok(())
    }

    fn look_by_index(&mut self) -> Result<(), QueryError> {
        for stretch in self.known()? {
            self.look_into(&stretch)?;
        }
        Ok(())
    }

    fn look_into(&mut self, stretch: &Stretch) -> Result<(), QueryError> {
        if self.is_done() {
            return Ok(());
        }
        let text = self.stretches.read(stretch)?;
        self.look_through(&text)
    }

    /// The stretches of the index that may hold something, newest first.
    fn known(&self) -> Result<Vec<Stretch>, QueryError> {
        let operations = match &self.filter.operation {
            Some(glob) => Some(self.stretches.names(|name| glob.matches(name))?),
            None => None,
        };
        let began = self.failed.iter().copied();
        self.stretches.by_index(
            &Wanted {
                marks: if self.filter.errors { &[Mark::Failed] } else { &[Mark::Call] },
                operations: operations.as_deref(),
                who: self.filter.who.as_deref(),
                since: self.filter.since,
                before: self.filter.before,
            },
            began,
        )
    }

    fn look_through(&mut self, text: &[u8]) -> Result<(), QueryError> {
        let mut enters = Vec::new();
        let mut ends = HashMap::new();
        for content in contents(text) {
            let Some(stored) = Stored::parse(content) else { continue };
            match stored.facts().what {
                What::Enter => enters.push((stored, content)),
                What::Exit { enter, failed } => drop(ends.insert(enter, (content, failed))),
                What::Message | What::Refusal | What::Checkpoint => {}
            }
        }
        for (stored, content) in enters.iter().rev() {
            let end = ends.remove(&stored.seq);
            if self.is_done() {
                return Ok(());
            }
            if self.fits(stored) {
                let end = match end {
                    Some((end, _)) => Some(end.to_vec()),
                    None => self.end_of(stored.seq)?,
                };
                self.take(stored, content, end.as_deref());
            }
        }
        for (enter, (content, failed)) in ends {
            self.ends.insert(enter, content.to_vec());
            if failed && self.filter.errors {
                self.failed.insert(enter);
            }
        }
        Ok(())
    }

    fn fits(&self, stored: &Stored<'_>) -> bool {
        let Filter { operation, who, since, before, .. } = self.filter;
        stored.seq < *before
            && stored.time >= *since
            && who.as_ref().is_none_or(|who| *who == stored.who)
            && operation.as_ref().is_none_or(|glob| glob.matches(&stored.operation))
    }

    fn take(&mut self, stored: &Stored<'_>, content: &[u8], end: Option<&[u8]>) {
        let failed = end
            .and_then(Stored::parse)
            .is_some_and(|end| matches!(end.facts().what, What::Exit { failed: true, .. }));
        if self.filter.errors && !failed {
            return;
        }
        let value = joined(self.stretches.gateway_id(), content, end);
        self.found.push(Found { time: stored.time, seq: stored.seq, value });
    }

    /// The end of a call that ended in another stretch than it began.
    fn end_of(&mut self, enter: u64) -> Result<Option<Vec<u8>>, QueryError> {
        if let Some(end) = self.ends.remove(&enter) {
            return Ok(Some(end));
        }
        let Some(stretch) = self.stretches.end_of(enter)? else { return Ok(None) };
        let text = self.stretches.read(&stretch)?;
        for content in contents(&text) {
            let Some(stored) = Stored::parse(content) else { continue };
            if let What::Exit { enter: began, .. } = stored.facts().what {
                self.ends.insert(began, content.to_vec());
            }
        }
        Ok(self.ends.remove(&enter))
    }

    /// The number of the first record of the newest call with this request id.
    fn number_of(&self, id: &str) -> Result<Option<u64>, QueryError> {
        let needle = format!("\"id\":{}", Value::from(id));
        let finder = memchr::memmem::FinderRev::new(needle.as_bytes());
        for file in self.stretches.files()? {
            let text = self.stretches.read(&file)?;
            let mut end = text.len();
            while let Some(at) = finder.rfind(&text[..end]) {
                let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |at| at + 1);
                let stored = contents(&text[start..]).next().and_then(Stored::parse);
                match stored.filter(|stored| stored.id == id) {
                    Some(stored) => match stored.facts().what {
                        What::Exit { enter, .. } => return Ok(Some(enter)),
                        What::Enter => return Ok(Some(stored.seq)),
                        // A message may have any id.
                        _ => end = start,
                    },
                    // Somebody's input quotes it, perhaps often.
                    None => end = start,
                }
            }
        }
        Ok(None)
    }

    /// The call that begins with this record.
    fn call(&mut self, seq: u64) -> Result<Option<Value>, QueryError> {
        for stretch in self.stretches.behind_index()? {
            let text = self.stretches.read(&stretch)?;
            if let Some(found) = self.call_in(&text, seq)? {
                return Ok(Some(found));
            }
        }
        let Some(stretch) = self.stretches.holding(seq)? else { return Ok(None) };
        let text = self.stretches.read(&stretch)?;
        self.call_in(&text, seq)
    }

    fn call_in(&mut self, text: &[u8], seq: u64) -> Result<Option<Value>, QueryError> {
        let mut enter = None;
        for content in contents(text) {
            let Some(stored) = Stored::parse(content) else { continue };
            match stored.facts().what {
                What::Enter if stored.seq == seq => enter = Some(content),
                What::Exit { enter: began, .. } if began == seq => {
                    self.ends.insert(seq, content.to_vec());
                }
                _ => {}
            }
        }
        let Some(enter) = enter else { return Ok(None) };
        let end = self.end_of(seq)?;
        Ok(Some(joined(self.stretches.gateway_id(), enter, end.as_deref())))
    }
}
