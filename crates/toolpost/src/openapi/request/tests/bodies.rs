//! All kinds of bodies, as the server receives them and as other parsers decode them.

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::echo_server::EchoServer;
use super::external_parsers;
use super::plans::{body_content, default_encoding, fill_request, with_body};
use crate::openapi::media_type::MediaKind;
use crate::openapi::plan::{BodyContent, PropertyEncoding, Style};
use MediaKind::{Binary, Form, Json, JsonLines, Multipart, Text};

const FORM: &str = "application/x-www-form-urlencoded";

fn single_content(media_type: &str, kind: MediaKind) -> Vec<BodyContent> {
    vec![body_content(media_type, kind, Vec::new())]
}

/// Sends a body and returns the received content type and bytes.
async fn send_body(
    echo_server: &EchoServer,
    contents: Vec<BodyContent>,
    body: &Value,
) -> (String, Vec<u8>) {
    let prepared =
        fill_request(with_body(true, contents), &echo_server.url, &json!({"body": body})).unwrap();
    let seen = echo_server.send(prepared).await;
    let length = seen.header("content-length").map(|length| length.parse().unwrap());
    assert_eq!(length, Some(seen.body.len()));
    (seen.header("content-type").unwrap().to_owned(), seen.body)
}

#[tokio::test]
async fn every_body_kind_is_encoded() {
    let echo_server = EchoServer::start().await;
    let png = json!({"$binary": "iVBO", "contentType": "image/png", "filename": "x"});
    let both = || {
        vec![
            body_content("text/csv", Text, Vec::new()),
            body_content("application/json", Json, Vec::new()),
        ]
    };
    let rows: Vec<(Vec<BodyContent>, Value, &str, &[u8])> = vec![
        (
            single_content("application/json", Json),
            json!({"ä": [1, null]}),
            "application/json",
            "{\"ä\":[1,null]}".as_bytes(),
        ),
        (single_content("application/json", Json), json!(null), "application/json", b"null"),
        (single_content("application/json", Json), json!("x"), "application/json", b"\"x\""),
        (
            single_content("application/merge-patch+json", Json),
            json!({}),
            "application/merge-patch+json",
            b"{}",
        ),
        (
            single_content("application/json; charset=utf-8", Json),
            json!(1),
            "application/json; charset=utf-8",
            b"1",
        ),
        (single_content("json", Json), json!(1), "application/json", b"1"),
        (
            single_content("application/jsonl", JsonLines),
            json!([1, {"a": "\n"}]),
            "application/jsonl",
            b"1\n{\"a\":\"\\n\"}\n",
        ),
        (
            single_content("application/json-seq", JsonLines),
            json!([1, 2]),
            "application/json-seq",
            b"\x1e1\n\x1e2\n",
        ),
        (single_content("text/plain", Text), json!("a"), "text/plain", b"a"),
        (
            single_content("text/plain", Text),
            json!("ä"),
            "text/plain; charset=utf-8",
            "ä".as_bytes(),
        ),
        (single_content("text/*", Text), json!(1.5), "text/plain", b"1.5"),
        (
            single_content("application/xml", Text),
            json!("<ä/>"),
            "application/xml",
            "<ä/>".as_bytes(),
        ),
        (single_content("application/xml", Text), png.clone(), "application/xml", b"\x89\x50\x4e"),
        (single_content("image/png", Binary), png.clone(), "image/png", b"\x89\x50\x4e"),
        (single_content("image/*", Binary), png.clone(), "image/png", b"\x89\x50\x4e"),
        (
            single_content("image/*", Binary),
            json!({"$binary": "iVBO"}),
            "application/octet-stream",
            b"\x89\x50\x4e",
        ),
        (
            single_content("audio/*", Binary),
            png.clone(),
            "application/octet-stream",
            b"\x89\x50\x4e",
        ),
        (single_content("*/*", Binary), png.clone(), "image/png", b"\x89\x50\x4e"),
        (single_content("*/*", Json), png.clone(), "image/png", b"\x89\x50\x4e"),
        (single_content("*/*", Json), json!({"a": 1}), "application/json", b"{\"a\":1}"),
        (
            single_content("application/json", Json),
            png.clone(),
            "application/json",
            png.to_string().leak().as_bytes(),
        ),
        // The first declared type that the value can be sent as.
        (both(), json!("a,b"), "text/csv", b"a,b"),
        (both(), json!({"a": 1}), "application/json", b"{\"a\":1}"),
        (
            [single_content("image/jpeg", Binary), single_content("image/png", Binary)].concat(),
            png.clone(),
            "image/png",
            b"\x89\x50\x4e",
        ),
        (
            single_content("application/octet-stream", Binary),
            json!({"$binary": ""}),
            "application/octet-stream",
            b"",
        ),
    ];
    for (contents, body, content_type, bytes) in rows {
        let (seen_type, seen) = send_body(&echo_server, contents, &body).await;
        assert_eq!((seen_type.as_str(), seen.as_slice()), (content_type, bytes), "{body}");
    }
    for (required, input) in [(false, json!({})), (false, json!({"body": null}))] {
        let plan = with_body(required, single_content("application/json", Json));
        let seen = echo_server.send(fill_request(plan, &echo_server.url, &input).unwrap()).await;
        assert_eq!((seen.header("content-type"), seen.body.len()), (None, 0));
    }
}

