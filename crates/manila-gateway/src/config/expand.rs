//! `${VAR}` in values.

use std::borrow::Cow;

/// Replaces `${VAR}` by what `environment` has; `$${` writes a plain `${`.
///
/// # Errors
///
/// Which variable is not there, or how a reference is written. The value is never told.
pub(super) fn expand<'a>(
    text: &'a str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'a, str>, String> {
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
        let end = reference.find('}').filter(|end| is_variable(&reference[..*end])).ok_or(
            "`${` must be followed by the name of an environment variable and `}`; \
             write `$${` for a plain `${`",
        )?;
        let variable = &reference[..end];
        expanded.push_str(&environment(variable).ok_or_else(|| {
            format!("the environment variable `{variable}` is not set, or is not UTF-8; set it")
        })?);
        rest = &reference[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded.into())
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
            ("${B}", Err("`B` is not set")),
            ("${", Err("must be followed")),
            ("${}", Err("must be followed")),
            ("${A", Err("must be followed")),
            ("${1A}", Err("must be followed")),
            ("${A-B}", Err("must be followed")),
            ("${A ${A}}", Err("must be followed")),
        ] {
            match (expand(text, &environment), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(error), Err(said)) => assert!(error.contains(said), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
