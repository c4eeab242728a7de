//! `[http]`.

use url::Url;

use super::super::document::TomlDocument;
use super::super::file::HttpText;

/// Validates the allowed origins, each in the form that browsers send.
pub(super) fn cors(document: &TomlDocument<'_>, text: HttpText) -> Vec<String> {
    for origin in &text.cors {
        if let Err(message) = check_origin(origin) {
            document.report(&["http", "cors"], message);
        }
    }
    text.cors
}

fn check_origin(origin: &str) -> Result<(), String> {
    let url = Url::parse(origin).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some(url) = url else {
        return Err(
            "an origin is `https://` and a host, as in \"https://app.example\"; each one is \
                    named, and there is none for all"
                .to_owned(),
        );
    };
    let written = url.origin().ascii_serialization();
    if written == origin {
        return Ok(());
    }
    Err(format!("browsers write this origin as \"{written}\""))
}
