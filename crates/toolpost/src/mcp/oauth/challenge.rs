//! Parses the `WWW-Authenticate` header of a rejected request.

use super::scope;

/// Maximum length of a header in bytes; a longer one is ignored.
const MAX_BYTES: usize = 16 * 1024;

/// The first `Bearer` challenge of a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// URL of the resource metadata.
    pub(super) resource_metadata: Option<String>,
    /// Scopes that the rejected request requires; empty if not stated.
    pub(super) scopes: Vec<String>,
    /// Error code of the challenge.
    pub(super) error: Option<String>,
}

impl Challenge {
    /// Parses the valid parts of a header. A header without a challenge is not an error.
    pub(super) fn parse(header: &str) -> Self {
        let mut challenge = Self::default();
        if header.len() > MAX_BYTES {
            return challenge;
        }
        let mut tokenizer = ChallengeTokenizer { rest: header };
        let mut bearer_count = 0;
        let mut in_bearer = false;
        while let Some(item) = tokenizer.next_token() {
            match item {
                ChallengeToken::Scheme(name) => {
                    in_bearer = name.eq_ignore_ascii_case("bearer");
                    bearer_count += usize::from(in_bearer);
                }
                ChallengeToken::Parameter(name, value) if in_bearer && bearer_count == 1 => {
                    challenge.set_param(name, value);
                }
                ChallengeToken::Parameter(..) => {}
            }
        }
        challenge
    }

    /// Sets a parameter; later ones with the same name are ignored.
    fn set_param(&mut self, name: &str, value: String) {
        let slot = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "error" => &mut self.error,
            "scope" if self.scopes.is_empty() => {
                self.scopes = scope::parse(&value);
                return;
            }
            _ => return,
        };
        slot.get_or_insert(value);
    }
}

enum ChallengeToken<'a> {
    Scheme(&'a str),
    Parameter(&'a str, String),
}

/// Splits a challenge header into tokens in one pass.
struct ChallengeTokenizer<'a> {
    rest: &'a str,
}

impl<'a> ChallengeTokenizer<'a> {
    fn next_token(&mut self) -> Option<ChallengeToken<'a>> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
            if self.rest.is_empty() {
                return None;
            }
            let name = self.read_token();
            if name.is_empty() {
                // Skip invalid input as a whole.
                self.read_value();
                continue;
            }
            let Some(value) = self.rest.trim_start().strip_prefix('=') else {
                return Some(ChallengeToken::Scheme(name));
            };
            self.rest = value.trim_start();
            return Some(ChallengeToken::Parameter(name, self.read_value()));
        }
    }

    fn read_token(&mut self) -> &'a str {
        let is_delimiter = |c: char| !c.is_ascii_alphanumeric() && !"!#$%&'*+-.^_`|~".contains(c);
        let end = self.rest.find(is_delimiter).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        token
    }

    fn read_value(&mut self) -> String {
        let Some(quoted) = self.rest.strip_prefix('"') else {
            // Some servers do not quote URLs, so more than a token is accepted.
            let end = self.rest.find([',', ' ', '\t', '\r', '\n']).unwrap_or(self.rest.len());
            let (value, rest) = self.rest.split_at(end);
            self.rest = rest;
            return value.to_owned();
        };
        let mut value = String::new();
        let mut characters = quoted.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &quoted[at + 1..];
                    return value;
                }
                '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                other => value.push(other),
            }
        }
        self.rest = "";
        // An unterminated value may be truncated and is ignored.
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn www_authenticate_parses_first_bearer_challenge() {
        let long = format!("Bearer scope=\"{}\"", "a".repeat(MAX_BYTES));
        let quotes = format!("Bearer {}", "\"\\".repeat(8_000));
        let equals = format!("Bearer scope{}", "=".repeat(16_000));
        let rows: [(&str, Option<&str>, &str, Option<&str>); 22] = [
            ("", None, "", None),
            ("Bearer", None, "", None),
            ("bearer scope=a", None, "a", None),
            (
                r#"Bearer resource_metadata="https://a/b?c=d,e", scope="x  y", error="invalid_token""#,
                Some("https://a/b?c=d,e"),
                "x y",
                Some("invalid_token"),
            ),
            ("Bearer resource_metadata=https://a/b, scope=x", Some("https://a/b"), "x", None),
            (r#"Bearer realm="a \"quoted\" one, scope=\"no\"", scope="yes""#, None, "yes", None),
            (r#"Bearer realm="x" scope="y" error="z""#, None, "y", Some("z")),
            (r#"BEARER SCOPE = "y" , Error = z"#, None, "y", Some("z")),
            (r#"Basic realm="x", scope="no", Bearer scope="yes""#, None, "yes", None),
            (r#"Bearer scope="yes", Basic scope="no", Bearer error="no""#, None, "yes", None),
            ("Negotiate YWJj==, Bearer scope=y", None, "y", None),
            ("DPoP algs=\"ES256\", Bearer error=z", None, "", Some("z")),
            ("Bearer scope=first, scope=second", None, "first", None),
            ("Bearer,\r\n\t scope=\"x\"", None, "x", None),
            (r#"Bearer scope="a a b" "#, None, "a b", None),
            (r#"Bearer scope="" "#, None, "", None),
            ("Bearer scope=\"no end", None, "", None),
            ("Bearer scope=\"no end\\", None, "", None),
            ("Bearer é=1, scope=\"é ok\"", None, "ok", None),
            (&long, None, "", None),
            (&quotes, None, "", None),
            (&equals, None, &"=".repeat(15_999), None),
        ];
        for (header, metadata, scopes, error) in rows {
            let challenge = Challenge::parse(header);
            let name: String = header.chars().take(80).collect();
            assert_eq!(challenge.resource_metadata.as_deref(), metadata, "{name}");
            assert_eq!(challenge.scopes.join(" "), scopes, "{name}");
            assert_eq!(challenge.error.as_deref(), error, "{name}");
        }
    }
}
