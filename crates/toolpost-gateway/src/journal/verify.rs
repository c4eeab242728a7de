//! Verification: whether the records of a chain are unchanged, and where they are not.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chain::{Hash, LINE_PREFIX_LEN, RecordLine};
use super::head::{PositionKind, SignedPosition};
use super::index_check::IndexCheck;
use super::reader::Chain;
use super::writer::chain_start;

/// Maximum number of retries when records are removed during a verification.
const MAX_VERIFY_ATTEMPTS: usize = 3;

/// A head stored elsewhere, to compare with.
#[derive(Debug, Clone)]
pub struct Anchor(SignedPosition);

impl Anchor {
    /// Parses a head: the `….head` file of a gateway, or the `head` in the output of `verify`.
    ///
    /// # Errors
    ///
    /// The value is not a head or its signature is invalid.
    pub fn parse(value: Value) -> Result<Self, String> {
        let position: SignedPosition = serde_json::from_value(value)
            .map_err(|error| format!("this is no head of a journal: {error}"))?;
        match position.about == PositionKind::Head && position.is_signature_valid() {
            true => Ok(Self(position)),
            false => Err("the signature of this head is wrong; it was changed".to_owned()),
        }
    }

    pub(super) fn gateway_id(&self) -> &str {
        &self.0.gateway_id
    }
}

/// Result of the verification of a chain.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChainReport {
    /// Gateway id of the chain.
    pub gateway_id: String,
    /// Whether the chain is intact.
    pub ok: bool,
    /// Number of records read.
    pub records: u64,
    /// Sequence number of the first record.
    pub first: u64,
    /// Sequence number of the last valid record.
    pub last: u64,
    /// The first problem found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub problem: Option<ChainProblem>,
    /// The last signed head. Stored elsewhere, it is an anchor for `--head`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub head: Option<Value>,
}

/// A problem in a chain, and its location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ChainProblem {
    /// Kind of problem: `edited`, `missing`, `order`, `damaged`, `cut`, `rewritten`, `head`,
    /// `anchor` or `index`.
    pub kind: String,
    /// The record.
    pub seq: u64,
    /// File and line of the problem, if known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(default)]
    pub place: String,
    /// Description of the problem.
    pub message: String,
}

impl ChainProblem {
    fn new(kind: &str, seq: u64, message: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), seq, place: String::new(), message: message.into() }
    }
}

impl ChainReport {
    /// Report for an anchor whose chain does not exist.
    pub(super) fn for_missing_chain(anchor: &Anchor) -> Self {
        let position = &anchor.0;
        let message = "the anchor is of a journal that is not here";
        Self {
            gateway_id: position.gateway_id.clone(),
            ok: false,
            records: 0,
            first: 0,
            last: 0,
            problem: Some(ChainProblem::new("missing", position.seq, message)),
            head: None,
        }
    }
}

/// Verifies a chain. Retries if old records are removed in the meantime.
pub(super) fn verify(chain: &Chain, anchor: Option<&Anchor>) -> ChainReport {
    let start = || chain_start(&chain.signed_files, &chain.gateway_id).map(|(seq, _)| seq).ok();
    for _ in 0..MAX_VERIFY_ATTEMPTS {
        let before = start();
        let report = verify_once(chain, anchor);
        if report.ok || before == start() {
            return report;
        }
    }
    verify_once(chain, anchor)
}

fn verify_once(chain: &Chain, anchor: Option<&Anchor>) -> ChainReport {
    // The head is read first: records can be added after it in the meantime, but not before it.
    let head = SignedPosition::read_concurrently_written(&chain.signed_files.head);
    let anchor = anchor.filter(|anchor| anchor.gateway_id() == chain.gateway_id);
    let mut verifier = ChainVerifier {
        chain,
        head: head.as_ref().ok(),
        anchor: anchor.map(|anchor| &anchor.0),
        seq: 0,
        hash: Hash::genesis(&chain.gateway_id),
        records: 0,
        index_check: None,
    };
    let mut first = 1;
    let problem = match verifier.check_head(&head) {
        Some(problem) => Some(problem),
        None => match chain_start(&chain.signed_files, &chain.gateway_id) {
            Ok((seq, hash)) => {
                (verifier.seq, verifier.hash, first) = (seq, hash, seq + 1);
                verifier.check_records()
            }
            Err(error) => {
                Some(ChainProblem::new("head", 0, format!("the checkpoint is wrong: {error}")))
            }
        },
    };
    ChainReport {
        gateway_id: chain.gateway_id.clone(),
        ok: problem.is_none(),
        records: verifier.records,
        first,
        last: verifier.seq,
        problem,
        head: head.ok().and_then(|head| serde_json::to_value(head).ok()),
    }
}

