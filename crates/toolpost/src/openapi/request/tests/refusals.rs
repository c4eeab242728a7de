//! What cannot be sent is refused with its place, before anything is sent.

use std::sync::Arc;

use serde_json::{Value, json};

use super::plans::{
    content, content_parameter, encoding, filled, plan, reserved, styled, with_body,
};
use crate::openapi::plan::{ContentKind, Parameter, Plan, Position, Style};
use crate::openapi::request::Template;
use Position::{Cookie, Header, Path, Query};

fn refused(plan: Plan, input: &Value) -> Result<(), (String, String)> {
    filled(plan, &"https://a.example/v1/".parse().unwrap(), input).map(drop)
}

#[test]
fn no_value_leads_to_another_path() {
    let simple = || styled("x", Path, Style::Simple, false);
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
        (reserved(simple()), "/a/{x}", json!("%2e%2E"), false),
        (reserved(simple()), "/a/{x}", json!("%2e./b?c#d"), true),
        (content_parameter("x", Path, "text/plain"), "/a/{x}", json!(".."), false),
    ];
    for (parameter, path, value, good) in rows {
        let server = "https://a.example/v1/".parse().unwrap();
        match filled(plan(path, vec![parameter]), &server, &json!({"x": value})) {
            Ok(prepared) => {
                assert!(good, "{path} {value}: {}", prepared.url);
                let depth = path.matches('/').count() + 1;
                assert_eq!(prepared.url.path().matches('/').count(), depth, "{}", prepared.url);
                assert!(prepared.url.path().starts_with("/v1/a/"), "{}", prepared.url);
                assert_eq!(prepared.url.query().or(prepared.url.fragment()), None);
            }
            Err((place, words)) => {
                assert!(!good && place == "/x", "{path} {value}: {words}");
                assert!(words.contains("another path"), "{words}");
            }
        }
    }
}

#[test]
fn headers_and_cookies_hold_no_more_than_they_can() {
    let header = |name: &str| Parameter {
        input: "x".to_owned(),
        ..styled(name, Header, Style::Simple, false)
    };
    let raw = || styled("x", Cookie, Style::Cookie, true);
    let rows = [
        (header("X"), json!("a\r\nb: c"), "control"),
        (header("X"), json!("a\u{0}"), "control"),
        (header("X"), json!("\u{7f}"), "control"),
        (header("X"), json!("ä"), "ASCII"),
        (header("X"), json!(" a"), "white space"),
        (header("X"), json!(["a", "b\t"]), "white space"),
        (header("Host"), json!("evil.example"), "set by whoever sends"),
        (header("content-length"), json!(3), "set by whoever sends"),
        (header("Transfer-Encoding"), json!("chunked"), "set by whoever sends"),
        (raw(), json!("a; b=c"), "no `;`"),
        (raw(), json!("a\nb"), "control"),
        (raw(), json!("ä"), "ASCII"),
        (raw(), json!({"a=b": 1}), "no `=`"),
    ];
    let odd = Parameter { required: false, ..header("a b") };
    assert!(refused(plan("/", vec![odd.clone()]), &json!({})).is_ok());
    let rows = rows.into_iter().chain([(odd, json!("x"), "`a b` cannot be the name of a header")]);
    for (parameter, value, words) in rows {
        let (place, said) = refused(plan("/", vec![parameter]), &json!({"x": value})).unwrap_err();
        assert!(place == "/x" && said.contains(words), "{value}: {said}");
    }
}

#[test]
fn bodies_that_cannot_be_written_are_refused_at_their_place() {
    use ContentKind::{Binary, Form, JsonLines, Multipart, Text};
    let one = |media_type: &str, kind| vec![content(media_type, kind, Vec::new())];
    let xml = encoding("x");
    let xml = crate::openapi::plan::Encoding { content_type: Some("text/xml".into()), ..xml };
    let rows = [
        (one("application/xml", Text), json!({}), "/body", "an object cannot be sent as `applica"),
        (one("application/xml", Text), json!([]), "/body", "give it as text"),
        (one("application/jsonl", JsonLines), json!({}), "/body", "an object cannot be sent"),
        (one("multipart/form-data", Multipart), json!([]), "/body", "a list cannot be sent"),
        (one("image/png", Binary), json!(1), "/body", "a number cannot be sent"),
        (one("image/png", Binary), json!("a b="), "/body", "character 1 does not belong"),
        (one("image/png", Binary), json!({"$binary": "YQ"}), "/body/$binary", "multiple of 4"),
        (one("image/png", Binary), json!({"$binary": "YQ==YQ=="}), "/body/$binary", "padding"),
        (one("image/png", Binary), json!({"$binary": "YR=="}), "/body/$binary", "no base64"),
        (one("image/png", Binary), json!({"$binary": "-_-_"}), "/body/$binary", "character 0"),
        (
            one("image/*", Binary),
            json!({"$binary": "YQ==", "contentType": "a\r\nb"}),
            "/body/contentType",
            "no media type",
        ),
        (
            one("multipart/form-data", Multipart),
            json!({"f/~": [{"$binary": "!"}]}),
            "/body/f~1~0/0/$binary",
            "no base64",
        ),
        (
            one("application/x-www-form-urlencoded", Form),
            json!({"f": {"$binary": "!"}}),
            "/body/f/$binary",
            "no base64",
        ),
        (
            vec![content("multipart/form-data", Multipart, vec![xml])],
            json!({"x": {}}),
            "/body/x",
            "an object cannot be sent as `text/xml`",
        ),
        (one("text/plain; charset=latin1", Text), json!("ä"), "/body", "another character set"),
    ];
    for (contents, body, place, words) in rows {
        let (at, said) = refused(with_body(true, contents), &json!({"body": body})).unwrap_err();
        assert!(at == place && said.contains(words), "{body}: {at}: {said}");
    }
    let required = with_body(true, one("text/plain", Text));
    assert_eq!(refused(required, &json!({})).unwrap_err().0, "/body");
}

#[test]
fn operations_that_can_never_be_called_say_so_at_once() {
    let rows = [
        (plan("/a/{x}", vec![]), "has `{x}` in it"),
        (plan("/a", vec![styled("a b", Header, Style::Simple, false)]), "the name of a header"),
    ];
    for (plan, words) in rows {
        let error = Template::new(Arc::new(plan), &"https://a".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(refused(plan("/a", vec![styled("q", Query, Style::Form, true)]), &json!(null)).is_ok());
}
