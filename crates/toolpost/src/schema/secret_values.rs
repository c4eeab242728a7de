//! The secrets of a call, which are masked wherever they recur in its records.

use std::borrow::Cow;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::secret::MASKED;

/// Maximum number of secrets per call. With more, every text is masked.
const MAX_VALUES: usize = 32;
/// Maximum size of a secret, in bytes. Only the beginning of a longer one is searched for.
const MAX_BYTES: usize = 4 * 1024;
/// Secrets with fewer bytes are masked only as a whole word, because they recur by chance.
const MIN_PART_BYTES: usize = 4;

/// The texts of secrets, in every form in which they recur.
#[derive(Default)]
pub(crate) struct SecretValues {
    /// Longest first, so that a secret that contains another one is masked completely.
    texts: Vec<Box<str>>,
    /// Whether there are more secrets than are kept.
    is_incomplete: bool,
}

impl SecretValues {
    /// Adds the texts and numbers of a value.
    pub(crate) fn add(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add_text(text),
            Value::Number(number) => self.add_text(&number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(members) => members.values().for_each(|member| self.add(member)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    pub(crate) fn add_text(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(MAX_BYTES)];
        if text.trim().is_empty() || text == MASKED {
            return;
        }
        let quoted = Value::from(text).to_string();
        let escaped = &quoted[1..quoted.len() - 1];
        let encoded = utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        for form in [text, escaped, &encoded] {
            if self.texts.iter().any(|known| **known == *form) {
                continue;
            }
            if self.texts.len() >= 3 * MAX_VALUES {
                self.is_incomplete = true;
                return;
            }
            let at = self.texts.partition_point(|known| known.len() > form.len());
            self.texts.insert(at, form.into());
        }
    }

    /// Whether a text contains a secret.
    pub(crate) fn occurs_in(&self, text: &str) -> bool {
        self.is_incomplete || self.texts.iter().any(|secret| find(text, secret).is_some())
    }

    /// Replaces the secrets in a text.
    pub(crate) fn mask_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_incomplete {
            return MASKED.into();
        }
        let mut masked = Cow::Borrowed(text);
        for secret in &self.texts {
            if find(&masked, secret).is_some() {
                masked = replace(&masked, secret).into();
            }
        }
        masked
    }

    /// Replaces the secrets in all texts, numbers and member names of a value. Returns whether there
    /// were any.
    pub(crate) fn mask(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.mask_text(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(masked) => {
                    *text = masked;
                    true
                }
            },
            Value::Number(number) => {
                let number = number.to_string();
                let is_secret = self.is_incomplete || self.texts.iter().any(|it| **it == *number);
                if is_secret {
                    *value = MASKED.into();
                }
                is_secret
            }
            Value::Array(items) => {
                items.iter_mut().fold(false, |is_masked, item| self.mask(item) | is_masked)
            }
            Value::Object(members) => {
                let mut is_masked = false;
                if members.keys().any(|name| self.occurs_in(name)) {
                    let named = std::mem::take(members).into_iter();
                    *members =
                        named.map(|(name, it)| (self.mask_text(&name).into_owned(), it)).collect();
                    is_masked = true;
                }
                members.values_mut().fold(is_masked, |is_masked, it| self.mask(it) | is_masked)
            }
            Value::Null | Value::Bool(_) => false,
        }
    }
}

/// Returns the position of a secret in a text.
fn find(text: &str, secret: &str) -> Option<usize> {
    if secret.len() >= MIN_PART_BYTES {
        return memchr::memmem::find(text.as_bytes(), secret.as_bytes());
    }
    let is_word = |at: usize| {
        let is_outside = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        is_outside(text[..at].chars().next_back())
            && is_outside(text[at + secret.len()..].chars().next())
    };
    text.match_indices(secret).map(|(at, _)| at).find(|&at| is_word(at))
}

fn replace(text: &str, secret: &str) -> String {
    let (mut rest, mut masked) = (text, String::with_capacity(text.len()));
    while let Some(at) = find(rest, secret) {
        masked.push_str(&rest[..at]);
        masked.push_str(MASKED);
        rest = &rest[at + secret.len()..];
    }
    masked.push_str(rest);
    masked
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_masked_in_every_form() {
        let mut secrets = SecretValues::default();
        secrets.add(&json!({"pin": "12", "password": "a \"b\" c/d", "code": 4711, "on": true}));
        for (value, expected) in [
            (json!("12 of 120, pin:12"), json!("*** of 120, pin:***")),
            (json!("GET /x?p=a%20%22b%22%20c%2Fd"), json!("GET /x?p=***")),
            (json!(r#"{"p":"a \"b\" c/d"}"#), json!(r#"{"p":"***"}"#)),
            (
                json!({"a \"b\" c/d": [4711, 4712, "x4711y"]}),
                json!({"***": ["***", 4712, "x***y"]}),
            ),
            (json!([12, 120, true, null, "true"]), json!(["***", 120, true, null, "true"])),
        ] {
            let mut masked = value.clone();
            assert!(secrets.mask(&mut masked), "{value}");
            assert_eq!(masked, expected);
        }
        assert!(!secrets.mask(&mut json!({"other": ["text", 1, null]})));
        assert_eq!(SecretValues::default().mask_text("text"), "text");
    }

    #[test]
    fn too_many_secrets_mask_every_text() {
        let mut secrets = SecretValues::default();
        secrets.add(&json!((1_000..1_200).collect::<Vec<u32>>()));
        assert_eq!(secrets.mask_text("unrelated"), MASKED);
        assert!(secrets.texts.len() <= 3 * MAX_VALUES);
    }
}
