//! The `Accept` header, from the declared media types of success responses.

use reqwest::header::HeaderValue;

use super::super::media_type::{self, MediaKind};
use super::super::plan::{DeclaredResponse, StatusRange};

/// Returns the value of `Accept`. JSON has the highest weight, and any other type is accepted with
/// a low one. If an event stream is declared, only event streams are accepted.
pub(super) fn accept_header(responses: &[DeclaredResponse]) -> HeaderValue {
    let declared = success_media_types(responses);
    let kind = |one: &&str| MediaKind::from_content_type(one);
    if declared.iter().any(|one| kind(one) == MediaKind::EventStream) {
        return HeaderValue::from_static("text/event-stream");
    }
    let (json, other): (Vec<&str>, Vec<&str>) =
        declared.into_iter().partition(|one| media_type::is_json(one));
    let weight = if json.is_empty() { "" } else { ";q=0.8" };
    let mut list: Vec<String> = json.into_iter().map(str::to_owned).collect();
    list.extend(other.into_iter().map(|one| format!("{one}{weight}")));
    list.push(if list.is_empty() { "*/*".to_owned() } else { "*/*;q=0.1".to_owned() });
    HeaderValue::from_str(&list.join(", ")).unwrap_or(HeaderValue::from_static("*/*"))
}

fn success_media_types(responses: &[DeclaredResponse]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    let mut found = responses.iter().filter(|response| response.status.is_success()).peekable();
    // If no success response is declared, `default` covers success as well.
    let fallback = found.peek().is_none();
    let default = responses.iter().filter(|one| fallback && one.status == StatusRange::Default);
    for reply in found.chain(default).flat_map(|response| &response.contents) {
        let one = reply.media_type.as_str();
        if media_type::is_valid(one) && one != "*/*" && !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::super::plan::ResponseContent;
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn accept_header_lists_declared_success_types() {
        use StatusRange::{Class, Default, Exactly};
        let rows: [(&[(StatusRange, &str)], &str); 8] = [
            (&[], "*/*"),
            (&[(Exactly(204), "json")], "*/*"),
            (&[(Exactly(200), "*/*")], "*/*"),
            (&[(Exactly(200), "application/json")], "application/json, */*;q=0.1"),
            (
                &[(Exactly(200), "text/xml"), (Class(2), "a/b+json"), (Exactly(404), "x/y")],
                "a/b+json, text/xml;q=0.8, */*;q=0.1",
            ),
            (&[(Default, "text/csv")], "text/csv, */*;q=0.1"),
            (&[(Default, "text/csv"), (Exactly(200), "image/*")], "image/*, */*;q=0.1"),
            (
                &[(Exactly(200), "application/json"), (Exactly(200), "text/event-stream")],
                "text/event-stream",
            ),
        ];
        for (declared, expected) in rows {
            let responses: Vec<DeclaredResponse> = declared
                .iter()
                .map(|(status, media_type)| DeclaredResponse {
                    status: *status,
                    contents: vec![ResponseContent {
                        media_type: (*media_type).to_owned(),
                        schema: Schema::new(true.into()).unwrap(),
                    }],
                    code: None,
                })
                .collect();
            assert_eq!(accept_header(&responses), expected);
        }
    }
}
