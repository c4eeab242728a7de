//! The index: which blocks of records contain calls to an operation, calls by an identity, failed
//! calls, or messages of a room.
//!
//! The index is built from the records and can be deleted at any time. It covers blocks of about a
//! thousand records instead of single records: reading a block takes a millisecond, and one row per
//! call would cost more than the rest of the journal.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Params, Result, Row, params};

use super::record::{RecordKind, RecordSummary};
use super::search::RecordFilter;

/// Maximum number of records in a block.
const MAX_BLOCK_RECORDS: u64 = 1_024;
/// Size at which a block is closed.
const MAX_BLOCK_BYTES: u64 = 1024 * 1024;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS name (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
    CREATE TABLE IF NOT EXISTS block (
        id INTEGER PRIMARY KEY, segment INTEGER, offset INTEGER, bytes INTEGER,
        first_seq INTEGER, last_seq INTEGER, last_time INTEGER);
    CREATE INDEX IF NOT EXISTS block_seq ON block (first_seq);
    CREATE TABLE IF NOT EXISTS mark (
        operation INTEGER, who INTEGER, failed INTEGER, block INTEGER,
        PRIMARY KEY (operation, who, failed, block)) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS mark_block ON mark (block);
    CREATE TABLE IF NOT EXISTS stray (enter INTEGER PRIMARY KEY, block INTEGER);
";

/// A range of records in one segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) id: i64,
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    last_time: i64,
}

impl Block {
    /// Returns the offset of its end in the segment.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// Marks by operation or room and by identity, one bit per mark.
type Marks = HashMap<String, HashMap<String, u8>>;

/// A block that is still being written.
#[derive(Debug, Default)]
pub(super) struct OpenBlock {
    pub(super) range: Block,
    marks: Marks,
    /// Exit records of calls that started before this block.
    cross_block_exits: Vec<CrossBlockExit>,
}

/// What a block contains for an operation or a room. The mark distinguishes rooms from operations,
/// because callers can choose any operation name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockMark {
    Call,
    /// Set in addition to [`BlockMark::Call`].
    Failed,
    Message,
    Rejection,
}

impl BlockMark {
    const ALL: [Self; 4] = [Self::Call, Self::Failed, Self::Message, Self::Rejection];

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

#[derive(Debug)]
struct CrossBlockExit {
    enter: u64,
    /// Operation and identity of the call, if it failed.
    failed: Option<(String, String)>,
}

impl OpenBlock {
    pub(super) fn at(segment: u64, offset: u64, first_seq: u64) -> Self {
        let last_seq = first_seq.saturating_sub(1);
        let range = Block { segment, offset, first_seq, last_seq, ..Block::default() };
        Self { range, ..Self::default() }
    }

    pub(super) fn add(&mut self, summary: &RecordSummary<'_>, bytes: u64) {
        self.range.bytes += bytes;
        self.range.last_seq += 1;
        self.range.last_time = self.range.last_time.max(summary.time);
        match summary.kind {
            RecordKind::Enter => self.mark(summary, BlockMark::Call),
            RecordKind::Message => self.mark(summary, BlockMark::Message),
            RecordKind::Rejection => self.mark(summary, BlockMark::Rejection),
            RecordKind::Exit { enter, failed } if enter >= self.range.first_seq => {
                if failed {
                    self.mark(summary, BlockMark::Failed);
                }
            }
            RecordKind::Exit { enter, failed } => {
                let names = || (summary.name.to_owned(), summary.identity.to_owned());
                self.cross_block_exits.push(CrossBlockExit { enter, failed: failed.then(names) });
            }
            RecordKind::Checkpoint | RecordKind::Signature | RecordKind::Close => {}
        }
    }

    fn mark(&mut self, summary: &RecordSummary<'_>, mark: BlockMark) {
        if !self.marks.contains_key(summary.name) {
            self.marks.insert(summary.name.to_owned(), HashMap::new());
        }
        let Some(callers) = self.marks.get_mut(summary.name) else { return };
        match callers.get_mut(summary.identity) {
            Some(known) => *known |= mark.bit(),
            None => drop(callers.insert(summary.identity.to_owned(), mark.bit())),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.range.last_seq + 1 - self.range.first_seq >= MAX_BLOCK_RECORDS
            || self.range.bytes >= MAX_BLOCK_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.range.bytes == 0
    }

    /// Returns the next block, in the same segment or at the start of another one.
    pub(super) fn next(&self, segment: u64) -> Self {
        let offset = if segment == self.range.segment { self.range.end() } else { 0 };
        Self::at(segment, offset, self.range.last_seq + 1)
    }
}

pub(super) struct Index(Connection);

impl Index {
    pub(super) fn open(file: &Path) -> Result<Self> {
        Self::with_tables(Connection::open(file)?)
    }

