//! The index: which stretches of the records hold calls of an operation, of somebody, or that failed,
//! and which hold messages of a room.
//!
//! It is made from the records, can be deleted at any time, and knows stretches of some thousand
//! records rather than single ones: a stretch is read in a millisecond, and a row for each call would
//! cost more than everything else that the journal does for it.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Result, Row, params};

use super::record::{Facts, What};

/// A stretch ends after so many records.
const RECORDS: u64 = 1_024;
/// And after so many bytes.
const BYTES: u64 = 1024 * 1024;

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

/// A stretch of records in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) id: i64,
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) last_seq: u64,
}

/// A stretch as it stands in the database.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    id: i64,
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    last_time: i64,
}

impl Written {
    pub(super) fn begins_as(&self, open: &OpenBlock) -> bool {
        (self.segment, self.offset, self.first_seq) == (open.segment, open.offset, open.first_seq)
    }
}

/// A stretch that is still being written.
#[derive(Debug, Default)]
pub(super) struct OpenBlock {
    segment: u64,
    offset: u64,
    bytes: u64,
    first_seq: u64,
    records: u64,
    last_time: i64,
    /// What was seen of an operation or a room, by whom: a bit for each mark.
    marks: HashMap<String, HashMap<String, u8>>,
    /// The ends of calls that began before this stretch.
    strays: Vec<Stray>,
}

/// What a stretch holds of an operation or a room. What somebody calls an operation is his to choose, so
/// a room is told from one by this and not by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Call,
    /// Beside that of the call itself.
    Failed,
    Message,
    Refusal,
}

impl Mark {
    const ALL: [Self; 4] = [Self::Call, Self::Failed, Self::Message, Self::Refusal];

    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// None of them where somebody else wrote the number.
    fn bit_of(number: i64) -> u8 {
        Self::ALL.into_iter().find(|mark| *mark as i64 == number).map_or(0, Self::bit)
    }
}

#[derive(Debug)]
struct Stray {
    enter: u64,
    /// The operation and the caller of one that failed.
    failed: Option<(String, String)>,
}

impl OpenBlock {
    pub(super) fn at(segment: u64, offset: u64, first_seq: u64) -> Self {
        Self { segment, offset, first_seq, ..Self::default() }
    }

    pub(super) fn add(&mut self, facts: &Facts<'_>, bytes: u64) {
        self.bytes += bytes;
        self.records += 1;
        self.last_time = self.last_time.max(facts.time);
        match facts.what {
            What::Enter => self.mark(facts, Mark::Call),
            What::Message => self.mark(facts, Mark::Message),
            What::Refusal => self.mark(facts, Mark::Refusal),
            What::Exit { enter, failed } if enter >= self.first_seq => {
                if failed {
                    self.mark(facts, Mark::Failed);
                }
            }
            What::Exit { enter, failed } => {
                let named = || (facts.operation.to_owned(), facts.who.to_owned());
                self.strays.push(Stray { enter, failed: failed.then(named) });
            }
            What::Checkpoint => {}
        }
    }

