//! JSONPath, as far as patterns need it.

use super::error::CapabilityError;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// `.name` and `['name']`.
    Name(String),
    /// `[0]`.
    Index(usize),
    /// `.*` and `[*]`.
    Each,
    /// `..`: from here, and from everything below.
    Below,
}

/// The steps of a path that begins with `$`.
pub(super) fn steps(path: &str) -> Result<Vec<Step>, CapabilityError> {
    let mut rest = path.strip_prefix('$').unwrap_or(path);
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let unknown = || CapabilityError::Path { path: path.to_owned(), rest: rest.to_owned() };
        let after = if let Some(after) = rest.strip_prefix("..") {
            steps.push(Step::Below);
            let (step, after) = bracket(after).or_else(|| name(after)).ok_or_else(unknown)?;
            steps.push(step);
            after
        } else {
            let dotted = rest.strip_prefix('.').and_then(name);
            let (step, after) = dotted.or_else(|| bracket(rest)).ok_or_else(unknown)?;
            steps.push(step);
            after
        };
        rest = after;
    }
    Ok(steps)
}

/// A name or `*` up to the next step.
fn name(text: &str) -> Option<(Step, &str)> {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let special = |letter: char| letter.is_whitespace() || "*?()@'\"],:$".contains(letter);
    match name {
        "*" => Some((Step::Each, rest)),
        _ if name.is_empty() || name.contains(special) => None,
        _ => Some((Step::Name(name.to_owned()), rest)),
    }
}

/// What stands in brackets, with quotes around it if it is a name.
fn bracket(text: &str) -> Option<(Step, &str)> {
    let inner = text.strip_prefix('[')?;
    if let Some(quote) = inner.chars().next().filter(|letter| ['\'', '"'].contains(letter)) {
        let (name, rest) = inner[1..].split_once(quote)?;
        let rest = rest.strip_prefix(']').filter(|_| !name.contains('\\'))?;
        return Some((Step::Name(name.to_owned()), rest));
    }
    let (inner, rest) = inner.split_once(']')?;
    if inner == "*" {
        return Some((Step::Each, rest));
    }
    let digits = !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_digit());
    Some((Step::Index(inner.parse().ok().filter(|_| digits)?), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_or_refused() {
        let name = |name: &str| Step::Name(name.to_owned());
        for (path, expected) in [
            ("$", Some(vec![])),
            ("$.a.b", Some(vec![name("a"), name("b")])),
            ("$['a b'][\"c\"]", Some(vec![name("a b"), name("c")])),
            ("$.a[0][*].*", Some(vec![name("a"), Step::Index(0), Step::Each, Step::Each])),
            ("$..a", Some(vec![Step::Below, name("a")])),
            ("$..*", Some(vec![Step::Below, Step::Each])),
            ("$..['a']", Some(vec![Step::Below, name("a")])),
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
            assert_eq!(steps(path).ok(), expected, "{path}");
        }
    }
}
