//! Names of schemas under `$defs`: the last segment of the reference to them.

use std::collections::HashSet;

/// Maximum length of a name in bytes.
const MAX_NAME_BYTES: usize = 80;

/// Returns an unused name: the requested name, with a number appended if it is taken.
pub(super) fn unique_name(taken: &mut HashSet<String>, preferred_name: &str) -> String {
    let mut name = preferred_name.to_owned();
    let mut number = 1;
    while !taken.insert(name.clone()) {
        number += 1;
        name = format!("{preferred_name}_{number}");
    }
    name
}

/// Returns the name that a reference suggests for its target; it needs no escaping.
pub(super) fn name_from_reference(reference: &str) -> String {
    let (file, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let last = match fragment.rsplit('/').next() {
        Some(last) if !last.is_empty() => last,
        _ => file_stem(file),
    };
    let decoded = last.replace("~1", "/").replace("~0", "~").replace("%20", " ");
    let mut name = String::new();
    for character in decoded.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' => name.push(character),
            _ if name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    name.truncate(MAX_NAME_BYTES);
    let trimmed = name.trim_matches('_');
    if trimmed.is_empty() { "schema".to_owned() } else { trimmed.to_owned() }
}

fn file_stem(file: &str) -> &str {
    let last = file.rsplit('/').next().unwrap_or(file);
    last.split('.').next().unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_names_use_the_last_segment_and_are_unique() {
        let mut taken = HashSet::new();
        for (reference, name) in [
            ("#/components/schemas/Pet", "Pet"),
            ("other.yaml#/components/schemas/Pet", "Pet_2"),
            ("#/definitions/Page«List«User»»", "Page_List_User"),
            ("#/definitions/a.b-c_d", "a.b-c_d"),
            ("../schemas/Error.yaml", "Error"),
            ("#/a~1b%20c", "a_b_c"),
            ("#", "schema"),
            ("#/»", "schema_2"),
            ("#/components/schemas/Pet", "Pet_3"),
        ] {
            assert_eq!(
                unique_name(&mut taken, &name_from_reference(reference)),
                name,
                "{reference}"
            );
        }
    }
}