#[tokio::test]
async fn forms_are_decoded_by_external_parsers() {
    let echo_server = EchoServer::start().await;
    let styled = |style, explode| PropertyEncoding {
        style: Some((style, explode, false)),
        ..default_encoding("p")
    };
    let of_type = |kind: &str| PropertyEncoding {
        content_type: Some(kind.to_owned()),
        ..default_encoding("p")
    };
    let object = json!({"R": 100, "G": 200});
    let rows: Vec<(Option<PropertyEncoding>, Value, &str, Value)> = vec![
        (None, json!("a b&=ä+%"), "p=a+b%26%3D%C3%A4%2B%25", json!([["p", "a b&=ä+%"]])),
        (None, json!(["a", 1, null]), "p=a&p=1", json!([["p", "a"], ["p", "1"]])),
        (
            None,
            object.clone(),
            "p=%7B%22R%22%3A100%2C%22G%22%3A200%7D",
            json!([["p", object.to_string()]]),
        ),
        (
            None,
            json!([{"a": 1}, [2]]),
            "p=%7B%22a%22%3A1%7D&p=%5B2%5D",
            json!([["p", "{\"a\":1}"], ["p", "[2]"]]),
        ),
        (None, json!({"$binary": "YSA="}), "p=a+", json!([["p", "a "]])),
        (Some(styled(Style::Form, true)), json!({"$binary": "YSA="}), "p=a+", json!([["p", "a "]])),
        (Some(of_type("application/json")), json!("x"), "p=%22x%22", json!([["p", "\"x\""]])),
        (
            Some(styled(Style::Form, true)),
            json!(["a", "b"]),
            "p=a&p=b",
            json!([["p", "a"], ["p", "b"]]),
        ),
        (
            Some(styled(Style::Form, true)),
            object.clone(),
            "R=100&G=200",
            json!([["R", "100"], ["G", "200"]]),
        ),
        (Some(styled(Style::Form, false)), json!(["a", "b"]), "p=a,b", json!([["p", "a,b"]])),
        (
            Some(styled(Style::SpaceDelimited, false)),
            json!(["a", "b"]),
            "p=a%20b",
            json!([["p", "a b"]]),
        ),
        (
            Some(styled(Style::PipeDelimited, false)),
            json!(["a", "b"]),
            "p=a%7Cb",
            json!([["p", "a|b"]]),
        ),
        (
            Some(styled(Style::DeepObject, true)),
            object,
            "p%5BR%5D=100&p%5BG%5D=200",
            json!([["p[R]", "100"], ["p[G]", "200"]]),
        ),
        (
            Some(PropertyEncoding {
                style: Some((Style::Form, true, true)),
                ..default_encoding("p")
            }),
            json!("/x:y "),
            "p=/x:y%20",
            json!([["p", "/x:y "]]),
        ),
    ];
    let (mut bodies, mut read) = (Vec::new(), Vec::new());
    for (encoding, value, expected, pairs) in rows {
        let contents = vec![body_content(FORM, Form, encoding.into_iter().collect())];
        let (kind, bytes) =
            send_body(&echo_server, contents, &json!({"p": value, "none": null})).await;
        assert_eq!(
            (kind.as_str(), String::from_utf8(bytes.clone()).unwrap()),
            (FORM, expected.to_owned())
        );
        bodies.push((kind, bytes));
        read.push(pairs);
    }
    assert_eq!(external_parsers::parse_with_python(&bodies), read);
}

