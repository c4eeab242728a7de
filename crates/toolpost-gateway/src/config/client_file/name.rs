//! Conversion of the server names of other clients to namespaces.

use toolpost::hub::RESERVED_NAMES;

/// Converts a name to a namespace; a valid namespace does not change. `None` if no valid character
/// remains.
pub(super) fn namespace_from_name(original_name: &str) -> Option<String> {
    let mut name = String::with_capacity(original_name.len());
    for character in original_name.chars() {
        if character.is_ascii_alphanumeric() {
            name.push(character.to_ascii_lowercase());
        } else if name.ends_with(|last: char| last.is_ascii_alphanumeric()) {
            name.push(if character == '_' { '_' } else { '-' });
        }
    }
    name.truncate(name.trim_end_matches(['-', '_']).len());
    if RESERVED_NAMES.contains(&name.as_str()) {
        name.push_str("-mcp");
    }
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use toolpost::OperationId;

    use super::*;

    #[test]
    fn client_name_becomes_valid_namespace() {
        for (typed, expected) in [
            ("github", Some("github")),
            ("my_files-2", Some("my_files-2")),
            ("My Server", Some("my-server")),
            ("@scope/server.io", Some("scope-server-io")),
            ("a -- b__c", Some("a-b_c")),
            ("-x-", Some("x")),
            ("Müller ✓", Some("m-ller")),
            ("hub", Some("hub-mcp")),
            ("Demo", Some("demo-mcp")),
            ("日本", None),
            ("", None),
        ] {
            let found = namespace_from_name(typed);
            assert_eq!(found.as_deref(), expected, "{typed}");
            if let Some(name) = found {
                assert!(OperationId::new(&name, "x").is_ok(), "{name}");
            }
        }
    }
}
