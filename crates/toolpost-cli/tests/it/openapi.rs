//! `import`, `add openapi`, and calls to a configured HTTP service without a gateway.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Output;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::mcp::Gateway;
use super::process::{run as run_command, wait_until};
use super::{TempFolder, command, stderr, stdout};

const SECRET: &str = "planted-hush-8841";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pets() -> String {
    std::fs::read_to_string(root().join("examples/pets.yaml")).unwrap()
}

/// HTTP service for `examples/pets.yaml`, with one pet, on its own port.
struct Pets {
    port: u16,
    /// The request line, headers and body of each request.
    requests: Arc<Mutex<Vec<(String, String, String)>>>,
}

impl Pets {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                std::thread::spawn(move || while let Some(()) = respond(&stream, &log) {});
            }
        });
        Self { port, requests }
    }

    fn last_request(&self) -> (String, String, String) {
        self.requests.lock().unwrap().last().cloned().unwrap()
    }
}

fn respond(stream: &TcpStream, log: &Mutex<Vec<(String, String, String)>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut headers, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        headers.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let first = first.trim().trim_end_matches(" HTTP/1.1").to_owned();
    let (head, response) = match first.as_str() {
        "GET /v1/pets/1" => {
            ("200 OK\r\ncontent-type: application/json", r#"{"id": 1, "name": "Rex"}"#)
        }
        "GET /v1/news" => (
            "200 OK\r\ncontent-type: text/event-stream",
            "id: 7\nevent: born\ndata: {\"name\": \"Tim\"}\n\n",
        ),
        "POST /v1/pets" => {
            ("201 Created\r\ncontent-type: application/json", r#"{"id": 2, "name": "Tim"}"#)
        }
        first if first.starts_with("GET /v1/pets?") => {
            ("200 OK\r\ncontent-type: application/json", r#"[{"id": 1, "name": "Rex"}]"#)
        }
        _ => (
            "404 Not Found\r\ncontent-type: application/problem+json",
            r#"{"title": "Not here", "detail": "there is no pet of that number"}"#,
        ),
    };
    log.lock().unwrap().push((first, headers, String::from_utf8(body).ok()?));
    let mut stream = stream;
    write!(stream, "HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{response}", response.len()).ok()
}

fn import(arguments: &[&str]) -> Output {
    run_command(command(&[&["import"], arguments].concat()).current_dir(root()))
}

fn names(report: &Value) -> Vec<&str> {
    let operations = report["operations"].as_array().unwrap();
    operations.iter().map(|operation| operation["name"].as_str().unwrap()).collect()
}

/// Each row: the arguments after the document and the resulting operation names.
#[test]
fn import_prints_filtered_and_renamed_operations() {
    let all = ["listPets", "addPet", "readPet", "removePet", "setPhoto", "followNews"];
    for (typed, expected) in [
        (&[][..], &all[..]),
        (&["--include", "*Pet", "--exclude", "add*"], &["readPet", "removePet"]),
        (&["--include", "readPet", "--prefix", "v1/"], &["v1/readPet"]),
        (&["--include", "readPet", "--rename", "readPet=pet", "--prefix", "a_"], &["a_pet"]),
    ] {
        let output = import(&[&["examples/pets.yaml", "--name", "pets"], typed].concat());
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{typed:?}");
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(names(&report), expected, "{typed:?}");
        assert_eq!((&report["skipped"], &report["warnings"]), (&json!([]), &json!([])));
        assert_eq!(report["operations"][0]["namespace"], "pets");
    }
}

/// Each row: the file name, the document, the expected message and the exit code.
#[test]
fn import_invalid_document_reports_reason() {
    let folder = TempFolder::new("openapi-bad");
    for (name, text, expected, exit) in [
        ("a.json", "{\"openapi\": \"3.1.0\",", "line 1", 2),
        ("b.yaml", "openapi: 3.1.0\n\tx: [", "line", 2),
        ("c.json", "[1, 2]", "object", 2),
        ("d.json", "{\"swagger\": \"1.2\"}", "1.2", 2),
        ("e.json", "{\"hello\": 1}", "openapi", 2),
    ] {
        folder.write(name, text);
        let output = folder.toolpost(&["import", name]);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(exit), "{name}: {message}");
        assert!(message.starts_with("error: ") && message.contains(expected), "{name}: {message}");
        let message = crate::json(&output)["error"]["message"].to_string();
        assert!(message.contains(expected), "{name}: {message}");
    }
    let missing = folder.toolpost(&["import", "nothing.yaml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("nothing.yaml"), "{}", stderr(&missing));
    let address = format!("http://user:{SECRET}@127.0.0.1:1/api.json?key={SECRET}");
    let unreachable = folder.toolpost(&["import", &address]);
    assert_eq!(unreachable.status.code(), Some(3), "{}", stderr(&unreachable));
    assert!(!stderr(&unreachable).contains(SECRET), "{}", stderr(&unreachable));
}

#[test]
fn import_skips_broken_operation_with_reason() {
    let folder = TempFolder::new("openapi-skip");
    let broken = r##"{"openapi": "3.0.3", "info": {"title": "x", "version": "1"}, "paths": {
        "/a": {"get": {"responses": {"200": {"description": ""}}},
               "post": {"requestBody": {"$ref": "#/nowhere"}, "responses": {}}},
        "/b": {"put": 5}}}"##;
    folder.write("api.json", broken);
    let output = folder.toolpost(&["import", "api.json"]);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(names(&report), ["get_a"]);
    let skipped = report["skipped"].as_array().unwrap();
    let pairs: Vec<_> = skipped.iter().map(|one| (&one["method"], &one["path"])).collect();
    assert_eq!(pairs, [(&json!("POST"), &json!("/a")), (&json!("PUT"), &json!("/b"))]);
    assert!(skipped.iter().all(|one| one["reason"].as_str().unwrap().len() > 10), "{skipped:?}");
}

#[test]
fn add_openapi_call_and_remove() {
    let (folder, service) = (TempFolder::new("openapi-add"), Pets::start());
    folder.write("pets.yaml", &pets());
    let server = format!("http://127.0.0.1:{}/v1", service.port);
    let typed =
        ["add", "openapi", "pets", "pets.yaml", "--server", &server, "--api-key", "${PETS_KEY}"];
    let output = folder.toolpost(&[&typed[..], &["--exclude", "setPhoto"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&report["operations"], &report["access"]), (&json!(5), &json!("open")));
    assert!(report["tokens"].as_u64().unwrap() > 100, "{report}");
    assert_eq!(
        folder.read("toolpost.toml"),
        format!(
            "[source.pets]\n\
             openapi = {{ document = \"pets.yaml\", server = \"{server}\" }}\n\
             auth = {{ api_key = \"${{PETS_KEY}}\" }}\nexclude = [\"setPhoto\"]\naccess = \"open\"\n"
        )
    );
    let run = |arguments: &[&str]| {
        let mut command = command(arguments);
        command.current_dir(folder.path()).env("PETS_KEY", SECRET).env("TOOLPOST_LOG", "trace");
        let output = run_command(&mut command);
        let (out, message) = (stdout(&output), stderr(&output));
        assert!(
            !out.contains(SECRET) && !message.contains(SECRET),
            "{arguments:?}: {out} {message}"
        );
        (output.status.code().unwrap(), out, message)
    };

    let (exit, out, message) = run(&["call", "pets.readPet", "--id", "1"]);
    assert_eq!(exit, 0, "{message}");
    let envelope: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(envelope["data"], json!({"id": 1, "name": "Rex", "status": "available"}));
    assert_eq!(
        (&envelope["meta"]["source"], &envelope["meta"]["statusCode"]),
        (&json!("http"), &json!(200))
    );

    run(&["call", "pets.listPets", "--limit", "3", "--status", r#"["sold", "available"]"#]);
    assert_eq!(service.last_request().0, "GET /v1/pets?limit=3&status=sold,available");

    let (exit, out, message) =
        run(&["call", "pets.addPet", r#"{"body": {"name": "Tim"}}"#, "--output", "data"]);
    assert_eq!((exit, out.contains(r#""id":2"#)), (0, true), "{message}");
    let (first, headers, body) = service.last_request();
    assert_eq!((first.as_str(), body.contains("Tim")), ("POST /v1/pets", true));
    assert!(headers.contains(&format!("x-key: {SECRET}")), "{headers}");

    let (exit, out, message) = run(&["call", "pets.readPet", "--id", "9", "--output", "data"]);
    assert_eq!((exit, out.as_str()), (1, ""));
    assert!(
        message.contains("HTTP_404") && message.contains("there is no pet of that number"),
        "{message}"
    );

    let (exit, out, message) = run(&["subscribe", "pets.followNews"]);
    assert_eq!(exit, 0, "{message}");
    let event: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!(event["data"]["name"], "Tim");
    assert_eq!(event["meta"]["sse"]["eventType"], "born");
    assert_eq!(event["meta"]["sse"]["lastEventId"], "7");

    for arguments in [&["list"][..], &["schema", "pets.addPet"], &["serve", "--check"]] {
        let (exit, out, message) = run(arguments);
        assert_eq!((exit, out.contains("pets")), (0, true), "{arguments:?}: {message}");
    }
    let without = folder.toolpost(&["call", "pets.readPet", "--id", "1"]);
    assert_eq!(without.status.code(), Some(2));
    assert!(stderr(&without).contains("PETS_KEY"), "{}", stderr(&without));
    assert_eq!(folder.toolpost(&["remove", "pets"]).status.code(), Some(0));
    assert_eq!(folder.read("toolpost.toml").trim(), "");
}

/// Each row: the arguments after `add openapi x` and the expected error.
#[test]
fn add_openapi_invalid_arguments_write_nothing() {
    let folder = TempFolder::new("openapi-refuse");
    folder.write("pets.yaml", &pets());
    for (typed, message) in [
        (&["pets.yaml", "--server", "ftp://x"][..], "invalid --server; use https://HOST"),
        (&["pets.yaml", "--server", "127.0.0.1:80"], "invalid --server; use https://HOST"),
        (&["pets.yaml", "--server", "http://u:p@x"], "must not contain a user or password"),
        (&["pets.yaml", "--include", "zzz*"], "none of the 6 operations matches"),
        (&["pets.yaml", "--rename", "readPet=addPet"], "two operations have the name `addPet`"),
        (&["pets.yaml", "--rename", "readPet"], "--rename OLD=NEW"),
        (&["pets.yaml", "--basic", "name"], "--basic USER:PASSWORD"),
        (&["pets.yaml", "--header", "X Y: z"], "\"X Y\": invalid header name"),
        (&["pets.yaml", "--host", "a b"], "source.x.openapi.hosts: invalid host"),
        (&["pets.yaml", "--exclude", ""], "source.x.exclude[0]: empty pattern"),
        (&["pets.yaml", "--basic", "name:"], "password: empty secret"),
    ] {
        let output = folder.toolpost(&[&["add", "openapi", "x"], typed].concat());
        assert_eq!(output.status.code(), Some(2), "{typed:?}");
        assert!(stderr(&output).contains(message), "{typed:?}: {}", stderr(&output));
        assert!(!folder.path().join("toolpost.toml").exists(), "{typed:?}");
    }
}

#[test]
fn document_without_server_reports_missing_url() {
    let folder = TempFolder::new("openapi-homeless");
    let document = pets().replace("http://127.0.0.1:8080/v1", "/v1");
    folder.write("pets.yaml", &document);
    let missing = "set `server` to the URL of the service";
    let seen: Value =
        serde_json::from_str(&stdout(&folder.toolpost(&["import", "pets.yaml"]))).unwrap();
    let warned = seen["warnings"][0]["message"].as_str().unwrap();
    assert!(
        warned.starts_with("6 operations cannot be called") && warned.contains(missing),
        "{warned}"
    );
    assert_eq!(folder.toolpost(&["add", "openapi", "pets", "pets.yaml"]).status.code(), Some(0));
    let called = folder.toolpost(&["call", "pets.readPet", "--id", "1"]);
    assert_eq!(called.status.code(), Some(1));
    assert!(stderr(&called).contains(missing), "{}", stderr(&called));
}

#[test]
fn credentials_are_not_sent_to_other_service() {
    let folder = TempFolder::new("openapi-replace");
    folder.write("pets.yaml", &pets());
    folder.write("other.yaml", &pets());
    let add = |arguments: &[&str]| {
        let output = folder.toolpost(&[&["add", "openapi", "pets"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        folder.read("toolpost.toml").contains("${KEY}")
    };
    assert!(add(&["pets.yaml", "--api-key", "${KEY}"]));
    assert!(add(&["pets.yaml", "--replace", "--exclude", "x"]));
    assert!(!add(&["other.yaml", "--replace"]));
}

/// Problems elsewhere in the file are not reported.
#[test]
fn add_openapi_checks_only_the_changed_source() {
    let folder = TempFolder::new("openapi-twice");
    folder.write("pets.yaml", &pets());
    folder.write("theirs.json", r#"{"mcpServers": {"one": {"command": "x"}}}"#);
    let file = "mcp_servers = [\"theirs.json\"]\n[source.odd]\ntimout = 5\n";
    folder.write("toolpost.toml", file);
    let twice = folder.toolpost(&["add", "openapi", "one", "pets.yaml"]);
    assert_eq!(twice.status.code(), Some(2), "{}", stdout(&twice));
    let message = stderr(&twice);
    assert!(message.contains("duplicate source `one`") && !message.contains("odd"), "{message}");
    assert_eq!(folder.read("toolpost.toml"), file);
    let other = folder.toolpost(&["add", "openapi", "two", "pets.yaml"]);
    assert_eq!(other.status.code(), Some(0), "{}", stderr(&other));
    assert!(folder.read("toolpost.toml").starts_with(file));
}

/// Each row: the document as given on the command line, the configuration file, and the document as
/// written to it.
#[test]
fn document_path_is_relative_to_config_file() {
    let folder = TempFolder::new("openapi-elsewhere");
    std::fs::create_dir(folder.path().join("conf")).unwrap();
    folder.write("pets.yaml", &pets());
    folder.write("conf/pets.yaml", &pets());
    let here = std::fs::canonicalize(folder.path()).unwrap().join("pets.yaml");
    let (here, address) = (here.to_str().unwrap(), format!("file://{}", here.display()));
    for (number, (typed, config, written)) in [
        ("pets.yaml", "toolpost.toml", "pets.yaml"),
        ("pets.yaml", "./toolpost.toml", "pets.yaml"),
        ("pets.yaml", "conf/toolpost.toml", here),
        ("conf/pets.yaml", "conf/toolpost.toml", "pets.yaml"),
        (here, "conf/toolpost.toml", here),
        (&address, "toolpost.toml", here),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("pets{number}");
        let added = folder.toolpost(&["add", "openapi", &name, typed, "--config", config]);
        assert_eq!(added.status.code(), Some(0), "{typed}: {}", stderr(&added));
        let text = folder.read(config);
        let line = format!("[source.{name}]\nopenapi = \"{written}\"\n");
        assert!(text.contains(&line), "{typed}: {text}");
        let operation = format!("{name}.readPet");
        let schema_output = folder.toolpost(&["schema", &operation, "--config", config]);
        assert_eq!(schema_output.status.code(), Some(0), "{typed}: {}", stderr(&schema_output));
    }
}

#[test]
fn add_openapi_replace_keeps_omitted_settings() {
    let folder = TempFolder::new("openapi-kept");
    folder.write("pets.yaml", &pets());
    let file = "[source.pets]\naccess = \"open\"\n[source.pets.openapi]\n# often\nretries = 5\n\
                document = \"pets.yaml\"\nserver = \"http://127.0.0.1:9\" # here\n\
                [source.pets.auth]\nbearer = \"${KEY}\"\n";
    folder.write("toolpost.toml", file);
    let again = folder.toolpost(&["add", "openapi", "pets", "pets.yaml", "--replace"]);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    assert_eq!(folder.read("toolpost.toml"), file);
    let moved =
        ["add", "openapi", "pets", "pets.yaml", "--replace", "--server", "http://x.example"];
    assert_eq!(folder.toolpost(&moved).status.code(), Some(0));
    let text = folder.read("toolpost.toml");
    assert!(text.contains("retries = 5") && text.contains("\"http://x.example\" # here"), "{text}");
    assert!(!text.contains("KEY"), "{text}");
}

/// The library tests cover what the operations become.
#[test]
fn import_reports_every_operation_of_a_document() {
    let folder = root().join("crates/toolpost/tests/data/documents");
    for (file, operations, warnings) in [
        ("accounts-3.0.yaml", 4, 0),
        ("assistant-3.1.yaml", 3, 1),
        ("cluster-2.0.yaml", 7, 1),
        ("feeds-3.2.yaml", 6, 0),
        ("issues-3.0.json", 7, 0),
        ("schemas-3.0.yaml", 0, 0),
        ("split-2.0/swagger.json", 2, 0),
        ("split-3.0/openapi.yaml", 2, 0),
        ("webhooks-3.1.yaml", 0, 1),
    ] {
        let output = import(&[folder.join(file).to_str().unwrap(), "--json"]);
        assert_eq!(output.status.code(), Some(0), "{file}: {}", stderr(&output));
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let names = names(&report);
        assert_eq!(names.len(), operations, "{file}: {names:?}");
        assert_eq!(report["skipped"], json!([]), "{file}");
        let found = report["warnings"].as_array().unwrap();
        assert_eq!(found.len(), warnings, "{file}: {found:?}");
    }
}

/// Each row: the arguments and the warnings about patterns without a match.
#[test]
fn import_warns_about_unmatched_patterns() {
    for (typed, expected) in [
        (
            &["--include", "*Pet", "--include", "*Dog"][..],
            &["`include`: `*Dog` matches no operation"][..],
        ),
        (&["--exclude", "nothing"], &["`exclude`: `nothing` matches no operation"]),
        (&["--rename", "readPets=pet"], &["`rename`: `readPets` matches no operation"]),
    ] {
        let output = import(&[&["examples/pets.yaml"], typed].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let warnings = report["warnings"].as_array().unwrap();
        let warnings: Vec<_> =
            warnings.iter().map(|odd| odd["message"].as_str().unwrap()).collect();
        assert_eq!(warnings, expected, "{typed:?}");
    }
}

/// Each row: the source name, the arguments after the URL and the exit code.
#[test]
fn add_openapi_private_gateway_with_token() {
    let folders = ["far", "near"].map(|end| TempFolder::new(&format!("openapi-private-{end}")));
    let token = stdout(&folders[0].toolpost(&["token", "new", "near"])).trim().to_owned();
    let far = Gateway::start(&folders[0]);
    let url = format!("http://{}/openapi.json", far.address());
    let with_token = ["--private", "--bearer", "${FAR_TOKEN}"];
    let unseen = ["--no-connect"];
    for (name, typed, exit) in
        [("a", &[][..], 3), ("b", &with_token[1..], 3), ("c", &with_token, 0), ("d", &unseen, 0)]
    {
        let all = [&["add", "openapi", name, &url], typed].concat();
        let mut adding = command(&all);
        adding.current_dir(folders[1].path()).env("FAR_TOKEN", &token);
        let output = run_command(&mut adding);
        assert_eq!(output.status.code(), Some(exit), "{name}: {}", stderr(&output));
    }
    let written = folders[1].read("toolpost.toml");
    assert!(written.contains("private = true") && written.contains("${FAR_TOKEN}"), "{written}");
    assert!(!written.contains(&token) && written.contains("[source.d]"), "{written}");
    assert!(!written.contains("[source.a]") && !written.contains("[source.b]"), "{written}");
}

/// Two gateways, one of which imports the OpenAPI document of the other.
#[test]
fn peer_gateway_document_is_imported_unchanged() {
    let folders = ["far", "near"].map(|end| TempFolder::new(&format!("openapi-gateway-{end}")));
    folders[0].write("toolpost.toml", "");
    let far = Gateway::start(&folders[0]);
    let url = format!("http://{}/openapi.json", far.address());
    let output = import(&[&url, "--name", "far"]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["warnings"], json!([]));
    for name in ["demo.add", "demo.note", "demo.clock"] {
        assert!(names(&report).contains(&name), "{name}");
    }
    let skipped = report["skipped"].as_array().unwrap();
    let reason = |path: &str| {
        let one = skipped.iter().find(|one| one["path"] == path && one["method"] == "GET");
        one.unwrap_or_else(|| panic!("{path} is not skipped"))["reason"].clone()
    };
    let message = "it is a variant of demo.add, which is called with POST";
    assert_eq!(reason("/api/demo/add"), message);
    // Each method of each path is either imported or skipped.
    let document = far.get("/openapi.json");
    let items = document["paths"].as_object().unwrap().values();
    let pairs: usize = items.map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(names(&report).len() + skipped.len(), pairs);

    folders[1]
        .write("toolpost.toml", &format!("[source.far]\nopenapi = '{url}'\naccess = 'open'\n"));
    let near = Gateway::start(&folders[1]);
    wait_until("the document is read", || near.call("far.demo.fail").0 == 409);
    assert_eq!(near.call("far.demo.fail").1["error"], far.call("demo.fail").1["error"]);
    let called = folders[1].toolpost(&["call", "far.demo.add", "--a", "2", "--b", "3"]);
    let envelope: Value = serde_json::from_str(&stdout(&called)).unwrap();
    assert_eq!(envelope["data"], json!({"sum": 5}), "{}", stderr(&called));
    // The metadata is that of the gateway that ran the operation.
    assert_eq!(envelope["meta"]["source"], "local");
    assert_eq!(envelope["meta"]["operationId"], "demo.add");
}
