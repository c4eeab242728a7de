//! `${VAR}` in values.

use std::borrow::Cow;

/// Why a text cannot be expanded. The value is never told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpandError {
    #[error("the environment variable `{0}` is not set, or is not UTF-8; set it")]
    Unset(String),
    #[error(
        "`${{` must be followed by the name of an environment variable and `}}`; \
         write `$${{` for a plain `${{`"
    )]
    Malformed,
}

/// Replaces `${VAR}` by what `environment` has, and `${VAR:-default}` by the default where it has
/// nothing; `$${` writes a plain `${`.
///
/// # Errors
///
/// Which variable is not there, or how a reference is written.
pub(super) fn expand<'a>(
    text: &'a str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'a, str>, ExpandError> {
    if !text.contains("${") {
        return Ok(text.into());
    }
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, reference) = (&rest[..at], &rest[at + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = reference;
            continue;
        }
        expanded.push_str(before);
        let (end, variable, default) = split(reference).ok_or(ExpandError::Malformed)?;
        let value = environment(variable);
        match default {
            // As in a shell: a variable that is empty is as good as none.
            Some(default) => {
                let value = value.filter(|value| !value.is_empty());
                expanded.push_str(value.as_deref().unwrap_or(default));
            }
            None => {
                expanded.push_str(&value.ok_or_else(|| ExpandError::Unset(variable.to_owned()))?);
            }
        }
        rest = &reference[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded.into())
}

/// Where a reference ends, its variable, and its default if it has one.
fn split(reference: &str) -> Option<(usize, &str, Option<&str>)> {
    let end = reference.find('}')?;
    let inside = &reference[..end];
    let (variable, default) = match inside.split_once(":-") {
        Some((variable, default)) => (variable, Some(default)),
        None => (inside, None),
    };
    is_variable(variable).then_some((end, variable, default))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_once() {
        let environment = |name: &str| match name {
            "A" => Some("one".to_owned()),
            "LOOP" => Some("${A}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, expected) in [
            ("", Ok("")),
            ("plain $A {A}", Ok("plain $A {A}")),
            ("${A}", Ok("one")),
            ("x${A}y${A}z", Ok("xoneyonez")),
            ("${EMPTY}", Ok("")),
            ("${LOOP}", Ok("${A}")),
            ("$${A}", Ok("${A}")),
            ("$$${A}", Ok("$${A}")),
            ("$$ ${A}", Ok("$$ one")),
            ("✓${A}✓", Ok("✓one✓")),
            ("${A:-two}${B:-two}${EMPTY:-two}", Ok("onetwotwo")),
            ("${B:-}${B:-a:-b c}", Ok("a:-b c")),
            ("${B}", Err("`B` is not set")),
            ("${:-x}", Err("must be followed")),
            ("${A:x}", Err("must be followed")),
            ("${", Err("must be followed")),
            ("${}", Err("must be followed")),
            ("${A", Err("must be followed")),
            ("${1A}", Err("must be followed")),
            ("${A-B}", Err("must be followed")),
            ("${A ${A}}", Err("must be followed")),
        ] {
            match (expand(text, &environment), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(error), Err(said)) => {
                    assert!(error.to_string().contains(said), "{text}: {error}");
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
