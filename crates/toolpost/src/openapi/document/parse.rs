//! Parses JSON or YAML text into a tree.

use std::borrow::Cow;

use super::tree::Tree;
use super::tree_builder::{BuildError, BuiltTree};
use super::{duplicate_keys, json, yaml};

/// A parsed file.
#[derive(Debug)]
pub(crate) struct ParsedFile {
    pub(crate) tree: Tree,
    /// Problems in the file that do not prevent parsing.
    pub(crate) warnings: Vec<String>,
}

/// Why a file cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DocumentParseError {
    #[error("it is empty")]
    Empty,
    #[error("invalid JSON: {message} (line {line}, column {column})")]
    Json { message: String, line: usize, column: usize },
    #[error("invalid YAML: {message} (line {line}, column {column})")]
    Yaml { message: String, line: usize, column: usize },
    #[error("{reason} (line {line}, column {column})")]
    Rejected { reason: BuildError, line: usize, column: usize },
}

/// Parses JSON or YAML. The tree does not borrow from `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Result<ParsedFile, DocumentParseError> {
    let (text, odd) = decode_text(bytes);
    let (built, more) = parse_text(text.trim_start_matches('\u{feff}'))?;
    let mut warnings: Vec<_> = odd.into_iter().map(str::to_owned).collect();
    warnings.extend(more.map(str::to_owned));
    warnings.extend(duplicate_keys::duplicate_warnings(&built));
    Ok(ParsedFile { tree: built.tree, warnings })
}

fn parse_text(text: &str) -> Result<(BuiltTree, Option<&'static str>), DocumentParseError> {
    let begin = text.trim_start();
    if begin.is_empty() {
        return Err(DocumentParseError::Empty);
    }
    if !begin.starts_with(['{', '[']) {
        return yaml::parse(text);
    }
    match json::parse(text) {
        Ok(built) => Ok((built, None)),
        // Text that starts with a brace may also be YAML.
        Err(error @ DocumentParseError::Json { .. }) => {
            yaml::parse(text).map_err(|other| match other {
                DocumentParseError::Yaml { .. } => error,
                other => other,
            })
        }
        Err(error) => Err(error),
    }
}

/// Decodes a file as UTF-8 or UTF-16. Returns a warning if invalid UTF-8 was replaced.
fn decode_text(bytes: &[u8]) -> (Cow<'_, str>, Option<&'static str>) {
    let wide = |unit: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
        char::decode_utf16(units).map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    match bytes {
        [0xff, 0xfe, ..] => (Cow::Owned(wide(u16::from_le_bytes)), None),
        [0xfe, 0xff, ..] => (Cow::Owned(wide(u16::from_be_bytes)), None),
        _ => match String::from_utf8_lossy(bytes) {
            Cow::Borrowed(text) => (Cow::Borrowed(text), None),
            text => (text, Some("some bytes are not UTF-8 and were replaced")),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn value(bytes: &[u8]) -> (Value, Vec<String>) {
        let parsed = parse(bytes).unwrap();
        (parsed.tree.root().to_value(), parsed.warnings)
    }

    #[test]
    fn documents_parse_as_json_or_yaml_with_any_encoding() {
        let wide: Vec<_> = "\u{feff}a: é".encode_utf16().flat_map(u16::to_be_bytes).collect();
        let rows: [(&[u8], Value); 7] = [
            (b"\xef\xbb\xbf{\"a\": 1}", json!({"a": 1})),
            (b"\xef\xbb\xbfa: 1\r\nb:\r\n- x\r\n", json!({"a": 1, "b": ["x"]})),
            (b" [1, 2]", json!([1, 2])),
            (b"{a: 1, 'b': [x, y],}", json!({"a": 1, "b": ["x", "y"]})),
            (b"{\"a\": 1,}\n", json!({"a": 1})),
            (b"{\n\"a\": 1 # why\n}\n", json!({"a": 1})),
            (&wide, json!({"a": "é"})),
        ];
        for (bytes, expected) in rows {
            assert_eq!(value(bytes), (expected, Vec::new()));
        }
    }

    #[test]
    fn parse_warnings_are_reported() {
        let rows: [(&[u8], &str); 4] = [
            (b"a: \xff", "some bytes are not UTF-8 and were replaced"),
            (
                b"{\"a\": {\"b/c\": [{\"d\": 1, \"d\": 2}]}}",
                "`d` is a duplicate key at `#/a/b~1c/0`; the last value is used",
            ),
            (b"a: 1\na: 2\n", "`a` is a duplicate key at `#`; the last value is used"),
            (b"a: 1\n---\nb: 2\n", "the file has more than one document; the first is used"),
        ];
        for (bytes, expected) in rows {
            assert_eq!(value(bytes).1, [expected]);
        }
    }

    #[test]
    fn parse_errors_report_line_and_column() {
        let deep = format!("{}1{}", "[".repeat(121), "]".repeat(121));
        let deep_yaml = (0..121).map(|at| format!("{}a:\n", " ".repeat(at))).collect::<String>();
        let rows = [
            ("", "it is empty"),
            (" \n", "it is empty"),
            ("{\"a\" 1}", "invalid JSON: expected `:` (line 1, column 6)"),
            (
                "a: 1\nb: [\n",
                "invalid YAML: while parsing a node, did not find expected node content \
                 (line 3, column 1)",
            ),
            (
                "a: 1\n  b: 2\n",
                "invalid YAML: mapping values are not allowed in this context (line 2, column 4)",
            ),
            (&deep, "arrays and objects are nested more than 120 deep (line 1, column 121)"),
            (&deep_yaml, "arrays and objects are nested more than 120 deep (line 121, column 121)"),
        ];
        for (text, expected) in rows {
            assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), expected);
        }
    }
}
