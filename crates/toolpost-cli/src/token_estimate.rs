//! Estimates how many tokens a list of tools costs a model, without the model's vocabulary.
//!
//! A tokenizer splits text at the boundaries of words, numbers and punctuation and encodes common
//! pieces as single tokens. The estimate counts runs by class and length, and each class has a
//! cost. The costs are a least-squares fit against `o200k_base`, over 353 English tools and schemas
//! (from six servers and GitHub's API description) and one sentence in each of seven other
//! languages. On 309 other GitHub tools, not used for the fit, the total is accurate to 0.1 %, a
//! single tool is off by 2.5 % on average and 18 % at most, and `cl100k_base` needs 4 % fewer
//! tokens. Languages other than English are fitted to one sentence each and are off by up to 19 %.
//! Other vendors' vocabularies were not tested, so the result is reported as `about`.

use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextClass {
    /// ASCII letters. A run ends where a lowercase letter is followed by an uppercase one.
    Word,
    Digits,
    Punctuation,
    Space,
    Latin,
    /// Greek, Cyrillic, Arabic and other alphabets.
    Alphabet,
    Hangul,
    Ideograph,
    Other,
}

impl TextClass {
    fn of(character: char) -> Self {
        match u32::from(character) {
            _ if character.is_ascii_alphabetic() => Self::Word,
            _ if character.is_ascii_digit() => Self::Digits,
            _ if character.is_ascii_whitespace() => Self::Space,
            0..=0x7f => Self::Punctuation,
            0x80..=0x24f => Self::Latin,
            0x250..=0x1fff => Self::Alphabet,
            0xac00..=0xd7a3 => Self::Hangul,
            0x2e80..=0xabff | 0xf900..=0xfaff | 0xff00..=0xffef => Self::Ideograph,
            _ => Self::Other,
        }
    }

    /// Returns the cost of a run of characters, in hundredths of a token.
    fn cost(self, length: u64) -> u64 {
        match (self, length) {
            (Self::Word, 0..=3) => 96,
            (Self::Word, 4..=7) => 98,
            (Self::Word, 8..=11) => 129,
            (Self::Word, _) => length * 64 / 6,
            (Self::Digits, _) => length.div_ceil(3) * 133,
            (Self::Punctuation, 1) => 61,
            (Self::Punctuation, 2) => 140,
            (Self::Punctuation, 3) => 78,
            (Self::Punctuation, _) => length * 144 / 4,
            (Self::Space, _) => 12,
            (Self::Latin, _) => length * 83,
            (Self::Alphabet, _) => length * 32,
            (Self::Hangul, _) => length * 80,
            (Self::Ideograph, _) => length * 60,
            (Self::Other, _) => length * 194,
        }
    }
}

/// Estimates the tokens of a tool list as a model sees it: name, description and input schema of
/// each tool.
pub(crate) fn estimate_tools(tools: &[Value]) -> u64 {
    tools.iter().map(|tool| estimate_text(&model_json(tool))).sum()
}

/// Formats an estimate with two significant digits, as in `about 4,300 tokens`.
pub(crate) fn format_estimate(tokens: u64) -> String {
    let mut unit = 1;
    while tokens / unit >= 100 {
        unit *= 10;
    }
    let rounded = (tokens + unit / 2) / unit * unit;
    format!("about {} tokens", indicatif::HumanCount(rounded))
}

fn model_json(tool: &Value) -> String {
    let seen = ["name", "description", "inputSchema"].into_iter();
    let seen = seen.filter_map(|name| Some((name.to_owned(), tool.get(name)?.clone())));
    Value::Object(seen.collect::<Map<_, _>>()).to_string()
}

fn estimate_text(text: &str) -> u64 {
    let mut hundredths = 0;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let class = TextClass::of(first);
        let (length, end) = leading_run(rest, class);
        // A single space belongs to the word after it.
        if &rest[..end] != " " {
            hundredths += class.cost(length);
        }
        rest = &rest[end..];
    }
    hundredths.div_ceil(100)
}

/// Returns the length of the leading run of one class, in characters and in bytes.
fn leading_run(text: &str, class: TextClass) -> (u64, usize) {
    let mut last = ' ';
    let mut length = 0;
    for (at, character) in text.char_indices() {
        let is_hump = last.is_ascii_lowercase() && character.is_ascii_uppercase();
        if TextClass::of(character) != class || is_hump {
            return (length, at);
        }
        (last, length) = (character, length + 1);
    }
    (length, text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each row: a tool and its token count in `o200k_base`.
    #[test]
    fn estimate_is_close_to_o200k_base() {
        for (tool, tokens) in [
            (
                r#"{"name":"read_file","description":"Read the whole text of a file. Fails if the path leads out of the allowed folders.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Where the file is, from the root"},"encoding":{"type":"string","enum":["utf-8","latin1"],"default":"utf-8"}},"required":["path"],"additionalProperties":false}}"#,
                88,
            ),
            (
                r#"{"name":"issues_list_for_repository","description":"List the issues of a repository, newest first.\n\nPull requests are issues too; look at `pull_request` to tell them apart.","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string"},"state":{"type":"string","enum":["open","closed","all"]},"per_page":{"type":"integer","minimum":1,"maximum":100,"default":30},"labels":{"type":"array","items":{"type":"string"}}}}}"#,
                125,
            ),
            (r#"{"name":"ping"}"#, 5),
            (
                r#"{"name":"suche","description":"Sucht in allen Verträgen nach den angegebenen Wörtern und gibt die besten Fundstellen zurück.","inputSchema":{"type":"object","properties":{"anfrage":{"type":"string"},"höchstens":{"type":"integer"}}}}"#,
                55,
            ),
            (
                r#"{"name":"kensaku","description":"文書の中から言葉を探し、最も近いものを返します。","inputSchema":{"type":"object","properties":{"query":{"type":"string"}}}}"#,
                45,
            ),
        ] {
            let tool: Value = serde_json::from_str(tool).unwrap();
            let estimate = estimate_tools(std::slice::from_ref(&tool));
            let off = estimate.abs_diff(tokens);
            assert!(off <= (tokens * 15 / 100).max(1), "{estimate} for {tokens}: {tool}");
        }
    }

    #[test]
    fn estimate_ignores_fields_hidden_from_model() {
        let tool = json!({"name": "a", "inputSchema": {}});
        let more = json!({"name": "a", "inputSchema": {}, "outputSchema": {"type": "object"}, "_meta": {"x": "y"}});
        assert_eq!(estimate_tools(&[tool]), estimate_tools(&[more]));
        assert_eq!(estimate_tools(&[]), 0);
        assert!(estimate_tools(&[json!(null), json!("odd"), json!({"name": 5})]) < 30);
    }

    /// The estimate of very long runs takes linear time.
    #[test]
    fn estimate_of_long_runs_is_linear_time() {
        for text in ["a".repeat(1_000_000), "1".repeat(1_000_000), " ".repeat(1_000_000)] {
            assert!(estimate_text(&text) < 1_000_000);
        }
    }

    #[test]
    fn estimate_is_rounded_to_two_digits() {
        for (tokens, expected) in [
            (0, "about 0 tokens"),
            (7, "about 7 tokens"),
            (99, "about 99 tokens"),
            (104, "about 100 tokens"),
            (4_321, "about 4,300 tokens"),
            (4_351, "about 4,400 tokens"),
            (99_950, "about 100,000 tokens"),
            (1_234_567, "about 1,200,000 tokens"),
        ] {
            assert_eq!(format_estimate(tokens), expected);
        }
    }
}