    /// Opens the index read-only. An index that does not exist is empty.
    pub(super) fn open_read_only(file: &Path) -> Result<Self> {
        if !file.exists() {
            return Self::empty();
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        Ok(Self(connection))
    }

    /// Creates an empty in-memory index, with which searches read every record.
    pub(super) fn empty() -> Result<Self> {
        Self::with_tables(Connection::open_in_memory()?)
    }

    fn with_tables(connection: Connection) -> Result<Self> {
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // Rows lost in a machine crash are rebuilt from the records.
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.execute_batch(TABLES)?;
        Ok(Self(connection))
    }

    pub(super) fn write(&mut self, open: &OpenBlock) -> Result<()> {
        let transaction = self.0.transaction()?;
        let Block { segment, offset, bytes, first_seq, last_seq, last_time, .. } = open.range;
        let sql = "INSERT INTO block (segment, offset, bytes, first_seq, last_seq, last_time)
                   VALUES (?, ?, ?, ?, ?, ?)";
        let block = transaction
            .prepare_cached(sql)?
            .insert(params![segment, offset, bytes, first_seq, last_seq, last_time])?;
        for (name, callers) in &open.marks {
            for (identity, &seen) in callers {
                for mark in BlockMark::ALL.into_iter().filter(|mark| seen & mark.bit() != 0) {
                    write_mark(&transaction, (name, identity), mark, block)?;
                }
            }
        }
        for CrossBlockExit { enter, failed } in &open.cross_block_exits {
            let sql = "INSERT OR REPLACE INTO stray (enter, block) VALUES (?, ?)";
            transaction.prepare_cached(sql)?.execute(params![enter, block])?;
            // A failed call is marked in the block where it started.
            if let Some((name, identity)) = failed
                && let Some(start) = block_containing(&transaction, *enter)?
            {
                write_mark(&transaction, (name, identity), BlockMark::Failed, start.id)?;
            }
        }
        transaction.commit()
    }

    pub(super) fn last(&self) -> Result<Option<Block>> {
        Ok(select_blocks(&self.0, "ORDER BY b.id DESC LIMIT 1", [])?.pop())
    }

    /// Returns all blocks in order. Starts a read transaction, so that later queries see the same
    /// snapshot.
    pub(super) fn all(&self) -> Result<Vec<Block>> {
        self.0.execute_batch("BEGIN")?;
        select_blocks(&self.0, "ORDER BY b.id", [])
    }

    /// Whether a search by the stored entry of a block finds every record in it.
    pub(super) fn covers(&self, stored: &Block, open: &OpenBlock) -> Result<bool> {
        let expected = Block { id: stored.id, last_time: stored.last_time, ..open.range };
        if *stored != expected || stored.last_time < open.range.last_time {
            return Ok(false);
        }
        let marks = self.marks(stored.id)?;
        let all_marked = open.marks.iter().all(|(name, callers)| {
            callers.iter().all(|(identity, &seen)| has_marks(&marks, name, identity, seen))
        });
        for CrossBlockExit { enter, failed } in &open.cross_block_exits {
            if self.exit_block(*enter)?.is_none_or(|found| found.id != stored.id) {
                return Ok(false);
            }
            if let Some((name, identity)) = failed
                && let Some(start) = self.block_containing(*enter)?
                && !has_marks(&self.marks(start.id)?, name, identity, BlockMark::Failed.bit())
            {
                return Ok(false);
            }
        }
        Ok(all_marked)
    }

    fn marks(&self, block: i64) -> Result<Marks> {
        let sql = "SELECT o.text, w.text, m.failed FROM mark m JOIN name o ON o.id = m.operation
                   JOIN name w ON w.id = m.who WHERE m.block = ?";
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query([block])?;
        let mut marks = Marks::new();
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(2)?;
            // Unknown marks are ignored.
            let mark = BlockMark::ALL.into_iter().find(|mark| *mark as i64 == number);
            let known = marks.entry(row.get(0)?).or_default().entry(row.get(1)?).or_default();
            *known |= mark.map_or(0, BlockMark::bit);
        }
        Ok(marks)
    }

    pub(super) fn block_containing(&self, seq: u64) -> Result<Option<Block>> {
        block_containing(&self.0, seq)
    }

    /// Returns the block with the exit record of a call that started in another block.
    pub(super) fn exit_block(&self, enter: u64) -> Result<Option<Block>> {
        let rest = "JOIN stray s ON b.id = s.block WHERE s.enter = ?";
        Ok(select_blocks(&self.0, rest, [enter])?.pop())
    }

