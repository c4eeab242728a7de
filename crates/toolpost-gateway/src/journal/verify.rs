//! Verification: whether the records of a chain are unchanged, and where they are not.

use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolpost::json::error_message;

use super::chain::{Hash, LINE_PREFIX_LEN, RecordLine};
use super::head::{PositionKind, SignedPosition};
use super::index_check::IndexCheck;
use super::key::SigningKey;
use super::layout::Chain;
use super::segment::LineReader;

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
            .map_err(|error| format!("invalid journal head: {}", error_message(&error)))?;
        match position.about == PositionKind::Head && position.is_signature_valid() {
            true => Ok(Self(position)),
            false => Err("invalid journal head: the signature does not match".to_owned()),
        }
    }

    pub(super) fn gateway_id(&self) -> &str {
        &self.0.gateway_id
    }
}

/// Result of the verification of a chain.
#[derive(Debug, Default, Serialize, JsonSchema)]
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
    /// Whether the key of the journal was available. Without it, only signed records are verified.
    pub has_key: bool,
    /// Number of records at the end that are neither signed nor verified with the key. They may be
    /// forged.
    pub unsigned: u64,
    /// Whether the journal ends with the signature of a clean stop. Otherwise its gateway is running
    /// or has crashed.
    pub closed: bool,
    /// The first problem found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<ChainProblem>,
    /// The last signed head. Stored elsewhere, it is an anchor for `--head`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Value>,
}

/// A problem in a chain, and its location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChainProblem {
    /// Kind of problem.
    pub kind: ProblemKind,
    /// The record.
    pub seq: u64,
    /// File and line of the problem, if known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Description of the problem.
    pub message: String,
}

/// Kind of a problem in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ProblemKind {
    /// The content of a record does not match its hash.
    Edited,
    /// Records, or a whole journal, are missing.
    Missing,
    /// Records are out of order.
    Order,
    /// A line is not a record, or a file cannot be read.
    Damaged,
    /// The last records are missing.
    Cut,
    /// The records do not match a signature.
    Rewritten,
    /// A record was not written by this gateway.
    Forged,
    /// The records were written by an earlier version, which this version cannot read.
    Format,
    /// The head or the checkpoint is invalid.
    Head,
    /// The records do not match the anchor.
    Anchor,
    /// The index hides records from searches.
    Index,
}

impl ChainProblem {
    fn new(kind: ProblemKind, seq: u64, message: impl Into<String>) -> Self {
        Self { kind, seq, place: String::new(), message: message.into() }
    }

    fn at_line(mut self, file: &Path, line: u64) -> Self {
        self.place = format!("{}:{line}", file.display());
        self
    }
}

fn fail<T>(kind: ProblemKind, seq: u64, message: impl Into<String>) -> Result<T, ChainProblem> {
    Err(ChainProblem::new(kind, seq, message))
}

impl ChainReport {
    /// Report for an anchor whose chain does not exist.
    pub(super) fn for_missing_chain(anchor: &Anchor) -> Self {
        let message = "the journal of this head is not in the data folder";
        let problem = ChainProblem::new(ProblemKind::Missing, anchor.0.seq, message);
        let gateway_id = anchor.gateway_id().to_owned();
        Self { gateway_id, problem: Some(problem), ..Self::default() }
    }
}

/// Verifies a chain: every record if the key is given, and otherwise those that are signed. Retries
/// if old records are removed in the meantime.
pub(super) fn verify(
    chain: &Chain,
    key: Option<&SigningKey>,
    anchor: Option<&Anchor>,
) -> ChainReport {
    let start = || chain.start().map(|(seq, _)| seq).ok();
    for _ in 0..MAX_VERIFY_ATTEMPTS {
        let before = start();
        let report = verify_once(chain, key, anchor);
        if report.ok || before == start() {
            return report;
        }
    }
    verify_once(chain, key, anchor)
}

fn verify_once(chain: &Chain, key: Option<&SigningKey>, anchor: Option<&Anchor>) -> ChainReport {
    // The head is read first: records can be added after it in the meantime, but not before it.
    let head = SignedPosition::read_concurrently_written(&chain.head);
    let gateway_id = chain.gateway_id.clone();
    let has_key = key.is_some();
    let mut report = ChainReport { gateway_id, first: 1, has_key, ..ChainReport::default() };
    let anchor = anchor.filter(|anchor| anchor.gateway_id() == chain.gateway_id);
    let anchor = anchor.map(|anchor| &anchor.0);
    report.problem = check_chain(chain, key, head.as_ref(), anchor, &mut report).err();
    report.ok = report.problem.is_none();
    report.head = head.ok().and_then(|head| serde_json::to_value(head).ok());
    report
}

