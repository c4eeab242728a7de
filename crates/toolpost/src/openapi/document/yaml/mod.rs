//! Parses YAML events into the same tree as JSON.
//!
//! No single YAML parser accepts all documents in use, so there are two readers. The first follows
//! YAML 1.2. The second, used for text that the first rejects, is `serde_norway`, which is based on
//! libyaml like most tools.

mod event_reader;
mod fallback;
mod scalar;
#[cfg(test)]
mod tests;

use saphyr_parser::{Event, Marker, Parser, ScanError};

use super::parse::DocumentParseError;
use super::tree::Tree;
use super::tree_builder::{BuildError, BuiltTree};
use event_reader::YamlEventReader;

const MULTIPLE_DOCUMENTS_WARNING: &str = "the file has more than one document; the first is used";

/// Error message of the scanner for brackets that are nested too deeply. Its limit is higher than
/// that of the tree.
const SCANNER_TOO_DEEP: &str = "recursion limit exceeded";

/// Parses the first document of a YAML text. Returns a warning if there are more.
pub(super) fn parse(text: &str) -> Result<(BuiltTree, Option<&'static str>), DocumentParseError> {
    let (built, is_last) = parse_first_document(text).or_else(|error| match error {
        YamlError::Scan(error) if error.info() == SCANNER_TOO_DEEP => {
            Err(rejected_error(BuildError::TooDeep, *error.marker()))
        }
        YamlError::Scan(error) => {
            fallback::parse(text).map_err(|rejected| rejected.unwrap_or_else(|| scan_error(&error)))
        }
        YamlError::Rejected(reason, at) => Err(rejected_error(reason, at)),
        YamlError::Empty => Err(DocumentParseError::Empty),
    })?;
    Ok((built, (!is_last).then_some(MULTIPLE_DOCUMENTS_WARNING)))
}

/// Parses a document with each of the two readers, for comparison.
pub(crate) fn parse_with_both_readers(text: &str) -> [Option<Tree>; 2] {
    let first = parse_first_document(text).ok().map(|(built, _)| built.tree);
    [first, fallback::parse(text).ok().map(|(built, _)| built.tree)]
}

enum YamlError {
    Scan(ScanError),
    Rejected(BuildError, Marker),
    Empty,
}

fn parse_first_document(text: &str) -> Result<(BuiltTree, bool), YamlError> {
    let mut parser = Parser::new_from_str(text);
    let mut reader = YamlEventReader::default();
    let mut is_done = false;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(YamlError::Scan)?;
        match event {
            Event::DocumentEnd => is_done = true,
            Event::DocumentStart(_) if is_done => return finish_document(reader, false),
            event => reader
                .handle_event(event, span)
                .map_err(|reason| YamlError::Rejected(reason, span.start))?,
        }
    }
    finish_document(reader, true)
}

fn finish_document(reader: YamlEventReader, is_last: bool) -> Result<(BuiltTree, bool), YamlError> {
    reader.finish().map(|built| (built, is_last)).ok_or(YamlError::Empty)
}

fn rejected_error(reason: BuildError, at: Marker) -> DocumentParseError {
    DocumentParseError::Rejected { reason, line: at.line(), column: at.col() + 1 }
}

fn scan_error(error: &ScanError) -> DocumentParseError {
    let at = error.marker();
    DocumentParseError::Yaml {
        message: error.info().to_owned(),
        line: at.line(),
        column: at.col() + 1,
    }
}
