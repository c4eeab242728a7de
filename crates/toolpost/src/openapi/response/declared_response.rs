//! Lookup of the declared response for a status and content type.

use crate::openapi::media_type::{MediaKind, covers, essence};
use crate::openapi::plan::{DeclaredResponse, OperationPlan, StatusRange};
use crate::schema::Schema;

/// Returns the narrowest declared response that matches a status.
pub(super) fn find_response(plan: &OperationPlan, status: u16) -> Option<&DeclaredResponse> {
    let fits = |range: StatusRange| match range {
        StatusRange::Exactly(code) => code == status,
        StatusRange::Class(digit) => digit == status / 100,
        StatusRange::Default => true,
    };
    plan.responses.iter().filter(|one| fits(one.status)).min_by_key(|one| one.status)
}

/// Returns the declared schema of a response, or the unknown schema if none is declared.
pub(crate) fn response_schema(plan: &OperationPlan, status: u16, content_type: &str) -> Schema {
    // A success status that matches only `default` or another error has no declared schema.
    let declared = find_response(plan, status)
        .filter(|response| response.code.is_none() || !(200..300).contains(&status));
    let contents = declared.map_or(&[][..], |response| &response.contents);
    let best = contents.iter().filter_map(|reply| {
        let closeness = type_distance(&reply.media_type, content_type)?;
        Some((closeness, &reply.schema))
    });
    // Of equally close types, the first is used.
    let best = best.reduce(|best, next| if next.0 < best.0 { next } else { best });
    best.map_or_else(Schema::unknown, |(_, schema)| schema.clone())
}

/// Whether the document declares content types for this success status, and none of them matches.
pub(crate) fn is_undeclared(plan: &OperationPlan, status: u16, content_type: &str) -> bool {
    let declared = find_response(plan, status).filter(|response| response.code.is_none());
    declared.is_some_and(|response| {
        let mut contents = response.contents.iter();
        contents.len() > 0
            && contents.all(|reply| type_distance(&reply.media_type, content_type).is_none())
    })
}

/// Returns the distance of a declared media type from a received one, if they match.
fn type_distance(declared: &str, received: &str) -> Option<u8> {
    let range = essence(declared);
    if range.eq_ignore_ascii_case(essence(received)) {
        return Some(0);
    }
    match (MediaKind::from_content_type(declared), MediaKind::from_content_type(received)) {
        // `application/json` from a service usually means the declared
        // `application/vnd.example+json`.
        (MediaKind::Json, MediaKind::Json) => Some(1),
        // A response without a content type is assumed to have the declared one.
        (_, MediaKind::Unknown) => Some(1),
        _ if range == "*/*" || range == "*" => Some(3),
        _ if covers(range, received) => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::openapi::plan::{ResponseContent, ServiceProtocol};

    fn plan(responses: &[(StatusRange, &[&str])]) -> OperationPlan {
        let responses = responses.iter().map(|(status, contents)| DeclaredResponse {
            status: *status,
            contents: contents
                .iter()
                .map(|media_type| ResponseContent {
                    media_type: (*media_type).to_owned(),
                    schema: Schema::new(json!({"title": format!("{status:?} {media_type}")}))
                        .unwrap(),
                })
                .collect(),
            code: (*status == StatusRange::Default).then(|| "HTTP_ERROR".into()),
        });
        OperationPlan {
            method: reqwest::Method::GET,
            protocol: ServiceProtocol::Http,
            path: "/".to_owned(),
            servers: Arc::new([]),
            parameters: Vec::new(),
            body: None,
            responses: responses.collect(),
            security: Arc::new([]),
        }
    }

    #[test]
    fn narrowest_status_and_closest_type_are_selected() {
        use StatusRange::{Class, Default, Exactly};
        let plan = plan(&[
            (Default, &["application/json"]),
            (Class(2), &["*/*", "text/*", "text/csv"]),
            (Exactly(200), &["application/vnd.a+json", "application/vnd.b+json", "image/png"]),
            (Exactly(204), &[]),
        ]);
        let rows = [
            (200, "application/json", "Exactly(200) application/vnd.a+json"),
            (200, "application/vnd.b+json; x=y", "Exactly(200) application/vnd.b+json"),
            (200, "IMAGE/PNG", "Exactly(200) image/png"),
            (200, "image/gif", ""),
            (200, "", "Exactly(200) application/vnd.a+json"),
            (201, "text/csv", "Class(2) text/csv"),
            (201, "text/plain", "Class(2) text/*"),
            (201, "image/png", "Class(2) */*"),
            (204, "application/json", ""),
            (404, "application/problem+json", "Default application/json"),
            (300, "application/json", "Default application/json"),
        ];
        let undeclared = self::plan(&[(Default, &["application/json"])]);
        assert!(response_schema(&undeclared, 201, "application/json").is_unknown());
        for (status, content_type, expected) in rows {
            let found = response_schema(&plan, status, content_type);
            let title =
                found.json().get("title").and_then(|title| title.as_str().map(str::to_owned));
            assert_eq!(title.unwrap_or_default(), expected, "{status} {content_type}");
        }
    }
}
