//! The subset of JSONPath that patterns support.

use super::error::CapabilityError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JsonPathSegment {
    /// `.name` or `['name']`.
    Name(String),
    /// `[0]`.
    Index(usize),
    /// `.*` or `[*]`.
    Wildcard,
    /// `..`: the value itself and all its descendants.
    Descendant,
}

/// Parses a JSONPath into its segments. A leading `$` is skipped.
pub(super) fn parse_json_path(path: &str) -> Result<Vec<JsonPathSegment>, CapabilityError> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut segments = Vec::new();
    while !rest.is_empty() {
        let parsed = match rest.strip_prefix("..") {
            Some(after) => {
                segments.push(JsonPathSegment::Descendant);
                parse_bracket(after).or_else(|| parse_name(after))
            }
            None => rest.strip_prefix('.').map_or_else(|| parse_bracket(rest), parse_name),
        };
        let (segment, after) = parsed.ok_or_else(|| CapabilityError::UnsupportedPath {
            path: path.to_owned(),
            rest: rest.to_owned(),
        })?;
        segments.push(segment);
        rest = after;
    }
    Ok(segments)
}

/// Parses a name or `*` up to the next segment.
fn parse_name(text: &str) -> Option<(JsonPathSegment, &str)> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let special = |letter: char| letter.is_whitespace() || "*?()@'\"],:$".contains(letter);
    match name {
        "*" => Some((JsonPathSegment::Wildcard, rest)),
        _ if name.is_empty() || name.contains(special) => None,
        _ => Some((JsonPathSegment::Name(name.to_owned()), rest)),
    }
}

/// Parses a bracket: a quoted name, `*` or an index.
fn parse_bracket(text: &str) -> Option<(JsonPathSegment, &str)> {
    let inner = text.strip_prefix('[')?;
    if let Some(quote) = inner.chars().next().filter(|letter| ['\'', '"'].contains(letter)) {
        let (name, rest) = inner[1..].split_once(quote)?;
        let rest = rest.strip_prefix(']').filter(|_| !name.contains('\\'))?;
        return Some((JsonPathSegment::Name(name.to_owned()), rest));
    }
    let (inner, rest) = inner.split_once(']')?;
    if inner == "*" {
        return Some((JsonPathSegment::Wildcard, rest));
    }
    let digits = !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_digit());
    Some((JsonPathSegment::Index(inner.parse().ok().filter(|_| digits)?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_path_parses_supported_syntax_only() {
        let name = |name: &str| JsonPathSegment::Name(name.to_owned());
        for (path, expected) in [
            ("$", Some(vec![])),
            ("$.a.b", Some(vec![name("a"), name("b")])),
            ("$['a b'][\"c\"]", Some(vec![name("a b"), name("c")])),
            (
                "$.a[0][*].*",
                Some(vec![
                    name("a"),
                    JsonPathSegment::Index(0),
                    JsonPathSegment::Wildcard,
                    JsonPathSegment::Wildcard,
                ]),
            ),
            ("$..a", Some(vec![JsonPathSegment::Descendant, name("a")])),
            ("$..*", Some(vec![JsonPathSegment::Descendant, JsonPathSegment::Wildcard])),
            ("$..['a']", Some(vec![JsonPathSegment::Descendant, name("a")])),
            ("$a", None),
            ("$.", None),
            ("$..", None),
            ("$...a", None),
            ("$[-1]", None),
            ("$[+1]", None),
            ("$[99999999999999999999]", None),
            ("$[0:2]", None),
            ("$[?(@.a)]", None),
            ("$['a','b']", None),
            ("$['a\\'b']", None),
            ("$[", None),
            ("$['a", None),
            ("$.a*", None),
            ("$.✓", Some(vec![name("✓")])),
        ] {
            assert_eq!(parse_json_path(path).ok(), expected, "{path}");
        }
    }
}