    /// Returns the blocks that contain matching messages or the start of matching calls, newest
    /// first.
    pub(super) fn blocks(&self, filter: &RecordFilter) -> Result<Vec<Block>> {
        let marks: Vec<u8> = filter.marks.iter().map(|&mark| mark as u8).collect();
        let mut rest = String::from(
            "WHERE b.last_time >= ?1 AND b.first_seq < ?2 AND EXISTS (SELECT 1 FROM mark m
             WHERE m.block = b.id AND m.failed IN (SELECT value FROM json_each(?3))",
        );
        // The ids are one JSON parameter: callers can create any number of names, and the length of
        // an SQL statement is limited.
        rest += match filter.name {
            Some(_) => " AND m.operation IN (SELECT value FROM json_each(?4))",
            None => " AND ?4 IS NULL",
        };
        rest += match filter.identity {
            Some(_) => " AND m.who = (SELECT id FROM name WHERE text = ?5)",
            None => " AND ?5 IS NULL",
        };
        rest += ") ORDER BY b.id DESC";
        let names = filter.name.as_ref().map(|name| self.name_ids(|text| name.matches(text)));
        let names = names.transpose()?.map(|ids| format!("{ids:?}"));
        let before = i64::try_from(filter.before).unwrap_or(i64::MAX);
        let marks = format!("{marks:?}");
        select_blocks(&self.0, &rest, params![filter.since, before, marks, names, filter.identity])
    }

    /// Returns the ids of the matching operations, existing or not, and rooms.
    fn name_ids(&self, matches: impl Fn(&str) -> bool) -> Result<Vec<i64>> {
        let mut statement = self.0.prepare_cached("SELECT id, text FROM name")?;
        let mut rows = statement.query([])?;
        let mut ids = Vec::new();
        while let Some(row) = rows.next()? {
            if matches(row.get_ref(1)?.as_str()?) {
                ids.push(row.get(0)?);
            }
        }
        Ok(ids)
    }

    pub(super) fn remove_before(&mut self, segment: u64) -> Result<()> {
        let transaction = self.0.transaction()?;
        for sql in [
            "DELETE FROM mark WHERE block IN (SELECT id FROM block WHERE segment < ?)",
            "DELETE FROM stray WHERE block IN (SELECT id FROM block WHERE segment < ?)",
            "DELETE FROM block WHERE segment < ?",
        ] {
            transaction.execute(sql, [segment])?;
        }
        transaction.execute(
            "DELETE FROM name WHERE id NOT IN (SELECT operation FROM mark UNION SELECT who FROM mark)",
            [],
        )?;
        transaction.commit()
    }
}

fn has_marks(marks: &Marks, name: &str, identity: &str, seen: u8) -> bool {
    let known = marks.get(name).and_then(|callers| callers.get(identity));
    seen & !known.copied().unwrap_or_default() == 0
}

fn write_mark(
    connection: &Connection,
    (name, identity): (&str, &str),
    mark: BlockMark,
    block: i64,
) -> Result<()> {
    let (name, identity) = (name_id(connection, name)?, name_id(connection, identity)?);
    let sql = "INSERT OR IGNORE INTO mark (operation, who, failed, block) VALUES (?, ?, ?, ?)";
    connection.prepare_cached(sql)?.execute(params![name, identity, mark as u8, block]).map(drop)
}

fn block_containing(connection: &Connection, seq: u64) -> Result<Option<Block>> {
    let rest = "WHERE b.first_seq <= ?1 AND b.last_seq >= ?1 ORDER BY b.first_seq DESC LIMIT 1";
    Ok(select_blocks(connection, rest, [seq])?.pop())
}

fn name_id(connection: &Connection, text: &str) -> Result<i64> {
    let found: Option<i64> = connection
        .prepare_cached("SELECT id FROM name WHERE text = ?")?
        .query_row([text], |row| row.get(0))
        .optional()?;
    match found {
        Some(id) => Ok(id),
        None => connection.prepare_cached("INSERT INTO name (text) VALUES (?)")?.insert([text]),
    }
}

/// Runs a query for blocks; `rest` follows `FROM block b`.
fn select_blocks(connection: &Connection, rest: &str, params: impl Params) -> Result<Vec<Block>> {
    let columns = "b.id, b.segment, b.offset, b.bytes, b.first_seq, b.last_seq, b.last_time";
    let sql = format!("SELECT {columns} FROM block b {rest}");
    let read = |row: &Row<'_>| {
        Ok(Block {
            id: row.get(0)?,
            segment: row.get(1)?,
            offset: row.get(2)?,
            bytes: row.get(3)?,
            first_seq: row.get(4)?,
            last_seq: row.get(5)?,
            last_time: row.get(6)?,
        })
    };
    connection.prepare_cached(&sql)?.query_map(params, read)?.collect()
}
