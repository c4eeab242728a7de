//! Words of names, descriptions and queries.

/// Splits text into lowercase word stems. `listIssues`, `list_issues` and `issues/list` each have
/// the same two.
pub(super) fn stems(text: &str) -> impl Iterator<Item = String> {
    words(text).map(|mut word| {
        stem(&mut word);
        word
    })
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let mut characters = text.chars().peekable();
    std::iter::from_fn(move || {
        while characters.next_if(|character| !character.is_alphanumeric()).is_some() {}
        let mut word = String::new();
        let mut previous_is_lower = false;
        while let Some(character) = characters.next_if(|character| {
            character.is_alphanumeric() && !(character.is_uppercase() && previous_is_lower)
        }) {
            word.extend(character.to_lowercase());
            previous_is_lower = character.is_lowercase() || character.is_numeric();
        }
        (!word.is_empty()).then_some(word)
    })
}

/// Removes the endings of English plurals and verbs. The stem is not always a word, but forms of
/// the same word have the same stem: `issue` and `issues`, `create`, `creates` and `creating`.
fn stem(word: &mut String) {
    if word.len() < 4 || !word.is_ascii() {
        return;
    }
    if word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        word.pop();
    }
    let verb_ending = ["ing", "ed"].into_iter().find(|ending| {
        let base = word.strip_suffix(ending);
        base.is_some_and(|base| base.len() >= 3 && base.contains(['a', 'e', 'i', 'o', 'u', 'y']))
    });
    if let Some(ending) = verb_ending {
        word.truncate(word.len() - ending.len());
        let bytes = word.as_bytes();
        if let [.., a, b] = bytes
            && a == b
            && !b"lsz".contains(a)
        {
            word.pop();
        }
    }
    if word.len() > 3 && word.ends_with('e') {
        word.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_are_equal_for_forms_of_a_word() {
        for (text, expected) in [
            ("listIssues", "list issu"),
            ("issues/list", "issu list"),
            ("Lists the ISSUES of a repository", "list the issu of a repository"),
            ("create creates created creating", "creat creat creat creat"),
            ("repositories", "repository"),
            ("branches access status analysis", "branch access status analysis"),
            ("settings running string used", "set run string used"),
            ("get_v2.OAuth2", "get v2 oauth2"),
            ("Größe Länder", "größe länder"),
            ("-- ", ""),
        ] {
            assert_eq!(stems(text).collect::<Vec<_>>().join(" "), expected, "{text}");
        }
    }
}