fn check_chain(
    chain: &Chain,
    key: Option<&SigningKey>,
    head: Result<&SignedPosition, &io::Error>,
    anchor: Option<&SignedPosition>,
    report: &mut ChainReport,
) -> Result<(), ChainProblem> {
    let problem = |message: String| ChainProblem::new(ProblemKind::Head, 0, message);
    let head = head.map_err(|error| problem(format!("cannot read the head: {error}")))?;
    if head.gateway_id != chain.gateway_id || head.about != PositionKind::Head {
        return fail(ProblemKind::Head, head.seq, "the head belongs to another journal");
    }
    if !head.is_signature_valid() {
        return fail(ProblemKind::Head, head.seq, "the signature of the head is invalid");
    }
    let start = chain.start();
    let (seq, hash) =
        start.map_err(|error| problem(format!("the checkpoint is invalid: {error}")))?;
    (report.first, report.last) = (seq + 1, seq);
    let signed = head.seq;
    ChainVerifier { chain, key, head, anchor, hash, signed, report, index_check: None }
        .check_records()
}

struct ChainVerifier<'a> {
    chain: &'a Chain,
    key: Option<&'a SigningKey>,
    head: &'a SignedPosition,
    anchor: Option<&'a SignedPosition>,
    hash: Hash,
    /// Sequence number up to which the records are signed.
    signed: u64,
    report: &'a mut ChainReport,
    index_check: Option<IndexCheck>,
}

