//! Values that cannot be sent are rejected with their path before anything is sent.

use std::sync::Arc;

use serde_json::{Value, json};

use super::plans::{
    body_content, content_parameter, default_encoding, fill_request, plan, styled_parameter,
    with_body, with_reserved_allowed,
};
use crate::openapi::media_type::MediaKind;
use crate::openapi::plan::{OperationPlan, Parameter, ParameterLocation, Style};
use crate::openapi::request::RequestTemplate;
use ParameterLocation::{Cookie, Header, Path, Query};

fn fill_result(plan: OperationPlan, input: &Value) -> Result<(), (String, String)> {
    fill_request(plan, &"https://a.example/v1/".parse().unwrap(), input).map(drop)
}

#[test]
fn path_values_cannot_change_the_path() {
    let simple = || styled_parameter("x", Path, Style::Simple, false);
    let rows: [(Parameter, &str, Value, bool); 17] = [
        (simple(), "/a/{x}/b", json!("y"), true),
        (simple(), "/a/{x}/b", json!(""), false),
        (simple(), "/a/{x}", json!(""), false),
        (simple(), "/a/{x}", json!([]), false),
        (simple(), "/a/{x}", json!(null), false),
        (simple(), "/a/{x}", json!("."), false),
        (simple(), "/a/{x}", json!(".."), false),
        (simple(), "/a/{x}/b", json!(".."), false),
        (simple(), "/a/.{x}", json!("."), false),
        (simple(), "/a/{x}", json!("%2e%2E"), true),
        (simple(), "/a/{x}", json!("../../etc"), true),
        (simple(), "/a/{x}", json!("..\\b"), true),
        (simple(), "/a/{x}", json!("..."), true),
        (simple(), "/a/{x}.json", json!(""), true),
        (with_reserved_allowed(simple()), "/a/{x}", json!("%2e%2E"), false),
        (with_reserved_allowed(simple()), "/a/{x}", json!("%2e./b?c#d"), true),
        (content_parameter("x", Path, "text/plain"), "/a/{x}", json!(".."), false),
    ];
    for (parameter, path, value, good) in rows {
        let server = "https://a.example/v1/".parse().unwrap();
        match fill_request(plan(path, vec![parameter]), &server, &json!({"x": value})) {
            Ok(prepared) => {
                assert!(good, "{path} {value}: {}", prepared.url);
                let depth = path.matches('/').count() + 1;
                assert_eq!(prepared.url.path().matches('/').count(), depth, "{}", prepared.url);
                assert!(prepared.url.path().starts_with("/v1/a/"), "{}", prepared.url);
                assert_eq!(prepared.url.query().or(prepared.url.fragment()), None);
            }
            Err((input_path, message)) => {
                assert!(!good && input_path == "/x", "{path} {value}: {message}");
                assert!(message.contains("change the path"), "{message}");
            }
        }
    }
}

#[test]
fn invalid_header_and_cookie_values_are_rejected() {
    let header = |name: &str| Parameter {
        input: "x".to_owned(),
        ..styled_parameter(name, Header, Style::Simple, false)
    };
    let raw = || styled_parameter("x", Cookie, Style::Cookie, true);
    let rows = [
        (header("X"), json!("a\r\nb: c"), "control"),
        (header("X"), json!("a\u{0}"), "control"),
        (header("X"), json!("\u{7f}"), "control"),
        (header("X"), json!("ä"), "ASCII"),
        (header("X"), json!(" a"), "white space"),
        (header("X"), json!(["a", "b\t"]), "white space"),
        (header("Host"), json!("evil.example"), "set by the HTTP client"),
        (header("content-length"), json!(3), "set by the HTTP client"),
        (header("Transfer-Encoding"), json!("chunked"), "set by the HTTP client"),
        (raw(), json!("a; b=c"), "cannot contain `;`"),
        (raw(), json!("a\nb"), "control"),
        (raw(), json!("ä"), "ASCII"),
        (raw(), json!({"a=b": 1}), "cannot contain `=`"),
    ];
    let odd = Parameter { required: false, ..header("a b") };
    assert!(fill_result(plan("/", vec![odd.clone()]), &json!({})).is_ok());
    let rows = rows.into_iter().chain([(odd, json!("x"), "`a b` is not a valid header name")]);
    for (parameter, value, message) in rows {
        let (input_path, text) =
            fill_result(plan("/", vec![parameter]), &json!({"x": value})).unwrap_err();
        assert!(input_path == "/x" && text.contains(message), "{value}: {text}");
    }
}