    fn mark(&mut self, facts: &Facts<'_>, mark: Mark) {
        if !self.marks.contains_key(facts.operation) {
            self.marks.insert(facts.operation.to_owned(), HashMap::new());
        }
        let Some(callers) = self.marks.get_mut(facts.operation) else { return };
        match callers.get_mut(facts.who) {
            Some(known) => *known |= mark.bit(),
            None => drop(callers.insert(facts.who.to_owned(), mark.bit())),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.records >= RECORDS || self.bytes >= BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Where in its file it ends.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// The one that follows it, in the same file or at the beginning of another.
    pub(super) fn next(&self, segment: u64) -> Self {
        let offset = if segment == self.segment { self.end() } else { 0 };
        Self::at(segment, offset, self.first_seq + self.records)
    }
}

/// The database that stretches are looked up in.
pub(super) struct Index(Connection);

impl Index {
    /// Opens it for the one who writes.
    pub(super) fn open(file: &Path) -> Result<Self> {
        Self::with_tables(Connection::open(file)?)
    }

    /// Opens it for somebody who only looks; where there is none, the answer is an empty one.
    pub(super) fn look(file: &Path) -> Result<Self> {
        if !file.exists() {
            return Self::empty();
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        Ok(Self(connection))
    }

    /// One that knows nothing, so that everything is read.
    pub(super) fn empty() -> Result<Self> {
        Self::with_tables(Connection::open_in_memory()?)
    }

    fn with_tables(connection: Connection) -> Result<Self> {
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // Whatever is lost with the machine is made again from the records.
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
                whole(open.segment),
                whole(open.offset),
                whole(open.bytes),
                whole(open.first_seq),
                whole(open.first_seq + open.records - 1),
                open.last_time,
            ])?;
        let block = transaction.last_insert_rowid();
        for (operation, callers) in &open.marks {
            for (who, &seen) in callers {
                for mark in Mark::ALL.into_iter().filter(|mark| seen & mark.bit() != 0) {
                    write_mark(&transaction, (operation, who), mark, block)?;
                }
            }
        }
        for stray in &open.strays {
            write_stray(&transaction, stray, block)?;
        }
        transaction.commit()
    }

    /// The stretch that the records are indexed up to.
    pub(super) fn last(&self) -> Result<Option<Block>> {
        let sql = "SELECT id, segment, offset, bytes, last_seq FROM block ORDER BY id DESC LIMIT 1";
        self.0.prepare_cached(sql)?.query_row([], block).optional()
    }

    /// All stretches in their order. From here on this sees the database as it was then, whatever is
    /// written meanwhile.
    pub(super) fn written(&self) -> Result<Vec<Written>> {
        self.0.execute_batch("BEGIN")?;
        let sql = "SELECT id, segment, offset, bytes, last_seq, first_seq, last_time FROM block
                   ORDER BY id";
        let mut statement = self.0.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            let Block { id, segment, offset, bytes, last_seq } = block(row)?;
            let first_seq = row.get::<_, i64>(5)?.cast_unsigned();
            Ok(Written { id, segment, offset, bytes, first_seq, last_seq, last_time: row.get(6)? })
        })?;
        rows.collect()
    }

    /// Whether everything in a stretch is found by what the database knows of it.
    pub(super) fn covers(&self, written: &Written, open: &OpenBlock) -> Result<bool> {
        let is_same = written.bytes == open.bytes
            && written.last_seq == open.first_seq + open.records - 1
            && written.last_time >= open.last_time;
        let marks = self.marks(written.id)?;
        let known = |operation: &str, who: &str| {
            marks.get(operation).and_then(|callers| callers.get(who)).copied().unwrap_or_default()
        };
        let all_marked = open.marks.iter().all(|(operation, callers)| {
            callers.iter().all(|(who, &seen)| seen & !known(operation, who) == 0)
        });
        let mut ends_known = true;
        for stray in &open.strays {
            ends_known &= self.knows_end(stray, written.id)?;
        }
        Ok(is_same && all_marked && ends_known)
    }

    /// By operation and caller, whether there were calls and whether some failed.
    fn marks(&self, block: i64) -> Result<HashMap<String, HashMap<String, u8>>> {
        let sql = "SELECT o.text, w.text, m.failed FROM mark m JOIN name o ON o.id = m.operation
                   JOIN name w ON w.id = m.who WHERE m.block = ?";
        let mut statement = self.0.prepare_cached(sql)?;
        let mut rows = statement.query([block])?;
        let mut marks: HashMap<String, HashMap<String, u8>> = HashMap::new();
        while let Some(row) = rows.next()? {
            let known = marks.entry(row.get(0)?).or_default().entry(row.get(1)?).or_default();
            *known |= Mark::bit_of(row.get(2)?);
        }
        Ok(marks)
    }

    /// Whether the end of a call that began in another stretch is found, and its failure where it began.
    fn knows_end(&self, stray: &Stray, block: i64) -> Result<bool> {
        if self.end_of(stray.enter)?.is_none_or(|found| found.id != block) {
            return Ok(false);
        }
        let Some((operation, who)) = &stray.failed else { return Ok(true) };
        let Some(began) = self.holding(stray.enter)? else { return Ok(true) };
        let marks = self.marks(began.id)?;
        let known = marks.get(operation).and_then(|callers| callers.get(who));
        Ok(known.is_some_and(|known| known & Mark::Failed.bit() != 0))
    }

    /// The stretch that a record is in.
    pub(super) fn holding(&self, seq: u64) -> Result<Option<Block>> {
        holding(&self.0, seq)
    }

    /// The stretch in which a call that began in another one ended.
    pub(super) fn end_of(&self, enter: u64) -> Result<Option<Block>> {
        let sql = "SELECT b.id, b.segment, b.offset, b.bytes, b.last_seq
                   FROM stray s JOIN block b ON b.id = s.block WHERE s.enter = ?";
        self.0.prepare_cached(sql)?.query_row([whole(enter)], block).optional()
    }

    /// The operations that were called, whether or not there are such, the rooms and the callers.
    pub(super) fn names(&self) -> Result<Vec<(i64, String)>> {
        let mut statement = self.0.prepare_cached("SELECT id, text FROM name")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    /// The stretches in which something that is wanted began, or stands, newest first.
    pub(super) fn blocks(&self, wanted: &Wanted<'_>) -> Result<Vec<Block>> {
        let mut sql = String::from(
            "SELECT b.id, b.segment, b.offset, b.bytes, b.last_seq FROM block b
             WHERE b.last_time >= ?1 AND b.first_seq < ?2 AND EXISTS (SELECT 1 FROM mark m WHERE m.block = b.id",
        );
        // One value however many there are: callers make names up, and a statement has a longest length.
        let operations = wanted.operations.map(|ids| format!("{ids:?}"));
        if operations.is_some() {
            sql += " AND m.operation IN (SELECT value FROM json_each(?4))";
        } else {
            sql += " AND ?4 IS NULL";
        }
        if wanted.who.is_some() {
            sql += " AND m.who = (SELECT id FROM name WHERE text = ?3)";
        } else {
            sql += " AND ?3 IS NULL";
        }
        let marks: Vec<String> =
            wanted.marks.iter().map(|&mark| (mark as u8).to_string()).collect();
        sql += &format!(" AND m.failed IN ({})", marks.join(","));
        sql += ") ORDER BY b.id DESC";
        let mut statement = self.0.prepare(&sql)?;
        let before = whole(wanted.before);
        let rows =
            statement.query_map(params![wanted.since, before, wanted.who, operations], block)?;
        rows.collect()
    }

    /// Forgets the stretches of files that are gone.
    pub(super) fn forget_before(&mut self, segment: u64) -> Result<()> {
        let transaction = self.0.transaction()?;
        let gone = [whole(segment)];
        for sql in [
            "DELETE FROM mark WHERE block IN (SELECT id FROM block WHERE segment < ?)",
            "DELETE FROM stray WHERE block IN (SELECT id FROM block WHERE segment < ?)",
            "DELETE FROM block WHERE segment < ?",
        ] {
            transaction.execute(sql, gone)?;
        }
        transaction.execute(
            "DELETE FROM name WHERE id NOT IN (SELECT operation FROM mark UNION SELECT who FROM mark)",
            [],
        )?;
        transaction.commit()
    }
}

/// What is looked for.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// One of these.
    pub(super) marks: &'a [Mark],
    /// The numbers of the names of operations, or of rooms.
    pub(super) operations: Option<&'a [i64]>,
    pub(super) who: Option<&'a str>,
    pub(super) since: i64,
    /// Records with smaller numbers.
    pub(super) before: u64,
}

