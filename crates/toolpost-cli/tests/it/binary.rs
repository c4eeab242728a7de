//! Binary data of an HTTP service: in inputs, in HTTP responses and as MCP content.

use serde_json::{Value, json};

use super::journal::fixture::Gateway;
use super::sdk_client::call_tool;
use super::upstream::Upstream;
use super::{TempFolder, stderr};

/// Operations with every kind of body and parameter, and an image, audio, text and a document.
fn document(server: &str) -> Value {
    let binary = json!({"type": "string", "format": "binary"});
    let either = json!({"oneOf": [{"type": "string"}, {"type": "boolean"}]});
    let fields = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "file": binary, "files": {"type": "array", "items": binary}}});
    let post = |id: &str, media_type: &str, schema: &Value| {
        json!({"post": {"operationId": id, "responses": {"200": {"description": "done"}},
            "requestBody": {"content": {media_type: {"schema": schema}}}}})
    };
    let get = |id: &str, media_type: &str| {
        json!({"get": {"operationId": id, "responses": {"200": {
            "description": "found", "content": {media_type: {}}}}}})
    };
    let parameter = |name: &str, place: &str, schema: &Value| json!({"name": name, "in": place, "required": place == "path", "schema": schema});
    let with_parameters = |id: &str, schema: &Value| {
        json!({"get": {"operationId": id, "responses": {"200": {"description": "found"}},
            "parameters": [parameter("id", "path", schema), parameter("q", "query", schema)]}})
    };
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Files", "version": "1"},
        "servers": [{"url": server}],
        "paths": {
            "/photo": post("photo", "image/png", &json!({})),
            "/any": post("any", "*/*", &json!({})),
            "/note": post("note", "text/plain", &json!({"type": "string"})),
            "/fields": post("fields", "application/x-www-form-urlencoded", &fields),
            "/parts": post("parts", "multipart/form-data", &fields),
            "/keys/{id}": with_parameters("key", &binary),
            "/flags/{id}": with_parameters("flag", &either),
            "/png": get("png", "image/png"),
            "/wav": get("wav", "audio/wav"),
            "/pdf": get("pdf", "application/pdf"),
            "/csv": get("csv", "text/csv"),
            "/page": get("page", "text/html"),
            "/list": get("list", "application/json"),
        },
    })
}

fn respond(request: &str) -> (&'static str, &'static str) {
    match request {
        "GET /png" => ("200 OK\r\ncontent-type: image/png", "\u{89}PNG\u{ff}"),
        "GET /wav" => ("200 OK\r\ncontent-type: audio/wav", "RIFF"),
        "GET /pdf" => ("200 OK\r\ncontent-type: application/pdf", "%PDF"),
        "GET /csv" => ("200 OK\r\ncontent-type: text/csv", "a,b\n"),
        "GET /page" => ("200 OK\r\ncontent-type: text/html", "<script>"),
        _ => ("200 OK\r\ncontent-type: application/json", "[1]"),
    }
}

fn start(folder: &TempFolder) -> (Upstream, Gateway) {
    let upstream = Upstream::start(respond);
    folder.write("files.json", &document(&upstream.url()).to_string());
    folder.write("toolpost.toml", "[source.files]\nopenapi = \"files.json\"\naccess = \"open\"\n");
    let gateway = Gateway::start(folder);
    gateway.wait_for("files.png");
    (upstream, gateway)
}

