//! Third-party parsers, so that requests are decoded by independent code.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use data_encoding::BASE64;
use serde_json::{Value, json};

/// Parses multipart bodies with Python's `email` and forms with its `urllib`.
const PYTHON_SCRIPT: &str = r#"
import base64, email.policy, email.parser, json, sys, urllib.parse
def parts(kind, body):
    head = b"Content-Type: " + kind.encode() + b"\r\n\r\n"
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    assert not message.defects, message.defects
    for part in message.iter_parts():
        assert not part.defects, part.defects
        name = part.get_param("name", header="content-disposition")
        payload = base64.b64encode(part.get_payload(decode=True)).decode()
        others = {k: v for k, v in part.items() if k.lower() not in ("content-type", "content-disposition")}
        kind = part["content-type"].replace('"', "")
        yield [name, part.get_filename(), kind, payload, others]
for kind, body in json.load(sys.stdin):
    body = base64.b64decode(body)
    if kind.startswith("multipart/"):
        print(json.dumps(list(parts(kind, body))))
    else:
        print(json.dumps(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True)))
"#;

/// Parses forms with `Response.formData()` of Node.js.
const NODE_SCRIPT: &str = r#"
const all = JSON.parse(require("fs").readFileSync(0, "utf8"));
(async () => {
  for (const [kind, body] of all) {
    const response = new Response(Buffer.from(body, "base64"), { headers: { "content-type": kind } });
    const fields = [];
    for (const [name, value] of await response.formData()) {
      if (typeof value === "string") fields.push([name, null, null, Buffer.from(value).toString("base64")]);
      else {
        const bytes = Buffer.from(await value.arrayBuffer()).toString("base64");
        fields.push([name, value.name, value.type, bytes]);
      }
    }
    console.log(JSON.stringify(fields));
  }
})();
"#;

/// Parses queries with `qs`, which Express and many others use.
const QS_SCRIPT: &str = r#"
const qs = require(process.argv[1]);
for (const [, query] of JSON.parse(require("fs").readFileSync(0, "utf8")))
  console.log(JSON.stringify(qs.parse(Buffer.from(query, "base64").toString(), { depth: 20 })));
"#;

pub(super) fn parse_with_python(bodies: &[(String, Vec<u8>)]) -> Vec<Value> {
    run_parser(Command::new("python3").args(["-c", PYTHON_SCRIPT]), bodies)
}

pub(super) fn parse_with_node(bodies: &[(String, Vec<u8>)]) -> Vec<Value> {
    run_parser(Command::new(node_path()).args(["-e", NODE_SCRIPT]), bodies)
}

pub(super) fn parse_with_qs(queries: &[String]) -> Vec<Value> {
    let documents = test_data("clients/node_modules/qs");
    let queries: Vec<(String, Vec<u8>)> =
        queries.iter().map(|query| (String::new(), query.clone().into_bytes())).collect();
    run_parser(Command::new(node_path()).args(["-e", QS_SCRIPT]).arg(documents), &queries)
}

fn test_data(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache").join(path);
    assert!(path.exists(), "no {}: run scripts/fetch-test-data", path.display());
    path
}

fn node_path() -> PathBuf {
    test_data("npm/node_modules/.bin/node")
}

/// Runs a parser, which prints one line of JSON per body.
fn run_parser(command: &mut Command, bodies: &[(String, Vec<u8>)]) -> Vec<Value> {
    let input: Vec<Value> =
        bodies.iter().map(|(kind, body)| json!([kind, BASE64.encode(body)])).collect();
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is installed");
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(json!(input).to_string().as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let read: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read.len(), bodies.len());
    read
}
