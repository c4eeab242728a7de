//! The name that was probably meant.

/// Longer names are not typing mistakes, and comparing them costs their square.
const LONGEST: usize = 64;

/// The name that was probably meant, as a question, or what there is to choose from.
pub(super) fn suggestion(wanted: &str, known: &[&str]) -> String {
    match nearest(wanted, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known here: `{}`", known.join("`, `")),
    }
}

/// The known name that is near enough to be meant.
pub(super) fn nearest<'a>(wanted: &str, known: &[&'a str]) -> Option<&'a str> {
    let letters = wanted.chars().count();
    if letters > LONGEST {
        return None;
    }
    let wanted = wanted.to_lowercase();
    let scored = known.iter().map(|name| (strsim::damerau_levenshtein(&wanted, name), *name));
    // A third of the letters may be wrong; beyond that it is a guess, not a suggestion.
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= letters.max(3) / 3).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let known = ["timeout", "include", "exclude", "access"];
        for (wrong, expected) in [
            ("timout", Some("timeout")),
            ("Timeout", Some("timeout")),
            ("acess", Some("access")),
            ("xclude", Some("exclude")),
            ("color", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, &known), expected, "{wrong}");
        }
        assert_eq!(nearest(&"t".repeat(10_000), &known), None);
    }
}
