//! The index: which blocks of records contain calls of an operation, calls by an identity, failed
//! calls, or messages of a room.
//!
//! The index is built from the records and can be deleted at any time. It covers blocks of about a
//! thousand records instead of single records: reading a block takes a millisecond, and one row per
//! call would cost more than the rest of the journal.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Result, Row, params};

use super::record::{RecordKind, RecordSummary};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) id: i64,
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) last_seq: u64,
}

/// A block as stored in the database.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredBlock {
    id: i64,
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    last_time: i64,
}

impl StoredBlock {
    pub(super) fn starts_at(&self, open: &OpenBlock) -> bool {
        (self.segment, self.offset, self.first_seq) == (open.segment, open.offset, open.first_seq)
    }
}

/// A block that is still being written.
#[derive(Debug, Default)]
pub(super) struct OpenBlock {
    segment: u64,
    offset: u64,
    bytes: u64,
    first_seq: u64,
    records: u64,
    last_time: i64,
    /// Marks by operation or room and by identity, one bit per mark.
    marks: HashMap<String, HashMap<String, u8>>,
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

    /// Returns the bit of a stored mark; 0 for an unknown number.
    fn bit_from_db(number: i64) -> u8 {
        Self::ALL.into_iter().find(|mark| *mark as i64 == number).map_or(0, Self::bit)
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
        Self { segment, offset, first_seq, ..Self::default() }
    }

    pub(super) fn add(&mut self, summary: &RecordSummary<'_>, bytes: u64) {
        self.bytes += bytes;
        self.records += 1;
        self.last_time = self.last_time.max(summary.time);
        match summary.kind {
            RecordKind::Enter => self.mark(summary, BlockMark::Call),
            RecordKind::Message => self.mark(summary, BlockMark::Message),
            RecordKind::Rejection => self.mark(summary, BlockMark::Rejection),
            RecordKind::Exit { enter, failed } if enter >= self.first_seq => {
                if failed {
                    self.mark(summary, BlockMark::Failed);
                }
            }
            RecordKind::Exit { enter, failed } => {
                let names = || (summary.operation.to_owned(), summary.identity.to_owned());
                self.cross_block_exits.push(CrossBlockExit { enter, failed: failed.then(names) });
            }
            RecordKind::Checkpoint => {}
        }
    }

