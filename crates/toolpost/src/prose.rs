//! Short forms of descriptions, which are often Markdown of several paragraphs.

/// What replaces an omitted part.
pub(crate) const ELLIPSIS: char = '…';

/// Returns a description on one line, without quotes and link targets, in at most `max_chars`
/// characters.
pub(crate) fn one_line(description: &str, max_chars: usize) -> String {
    shortened(&plain_text(description), max_chars)
}

/// Returns the first sentence of a description like [`one_line`].
pub(crate) fn first_sentence(description: &str, max_chars: usize) -> String {
    let paragraphs = description.split("\n\n").map(plain_text);
    let paragraph = paragraphs.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let ends = paragraph.match_indices(". ").map(|(at, _)| at + 1);
    let end = ends.into_iter().find(|end| !is_abbreviation(&paragraph[..*end]));
    shortened(end.map_or(&paragraph, |end| &paragraph[..end]), max_chars)
}

/// Returns a string with at most `max_chars` characters, cut after a word if possible.
pub(crate) fn shortened(text: &str, max_chars: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(max_chars) else { return text.to_owned() };
    let kept = &text[..end];
    let word_end = kept.rfind(' ').filter(|at| *at * 2 > end).unwrap_or(end);
    format!("{}{ELLIPSIS}", kept[..word_end].trim_end_matches([' ', ',', ';', ':']))
}

/// Joins the lines of a string, without quoted lines, which are notes in Markdown, and without the
/// targets of links.
fn plain_text(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('>'));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    without_link_targets(&words.join(" "))
}

fn without_link_targets(mut text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    while let Some(middle) = text.find("](") {
        let (before, target) = (&text[..middle], &text[middle + 2..]);
        let (Some(begin), Some(end)) = (before.rfind('['), target.find(')')) else {
            plain.push_str(&text[..middle + 2]);
            text = target;
            continue;
        };
        plain.push_str(before[..begin].trim_end_matches('!'));
        plain.push_str(&before[begin + 1..]);
        text = &target[end + 1..];
    }
    plain + text
}

/// Whether a string ends with an abbreviation such as `e.g.`, not with a sentence.
fn is_abbreviation(text: &str) -> bool {
    let word = text.trim_end_matches('.').rsplit([' ', '(']).next().unwrap_or_default();
    word.contains('.') || word.chars().count() < 2 || ["etc", "vs", "incl"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sentence_ends_at_period_or_bound() {
        for (text, expected) in [
            ("Lists issues. Up to 100.", "Lists issues."),
            ("Lists\n  issues\n\nMore.", "Lists issues"),
            ("Uses e.g. a name. Then", "Uses e.g. a name."),
            ("> [!NOTE]\n> In preview.\n\nLists issues.", "Lists issues."),
            ("Lists [some](https://x.y/a.b) issues. Up", "Lists some issues."),
            ("One two three four five six seven", "One two three four five…"),
            ("Onetwothreefourfivesixseveneightnine", "Onetwothreefourfivesixsev…"),
            ("", ""),
        ] {
            assert_eq!(first_sentence(text, 25), expected, "{text}");
        }
    }

    #[test]
    fn one_line_has_no_quotes_and_link_targets() {
        for (text, expected) in [
            ("A [b](c) d\n> e\n\nf", "A b d f"),
            ("![image](x) [a [b](c)", "image [a b"),
            ("a](b [c](", "a](b [c]("),
        ] {
            assert_eq!(one_line(text, 100), expected, "{text}");
        }
    }
}
