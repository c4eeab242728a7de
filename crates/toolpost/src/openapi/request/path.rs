//! The path: text with holes, and no value that leads anywhere else.

use serde_json::{Map, Value};

use super::super::plan::{Notation, Parameter, Position, Style};
use super::escape::Escape;
use super::place::Place;
use super::query::content;
use super::style::Manner;
use super::template::TemplateError;
use crate::schema::Issue;

/// A path in pieces.
#[derive(Debug)]
pub(super) struct Path {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    /// The index of a parameter in the plan.
    Hole(usize),
}

impl Path {
    /// Takes a path apart. What stands behind `#` is never sent, so it is not kept.
    pub(super) fn new(path: &str, parameters: &[Parameter]) -> Result<Self, TemplateError> {
        let mut rest = path.split('#').next().unwrap_or_default();
        let mut pieces = Vec::new();
        while let Some((before, name, after)) = hole(rest) {
            let index = position(parameters, name).ok_or_else(|| TemplateError::Hole {
                path: path.to_owned(),
                name: name.to_owned(),
            })?;
            pieces.extend([Piece::Text(before.to_owned()), Piece::Hole(index)]);
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self { pieces })
    }

    /// Whether no parameter stands in the path.
    pub(super) fn is_whole(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// Whether a parameter stands in the path.
    pub(super) fn holds(&self, index: usize) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Hole(at) if *at == index))
    }

    /// Appends the path with its values.
    pub(super) fn append(
        &self,
        out: &mut String,
        parameters: &[Parameter],
        input: &Map<String, Value>,
    ) -> Result<(), Issue> {
        let mut last = None;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    // A segment is whole as soon as the next one, or the query, begins.
                    let end = text.find(['/', '?']).unwrap_or(text.len());
                    out.push_str(&text[..end]);
                    if end < text.len() {
                        check(out, last.take())?;
                    }
                    out.push_str(&text[end..]);
                }
                Piece::Hole(index) => {
                    let parameter = &parameters[*index];
                    let value = input.get(&parameter.input).unwrap_or(&Value::Null);
                    fill(out, parameter, value);
                    last = last.or(Some(parameter));
                }
            }
        }
        check(out, last)
    }
}

fn fill(out: &mut String, parameter: &Parameter, value: &Value) {
    match &parameter.notation {
        Notation::Style { style, explode, allow_reserved } => {
            let escape = if *allow_reserved { Escape::ReservedInPath } else { Escape::All };
            let manner = Manner { style: *style, explode: *explode, escape };
            manner.inline(out, &parameter.name, value);
        }
        Notation::Content(media_type) => {
            Escape::All.push(out, &content(media_type, value, Escape::Nothing));
        }
    }
}

/// Refuses a segment that is nothing or only dots: it would be another path, with or without being
/// tidied up on the way.
fn check(out: &str, filled: Option<&Parameter>) -> Result<(), Issue> {
    let Some(parameter) = filled else { return Ok(()) };
    if out.contains('?') {
        return Ok(());
    }
    let segment = out.rsplit('/').next().unwrap_or_default();
    let segment = segment.to_ascii_lowercase().replace("%2e", ".");
    let reason = match (segment.as_str(), &parameter.notation) {
        ("", _) => "an empty value would be another path".to_owned(),
        (".", Notation::Style { style: Style::Label, .. }) => {
            "an empty value would be another path: it is written as `.`".to_owned()
        }
        ("." | "..", _) => format!("`{segment}` would be another path"),
        _ => return Ok(()),
    };
    Err(Place::of(&parameter.input).issue(reason))
}

/// What stands before the first `{name}`, the name, and what stands behind it.
fn hole(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

/// The parameter of a hole. Some documents write the query into the path, holes and all.
fn position(parameters: &[Parameter], name: &str) -> Option<usize> {
    let at = |position| parameters.iter().position(|it| it.name == name && it.position == position);
    at(Position::Path).or_else(|| at(Position::Query))
}
