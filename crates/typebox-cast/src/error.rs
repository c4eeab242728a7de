//! Errors of `cast`.

use std::fmt;

/// Error returned when `cast` cannot repair a value. The value is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code} at `{path}`: {message}")]
#[non_exhaustive]
pub struct CastError {
    /// Cause of the failure.
    pub code: CastCode,
    /// JSON Pointer to the affected part of the value; empty for the value itself.
    pub path: String,
    /// Human-readable description of the problem.
    pub message: String,
}

/// Reasons why a value cannot be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CastCode {
    /// A string had to be created, but no string is known to match its `pattern`.
    CreatePattern,
    /// A string had to be created, but no string is known to match its `format`.
    CreateFormat,
    /// An array with `uniqueItems` had to be created.
    CreateUniqueItems,
    /// An array with `contains` had to be created.
    CreateContains,
    /// The array is still invalid after repeated scalars were dropped, for example too short.
    CastUniqueItems,
    /// The created parts of an `allOf` cannot be combined into a valid value.
    CreateIntersect,
    /// A value had to be created for a `not`.
    CreateNot,
    /// A value had to be created where none is allowed.
    CreateNever,
    /// A value is present where none is allowed.
    CastNever,
    /// The value or the schema nests too deeply, or the created data would be too large.
    Stack,
    /// The value and the schema take more steps than allowed.
    Steps,
    /// A `$ref` cannot be resolved.
    Deref,
    /// A `pattern` is not a valid regular expression, or needs too much backtracking.
    Regex,
    /// An array's `default` is not an array.
    TypeError,
}

impl CastCode {
    /// Returns the name of the code, as used in logs and on the wire.
    pub fn as_str(self) -> &'static str {
        self.name_and_description().0
    }

    fn name_and_description(self) -> (&'static str, &'static str) {
        match self {
            Self::CreatePattern => ("create/pattern", "no string can be created for a pattern"),
            Self::CreateFormat => ("create/format", "no string can be created for a format"),
            Self::CreateUniqueItems => {
                ("create/uniqueItems", "no array of unique items can be created")
            }
            Self::CreateContains => ("create/contains", "no array with `contains` can be created"),
            Self::CastUniqueItems => ("cast/uniqueItems", "the items cannot be made unique"),
            Self::CreateIntersect => {
                ("create/intersect", "the parts of `allOf` cannot be reconciled")
            }
            Self::CreateNot => ("create/not", "no value can be created for a `not`"),
            Self::CreateNever => ("create/never", "no value can be created where none is allowed"),
            Self::CastNever => ("cast/never", "no value is allowed here"),
            Self::Stack => ("stack", "too deep or too large to repair"),
            Self::Steps => ("steps", "repairing takes too many steps"),
            Self::Deref => ("deref", "the reference cannot be resolved"),
            Self::Regex => ("regex", "the pattern cannot be evaluated"),
            Self::TypeError => ("type-error", "the default of an array is not an array"),
        }
    }
}

impl fmt::Display for CastCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Result of a step of a cast. An error ends the whole cast, so no state is restored.
pub(super) type CastResult<T> = Result<T, Box<CastError>>;

impl CastError {
    pub(super) fn new(code: CastCode) -> Box<Self> {
        let message = code.name_and_description().1.to_owned();
        Box::new(Self { code, path: String::new(), message })
    }

    /// Adds the reference, pattern or format that caused the error.
    pub(super) fn with_detail(code: CastCode, detail: &str) -> Box<Self> {
        let mut error = Self::new(code);
        error.message = format!("{}: `{detail}`", error.message);
        error
    }

    /// Prepends a segment to the path, which is collected while calls return.
    pub(super) fn at_segment(mut self: Box<Self>, segment: &impl ToString) -> Box<Self> {
        let mut path = String::new();
        push_segment(&mut path, &segment.to_string());
        self.path.insert_str(0, &path);
        self
    }
}

/// Appends an escaped segment to a JSON Pointer.
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
        let error = CastError::with_detail(CastCode::Deref, "#/$defs/A");
        let error = error.at_segment(&"a/b").at_segment(&3);
        assert_eq!(
            error.to_string(),
            "deref at `/3/a~1b`: the reference cannot be resolved: `#/$defs/A`"
        );
    }
}