    fn mark(&mut self, summary: &RecordSummary<'_>, mark: BlockMark) {
        if !self.marks.contains_key(summary.operation) {
            self.marks.insert(summary.operation.to_owned(), HashMap::new());
        }
        let Some(callers) = self.marks.get_mut(summary.operation) else { return };
        match callers.get_mut(summary.identity) {
            Some(known) => *known |= mark.bit(),
            None => drop(callers.insert(summary.identity.to_owned(), mark.bit())),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.records >= MAX_BLOCK_RECORDS || self.bytes >= MAX_BLOCK_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns the offset of its end in the segment.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// Returns the next block, in the same segment or at the start of another one.
    pub(super) fn next(&self, segment: u64) -> Self {
        let offset = if segment == self.segment { self.end() } else { 0 };
        Self::at(segment, offset, self.first_seq + self.records)
    }
}

/// The index database.
pub(super) struct Index(Connection);

impl Index {
    /// Opens the index for writing.
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
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        Ok(Self(connection))
    }

    /// Creates an empty in-memory index, with which searches read every record.
    pub(super) fn empty() -> Result<Self> {
        Self::with_tables(Connection::open_in_memory()?)
    }

    fn with_tables(connection: Connection) -> Result<Self> {
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // Rows lost in a machine crash are rebuilt from the records.
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.execute_batch(TABLES)?;
        Ok(Self(connection))
    }

    pub(super) fn write(&mut self, open: &OpenBlock) -> Result<()> {
        let transaction = self.0.transaction()?;
        transaction
            .prepare_cached(
                "INSERT INTO block (segment, offset, bytes, first_seq, last_seq, last_time)
                 VALUES (?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                to_sql_integer(open.segment),
                to_sql_integer(open.offset),
                to_sql_integer(open.bytes),
                to_sql_integer(open.first_seq),
                to_sql_integer(open.first_seq + open.records - 1),
                open.last_time,
            ])?;
        let block = transaction.last_insert_rowid();
        for (operation, callers) in &open.marks {
            for (identity, &seen) in callers {
                for mark in BlockMark::ALL.into_iter().filter(|mark| seen & mark.bit() != 0) {
                    write_mark(&transaction, (operation, identity), mark, block)?;
                }
            }
        }
        for cross_block_exit in &open.cross_block_exits {
            write_cross_block_exit(&transaction, cross_block_exit, block)?;
        }
        transaction.commit()
    }

    /// Returns the last indexed block.
    pub(super) fn last(&self) -> Result<Option<Block>> {
        let sql = "SELECT id, segment, offset, bytes, last_seq FROM block ORDER BY id DESC LIMIT 1";
        self.0.prepare_cached(sql)?.query_row([], read_block).optional()
    }

    /// Returns all blocks in order. Starts a read transaction, so that later queries see the same
    /// snapshot.
    pub(super) fn stored_blocks(&self) -> Result<Vec<StoredBlock>> {
        self.0.execute_batch("BEGIN")?;
        let sql = "SELECT id, segment, offset, bytes, last_seq, first_seq, last_time FROM block
                   ORDER BY id";
        let mut statement = self.0.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            let Block { id, segment, offset, bytes, last_seq } = read_block(row)?;
            let first_seq = row.get::<_, i64>(5)?.cast_unsigned();
            Ok(StoredBlock {
                id,
                segment,
                offset,
                bytes,
                first_seq,
                last_seq,
                last_time: row.get(6)?,
            })
        })?;
        rows.collect()
    }

    /// Whether a search by the stored entry of a block finds every record in it.
    pub(super) fn covers(&self, stored: &StoredBlock, open: &OpenBlock) -> Result<bool> {
        let is_same = stored.bytes == open.bytes
            && stored.last_seq == open.first_seq + open.records - 1
            && stored.last_time >= open.last_time;
        let marks = self.marks(stored.id)?;
        let known = |operation: &str, identity: &str| {
            marks
                .get(operation)
                .and_then(|callers| callers.get(identity))
                .copied()
                .unwrap_or_default()
        };
        let all_marked = open.marks.iter().all(|(operation, callers)| {
            callers.iter().all(|(identity, &seen)| seen & !known(operation, identity) == 0)
        });
        let mut ends_known = true;
        for cross_block_exit in &open.cross_block_exits {
            ends_known &= self.has_exit(cross_block_exit, stored.id)?;
        }
        Ok(is_same && all_marked && ends_known)
    }

    /// Returns the marks of a block, by operation or room and by identity.
    fn marks(&self, block: i64) -> Result<HashMap<String, HashMap<String, u8>>> {
        let sql = "SELECT o.text, w.text, m.failed FROM mark m JOIN name o ON o.id = m.operation
                   JOIN name w ON w.id = m.who WHERE m.block = ?";
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query([block])?;
        let mut marks: HashMap<String, HashMap<String, u8>> = HashMap::new();
        while let Some(row) = rows.next()? {
            let known = marks.entry(row.get(0)?).or_default().entry(row.get(1)?).or_default();
            *known |= BlockMark::bit_from_db(row.get(2)?);
        }
        Ok(marks)
    }

    /// Whether the index has the exit record of a call that started in another block and, if the
    /// call failed, the mark in the block where it started.
    fn has_exit(&self, cross_block_exit: &CrossBlockExit, block: i64) -> Result<bool> {
        if self.exit_block(cross_block_exit.enter)?.is_none_or(|found| found.id != block) {
            return Ok(false);
        }
        let Some((operation, identity)) = &cross_block_exit.failed else { return Ok(true) };
        let Some(began) = self.block_containing(cross_block_exit.enter)? else { return Ok(true) };
        let marks = self.marks(began.id)?;
        let known = marks.get(operation).and_then(|callers| callers.get(identity));
        Ok(known.is_some_and(|known| known & BlockMark::Failed.bit() != 0))
    }

    /// Returns the block that contains a record.
    pub(super) fn block_containing(&self, seq: u64) -> Result<Option<Block>> {
        find_block_containing(&self.0, seq)
    }

    /// Returns the block with the exit record of a call that started in another block.
    pub(super) fn exit_block(&self, enter: u64) -> Result<Option<Block>> {
        let sql = "SELECT b.id, b.segment, b.offset, b.bytes, b.last_seq
                   FROM stray s JOIN block b ON b.id = s.block WHERE s.enter = ?";
        self.0.prepare_cached(sql)?.query_row([to_sql_integer(enter)], read_block).optional()
    }

    /// Returns the names of called operations, existing or not, and of rooms and callers.
    pub(super) fn names(&self) -> Result<Vec<(i64, String)>> {
        let mut statement = self.0.prepare_cached("SELECT id, text FROM name")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    /// Returns the blocks that contain matching messages or the start of matching calls, newest
    /// first.
    pub(super) fn blocks(&self, query: &BlockQuery<'_>) -> Result<Vec<Block>> {
        let mut sql = String::from(
            "SELECT b.id, b.segment, b.offset, b.bytes, b.last_seq FROM block b
             WHERE b.last_time >= ?1 AND b.first_seq < ?2 AND EXISTS (SELECT 1 FROM mark m WHERE m.block = b.id",
        );
        // The ids are one JSON parameter: callers can create any number of names, and the length of
        // an SQL statement is limited.
        let operations = query.operations.map(|ids| format!("{ids:?}"));
        if operations.is_some() {
            sql += " AND m.operation IN (SELECT value FROM json_each(?4))";
        } else {
            sql += " AND ?4 IS NULL";
        }
        if query.identity.is_some() {
            sql += " AND m.who = (SELECT id FROM name WHERE text = ?3)";
        } else {
            sql += " AND ?3 IS NULL";
        }
        let marks: Vec<String> = query.marks.iter().map(|&mark| (mark as u8).to_string()).collect();
        sql += &format!(" AND m.failed IN ({})", marks.join(","));
        sql += ") ORDER BY b.id DESC";
        let mut statement = self.0.prepare(&sql)?;
        let before = to_sql_integer(query.before);
        let rows = statement
            .query_map(params![query.since, before, query.identity, operations], read_block)?;
        rows.collect()
    }

    /// Removes the blocks of deleted segments.
    pub(super) fn remove_before(&mut self, segment: u64) -> Result<()> {
        let transaction = self.0.transaction()?;
        let segment_param = [to_sql_integer(segment)];
        for sql in [
            "DELETE FROM mark WHERE block IN (SELECT id FROM block WHERE segment < ?)",
            "DELETE FROM stray WHERE block IN (SELECT id FROM block WHERE segment < ?)",
            "DELETE FROM block WHERE segment < ?",
        ] {
            transaction.execute(sql, segment_param)?;
        }
        transaction.execute(
            "DELETE FROM name WHERE id NOT IN (SELECT operation FROM mark UNION SELECT who FROM mark)",
            [],
        )?;
        transaction.commit()
    }
}

/// Criteria for selecting blocks.
#[derive(Debug)]
pub(super) struct BlockQuery<'a> {
    /// Blocks must have one of these marks.
    pub(super) marks: &'a [BlockMark],
    /// Name ids of operations or rooms.
    pub(super) operations: Option<&'a [i64]>,
    pub(super) identity: Option<&'a str>,
    pub(super) since: i64,
    /// Only blocks with records before this sequence number.
    pub(super) before: u64,
}

