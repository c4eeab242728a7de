//! Why a value could not be repaired.

use std::fmt;

/// A value that `cast` could not repair; the value itself is left as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} at `{path}`: {message}")]
#[non_exhaustive]
pub struct CastError {
    /// Which of the closed set of causes it was.
    pub code: CastCode,
    /// JSON Pointer to the place in the value; empty for the value itself.
    pub path: String,
    /// What is wrong there, in words for a person.
    pub message: String,
}

/// The closed set of causes for which a value cannot be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CastCode {
    /// A string had to be made up, and no string is known to match its `pattern`.
    CreatePattern,
    /// A string had to be made up, and none is known to match its `format`.
    CreateFormat,
    /// An array of unique items had to be made up.
    CreateUniqueItems,
    /// An array with `contains` had to be made up.
    CreateContains,
    /// Items are still repeated, or too few are left, once repeated scalars are dropped.
    CastUniqueItems,
    /// The made-up parts of an `allOf` do not fit together.
    CreateIntersect,
    /// A value had to be made up for a `not`.
    CreateNot,
    /// A value had to be made up where none is allowed.
    CreateNever,
    /// There is a value where none is allowed.
    CastNever,
    /// TypeBox's own guard for `Type.Recursive`. JSON Schema has no such type, so recursion in a
    /// schema document is always [`CastCode::Stack`]; the name completes the set.
    CreateRecursive,
    /// The value or the schema recurses too deeply, or the made-up data would be too large.
    Stack,
    /// A `$ref` points nowhere.
    Deref,
    /// TypeBox's answer to a schema that is not one of its own kinds. Every JSON Schema maps to
    /// a kind, so it is never given here; the name completes the set.
    UnknownType,
    /// A `pattern` is not a regular expression, or needs too much backtracking.
    Regex,
    /// An array's `default` is not an array.
    TypeError,
}

impl CastCode {
    /// The name of the cause, as written in logs and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreatePattern => "create/pattern",
            Self::CreateFormat => "create/format",
            Self::CreateUniqueItems => "create/uniqueItems",
            Self::CreateContains => "create/contains",
            Self::CastUniqueItems => "cast/uniqueItems",
            Self::CreateIntersect => "create/intersect",
            Self::CreateNot => "create/not",
            Self::CreateNever => "create/never",
            Self::CastNever => "cast/never",
            Self::CreateRecursive => "create/recursive",
            Self::Stack => "stack",
            Self::Deref => "deref",
            Self::UnknownType => "unknown-type",
            Self::Regex => "regex",
            Self::TypeError => "type-error",
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::CreatePattern => "no string can be created for a pattern",
            Self::CreateFormat => "no string can be created for a format",
            Self::CreateUniqueItems => "no array of unique items can be created",
            Self::CreateContains => "no array with `contains` can be created",
            Self::CastUniqueItems => "the items cannot be made unique",
            Self::CreateIntersect => "the parts of `allOf` cannot be reconciled",
            Self::CreateNot => "no value can be created for a `not`",
            Self::CreateNever => "no value can be created where none is allowed",
            Self::CastNever => "no value is allowed here",
            Self::CreateRecursive => "the recursive type never terminates",
            Self::Stack => "too deep or too large to repair",
            Self::Deref => "the reference cannot be resolved",
            Self::UnknownType => "the schema has no known type",
            Self::Regex => "the pattern cannot be evaluated",
            Self::TypeError => "the default of an array is not an array",
        }
    }
}

impl fmt::Display for CastCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure below the surface: what happened, and the schema's own text about it if it has any.
///
/// Every failure ends the whole cast, so nothing needs to be restored on the way up.
#[derive(Debug, Clone, Copy)]
pub(super) struct CastFault<'p> {
    pub(super) code: CastCode,
    /// The reference, pattern or format that is to blame.
    pub(super) detail: Option<&'p str>,
}

impl<'p> CastFault<'p> {
    pub(super) fn new(code: CastCode) -> Self {
        Self { code, detail: None }
    }

    pub(super) fn with_detail(code: CastCode, detail: &'p str) -> Self {
        Self { code, detail: Some(detail) }
    }
}

/// A fault with the place in the value, which is written from its end while the calls return.
#[derive(Debug)]
pub(super) struct LocatedFault<'p> {
    fault: CastFault<'p>,
    /// Path segments from the innermost outwards.
    segments: Vec<String>,
}

impl<'p> From<CastFault<'p>> for LocatedFault<'p> {
    fn from(fault: CastFault<'p>) -> Self {
        Self { fault, segments: Vec::new() }
    }
}

impl LocatedFault<'_> {
    pub(super) fn at_segment(mut self, segment: &impl ToString) -> Self {
        self.segments.push(segment.to_string());
        self
    }

    pub(super) fn into_error(self) -> CastError {
        let mut path = String::new();
        for segment in self.segments.iter().rev() {
            push_segment(&mut path, segment);
        }
        let code = self.fault.code;
        let message = match self.fault.detail {
            Some(detail) => format!("{}: `{detail}`", code.describe()),
            None => code.describe().to_owned(),
        };
        CastError { code, path, message }
    }
}

/// Appends one escaped step to a JSON Pointer.
pub(super) fn push_segment(path: &mut String, segment: &str) {
    path.push('/');
    for character in segment.chars() {
        match character {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            plain => path.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cast_error_displays_code_path_and_message() {
        let fault = CastFault::with_detail(CastCode::Deref, "#/$defs/A");
        let error = LocatedFault::from(fault).at_segment(&"a/b").at_segment(&3).into_error();
        assert_eq!(
            error.to_string(),
            "deref at `/3/a~1b`: the reference cannot be resolved: `#/$defs/A`"
        );
    }
}