/// Each row: the operation, the input, and what the service receives, or the path of the rejected
/// value and part of its message.
#[test]
fn binary_input_has_one_meaning_in_every_place() {
    let folder = TempFolder::new("binary-inputs");
    let (upstream, gateway) = start(&folder);
    let bytes = json!({"$binary": "AP8="});
    let hint = "pass bytes as {\\\"$binary\\\": \\\"<base64>\\\"}";
    let part = |name: &str, head: &str, body: &str| {
        format!("Content-Disposition: form-data; name=\"{name}\"{head}\r\n\r\n{body}\r\n")
    };
    let file = "; filename=\"file\"\r\nContent-Type: application/octet-stream";
    let rows = [
        ("photo", json!({"body": bytes}), Ok("\u{0}\u{ff}".to_owned())),
        ("photo", json!({"body": "AP8="}), Err(("/body", hint))),
        ("any", json!({"body": bytes}), Ok("\u{0}\u{ff}".to_owned())),
        ("any", json!({"body": "AP8="}), Ok("\"AP8=\"".to_owned())),
        ("note", json!({"body": bytes}), Ok("\u{0}\u{ff}".to_owned())),
        ("note", json!({"body": "ä"}), Ok("\u{c3}\u{a4}".to_owned())),
        ("note", json!({"body": {"text": "ä"}}), Err(("/body/$binary", "missing"))),
        ("fields", json!({"body": {"name": "a", "file": bytes}}), Ok("name=a&file=%00%FF".into())),
        ("fields", json!({"body": {"file": "AP8="}}), Err(("/body/file", hint))),
        ("parts", json!({"body": {"file": bytes}}), Ok(part("file", file, "\u{0}\u{ff}"))),
        (
            "parts",
            json!({"body": {"name": {"$binary": "/w==", "filename": "n"}}}),
            Ok(part("name", &file.replace("\"file\"", "\"n\""), "\u{ff}")),
        ),
        (
            "parts",
            json!({"body": {"name": "AP8="}}),
            Ok(part("name", "\r\nContent-Type: text/plain", "AP8=")),
        ),
        ("parts", json!({"body": {"file": "AP8="}}), Err(("/body/file", hint))),
        ("parts", json!({"body": {"files": [bytes, "AP8="]}}), Err(("/body/files/1", hint))),
        ("key", json!({"id": bytes, "q": bytes}), Ok("GET /keys/%00%FF?q=%00%FF".to_owned())),
        ("key", json!({"id": "AP8="}), Err(("/id", hint))),
    ];
    for (operation, input, expected) in rows {
        let (status, response) = gateway.post(&format!("/api/files/{operation}"), &input);
        match expected {
            Ok(expected) => {
                assert_eq!(status, 200, "{operation} {input}: {response}");
                let (line, body) = upstream.last_request();
                let is_part = body.contains(&expected) && expected.contains("form-data");
                assert!(is_part || [line, body.clone()].contains(&expected), "{input}: {body:?}");
            }
            Err((path, message)) => {
                assert_eq!(status, 422, "{operation} {input}: {response}");
                let found = format!("\"path\":\"{path}\"");
                assert!(response.contains(&found) && response.contains(message), "{response}");
            }
        }
    }
}

/// Each row: the text of a parameter that is a string or a boolean, and its value in the request.
#[test]
fn choice_of_scalars_follows_the_matching_branch() {
    let folder = TempFolder::new("binary-choices");
    let (upstream, gateway) = start(&folder);
    for (text, value) in [("true", "true"), ("123", "123"), ("null", "null"), ("a b", "a%20b")] {
        let sent = format!("GET /flags/{value}?q={value}");
        let call = folder.toolpost(&[
            "call",
            "files.flag",
            "--id",
            text,
            &format!("--q={text}"),
            "--json",
        ]);
        assert!(call.status.success(), "{text}: {}", stderr(&call));
        assert_eq!(upstream.last_request().0, sent);

        let query = text.replace(' ', "%20");
        let path = format!("/api/files/flag?id={query}&q={query}");
        let (status, response) = gateway.get_with(&path, &[]);
        assert_eq!((status, upstream.last_request().0), (200, sent), "{text}: {response}");
    }
    for (input, sent) in [
        (json!({"id": true, "q": "true"}), "GET /flags/true?q=true"),
        (json!({"id": "off", "q": false}), "GET /flags/off?q=false"),
    ] {
        assert_eq!(gateway.post("/api/files/flag", &input).0, 200);
        assert_eq!(upstream.last_request().0, sent);
    }
    let (status, _) = gateway.post("/api/files/flag", &json!({"id": 1}));
    assert_eq!(status, 422, "an input is not converted");
}