struct ChainVerifier<'a> {
    chain: &'a Chain,
    head: Option<&'a SignedPosition>,
    anchor: Option<&'a SignedPosition>,
    /// Sequence number of the last valid record.
    seq: u64,
    hash: Hash,
    records: u64,
    /// Check of the index against the records.
    index_check: Option<IndexCheck>,
}

impl ChainVerifier<'_> {
    fn check_head(&self, head: &io::Result<SignedPosition>) -> Option<ChainProblem> {
        match head {
            Err(error) => {
                Some(ChainProblem::new("head", 0, format!("the head cannot be read: {error}")))
            }
            Ok(head)
                if head.gateway_id != self.chain.gateway_id || head.about != PositionKind::Head =>
            {
                Some(ChainProblem::new("head", head.seq, "the head is that of another journal"))
            }
            Ok(head) if !head.is_signature_valid() => {
                Some(ChainProblem::new("head", head.seq, "the signature of the head is wrong"))
            }
            Ok(_) => None,
        }
    }

    fn check_records(&mut self) -> Option<ChainProblem> {
        if let Some(problem) = self.check_not_removed().or_else(|| self.check_signed_positions()) {
            return Some(problem);
        }
        // Before the segments are listed, because the index never covers more than they contain.
        self.index_check = IndexCheck::start(self.chain, self.seq);
        match self.check_segments() {
            Ok(None) => self.check_end().or_else(|| self.check_index()),
            Ok(problem) => problem,
            Err(error) => {
                let message = format!("what follows cannot be read: {error}");
                Some(ChainProblem::new("damaged", self.seq + 1, message))
            }
        }
    }

    /// Returns an index problem. Problems with the records have precedence.
    fn check_index(&mut self) -> Option<ChainProblem> {
        let (first, last) = self.index_check.take()?.finish()?;
        let file = self.chain.segments.folder().join(super::INDEX_FILE);
        let message = format!(
            "searches miss calls: the index does not say what records {first} to {last} hold; the \
             records are as they were written, and the next start makes the index again when its \
             file is deleted"
        );
        let index_path = file.display().to_string();
        Some(ChainProblem { place: index_path, ..ChainProblem::new("index", first, message) })
    }

    /// Checks that the records of the head and the anchor were not removed. The head is never older
    /// than the checkpoint, unless an old head was restored.
    fn check_not_removed(&self) -> Option<ChainProblem> {
        let is_removed = |position: &&SignedPosition| position.seq < self.seq;
        if let Some(head) = self.head.filter(is_removed) {
            let message = format!("the head is older than the checkpoint of record {}", self.seq);
            return Some(ChainProblem::new("head", head.seq, message));
        }
        let anchor = self.anchor.filter(is_removed)?;
        let message = format!(
            "the anchor cannot be compared: its record was removed with those up to {}; use a newer one",
            self.seq
        );
        Some(ChainProblem::new("anchor", anchor.seq, message))
    }

    fn check_segments(&mut self) -> io::Result<Option<ChainProblem>> {
        let start = self.seq;
        // Segments before the checkpoint are due for removal.
        let list = self.chain.segments.list()?;
        for first in list.into_iter().filter(|&first| first > start) {
            if let Some(problem) = self.check_segment(first)? {
                return Ok(Some(problem));
            }
        }
        Ok(None)
    }

    fn check_segment(&mut self, first: u64) -> io::Result<Option<ChainProblem>> {
        let path = self.chain.segments.path(first);
        // A segment is named after the sequence number of its first record.
        if let Some(mut problem) = self.check_seq(first) {
            problem.place = format!("{}:1", path.display());
            return Ok(Some(problem));
        }
        if let Some(index_check) = &mut self.index_check {
            index_check.start_segment(first);
        }
        let mut reader = BufReader::with_capacity(1024 * 1024, File::open(&path)?);
        let mut long = Vec::new();
        let mut number = 0_u64;
        loop {
            number += 1;
            let buffer = reader.fill_buf()?;
            let (problem, used) = match memchr::memchr(b'\n', buffer) {
                // Most lines are complete in the buffer and are checked in place.
                Some(end) => (self.check_line(&buffer[..end]), end + 1),
                None => {
                    long.clear();
                    reader.read_until(b'\n', &mut long)?;
                    match long.strip_suffix(b"\n") {
                        Some(line) => (self.check_line(line), 0),
                        // A partial write after the last complete record is not a record.
                        None => return Ok(None),
                    }
                }
            };
            reader.consume(used);
            if let Some(mut problem) = problem {
                if problem.kind == "missing" && self.appears_later(&mut reader)? {
                    problem.kind = "order".to_owned();
                    problem.message = format!("record {} stands behind later ones", problem.seq);
                }
                problem.place = format!("{}:{number}", path.display());
                return Ok(Some(problem));
            }
        }
    }

    fn check_line(&mut self, line: &[u8]) -> Option<ChainProblem> {
        let Some(line) = RecordLine::parse(line) else {
            let message = "this is not the line of a record";
            return Some(ChainProblem::new("damaged", self.seq + 1, message));
        };
        if let Some(problem) = self.check_seq(line.seq) {
            return Some(problem);
        }
        let hash = self.hash.next(line.content);
        if hash != line.hash {
            let message =
                "it is not what its hash was made of: it, or what stood before it, was edited";
            return Some(ChainProblem::new("edited", line.seq, message));
        }
        (self.seq, self.hash) = (line.seq, hash);
        self.records += 1;
        if let Some(index_check) = &mut self.index_check {
            let bytes = LINE_PREFIX_LEN + line.content.len() + 1;
            index_check.check_record(line.seq, line.content, bytes as u64);
        }
        self.check_signed_positions()
    }

    /// Checks that the record has the next sequence number.
    fn check_seq(&self, found: u64) -> Option<ChainProblem> {
        let expected = self.seq + 1;
        if found < expected {
            let message = format!("record {found} stands behind record {}", self.seq);
            return Some(ChainProblem::new("order", found, message));
        }
        let message = match found - expected {
            0 => return None,
            1 => format!("record {expected} is missing"),
            _ => format!("records {expected} to {} are missing", found - 1),
        };
        Some(ChainProblem::new("missing", expected, message))
    }

    /// Checks that the last record read matches the anchor and the head, if they refer to it.
    fn check_signed_positions(&self) -> Option<ChainProblem> {
        let is_wrong = |position: &&SignedPosition| {
            position.seq == self.seq && position.hash() != Some(self.hash)
        };
        if self.anchor.filter(is_wrong).is_some() {
            let message =
                "it is not the record that the anchor was made of: the journal was rewritten";
            return Some(ChainProblem::new("anchor", self.seq, message));
        }
        self.head.filter(is_wrong)?;
        let message = "it is not the record that was signed: the journal was rewritten up to here";
        Some(ChainProblem::new("rewritten", self.seq, message))
    }

    fn check_end(&self) -> Option<ChainProblem> {
        let cut = |position: &SignedPosition, kind, whose| {
            let message = format!(
                "the journal ends with record {}, but {whose} says {}",
                self.seq, position.seq
            );
            ChainProblem::new(kind, self.seq + 1, message)
        };
        let is_behind = |position: &&SignedPosition| self.seq < position.seq;
        let by_head = self.head.filter(is_behind).map(|head| cut(head, "cut", "its head"));
        by_head.or_else(|| self.anchor.filter(is_behind).map(|a| cut(a, "anchor", "the anchor")))
    }

    /// Whether the expected record appears later in the file.
    fn appears_later(&self, reader: &mut impl BufRead) -> io::Result<bool> {
        let expected = self.seq + 1;
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                return Ok(false);
            }
            if RecordLine::parse(&line).is_some_and(|line| line.seq == expected) {
                return Ok(true);
            }
        }
    }
}
