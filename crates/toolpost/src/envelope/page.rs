//! Finds the next page of a paginated result from any source.

use serde_json::Value;

use super::{Envelope, HttpMeta, Meta};

/// How to request the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextPage {
    /// Cursor to pass to the next call.
    Cursor(String),
    /// URL of the next page.
    Url(String),
}

/// JSON Pointers to common cursor fields in a body, most specific first.
const CURSOR_POINTERS: [&str; 9] = [
    "/nextCursor",
    "/next_cursor",
    "/nextPageToken",
    "/next_page_token",
    "/response_metadata/next_cursor",
    "/pagination/next_cursor",
    "/pagination/nextCursor",
    "/paging/cursors/after",
    "/cursor/next",
];

/// JSON Pointers to common next-page URL fields in a body.
const URL_POINTERS: [&str; 6] =
    ["/@odata.nextLink", "/links/next", "/_links/next/href", "/paging/next", "/next_url", "/next"];

impl Envelope<Value> {
    /// Returns the next page, taken from an HTTP `Link` header with `rel="next"`, an MCP
    /// `nextCursor`, or a common pagination field in the body. `None` means that this is the last
    /// page or that the result is not paginated.
    ///
    /// ```
    /// use toolpost::{Envelope, NextPage};
    /// use serde_json::json;
    ///
    /// let envelope = Envelope::local(json!({"items": [], "nextCursor": "abc"}), "demo.list");
    /// assert_eq!(envelope.next_page(), Some(NextPage::Cursor("abc".into())));
    /// ```
    pub fn next_page(&self) -> Option<NextPage> {
        match &self.meta {
            Meta::Http(meta) => next_link(meta).or_else(|| next_page_in_body(&self.data)),
            Meta::Mcp(meta) => next_page_in_body(&self.data).or_else(|| {
                let extra =
                    meta.extra.get("nextCursor").or_else(|| meta.meta.as_ref()?.get("nextCursor"));
                extra.and_then(nonempty_text).map(NextPage::Cursor)
            }),
            Meta::Local(_) => next_page_in_body(&self.data),
        }
    }
}

fn next_page_in_body(data: &Value) -> Option<NextPage> {
    let cursor = CURSOR_POINTERS.iter().find_map(|at| data.pointer(at).and_then(nonempty_text));
    cursor.map(NextPage::Cursor).or_else(|| {
        let next = URL_POINTERS.iter().find_map(|at| data.pointer(at).and_then(nonempty_text))?;
        let is_address = next.contains("://") || next.starts_with(['/', '?']);
        Some(if is_address { NextPage::Url(next) } else { NextPage::Cursor(next) })
    })
}

/// Returns a nonempty string or a number as text. Some services send an empty cursor on the last
/// page.
fn nonempty_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the `rel="next"` link of the `Link` header (RFC 8288).
fn next_link(meta: &HttpMeta) -> Option<NextPage> {
    let mut rest = meta.headers.get("link")?.as_str();
    while let Some((_, from_url)) = rest.split_once('<') {
        let (url, behind) = from_url.split_once('>')?;
        let end = behind.find('<').unwrap_or(behind.len());
        let (parameters, next) = behind.split_at(end);
        if parameters.split([';', ',']).any(is_rel_next) {
            return Some(NextPage::Url(url.to_owned()));
        }
        rest = next;
    }
    None
}

fn is_rel_next(parameter: &str) -> bool {
    parameter.trim().split_once('=').is_some_and(|(key, value)| {
        key.trim().eq_ignore_ascii_case("rel")
            && value
                .trim()
                .trim_matches('"')
                .split_whitespace()
                .any(|rel| rel.eq_ignore_ascii_case("next"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::envelope::McpMeta;

    fn cursor(text: &str) -> Option<NextPage> {
        Some(NextPage::Cursor(text.to_owned()))
    }

    fn url(text: &str) -> Option<NextPage> {
        Some(NextPage::Url(text.to_owned()))
    }

    #[test]
    fn next_page_reads_body_fields() {
        for (data, expected) in [
            (json!({"nextCursor": "a"}), cursor("a")),
            (json!({"next_cursor": 7}), cursor("7")),
            (json!({"nextPageToken": "p"}), cursor("p")),
            (json!({"response_metadata": {"next_cursor": "s"}}), cursor("s")),
            (json!({"next": "https://a.example/?page=2"}), url("https://a.example/?page=2")),
            (json!({"next": "/items?page=2"}), url("/items?page=2")),
            (json!({"next": "abc"}), cursor("abc")),
            (json!({"@odata.nextLink": "https://a.example/2"}), url("https://a.example/2")),
            (json!({"_links": {"next": {"href": "/2"}}}), url("/2")),
            (json!({"nextCursor": "", "next": null}), None),
            (json!({"items": []}), None),
            (json!([1, 2]), None),
            (json!("nextCursor"), None),
        ] {
            assert_eq!(Envelope::local(data.clone(), "a.b").next_page(), expected, "{data}");
        }
    }

    #[test]
    fn next_page_prefers_link_header() {
        for (link, expected) in [
            (r#"<https://a.example/2>; rel="next""#, url("https://a.example/2")),
            (
                r#"<https://a.example/1>; rel="prev", <https://a.example/3>; rel="next last""#,
                url("https://a.example/3"),
            ),
            (r#"</x?a=1,2>; title="a, b"; rel=next"#, url("/x?a=1,2")),
            (r#"<https://a.example/9>; rel="last""#, cursor("body")),
            ("<broken", cursor("body")),
        ] {
            let meta = HttpMeta::new(200, [("Link", link)]);
            let envelope = Envelope::http(json!({"next_cursor": "body"}), meta);
            assert_eq!(envelope.next_page(), expected, "{link}");
        }
    }

    #[test]
    fn next_page_reads_mcp_next_cursor() {
        let mut meta = McpMeta::new(vec![]);
        meta.extra.insert("nextCursor".to_owned(), json!("m"));
        assert_eq!(Envelope::mcp(json!([]), meta).next_page(), cursor("m"));
    }
}