fn write_mark(
    connection: &Connection,
    (operation, who): (&str, &str),
    mark: Mark,
    block: i64,
) -> Result<()> {
    let (operation, who) = (name(connection, operation)?, name(connection, who)?);
    let sql = "INSERT OR IGNORE INTO mark (operation, who, failed, block) VALUES (?, ?, ?, ?)";
    connection.prepare_cached(sql)?.execute(params![operation, who, mark as u8, block]).map(drop)
}

/// A call that failed is found where it began.
fn write_stray(connection: &Connection, stray: &Stray, block: i64) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO stray (enter, block) VALUES (?, ?)";
    connection.prepare_cached(sql)?.execute(params![whole(stray.enter), block])?;
    let Some((operation, who)) = &stray.failed else { return Ok(()) };
    match holding(connection, stray.enter)? {
        Some(began) => write_mark(connection, (operation, who), Mark::Failed, began.id),
        None => Ok(()),
    }
}

fn holding(connection: &Connection, seq: u64) -> Result<Option<Block>> {
    let sql = "SELECT id, segment, offset, bytes, last_seq FROM block
               WHERE first_seq <= ?1 AND last_seq >= ?1 ORDER BY first_seq DESC LIMIT 1";
    connection.prepare_cached(sql)?.query_row([whole(seq)], block).optional()
}

fn name(connection: &Connection, text: &str) -> Result<i64> {
    let found: Option<i64> = connection
        .prepare_cached("SELECT id FROM name WHERE text = ?")?
        .query_row([text], |row| row.get(0))
        .optional()?;
    match found {
        Some(id) => Ok(id),
        None => connection.prepare_cached("INSERT INTO name (text) VALUES (?)")?.insert([text]),
    }
}

fn block(row: &Row<'_>) -> Result<Block> {
    let whole = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    Ok(Block {
        id: row.get(0)?,
        segment: whole(1)?,
        offset: whole(2)?,
        bytes: whole(3)?,
        last_seq: whole(4)?,
    })
}

/// Numbers of the database have a sign.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
