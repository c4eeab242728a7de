//! `contentEncoding` and `contentMediaType`, which drafts 6 and 7 assert.

use data_encoding::{BASE32, BASE32HEX, BASE64, BASE64URL, Encoding, HEXUPPER_PERMISSIVE};

/// The content that a text must have. Unknown names are not checked.
pub(crate) struct ContentRule {
    encoding: Option<(Box<str>, Encoding)>,
    is_json: bool,
}

impl ContentRule {
    /// Returns the rule; `None` if nothing is checked.
    pub(crate) fn new(encoding: Option<&str>, media_type: Option<&str>) -> Option<Self> {
        let known = encoding.and_then(|name| Some((name.into(), encoding_named(name)?)));
        let is_json = media_type == Some("application/json");
        (known.is_some() || is_json).then_some(Self { encoding: known, is_json })
    }

    /// Returns what the text does not comply with, if anything.
    pub(crate) fn violation(&self, text: &str) -> Option<String> {
        let Some((name, encoding)) = &self.encoding else {
            return self.media_violation(text.as_bytes());
        };
        match encoding.decode(text.as_bytes()) {
            Ok(content) => self.media_violation(&content),
            Err(_) => Some(format!("\"{name}\" content encoding")),
        }
    }

    fn media_violation(&self, content: &[u8]) -> Option<String> {
        let is_valid =
            !self.is_json || serde_json::from_slice::<serde::de::IgnoredAny>(content).is_ok();
        (!is_valid).then(|| "\"application/json\" media type".to_owned())
    }
}

fn encoding_named(name: &str) -> Option<Encoding> {
    Some(match name {
        "base64" => BASE64,
        "base64url" => BASE64URL,
        "base32" => BASE32,
        "base32hex" => BASE32HEX,
        "base16" => HEXUPPER_PERMISSIVE,
        _ => return None,
    })
}
