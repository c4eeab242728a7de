//! `token new`, `serve --config`, `serve --check` and `schema config`: from a token to a call.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use super::{TempFolder, command, json, stderr, stdout, toolpost};

#[test]
fn token_new_enables_authentication() {
    let folder = TempFolder::new("token-serve");
    let granted = ["--scope", "a", "--resource", "repo:x=read", "--capability", "c"];
    let made = folder.toolpost(&[&["token", "new", "ci"], &granted[..]].concat());
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let token = stdout(&made).trim().to_owned();
    assert!(token.starts_with("tpt_") && token.len() == 47 && stdout(&made).lines().count() == 1);
    assert!(stderr(&made).contains("shown once; toolpost.toml stores only its SHA-256"));
    let file = folder.read("toolpost.toml");
    assert!(!file.contains(&token) && !stderr(&made).contains(&token));
    assert!(
        file.contains("scopes = [\"a\"]") && file.contains("\"repo:x\" = [\"read\"]"),
        "{file}"
    );
    assert!(file.contains("capabilities = [\"c\"]"), "{file}");
    let report = json(&folder.toolpost(&["token", "new", "other", "--json"]));
    assert_eq!((&report["name"], &report["file"]), (&"other".into(), &"toolpost.toml".into()));
    assert!(report["token"].as_str().unwrap().starts_with("tpt_"), "{report}");
    assert_eq!(folder.read("toolpost.toml").matches("token_hash").count(), 2);
    folder.write("toolpost.toml", &file);

    // With identities configured, the gateway may listen on a non-loopback address.
    let mut child = command(&["serve", "--listen", "0.0.0.0:0"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    let port = first.rsplit_once(':').unwrap().1.to_owned();
    let banner: Vec<String> = lines.by_ref().take_while(|line| !line.contains("curl")).collect();
    let link = format!("http://127.0.0.1:{port}/docs");
    assert!(banner.iter().any(|line| line.ends_with(&link)), "{banner:?}");
    let message = "Calls require a token of 1 identity.";
    assert!(banner.iter().any(|line| line.contains(message)), "{banner:?}");
    for (header, status) in [
        (String::new(), "401"),
        ("authorization: Bearer tpt_wrong\r\n".to_owned(), "401"),
        (format!("authorization: Bearer {token}\r\n"), "200"),
    ] {
        let response = post_demo_add(&port, &header);
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn token_new_rejects_invalid_capability() {
    let folder = TempFolder::new("token-capability");
    for (capability, message) in [
        ("mcp/request:", "is empty or has an empty part"),
        ("{\"kind\":\"/(/\"}", "unclosed group"),
        ("{\"kind\":\"chat\",\"form\":\"x\"}", "the unknown member `form`"),
    ] {
        let made = folder.toolpost(&["token", "new", "ci", "--capability", capability]);
        assert_ne!(made.status.code(), Some(0), "{capability}");
        assert!(stderr(&made).contains(message), "{}", stderr(&made));
    }
    let pattern = "{\"kind\":\"chat\"}";
    let made = folder.toolpost(&["token", "new", "ci", "--capability", pattern]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let known = json(&folder.toolpost(&["token", "list", "--json"]));
    assert_eq!(known[0]["capabilities"], serde_json::json!([pattern]));
}

fn post_demo_add(port: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let head = format!(
        "POST /api/demo/add HTTP/1.1\r\nhost: hub.example\r\nconnection: close\r\n{header}\
         content-length: 13\r\n\r\n{{\"a\":2,\"b\":3}}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn token_new_keeps_comments_and_file_mode() {
    let folder = TempFolder::new("token-keep");
    let typed = "# mine\n[source.office] # far away\nhub = { url = \"ws://${HOST}/hub\" }\n# end\n";
    folder.write("hub.toml", typed);
    let token = |arguments: &[&str]| {
        let output = folder.toolpost(&[&["token", "new"], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    token(&["ci", "--config", "hub.toml", "--scope", "a"]);
    let first = folder.read("hub.toml");
    assert!(first.starts_with(typed), "{first}");
    token(&["ci", "--config", "hub.toml", "--replace"]);
    let second = folder.read("hub.toml");
    assert!(second.starts_with(typed) && second != first, "{second}");
    assert!(
        second.contains("scopes = [\"a\"]"),
        "permissions that are not given are kept: {second}"
    );
    token(&["cd"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let mode = |name: &str| {
            std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(mode("toolpost.toml"), 0o600, "a new file is readable only by its owner");
        let path = folder.path().join("hub.toml");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        symlink("hub.toml", folder.path().join("link.toml")).unwrap();
        token(&["ce", "--config", "link.toml"]);
        assert_eq!(mode("hub.toml"), 0o640, "an existing file keeps its mode");
        assert!(std::fs::symlink_metadata(folder.path().join("link.toml")).unwrap().is_symlink());
    }
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let expected: &[&str] = if cfg!(unix) {
        &["hub.toml", "link.toml", "toolpost.toml"]
    } else {
        &["hub.toml", "toolpost.toml"]
    };
    assert_eq!(names, expected, "no temporary file remains");
}

/// Each row: the arguments after `token new`, the exit code and the expected message.
#[test]
fn token_new_invalid_arguments_are_rejected() {
    let folder = TempFolder::new("token-refuse");
    folder.write("toolpost.toml", "[identity.ci]\ntoken_hash = \"\"\n");
    folder.write("broken.toml", "[identity\n");
    folder.write("busy.toml", "");
    folder.write(".busy.toml.new", "");
    let rows: [(&[&str], i32, &str); 11] = [
        (&["x", "--scope", ""], 2, "invalid scope; use one word without whitespace"),
        (&["x", "--scope", "a b"], 2, "invalid scope; use one word without whitespace"),
        (&["ci"], 2, "`ci` already exists in toolpost.toml; use --replace to replace it"),
        (&["cd", "--replace"], 2, "`cd` does not exist in toolpost.toml"),
        (&["a b"], 2, "invalid identity name"),
        (&["local"], 2, "choose another name"),
        (&["x", "--resource", "repo=read"], 2, "invalid resource; use `type:id`"),
        (&["x", "--resource", "repo:x"], 2, "expected TYPE:ID=ACTION"),
        (&["x", "--config", "broken.toml"], 2, "broken.toml:1:10: invalid TOML"),
        (&["x", "--config", "busy.toml"], 1, "if not, remove"),
        (&["x", "--config", "no/such/folder.toml"], 1, "cannot write no/such/folder.toml"),
    ];
    for (arguments, exit, message) in rows {
        let output = folder.toolpost(&[&["token", "new"], arguments].concat());
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(folder.read("toolpost.toml"), "[identity.ci]\ntoken_hash = \"\"\n");
}

#[test]
fn serve_check_prints_summary_or_all_problems() {
    let folder = TempFolder::new("check");
    let check = |arguments: &[&str], exit: i32| {
        let output = folder.toolpost(&[&["serve", "--check"], arguments].concat());
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    assert!(check(&[], 0).0.contains("using the defaults"));
    folder.toolpost(&["token", "new", "box", "--scope", "a", "--scope", "b"]);
    let good = folder.read("toolpost.toml") + "[source.box]\nspoke = { identity = \"box\" }\n";
    folder.write("toolpost.toml", &good);
    let (out, _) = check(&[], 0);
    for message in ["1 identity, 1 source.", "identity box: a, b", "source box: spoke of box"] {
        assert!(out.contains(message), "{out}");
    }
    folder
        .write("bad.toml", "[source.demo]\nhub = { url = \"${NO_SUCH_VARIABLE}\" }\ntimout = 1\n");
    let (out, problems) = check(&["--config", "bad.toml"], 2);
    assert_eq!(out, "");
    for message in [
        "error: bad.toml:2:15: source.demo.hub.url: the environment variable `NO_SUCH_VARIABLE`",
        "error: bad.toml:3:1: source.demo.timout: unknown key; did you mean `timeout`?",
    ] {
        assert!(problems.contains(message), "{problems}");
    }
    let report: serde_json::Value =
        serde_json::from_str(&check(&["--config", "bad.toml", "--json"], 2).0).unwrap();
    let problems = report["error"]["problems"].as_array().unwrap();
    let positions: Vec<_> = problems.iter().map(|it| (&it["line"], &it["column"])).collect();
    assert_eq!(
        positions,
        [(&1.into(), &1.into()), (&2.into(), &15.into()), (&3.into(), &1.into())]
    );
    assert_eq!(
        (&problems[2]["file"], &problems[2]["key"]),
        (&"bad.toml".into(), &"source.demo.timout".into())
    );
    folder.write("doubt.toml", "[approval]\noperations = [\"demo.nte\"]\n");
    let (out, warnings) = check(&["--config", "doubt.toml"], 0);
    assert!(
        out.contains("is valid") && warnings.contains("did you mean `demo.note`?"),
        "{warnings}"
    );
    let report = check(&["--config", "doubt.toml", "--json"], 0).0;
    assert!(report.contains("\"warnings\":[\"[approval]: `demo.nte`"), "{report}");
    assert!(check(&["--config", "none.toml"], 2).1.contains("none.toml: cannot read the file"));
    let served = folder.toolpost(&["serve", "--config", "bad.toml"]);
    assert_eq!(served.status.code(), Some(2), "an invalid file is not served");
}

#[test]
fn init_add_check_and_remove_round_trip() {
    let folder = TempFolder::new("init");
    let run = |arguments: &[&str], exit: i32| {
        let output = folder.toolpost(arguments);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}", stderr(&output));
        (stdout(&output), stderr(&output))
    };
    assert!(run(&["init"], 0).0.contains(r#""file":"toolpost.toml","written":true"#));
    let begun = folder.read("toolpost.toml");
    assert!(run(&["init"], 2).1.contains("toolpost.toml already exists"));
    assert_eq!(folder.read("toolpost.toml"), begun);
    assert!(run(&["serve", "--check"], 0).0.contains("is valid: 0 identities, 0 sources."));
    run(&["add", "mcp", "files", "--no-connect", "--", "server"], 0);
    let added = folder.read("toolpost.toml");
    assert!(added.starts_with(&begun) && added.contains("access = \"open\""), "{added}");
    let (message, _) = run(&["serve", "--check"], 0);
    assert!(
        message.contains("source files: MCP server `server`; open to all callers"),
        "{message}"
    );
    let report: serde_json::Value =
        serde_json::from_str(&run(&["serve", "--check", "--json"], 0).0).unwrap();
    let files = serde_json::json!([
        {"name": "files", "about": "MCP server `server`", "access": "open"}
    ]);
    assert_eq!((&report["file"], &report["sources"]), (&"toolpost.toml".into(), &files));
    run(&["remove", "files"], 0);
    assert_eq!(folder.read("toolpost.toml"), begun, "every comment keeps its position");

    // `init` keeps the servers of another client's file as sources.
    let server = r#"{"mcpServers": {"One": {"command": "x"}}}"#;
    folder.write(".mcp.json", server);
    folder.write("theirs.json", &server.replace("One", "two"));
    run(&["init", "--config", "here.toml"], 0);
    let (message, _) = run(&["serve", "--check", "--config", "here.toml"], 0);
    assert!(message.contains("source one: MCP server `x`"), "{message}");
    run(&["init", "--config", "theirs.toml", "--from", "theirs.json"], 0);
    let (message, _) = run(&["serve", "--check", "--config", "theirs.toml"], 0);
    assert!(
        message.contains("source two: MCP server `x`") && !message.contains("one"),
        "{message}"
    );
    std::fs::create_dir(folder.path().join("conf")).unwrap();
    run(&["init", "--config", "conf/toolpost.toml", "--from", "theirs.json"], 0);
    let (message, _) = run(&["serve", "--check", "--config", "conf/toolpost.toml"], 0);
    assert!(message.contains("source two: MCP server `x`"), "{message}");
    run(&["init", "--config", "none.toml", "--from", "none.json"], 2);
    assert!(!folder.path().join("none.toml").exists());
}

/// Each row: the entry of a server, and the field that is not a string.
#[test]
fn client_file_field_of_wrong_type_is_rejected() {
    let folder = TempFolder::new("client-file-type");
    for (entry, field) in [
        (r#"{"command": 3}"#, "command"),
        (r#"{"command": true}"#, "command"),
        (r#"{"command": {"path": 3}}"#, "command.path"),
        (r#"{"command": "x", "cwd": 3}"#, "cwd"),
        (r#"{"url": 3}"#, "url"),
    ] {
        folder.write(".mcp.json", &format!(r#"{{"mcpServers": {{"files": {entry}}}}}"#));
        let message = format!(".mcp.json: mcpServers.files.{field}: expected a string");
        for arguments in [&["serve", "--check"][..], &["list"], &["call", "files.x"]] {
            let output = folder.toolpost(arguments);
            assert_eq!(output.status.code(), Some(2), "{entry} {arguments:?}: {}", stderr(&output));
            assert!(
                stderr(&output).contains(&message),
                "{entry} {arguments:?}: {}",
                stderr(&output)
            );
        }
    }
}

#[test]
fn schema_config_prints_json_schema() {
    let schema = json(&toolpost(&["schema", "config"]));
    assert_eq!(schema["title"], "toolpost.toml");
    assert!(schema["properties"]["identity"]["description"].is_string());
}

#[test]
fn token_list_and_revoke_edit_config() {
    let folder = TempFolder::new("token-revoke");
    for name in ["ci", "box"] {
        folder.toolpost(&["token", "new", name, "--scope", "a", "--resource", "repo:x=read"]);
    }
    let typed = format!("# mine\n{}", folder.read("toolpost.toml"));
    folder.write("toolpost.toml", &typed);
    let listed = folder.toolpost(&["token", "list"]);
    let ci = serde_json::json!({"name": "ci", "scopes": ["a"], "resources": {"repo:x": ["read"]}, "capabilities": []});
    assert_eq!(json(&listed)[1], ci);
    assert!(!stdout(&listed).contains("hash"), "{}", stdout(&listed));
    let spoke = format!("{typed}[source.s]\nspoke = {{ identity = \"box\" }}\n");
    folder.write("toolpost.toml", &spoke);
    let rows: [(&str, i32, &str); 4] = [
        ("unknown", 2, "identity `unknown` does not exist in toolpost.toml; it has: "),
        ("box", 2, "source.s.spoke.identity: unknown identity"),
        ("ci", 0, "A running gateway reloads the configuration automatically."),
        ("box", 2, "`box` is the last identity in toolpost.toml"),
    ];
    for (name, exit, message) in rows {
        let output = folder.toolpost(&["token", "revoke", name]);
        assert_eq!(output.status.code(), Some(exit), "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{name}: {}", stderr(&output));
        assert_eq!(json(&output)["error"].is_null(), exit == 0, "{}", stdout(&output));
    }
    let remaining = folder.read("toolpost.toml");
    assert!(
        remaining.starts_with("# mine\n") && remaining.contains("[identity.box]"),
        "{remaining}"
    );
    assert!(!remaining.contains("identity.ci"), "{remaining}");
}

/// Each row: the arguments, the exit code and the message expected on standard output and standard
/// error.
#[test]
fn errors_are_printed_as_json_on_stdout() {
    let folder = TempFolder::new("json-errors");
    folder.write("toolpost.toml", "[source.files]\nmcp = { command = \"x\" }\naccess = \"open\"\n");
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("ws://{nowhere}");
    let rows: [(&[&str], i32, &str); 6] = [
        (&["sources", "--url", &url], 3, "is `toolpost serve` running there?"),
        (&["call", "demo.add", "{\"a\":1"], 2, "not JSON"),
        (&["call", "demo.add", "--url", &url], 3, "is `toolpost serve` running there?"),
        (&["add", "mcp", "files", "--", "x"], 2, "`files` already exists"),
        (&["cast", "--schema", "{"], 2, "the schema is not JSON"),
        (&["list", "--config", "none.toml"], 2, "none.toml: cannot read the file"),
    ];
    for (typed, exit, text) in rows {
        let output = folder.toolpost(typed);
        assert_eq!(output.status.code(), Some(exit), "{typed:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(text), "{typed:?}: {}", stderr(&output));
        let report = json(&output);
        assert!(report["error"]["message"].as_str().unwrap().contains(text), "{typed:?}: {report}");
    }
    let quiet = folder.toolpost(&["call", "demo.add", "{\"a\":1", "--output", "data"]);
    assert_eq!(stdout(&quiet), "", "`--output data` prints no JSON error");
    for typed in [&["log", "--since", "yesterday"][..], &["log", "--limit", "x"]] {
        assert_eq!(folder.toolpost(typed).status.code(), Some(2), "{typed:?}");
    }
}
