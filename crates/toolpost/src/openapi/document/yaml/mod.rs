//! YAML text as the same tree, event by event.
//!
//! No reader takes everything that is written in the world, so there are two: the first goes by
//! YAML 1.2, the second, for what the first refuses, is the library that most tools are made with.

mod events;
mod fallback;
mod scalar;
#[cfg(test)]
mod tests;

use saphyr_parser::{Event, Marker, Parser, ScanError};

use super::builder::{Grown, Refusal};
use super::read::ReadError;
use super::tree::Tree;
use events::Reader;

const MORE_DOCUMENTS: &str = "there is more than one document in it; the first one counts";

/// What the scanner says when brackets lie in each other deeper than it counts, which is deeper
/// than the tree goes.
const SCANNER_TOO_DEEP: &str = "recursion limit exceeded";

/// Reads the first document of a YAML text, and says whether there are more.
pub(super) fn read(text: &str) -> Result<(Grown, Option<&'static str>), ReadError> {
    match first_document(text) {
        Ok((grown, is_last)) => Ok((grown, (!is_last).then_some(MORE_DOCUMENTS))),
        Err(Trouble::Text(error)) if error.info() == SCANNER_TOO_DEEP => {
            Err(refused(Refusal::TooDeep, *error.marker()))
        }
        Err(Trouble::Text(error)) => match fallback::read(text) {
            Ok((grown, is_last)) => Ok((grown, (!is_last).then_some(MORE_DOCUMENTS))),
            Err(None) => Err(told(&error)),
            Err(Some(refused)) => Err(refused),
        },
        Err(Trouble::Refused(why, at)) => Err(refused(why, at)),
        Err(Trouble::Nothing) => Err(ReadError::Empty),
    }
}

/// What each of the two readers makes of a text, for those who compare them.
pub(crate) fn each(text: &str) -> [Option<Tree>; 2] {
    let first = first_document(text).ok().map(|(grown, _)| grown.tree);
    [first, fallback::read(text).ok().map(|(grown, _)| grown.tree)]
}

enum Trouble {
    Text(ScanError),
    Refused(Refusal, Marker),
    Nothing,
}

fn first_document(text: &str) -> Result<(Grown, bool), Trouble> {
    let mut parser = Parser::new_from_str(text);
    let mut reader = Reader::default();
    let mut is_done = false;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(Trouble::Text)?;
        match event {
            Event::DocumentEnd => is_done = true,
            Event::DocumentStart(_) if is_done => return finish(reader, false),
            event => reader.take(event, span).map_err(|why| Trouble::Refused(why, span.start))?,
        }
    }
    finish(reader, true)
}

fn finish(reader: Reader, is_last: bool) -> Result<(Grown, bool), Trouble> {
    reader.finish().map(|grown| (grown, is_last)).ok_or(Trouble::Nothing)
}

fn refused(why: Refusal, at: Marker) -> ReadError {
    ReadError::Refused { why, line: at.line(), column: at.col() + 1 }
}

fn told(error: &ScanError) -> ReadError {
    let at = error.marker();
    ReadError::Yaml { message: error.info().to_owned(), line: at.line(), column: at.col() + 1 }
}