fn write_mark(
    connection: &Connection,
    (operation, identity): (&str, &str),
    mark: BlockMark,
    block: i64,
) -> Result<()> {
    let (operation, identity) = (name_id(connection, operation)?, name_id(connection, identity)?);
    let sql = "INSERT OR IGNORE INTO mark (operation, who, failed, block) VALUES (?, ?, ?, ?)";
    connection
        .prepare_cached(sql)?
        .execute(params![operation, identity, mark as u8, block])
        .map(drop)
}

/// Stores the exit of a call that started in another block. A failed call is marked in the block
/// where it started.
fn write_cross_block_exit(
    connection: &Connection,
    cross_block_exit: &CrossBlockExit,
    block: i64,
) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO stray (enter, block) VALUES (?, ?)";
    connection
        .prepare_cached(sql)?
        .execute(params![to_sql_integer(cross_block_exit.enter), block])?;
    let Some((operation, identity)) = &cross_block_exit.failed else { return Ok(()) };
    match find_block_containing(connection, cross_block_exit.enter)? {
        Some(began) => write_mark(connection, (operation, identity), BlockMark::Failed, began.id),
        None => Ok(()),
    }
}

fn find_block_containing(connection: &Connection, seq: u64) -> Result<Option<Block>> {
    let sql = "SELECT id, segment, offset, bytes, last_seq FROM block
               WHERE first_seq <= ?1 AND last_seq >= ?1 ORDER BY first_seq DESC LIMIT 1";
    connection.prepare_cached(sql)?.query_row([to_sql_integer(seq)], read_block).optional()
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

fn read_block(row: &Row<'_>) -> Result<Block> {
    let unsigned = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    Ok(Block {
        id: row.get(0)?,
        segment: unsigned(1)?,
        offset: unsigned(2)?,
        bytes: unsigned(3)?,
        last_seq: unsigned(4)?,
    })
}

/// Converts to the signed integers of SQLite.
fn to_sql_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