/// Each row: the operation, the `Accept` header, and the content type and the body that are
/// returned.
#[test]
fn accept_header_selects_the_bytes_of_a_result() {
    let folder = TempFolder::new("binary-accept");
    let (_upstream, gateway) = start(&folder);
    let png = r#"{"$binary":"iVBOR/8=","contentType":"image/png","size":5}"#;
    let (json, image) = ("application/json", "image/png");
    let browser = "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5";
    for (operation, accept, content_type, expected) in [
        ("png", "image/png", image, "\u{89}PNG\u{ff}"),
        ("png", "IMAGE/*", image, "\u{89}PNG\u{ff}"),
        ("png", browser, image, "\u{89}PNG\u{ff}"),
        ("png", "application/json;q=0.9, image/png", image, "\u{89}PNG\u{ff}"),
        ("png", "*/*", json, png),
        ("png", "application/json", json, png),
        ("png", "application/json, image/png;q=0.5", json, png),
        ("png", "image/jpeg", json, png),
        ("wav", "audio/*", "audio/wav", "RIFF"),
        ("pdf", "application/pdf", "application/pdf", "%PDF"),
        ("csv", "text/csv", "text/csv; charset=utf-8", "a,b\n"),
        ("csv", "application/json, text/plain, */*", json, r#""a,b\n""#),
        (
            "page",
            "text/html,application/xml;q=0.9,*/*;q=0.8",
            "text/html; charset=utf-8",
            "<script>",
        ),
        ("list", "image/png, application/json;q=0.1", json, "[1]"),
    ] {
        let header = format!("accept: {accept}");
        let (head, body) = gateway.fetch(&format!("/api/files/{operation}"), &[&header]);
        assert!(head.starts_with("HTTP/1.1 200 "), "{operation} {accept}: {head}");
        assert_eq!(body, expected, "{operation} {accept}");
        let mut expected = vec![format!("content-type: {content_type}")];
        if content_type != json {
            // A browser must not run scripts of the service.
            expected.push("content-security-policy: default-src 'none'; sandbox".to_owned());
            expected.push("x-content-type-options: nosniff".to_owned());
        }
        for line in expected {
            assert!(head.lines().any(|one| one == line), "{operation} {accept}: {line} in {head}");
        }
    }
    let (status, envelope) =
        gateway.get_with("/api/files/png?envelope=true", &["accept: application/json, image/png"]);
    assert!(status == 200 && envelope.contains(r#""contentType":"image/png""#), "{envelope}");
    let (status, _) = gateway.get_with("/api/demo/add?a=1&b=2", &["accept: image/png"]);
    assert_eq!(status, 406, "the result is never an image");
    let (_, document) = gateway.get_with("/openapi.json", &[]);
    let document: Value = serde_json::from_str(&document).unwrap();
    let responses = &document["paths"]["/api/files/png"]["get"]["responses"]["200"]["content"];
    assert_eq!(responses["*/*"], json!({}));
}

#[test]
fn image_and_audio_results_are_mcp_content() {
    let folder = TempFolder::new("binary-mcp");
    let (_upstream, gateway) = start(&folder);
    for (operation, block) in [
        ("png", json!({"type": "image", "data": "iVBOR/8=", "mimeType": "image/png"})),
        ("wav", json!({"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"})),
    ] {
        let url = format!("http://{}/mcp", gateway.address);
        let result = call_tool(&url, &format!("files__{operation}"), &json!({}));
        assert_eq!(result["content"], json!([block]), "{result}");
        assert_eq!(
            (&result["isError"], &result["structuredContent"]),
            (&Value::Null, &Value::Null)
        );
    }
    let url = format!("http://{}/mcp", gateway.address);
    let document = call_tool(&url, "files__pdf", &json!({}));
    assert_eq!(document["structuredContent"]["$binary"], "JVBERg==", "{document}");
}