#[tokio::test]
async fn form_data_is_decoded_by_external_parsers() {
    let echo_server = EchoServer::start().await;
    let encoded = |bytes: &[u8]| BASE64.encode(bytes);
    let encodings = vec![
        PropertyEncoding { is_binary: true, ..default_encoding("text file") },
        PropertyEncoding {
            is_binary: true,
            content_type: Some("image/png, image/jpeg".into()),
            ..default_encoding("photo")
        },
        PropertyEncoding { content_type: Some("text/xml".into()), ..default_encoding("xml") },
        PropertyEncoding {
            content_type: Some("application/json".into()),
            ..default_encoding("quoted")
        },
        PropertyEncoding {
            style: Some((Style::DeepObject, true, false)),
            ..default_encoding("deep")
        },
        PropertyEncoding { style: Some((Style::Form, false, false)), ..default_encoding("joined") },
        PropertyEncoding { style: Some((Style::Form, true, false)), ..default_encoding("styled") },
        PropertyEncoding {
            headers: vec![
                ("X-Fixed".into(), "yes".into()),
                ("Content-Type".into(), "no/no".into()),
                ("X-Bad".into(), "a\r\nb".into()),
            ],
            ..default_encoding("headed")
        },
    ];
    let body = json!({
        "name": "Bob", "umlaut": "ä\r\n--x", "count": 3, "yes": true, "nothing": null,
        "list": ["a", {"b": 1}, [2], null], "object": {"a": [1]},
        "file": {"$binary": encoded(b"\x00\r\n\xff"), "contentType": "image/gif", "filename": "a.gif"},
        "files": [{"$binary": ""}, {"$binary": encoded(b"2")}],
        "text file": {"$binary": encoded(b"plain")}, "styled": {"$binary": "cw=="}, "photo": {"$binary": encoded(b"png")}, "xml": "<a/>", "quoted": "q",
        "deep": {"a": 1}, "joined": ["x", "y z"], "headed": "h",
    });
    let contents = vec![body_content("multipart/form-data", Multipart, encodings)];
    let (kind, bytes) = send_body(&echo_server, contents, &body).await;
    let (essence, boundary) = kind.split_once("; boundary=").unwrap();
    assert_eq!(essence, "multipart/form-data");
    assert!(boundary.len() > 32, "{boundary}");
    let text = "text/plain";
    let expected: Vec<(&str, Option<&str>, &str, &[u8])> = vec![
        ("name", None, text, b"Bob"),
        ("umlaut", None, "text/plain; charset=utf-8", "ä\r\n--x".as_bytes()),
        ("count", None, text, b"3"),
        ("yes", None, text, b"true"),
        ("list", None, text, b"a"),
        ("list", None, "application/json", b"{\"b\":1}"),
        ("list", None, "application/json", b"[2]"),
        ("object", None, "application/json", b"{\"a\":[1]}"),
        ("file", Some("a.gif"), "image/gif", b"\x00\r\n\xff"),
        ("files", Some("files"), "application/octet-stream", b""),
        ("files", Some("files"), "application/octet-stream", b"2"),
        ("text file", Some("text file"), "application/octet-stream", b"plain"),
        ("styled", Some("styled"), "application/octet-stream", b"s"),
        ("photo", Some("photo"), "image/png", b"png"),
        ("xml", None, "text/xml", b"<a/>"),
        ("quoted", None, "application/json", b"\"q\""),
        ("deep[a]", None, text, b"1"),
        ("joined", None, text, b"x,y z"),
        ("headed", None, text, b"h"),
    ];
    let by_python: Vec<Value> = expected
        .iter()
        .map(|(name, filename, kind, bytes)| {
            let others = if *name == "headed" { json!({"X-Fixed": "yes"}) } else { json!({}) };
            json!([name, filename, kind, encoded(bytes), others])
        })
        .collect();
    assert_eq!(
        external_parsers::parse_with_python(&[(kind.clone(), bytes.clone())]),
        [Value::from(by_python)]
    );
    let by_node: Vec<Value> = expected
        .iter()
        .map(|(name, filename, kind, bytes)| {
            json!([name, filename, filename.map(|_| kind), encoded(bytes)])
        })
        .collect();
    let read = external_parsers::parse_with_node(&[(kind, bytes)]);
    assert_eq!(read, [Value::from(by_node)]);
}

#[tokio::test]
async fn multipart_mixed_parts_keep_names_or_order() {
    let echo_server = EchoServer::start().await;
    let rows = [
        (
            "multipart/mixed",
            json!([{"a": 1}, "x", {"$binary": "YQ==", "filename": "f"}]),
            json!([
                [null, null, "application/json", BASE64.encode(b"{\"a\":1}"), {}],
                [null, null, "text/plain", BASE64.encode(b"x"), {}],
                [null, "f", "application/octet-stream", "YQ==", {}],
            ]),
        ),
        (
            "multipart/related",
            json!({"metadata": {"a": 1}, "media": {"$binary": "YQ=="}}),
            json!([
                ["metadata", null, "application/json", BASE64.encode(b"{\"a\":1}"), {}],
                ["media", "media", "application/octet-stream", "YQ==", {}],
            ]),
        ),
    ];
    for (media_type, body, expected) in rows {
        let (kind, bytes) =
            send_body(&echo_server, single_content(media_type, Multipart), &body).await;
        assert!(kind.starts_with(&format!("{media_type}; boundary=")), "{kind}");
        assert_eq!(external_parsers::parse_with_python(&[(kind, bytes)]), [expected]);
    }
    let (kind, _) =
        send_body(&echo_server, single_content("multipart/*", Multipart), &json!({"a": 1})).await;
    assert!(kind.starts_with("multipart/form-data; boundary="), "{kind}");
}