impl ChainVerifier<'_> {
    fn check_records(mut self) -> Result<(), ChainProblem> {
        self.check_not_removed()?;
        self.check_signed_positions()?;
        let start = self.report.last;
        // Before the segments are listed, because the index never covers more than they contain.
        self.index_check = IndexCheck::start(self.chain, start);
        let list = self.chain.segments.list().map_err(|error| self.unreadable(&error))?;
        // Segments before the checkpoint are due for removal.
        for first in list.into_iter().filter(|&first| first > start) {
            self.check_segment(first)?;
        }
        self.check_end()?;
        if self.key.is_none() {
            self.report.unsigned = self.report.last.saturating_sub(self.signed);
        }
        self.check_index()
    }

    /// Reports an index problem. Problems with the records have precedence.
    fn check_index(self) -> Result<(), ChainProblem> {
        let Some((first, last)) = self.index_check.and_then(IndexCheck::finish) else {
            return Ok(());
        };
        let message = format!(
            "the index does not cover records {first} to {last}, so searches miss them; the \
             records are intact; delete the index to have it rebuilt at the next start"
        );
        let place = self.chain.index_file().display().to_string();
        Err(ChainProblem { place, ..ChainProblem::new(ProblemKind::Index, first, message) })
    }

    /// Checks that the records of the head and the anchor were not removed. The head is never older
    /// than the checkpoint, unless an old head was restored.
    fn check_not_removed(&self) -> Result<(), ChainProblem> {
        let removed = self.report.last;
        if self.head.seq < removed {
            let message = format!("the head is older than the checkpoint of record {removed}");
            return fail(ProblemKind::Head, self.head.seq, message);
        }
        let Some(anchor) = self.anchor.filter(|anchor| anchor.seq < removed) else {
            return Ok(());
        };
        let message = format!(
            "the head given for comparison is too old: the records up to {removed} were removed; use a newer head"
        );
        fail(ProblemKind::Anchor, anchor.seq, message)
    }

    fn check_segment(&mut self, first: u64) -> Result<(), ChainProblem> {
        let path = self.chain.segments.path(first);
        // A segment is named after the sequence number of its first record.
        self.check_seq(first).map_err(|problem| problem.at_line(&path, 1))?;
        if let Some(index_check) = &mut self.index_check {
            index_check.start_segment(first);
        }
        let lines = self.chain.segments.lines(first, 0);
        let mut lines = lines.map_err(|error| self.unreadable(&error))?;
        let mut number = 0;
        while let Some(line) = lines.next().map_err(|error| self.unreadable(&error))? {
            number += 1;
            if let Err(mut problem) = self.check_line(line) {
                if problem.kind == ProblemKind::Missing && self.appears_later(&mut lines)? {
                    problem.kind = ProblemKind::Order;
                    problem.message = format!("record {} comes after later records", problem.seq);
                }
                return Err(problem.at_line(&path, number));
            }
        }
        Ok(())
    }

    fn check_line(&mut self, line: &[u8]) -> Result<(), ChainProblem> {
        let Some(line) = RecordLine::parse(line) else {
            let (kind, message) = match RecordLine::is_old_format(line) {
                true => (
                    ProblemKind::Format,
                    "the record was written by an earlier version of the journal, which this \
                     version cannot read; move the files of this journal to another folder",
                ),
                false => (ProblemKind::Damaged, "the line is not a record"),
            };
            return fail(kind, self.report.last + 1, message);
        };
        self.check_seq(line.seq)?;
        let hash = self.hash.next(line.content);
        if hash != line.hash {
            let message = "the record does not match its hash";
            return fail(ProblemKind::Edited, line.seq, message);
        }
        if self.key.is_some_and(|key| key.mac(hash) != line.mac) {
            let message = "the record was not written by this gateway";
            return fail(ProblemKind::Forged, line.seq, message);
        }
        self.check_signature(&line)?;
        (self.report.last, self.hash) = (line.seq, hash);
        self.report.records += 1;
        if let Some(index_check) = &mut self.index_check {
            let bytes = LINE_PREFIX_LEN + line.content.len() + 1;
            index_check.check_record(line.content, bytes as u64);
        }
        self.check_signed_positions()
    }

    /// Checks the signature of the records before this one, if it is a signature.
    fn check_signature(&mut self, line: &RecordLine<'_>) -> Result<(), ChainProblem> {
        let SignedPosition { gateway_id, public_key, .. } = self.head;
        let signed = SignedPosition::from_record(line, self.hash, gateway_id, public_key);
        self.report.closed = signed.as_ref().is_some_and(|it| it.about == PositionKind::Close);
        let Some(signed) = signed else { return Ok(()) };
        if !signed.is_signature_valid() {
            let message = "the records before this one do not match its signature";
            return fail(ProblemKind::Rewritten, line.seq, message);
        }
        self.signed = self.signed.max(line.seq);
        Ok(())
    }

    fn check_seq(&self, found: u64) -> Result<(), ChainProblem> {
        let expected = self.report.last + 1;
        if found < expected {
            let message = format!("record {found} comes after record {}", self.report.last);
            return fail(ProblemKind::Order, found, message);
        }
        let message = match found - expected {
            0 => return Ok(()),
            1 => format!("record {expected} is missing"),
            _ => format!("records {expected} to {} are missing", found - 1),
        };
        fail(ProblemKind::Missing, expected, message)
    }

    /// Checks that the last record read matches the anchor and the head, if they refer to it.
    fn check_signed_positions(&self) -> Result<(), ChainProblem> {
        let seq = self.report.last;
        let is_wrong =
            |position: &SignedPosition| position.seq == seq && position.hash() != Some(self.hash);
        if self.anchor.is_some_and(is_wrong) {
            let message = "the record differs from the head given for comparison";
            return fail(ProblemKind::Anchor, seq, message);
        }
        if is_wrong(self.head) {
            let message = "the record differs from the signed head";
            return fail(ProblemKind::Rewritten, seq, message);
        }
        Ok(())
    }

    fn check_end(&self) -> Result<(), ChainProblem> {
        let last = self.report.last;
        let positions = [
            (Some(self.head), ProblemKind::Cut, "the signed head"),
            (self.anchor, ProblemKind::Anchor, "the head given for comparison"),
        ];
        for (position, kind, whose) in positions {
            if let Some(SignedPosition { seq, .. }) = position.filter(|at| last < at.seq) {
                let message = format!("the last record is {last}, but {whose} is at record {seq}");
                return fail(kind, last + 1, message);
            }
        }
        Ok(())
    }

    fn appears_later(&self, lines: &mut LineReader) -> Result<bool, ChainProblem> {
        let expected = self.report.last + 1;
        while let Some(line) = lines.next().map_err(|error| self.unreadable(&error))? {
            if RecordLine::parse(line).is_some_and(|line| line.seq == expected) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn unreadable(&self, error: &io::Error) -> ChainProblem {
        let message = format!("cannot read the next records: {error}");
        ChainProblem::new(ProblemKind::Damaged, self.report.last + 1, message)
    }
}