#[test]
fn unencodable_bodies_are_rejected_with_input_path() {
    use MediaKind::{Binary, Form, JsonLines, Multipart, Text};
    let one = |media_type: &str, kind| vec![body_content(media_type, kind, Vec::new())];
    let xml = default_encoding("x");
    let xml =
        crate::openapi::plan::PropertyEncoding { content_type: Some("text/xml".into()), ..xml };
    let png = crate::openapi::plan::PropertyEncoding {
        content_type: Some("image/png".into()),
        ..default_encoding("x")
    };
    let rows = [
        (one("application/xml", Text), json!({}), "/body", "an object cannot be sent as `applica"),
        (one("application/xml", Text), json!([]), "/body", "pass it as a string"),
        (one("application/jsonl", JsonLines), json!({}), "/body", "an object cannot be sent"),
        (one("multipart/form-data", Multipart), json!([]), "/body", "a list cannot be sent"),
        (one("image/png", Binary), json!(1), "/body", "a number cannot be sent"),
        (one("image/png", Binary), json!("YQ=="), "/body", "pass bytes as {\"$binary\""),
        (one("image/png", Binary), json!({"$binary": "YQ"}), "/body/$binary", "multiple of 4"),
        (one("image/png", Binary), json!({"$binary": "YQ==YQ=="}), "/body/$binary", "padding"),
        (one("image/png", Binary), json!({"$binary": "YR=="}), "/body/$binary", "invalid base64"),
        (one("image/png", Binary), json!({"$binary": "-_-_"}), "/body/$binary", "character 0"),
        (
            one("image/*", Binary),
            json!({"$binary": "YQ==", "contentType": "a\r\nb"}),
            "/body/contentType",
            "expected a media type",
        ),
        (
            one("multipart/form-data", Multipart),
            json!({"f/~": [{"$binary": "!"}]}),
            "/body/f~1~0/0/$binary",
            "invalid base64",
        ),
        (
            one("application/x-www-form-urlencoded", Form),
            json!({"f": {"$binary": "!"}}),
            "/body/f/$binary",
            "invalid base64",
        ),
        (
            vec![body_content("multipart/form-data", Multipart, vec![xml])],
            json!({"x": {}}),
            "/body/x",
            "an object cannot be sent as `text/xml`",
        ),
        (
            vec![body_content("multipart/form-data", Multipart, vec![png])],
            json!({"x": "text"}),
            "/body/x",
            "text cannot be sent as `image/png`; pass bytes as {\"$binary\"",
        ),
        (one("text/plain; charset=latin1", Text), json!("ä"), "/body", "another character set"),
    ];
    for (contents, body, input_path, message) in rows {
        let (at, text) =
            fill_result(with_body(true, contents), &json!({"body": body})).unwrap_err();
        assert!(at == input_path && text.contains(message), "{body}: {at}: {text}");
    }
    let required = with_body(true, one("text/plain", Text));
    assert_eq!(fill_result(required, &json!({})).unwrap_err().0, "/body");
}

#[test]
fn invalid_templates_are_rejected_at_build() {
    let rows = [
        (plan("/a/{x}", vec![]), "contains `{x}`"),
        (
            plan("/a", vec![styled_parameter("a b", Header, Style::Simple, false)]),
            "is not a valid header name",
        ),
    ];
    for (plan, message) in rows {
        let error =
            RequestTemplate::new(Arc::new(plan), &"https://a".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    assert!(
        fill_result(
            plan("/a", vec![styled_parameter("q", Query, Style::Form, true)]),
            &json!(null)
        )
        .is_ok()
    );
}
