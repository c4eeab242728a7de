//! Path templates. A parameter value cannot change the structure of the path.

use serde_json::Value;

use super::super::plan::{Parameter, ParameterLocation, ParameterSerialization, Style};
use super::binary::parameter_bytes;
use super::escape::PercentEscape;
use super::query::encode_content;
use super::style::ValueSerializer;
use super::template::TemplateError;
use crate::json::{JsonObject, ValuePath};
use crate::schema::Issue;

/// A parsed path template.
#[derive(Debug)]
pub(super) struct PathTemplate {
    pieces: Vec<PathPiece>,
}

#[derive(Debug)]
enum PathPiece {
    Literal(String),
    /// Index of the parameter in the plan.
    Parameter(usize),
}

impl PathTemplate {
    /// Parses a path template. A fragment is dropped, because it is never sent.
    pub(super) fn new(path: &str, parameters: &[Parameter]) -> Result<Self, TemplateError> {
        let mut rest = path.split('#').next().unwrap_or_default();
        let mut pieces = Vec::new();
        while let Some((before, placeholder)) = rest.split_once('{')
            && let Some((name, after)) = placeholder.split_once('}')
        {
            let index = parameter_index(parameters, name).ok_or_else(|| {
                TemplateError::UnknownParameter { path: path.to_owned(), name: name.to_owned() }
            })?;
            pieces.extend([PathPiece::Literal(before.to_owned()), PathPiece::Parameter(index)]);
            rest = after;
        }
        pieces.push(PathPiece::Literal(rest.to_owned()));
        Ok(Self { pieces })
    }

    /// Whether the path contains no parameters.
    pub(super) fn is_literal(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, PathPiece::Literal(_)))
    }

    /// Whether the path contains a parameter.
    pub(super) fn contains(&self, index: usize) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, PathPiece::Parameter(at) if *at == index))
    }

    /// Appends the path with its parameter values.
    pub(super) fn append(
        &self,
        out: &mut String,
        parameters: &[Parameter],
        input: &JsonObject,
    ) -> Result<(), Issue> {
        let mut last = None;
        for piece in &self.pieces {
            match piece {
                PathPiece::Literal(text) => {
                    // A segment is complete when the next one or the query starts.
                    let end = text.find(['/', '?']).unwrap_or(text.len());
                    out.push_str(&text[..end]);
                    if end < text.len() {
                        check_segment(out, last.take())?;
                    }
                    out.push_str(&text[end..]);
                }
                PathPiece::Parameter(index) => {
                    let parameter = &parameters[*index];
                    let value = input.get(&parameter.input).unwrap_or(&Value::Null);
                    encode_parameter(out, parameter, value)?;
                    last = last.or(Some(parameter));
                }
            }
        }
        check_segment(out, last)
    }
}

fn encode_parameter(out: &mut String, parameter: &Parameter, value: &Value) -> Result<(), Issue> {
    if let Some(bytes) = parameter_bytes(parameter, value)? {
        PercentEscape::All.push_bytes(out, &bytes);
        return Ok(());
    }
    match &parameter.serialization {
        ParameterSerialization::Style { style, explode, allow_reserved } => {
            let escape = if *allow_reserved {
                PercentEscape::AllowReservedInPath
            } else {
                PercentEscape::All
            };
            let serializer = ValueSerializer { style: *style, explode: *explode, escape };
            serializer.append_inline(out, &parameter.name, value);
        }
        ParameterSerialization::Content(media_type) => {
            PercentEscape::All.push(out, &encode_content(media_type, value, PercentEscape::None));
        }
    }
    Ok(())
}

/// Rejects a filled segment that is empty, `.` or `..`, because it would change the path.
fn check_segment(out: &str, filled: Option<&Parameter>) -> Result<(), Issue> {
    let Some(parameter) = filled else { return Ok(()) };
    if out.contains('?') {
        return Ok(());
    }
    let segment = out.rsplit('/').next().unwrap_or_default();
    let segment = segment.to_ascii_lowercase().replace("%2e", ".");
    let reason = match (segment.as_str(), &parameter.serialization) {
        ("", _) => "an empty value would change the path".to_owned(),
        (".", ParameterSerialization::Style { style: Style::Label, .. }) => {
            "an empty value would change the path: it is written as `.`".to_owned()
        }
        ("." | "..", _) => format!("`{segment}` would change the path"),
        _ => return Ok(()),
    };
    Err(ValuePath::ROOT.member(&parameter.input).issue(reason))
}

/// Returns the index of the parameter for a placeholder, which may be in the query.
fn parameter_index(parameters: &[Parameter], name: &str) -> Option<usize> {
    let at = |position| parameters.iter().position(|it| it.name == name && it.location == position);
    at(ParameterLocation::Path).or_else(|| at(ParameterLocation::Query))
}
