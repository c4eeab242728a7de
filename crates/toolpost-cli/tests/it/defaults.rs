//! Defaults in schemas: which are filled in, and what upstream servers receive.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::journal::fixture::post;
use super::process::{OutputLines, Process, wait_until};
use super::upstream::Upstream;
use super::{TempFolder, command};

/// Defaults that break the value: of another type, not in the list, without a required member, and
/// one that excludes another property. An OpenAPI import omits the first two.
#[test]
fn invalid_default_is_left_out_and_logged_once() {
    let upstream =
        Upstream::start(|_| ("200 OK\r\ncontent-type: application/json", r#"{"id":1,"left":2}"#));
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "owner": {"type": "object", "properties": {"name": {"type": "string"}},
                "required": ["name"], "default": {}},
            "left": {"type": "integer"},
            "right": {"type": "integer", "default": 1},
        },
        "oneOf": [{"required": ["left"]}, {"required": ["right"]}],
    });
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "Jobs", "version": "1"},
        "servers": [{"url": upstream.url()}],
        "paths": {"/job": {"get": {"operationId": "job", "responses": {"200": {
            "description": "A job.", "content": {"application/json": {"schema": schema}}}}}}},
    });
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("../../.cache/py/bin/python");
    let server = root.join("tests/servers/defaults_server.py");
    let folder = TempFolder::new("bad-defaults");
    folder.write("jobs.json", &document.to_string());
    let config = format!(
        "[source.http]\nopenapi = \"jobs.json\"\naccess = \"open\"\n\
         [source.tools]\nmcp = {{ command = {python:?}, args = [{server:?}] }}\naccess = \"open\"\n"
    );
    folder.write("toolpost.toml", &config);
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
    serve.current_dir(folder.path()).stderr(Stdio::piped());
    let (mut process, address, _lines) = Process::serve(&mut serve);
    let log = OutputLines::of(process.stderr.take().unwrap());
    for source in ["http", "tools"] {
        let call = || {
            let accept = "accept: application/vnd.toolpost.envelope+json";
            post(&address, &format!("/api/{source}/job"), &json!({}), &[accept]).unwrap()
        };
        wait_until("the source is ready", || call().0 == 200);
        for _ in 0..3 {
            let envelope: Value = serde_json::from_str(&call().1).unwrap();
            assert_eq!(envelope["data"], json!({"id": 1, "left": 2}), "{envelope}");
            assert_eq!((&envelope["repairs"], &envelope["warnings"]), (&Value::Null, &Value::Null));
        }
    }
    process.signal("-TERM");
    let warnings: Vec<String> = log.filter(|line| line.contains("WARN")).collect();
    for (source, names) in
        [("http.job", &["owner", "right"][..]), ("tools", &["state", "mode", "owner", "right"])]
    {
        for name in names {
            let is_logged = |line: &&String| {
                line.contains(source) && line.contains(&format!("/properties/{name}"))
            };
            assert_eq!(warnings.iter().filter(is_logged).count(), 1, "{name}: {warnings:#?}");
        }
    }
}
