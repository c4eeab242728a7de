//! Suggestions for misspelled names.

/// Maximum length of a compared name. Longer names are not typing mistakes, and the comparison
/// takes quadratic time.
const MAX_LEN: usize = 64;

/// Returns a question with the closest known name, or the list of known names.
pub(super) fn suggestion(input: &str, known: &[&str]) -> String {
    match closest_match(input, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known here: `{}`", known.join("`, `")),
    }
}

/// Returns the closest known name within the maximum edit distance.
pub(super) fn closest_match<'a>(input: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters = input.chars().count();
    if letters > MAX_LEN {
        return None;
    }
    let input = input.to_lowercase();
    let scored = known.iter().map(|name| (strsim::damerau_levenshtein(&input, name), *name));
    // Up to a third of the letters may differ.
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= letters.max(3) / 3).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_match_is_within_edit_distance() {
        let known = ["timeout", "include", "exclude", "access"];
        for (wrong, expected) in [
            ("timout", Some("timeout")),
            ("Timeout", Some("timeout")),
            ("acess", Some("access")),
            ("xclude", Some("exclude")),
            ("color", None),
            ("", None),
        ] {
            assert_eq!(closest_match(wrong, &known), expected, "{wrong}");
        }
        assert_eq!(closest_match(&"t".repeat(10_000), &known), None);
    }
}
