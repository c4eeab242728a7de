//! Warnings about secrets stored literally in the configuration.

use std::collections::BTreeMap;
use std::path::Path;

use toolpost_gateway::config::{McpEntry, OpenApiEntry};

use crate::output;

/// Warns about values that look like secrets and are not references.
pub(super) fn warn_literal_server_secrets(file: &Path, name: &str, entry: &McpEntry) {
    print_warning(file, name, &server_secrets(entry));
}

pub(in super::super) fn warn_literal_service_secrets(
    file: &Path,
    name: &str,
    entry: &OpenApiEntry,
) {
    let password = entry.basic.as_ref().map(|(_, password)| password);
    let secrets = [("token", entry.bearer.as_ref()), ("password", password)];
    let secrets = secrets.into_iter().chain([("key", entry.api_key.as_ref())]);
    print_warning(file, name, &literal_secrets(secrets, [("header", &entry.headers)]));
}

fn server_secrets(entry: &McpEntry) -> Vec<String> {
    let client_secret = entry.oauth.as_ref().and_then(|client| client.client_secret.as_ref());
    literal_secrets(
        [("token", entry.bearer.as_ref()), ("client secret", client_secret)],
        [("header", &entry.headers), ("variable", &entry.env)],
    )
}

/// Returns the names of the literal values in `secrets`, and of those in `named` whose name indicates
/// a secret.
fn literal_secrets<'a>(
    secrets: impl IntoIterator<Item = (&'a str, Option<&'a String>)>,
    named: impl IntoIterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
) -> Vec<String> {
    let literal = secrets.into_iter().filter(|(_, value)| value.is_some_and(|v| is_literal(v)));
    let mut names: Vec<String> = literal.map(|(what, _)| what.to_owned()).collect();
    for (kind, pairs) in named {
        let secret = pairs.iter().filter(|(name, value)| is_secret_name(name) && is_literal(value));
        names.extend(secret.map(|(name, _)| format!("{kind} `{name}`")));
    }
    names
}

fn print_warning(file: &Path, name: &str, names: &[String]) {
    if !names.is_empty() {
        let (file, names) = (file.display(), names.join(", "));
        output::notice(&format!(
            "{file} contains secrets of `{name}` in plain text ({names}); use '${{VAR}}' instead."
        ));
    }
}

fn is_literal(value: &str) -> bool {
    !value.is_empty() && !value.contains("${")
}

/// Whether a variable or header with this name usually holds a secret.
fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 9] =
        ["token", "secret", "key", "password", "passwd", "auth", "cookie", "credential", "dsn"];
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|keyword| name.contains(keyword))
        || name.split(['_', '-']).any(|part| matches!(part, "pat" | "pass" | "pwd"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names_are_detected() {
        for (name, expected) in [
            ("GITHUB_TOKEN", true),
            ("Authorization", true),
            ("X-Api-Key", true),
            ("GITLAB_PAT", true),
            ("DB_PASS", true),
            ("PATH", false),
            ("DEBUG", false),
            ("X-Team", false),
        ] {
            assert_eq!(is_secret_name(name), expected, "{name}");
            let mut entry = McpEntry::default();
            entry.env.insert(name.to_owned(), "hush".to_owned());
            assert_eq!(server_secrets(&entry).len(), usize::from(expected), "{name}");
            entry.env.insert(name.to_owned(), "a ${REFERENCE}".to_owned());
            assert_eq!(server_secrets(&entry).len(), 0, "{name}");
        }
    }
}
