//! The name that was probably meant.

/// Longer names are not typing mistakes, and comparing them costs their square.
const MAX_LEN: usize = 64;

/// The name that was probably meant, as a question, or what there is to choose from.
pub(super) fn suggestion(input: &str, known: &[&str]) -> String {
    match closest_match(input, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known here: `{}`", known.join("`, `")),
    }
}

/// The known name that is near enough to be meant.
pub(super) fn closest_match<'a>(input: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters = input.chars().count();
    if letters > MAX_LEN {
        return None;
    }
    let input = input.to_lowercase();
    let scored = known.iter().map(|name| (strsim::damerau_levenshtein(&input, name), *name));
    // A third of the letters may be wrong; beyond that it is a guess, not a suggestion.
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
