//! `add mcp`, `remove`, and commands that use the sources of a configuration without a gateway.

use super::mcp::{everything, python};
use super::process::run;
use super::{TempFolder, command, json, stderr, stdout};

/// Name of a program that does not exist.
const NO_PROGRAM: &str = "toolpost-test-no-such-program";

fn add_mcp(folder: &TempFolder, arguments: &[&str]) -> (i32, String, String) {
    let output = folder.toolpost(&[&["add", "mcp"], arguments].concat());
    (output.status.code().unwrap(), stdout(&output), stderr(&output))
}

#[test]
fn add_mcp_writes_source_and_remove_restores_file() {
    let folder = TempFolder::new("add-write");
    let typed =
        "# mine\n[source.office] # far away\nhub = { url = \"ws://hub.example/hub\" }\n# end\n";
    folder.write("toolpost.toml", typed);
    let process =
        ["files", "--no-connect", "--env", "KEY", "--env", "A=b=c", "--", "npx", "-y", "--x"];
    let (exit, out, message) = add_mcp(&folder, &process);
    assert_eq!(exit, 0);
    assert!(
        message.contains("A running gateway reloads the configuration automatically."),
        "{message}"
    );
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let expected = serde_json::json!({"name": "files", "written": true, "file": "toolpost.toml", "access": "open"});
    assert_eq!(report, expected);
    let endpoint = [
        "tracker",
        "--no-connect",
        "--url",
        "https://mcp.example/mcp?a=1",
        "--header",
        "X-Team: a: b",
        "--bearer",
        "${TRACKER_TOKEN}",
    ];
    let (exit, _, message) = add_mcp(&folder, &endpoint);
    assert_eq!(exit, 0);
    assert!(message.contains("`tracker` requires TRACKER_TOKEN, which is not set"), "{message}");
    let after = folder.read("toolpost.toml");
    assert_eq!(
        after,
        format!(
            "{typed}\n[source.files]\n\
             mcp = {{ command = \"npx\", args = [\"-y\", \"--x\"], env = {{ A = \"b=c\", KEY = \"${{KEY}}\" }} }}\n\
             access = \"open\"\n\n[source.tracker]\n\
             mcp = {{ url = \"https://mcp.example/mcp?a=1\", headers = {{ X-Team = \"a: b\" }}, bearer = \"${{TRACKER_TOKEN}}\" }}\n\
             access = \"open\"\n"
        )
    );
    let client = [
        "tracker",
        "--replace",
        "--no-connect",
        "--url",
        "https://mcp.example",
        "--client-id",
        "me",
        "--client-secret",
        "hush",
        "--scope",
        "read",
    ];
    assert_eq!(add_mcp(&folder, &client).0, 0);
    let oauth = "oauth = { client_id = \"me\", client_secret = \"hush\", scopes = [\"read\"] }";
    assert!(folder.read("toolpost.toml").contains(oauth));
    let typed_token =
        ["tracker", "--replace", "--no-connect", "--url", "https://x", "--bearer", "hush"];
    let (exit, _, message) = add_mcp(&folder, &typed_token);
    assert_eq!(exit, 0);
    let remark =
        "toolpost.toml contains secrets of `tracker` in plain text (token); use '${VAR}' instead.";
    assert!(message.contains(remark) && !message.contains("hush"), "{message}");
    for (typed, what) in [
        (
            &["--url", "https://y", "--header", "X-Api-Key: hush", "--header", "X-Team: a"][..],
            "toolpost.toml contains secrets of `tracker` in plain text (header `X-Api-Key`);",
        ),
        (
            &["--env", "A_TOKEN=hush", "--env", "B_KEY=hush", "--env", "C_KEY", "--", "x"],
            "`tracker` in plain text (variable `A_TOKEN`, variable `B_KEY`)",
        ),
    ] {
        let typed = [&["tracker", "--replace", "--no-connect"], typed].concat();
        let (exit, _, message) = add_mcp(&folder, &typed);
        assert_eq!(exit, 0, "{message}");
        assert!(message.contains(what) && !message.contains("hush"), "{message}");
    }
    for name in ["files", "tracker"] {
        let output = folder.toolpost(&["remove", name]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report = serde_json::json!({"name": name, "removed": true, "file": "toolpost.toml"});
        assert_eq!(json(&output), report);
        assert_eq!(stderr(&output), "A running gateway reloads the configuration automatically.\n");
    }
    assert_eq!(folder.read("toolpost.toml"), typed);
}

#[test]
fn add_mcp_with_identities_requires_source_scope() {
    let folder = TempFolder::new("add-scope");
    folder.toolpost(&["token", "new", "ci"]);
    let (exit, out, _) = add_mcp(&folder, &["x", "--no-connect", "--json", "--", "server"]);
    assert_eq!(exit, 0);
    assert!(out.contains(r#""access":{"scopes":["source:x"]}"#), "{out}");
    assert!(!folder.read("toolpost.toml").contains("access"));
    let checked = stdout(&folder.toolpost(&["serve", "--check"]));
    let message = "source x: MCP server `server`; requires the scope source:x";
    assert!(checked.contains(message), "{checked}");
}

#[test]
fn token_new_lists_sources_with_open_access() {
    let folder = TempFolder::new("add-open");
    add_mcp(&folder, &["x", "--no-connect", "--", "server"]);
    let message = stderr(&folder.toolpost(&["token", "new", "ci"]));
    let about = "Sources callable with any token (`access = \"open\"`): x\n";
    assert!(message.ends_with(about), "{message}");
    let closed = folder.read("toolpost.toml").replace("access = \"open\"\n", "");
    folder.write("toolpost.toml", &closed);
    let message = stderr(&folder.toolpost(&["token", "new", "other"]));
    assert!(!message.contains("open"), "{message}");
    let two = "[source.y]\naccess = 'open'\n[source.z]\naccess = 'open'\n";
    folder.write("toolpost.toml", two);
    let message = stderr(&folder.toolpost(&["token", "new", "ci"]));
    assert!(message.contains("callable with any token (`access = \"open\"`): y, z"), "{message}");
}

/// Each row: the settings under `[source.x]` and the access reported after `--replace`.
#[test]
fn add_mcp_replace_keeps_access_and_settings() {
    let folder = TempFolder::new("add-keep");
    let mcp = "mcp = { command = \"a\", env = { K = \"v\" }, parse_json_text = true }";
    let token = {
        folder.toolpost(&["token", "new", "ci"]);
        folder.read("toolpost.toml")
    };
    for (identities, access, expected_access) in [
        ("", "access = { scopes = [\"s\", \"t\"] } # mine\n", r#"{"scopes":["s","t"]}"#),
        ("", "", r#""open""#),
        ("", "access = \"open\"\n", r#""open""#),
        (token.as_str(), "access = \"open\"\n", r#""open""#),
        (token.as_str(), "", r#"{"scopes":["source:x"]}"#),
    ] {
        let file = |mcp: &str| format!("{identities}[source.x] # here\n{mcp} # how\n{access}");
        folder.write("toolpost.toml", &file(mcp));
        let (exit, out, message) = add_mcp(&folder, &["x", "--replace", "--no-connect", "--", "b"]);
        assert_eq!(exit, 0, "{message}");
        assert!(out.contains(&format!("\"access\":{expected_access}")), "{access}: {out}");
        assert_eq!(folder.read("toolpost.toml"), file(&mcp.replace("\"a\"", "\"b\"")));
    }
    let odd = "[source.x]\nmcp = { command = \"a\" }\naccess = \"opne\"\n";
    folder.write("toolpost.toml", odd);
    let (exit, _, message) = add_mcp(&folder, &["x", "--replace", "--no-connect", "--", "b"]);
    assert_eq!(exit, 2);
    assert!(message.contains("toolpost.toml: source.x.access: expected \"open\" or"), "{message}");
    let odd = "[source.x]\nmcp = { command = \"a\", protocol = \"1\" }\n";
    folder.write("toolpost.toml", odd);
    let (exit, _, message) = add_mcp(&folder, &["x", "--replace", "--", "b"]);
    assert_eq!(exit, 2);
    assert!(message.contains("toolpost.toml: source.x.mcp.protocol: "), "{message}");
    assert_eq!(folder.read("toolpost.toml"), odd);
}

/// Each row: the arguments after `add mcp`, the exit code and the expected message.
#[test]
fn add_mcp_invalid_arguments_write_nothing() {
    let folder = TempFolder::new("add-refuse");
    let before = "[source.taken]\nmcp = { command = \"x\" }\n";
    folder.write("toolpost.toml", before);
    folder.write("broken.toml", "[source\n");
    folder.write("odd.json", "{}");
    folder.write("good.json", "{\"mcpServers\": {\"One\": {\"command\": \"x\"}}}");
    let rows: [(&[&str], i32, &str); 21] = [
        (&[], 2, "missing name"),
        (&["--", "x"], 2, "missing name"),
        (&["a", "npx", "-y", "x"], 2, "use `toolpost add mcp a -- npx -y x`"),
        (&["a", "server", "x"], 2, "use `toolpost add mcp a -- server x`"),
        (&["a"], 2, "missing server; add -- COMMAND…, --url URL or --from FILE"),
        (&["a", "b", "--", "x"], 2, "too many names"),
        (&["a", "--url", "http://x", "--", "x"], 2, "cannot be used with"),
        (&["a", "--bearer", "hush", "--", "x"], 2, "source.a.mcp.bearer: requires `url`"),
        (&["A", "--no-connect", "--", "x"], 2, "`A` is not a namespace"),
        (&["hub", "--no-connect", "--", "x"], 2, "`hub` is a reserved namespace"),
        (&["taken", "--", "x"], 2, "`taken` already exists in toolpost.toml; use --replace"),
        (&["a", "--replace", "--", "x"], 2, "`a` does not exist in toolpost.toml"),
        (
            &["a", "--no-connect", "--url", "http://me:hush@x"],
            2,
            "source.a.mcp.url: a URL must not contain a user",
        ),
        (
            &["a", "--no-connect", "--url", "http://x", "--header", "hush"],
            2,
            "--header 'NAME: VALUE'",
        ),
        (
            &["a", "--no-connect", "--url", "http://x", "--header", "Host: hush"],
            2,
            "headers.Host: reserved header",
        ),
        (
            &["a", "--url", "http://x", "--bearer", "${TOOLPOST_TEST_UNSET}"],
            2,
            "`TOOLPOST_TEST_UNSET` is not set",
        ),
        (&["a", "--config", "broken.toml", "--", "x"], 2, "broken.toml:1:8: invalid TOML"),
        (&["--from", "none.json"], 2, "none.json: cannot read the file"),
        (&["--from", "odd.json"], 2, "odd.json: no MCP servers"),
        (&["--from", "good.json", "Two"], 2, "no server `Two` in good.json; it has: One"),
        (
            &["a", "--timeout", "20s", "--", NO_PROGRAM],
            3,
            "use --no-connect to write the source anyway",
        ),
    ];
    for (arguments, exit, text) in rows {
        let (code, out, error) = add_mcp(&folder, arguments);
        assert_eq!(code, exit, "{arguments:?}: {error}");
        // Errors from clap are not printed as JSON.
        let is_json_error = out.starts_with("{\"error\":{\"message\":") && out.lines().count() == 1;
        assert!(out.is_empty() || is_json_error, "{arguments:?}: {out}");
        assert!(error.contains(text), "{arguments:?}: {error}");
        assert!(!error.contains("hush") && !out.contains("hush"), "{arguments:?}: {error}");
    }
    assert_eq!(folder.read("toolpost.toml"), before);
    for (arguments, text) in [
        (&["remove", "b"][..], "source `b` does not exist in toolpost.toml; it has: taken"),
        (&["remove", "x", "--config", "none.toml"], "source `x` does not exist in none.toml"),
    ] {
        let output = folder.toolpost(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
    }
    assert!(!folder.path().join("none.toml").exists(), "removing a source creates no file");
}

#[test]
fn add_mcp_from_copies_client_servers() {
    let folder = TempFolder::new("add-from");
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    folder.write(
        "sub/mcp.json",
        r#"{ // of an editor
            "mcpServers": {
                "Files": {"command": "files", "args": ["${DIR:-.}"], "cwd": "here", "env": {"K": "${env:V}"}},
                "web": {"type": "sse", "url": "https://mcp.example/sse", "headers": {"A": "b"},},
                "off": {"command": "x", "disabled": true},
            },
        }"#,
    );
    let (exit, out, message) = add_mcp(&folder, &["--from", "sub/mcp.json", "--no-connect"]);
    assert_eq!(exit, 0, "{message}");
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (report[0]["name"].as_str(), report[1]["name"].as_str()),
        (Some("files"), Some("web"))
    );
    for note in [
        "`Files` becomes the source `files`",
        "`off` is skipped: disabled",
        "`files` requires V, which is not set",
    ] {
        assert!(message.contains(note), "{message}");
    }
    let written = folder.read("toolpost.toml");
    let here = folder.path().canonicalize().unwrap().join("sub/here");
    for expected in [
        "[source.files]\nmcp = { command = \"files\", args = [\"${DIR:-.}\"], env = { K = \"${V}\" }, ",
        &format!("cwd = \"{}\" }}\naccess = \"open\"\n", here.display()),
        "[source.web]\nmcp = { url = \"https://mcp.example/sse\", headers = { A = \"b\" } }\n",
    ] {
        assert!(written.contains(expected), "{written}");
    }
    assert_eq!(
        add_mcp(&folder, &["--from", "sub/mcp.json", "Files", "--replace", "--no-connect"]).0,
        0
    );
    let (exit, _, message) = add_mcp(&folder, &["--from", "sub/mcp.json", "web", "--no-connect"]);
    assert_eq!(exit, 2);
    assert!(message.contains("`web` already exists"), "{message}");
}

/// Each row: the requested servers, the exit code, the written sources and the expected message.
#[test]
fn add_mcp_from_skips_unusable_servers() {
    let folder = TempFolder::new("add-some");
    folder.write(
        "mcp.json",
        r#"{"servers": {
            "ask": {"command": "x", "env": {"K": "${input:key}"}},
            "one": {"command": "x", "envFile": ".env"},
            "odd": {"url": "ftp://x"},
            "off": {"command": "x", "disabled": true}
        }}"#,
    );
    let input = "cannot use `ask`: mcp.json: servers.ask.env.K: `${input:…}` is not supported";
    let rows: [(&[&str], i32, &[&str], &[&str]); 5] = [
        (
            &[],
            0,
            &["one"],
            &[
                input,
                "`one` has unsupported keys, which are ignored: `envFile`",
                "`off` is skipped",
            ],
        ),
        (&["one"], 0, &["one"], &[]),
        (&["ask"], 2, &[], &[input, "the configuration is unchanged"]),
        (
            &["ask", "odd"],
            2,
            &[],
            &["none of the 2 servers can be used; the configuration is unchanged"],
        ),
        (&["off"], 2, &[], &["`off` is skipped: disabled", "no server `off` in mcp.json"]),
    ];
    for (names, exit, written, message) in rows {
        let _ = std::fs::remove_file(folder.path().join("toolpost.toml"));
        let typed = [&["--from", "mcp.json", "--no-connect"], names].concat();
        let (code, out, error) = add_mcp(&folder, &typed);
        assert_eq!(code, exit, "{names:?}: {error}");
        for expected in message {
            assert!(error.contains(expected), "{names:?}: {error}");
        }
        assert!(names != ["one"] || !error.contains("disabled"), "{error}");
        let reports: serde_json::Value = serde_json::from_str(&out).unwrap_or_default();
        let reports = reports.as_array().into_iter().flatten();
        let found: Vec<_> = reports.filter(|server| server["written"] == true).collect();
        assert_eq!(found.iter().map(|server| &server["name"]).collect::<Vec<_>>(), written);
        assert_eq!(folder.path().join("toolpost.toml").exists(), !written.is_empty());
    }
    let unset = r#"{"servers": {"a": {"command": "x", "env": {"K": "${TOOLPOST_TEST_UNSET}"}}}}"#;
    folder.write("mcp.json", unset);
    let (code, _, error) = add_mcp(&folder, &["--from", "mcp.json"]);
    assert_eq!(code, 2);
    assert!(error.contains("cannot use `a`: ") && error.contains("is not set"), "{error}");
}

/// Each row: a command that creates `toolpost.toml`, the start of the file and the expected
/// message.
#[test]
fn new_config_includes_existing_mcp_json() {
    let folder = TempFolder::new("add-neighbor");
    folder.write(".mcp.json", r#"{"mcpServers": {"A": {"command": "x"}, "b": {"command": "x"}}}"#);
    let begin = "mcp_servers = [\".mcp.json\"]\n\n[";
    let rows: [(&[&str], &str, &str); 5] = [
        (&["add", "mcp", "c", "--no-connect", "--", "x"], begin, "The servers in .mcp.json remain"),
        (&["token", "new", "ci"], begin, "The servers in .mcp.json remain"),
        (
            &["add", "mcp", "a", "--no-connect", "--", "x"],
            "[source.a]",
            "also defines `a`, so it is not included. Omitted servers: b. To include it, set `mcp_servers = [",
        ),
        (&["add", "mcp", "--from", ".mcp.json", "--no-connect"], "[source.a]", ""),
        (&["add", "mcp", "c", "--no-connect", "--config", "o.toml", "--", "x"], "", ""),
    ];
    for (arguments, begins, message) in rows {
        let _ = std::fs::remove_file(folder.path().join("toolpost.toml"));
        let output = folder.toolpost(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        let error = stderr(&output);
        assert!(error.contains(message), "{arguments:?}: {error}");
        assert!(!message.is_empty() || !error.contains("not included"), "{arguments:?}: {error}");
        if begins.is_empty() {
            continue;
        }
        let written = folder.read("toolpost.toml");
        assert!(written.starts_with(begins), "{arguments:?}: {written}");
        let checked = folder.toolpost(&["serve", "--check"]);
        assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    }
}

/// A source that fails to start is a warning, unless the command targets it.
#[test]
fn commands_start_configured_sources_locally() {
    let folder = TempFolder::new("run-config");
    let gone = format!("mcp = {{ command = \"{NO_PROGRAM}\", start_timeout = \"20s\" }}");
    folder.toolpost(&["token", "new", "box"]);
    let config = folder.read("toolpost.toml")
        + &format!("[source.gone]\n{gone}\n[source.box]\nspoke = {{ identity = \"box\" }}\n");
    folder.write("other.toml", &config);
    std::fs::remove_file(folder.path().join("toolpost.toml")).unwrap();
    let listed = folder.toolpost(&["list", "--config", "other.toml"]);
    assert_eq!(listed.status.code(), Some(0), "{}", stderr(&listed));
    assert!(json(&listed).as_array().unwrap().iter().any(|found| found["id"] == "demo.add"));
    for message in [
        "warning: source `gone` is not available: ",
        "Skipped box: start `toolpost serve` to call them",
    ] {
        assert!(stderr(&listed).contains(message), "{}", stderr(&listed));
    }
    let rows: [(&[&str], i32, &str); 11] = [
        (
            &["call", "goen.x", "--config", "other.toml"],
            1,
            "no source `goen`; did you mean `gone`?",
        ),
        (&["list", "-n", "bxo", "--config", "other.toml"], 0, "did you mean `box`?"),
        (&["list", "--namespace", "zzz"], 0, "no source `zzz`; `toolpost list` lists"),
        (&["schema", "confg"], 1, "did you mean `config`?"),
        (&["schema", "demo"], 1, "`demo` is a source; its operations are: demo.add, "),
        (&["call", "gone.x", "--config", "other.toml"], 3, "source `gone` is not available: "),
        (&["schema", "gone.x", "--config", "other.toml"], 3, "source `gone` is not available: "),
        (&["subscribe", "gone.x", "--config=other.toml"], 3, "source `gone` is not available: "),
        (
            &["call", "box.x", "--config", "other.toml"],
            1,
            "`box` is a spoke; start `toolpost serve` to call it",
        ),
        (&["call", "demo.add", "--config", "none.toml"], 2, "none.toml: cannot read the file"),
        (
            &["call", "x.y", "--config", "a.toml", "--url", "ws://x"],
            2,
            "--url and --config cannot be combined",
        ),
    ];
    for (arguments, exit, message) in rows {
        let output = folder.toolpost(arguments);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn mcp_json_is_read_without_toolpost_toml() {
    let folder = TempFolder::new("mcp-json");
    folder.write(
        ".mcp.json",
        &format!("{{\"mcpServers\": {{\"My Server\": {{\"command\": \"{NO_PROGRAM}\"}}}}}}"),
    );
    let checked = stdout(&folder.toolpost(&["serve", "--check"]));
    for message in [
        ".mcp.json is valid: 0 identities, 1 source.".to_owned(),
        format!("source my-server: MCP server `{NO_PROGRAM}`; open to all callers"),
        "`My Server` becomes the source `my-server`".to_owned(),
    ] {
        assert!(checked.contains(&message), "{checked}");
    }
    let listed = folder.toolpost(&["list"]);
    assert_eq!(listed.status.code(), Some(0));
    let message = stderr(&listed);
    assert!(
        message.contains(
            "Reading .mcp.json, because there is no toolpost.toml in the current folder."
        ),
        "{message}"
    );
    assert!(message.contains("source `my-server` is not available"), "{message}");
    folder.write("toolpost.toml", "");
    assert_eq!(stderr(&folder.toolpost(&["list"])), "");
    folder.write("toolpost.toml", "mcp_servers = [\".mcp.json\"]\n");
    let checked = stdout(&folder.toolpost(&["serve", "--check"]));
    assert!(checked.contains("toolpost.toml is valid: 0 identities, 1 source."), "{checked}");
}

/// Each row: the program and its arguments, and the message with the lines of its standard error.
#[test]
fn add_mcp_shows_standard_error_of_unusable_server() {
    let [node, _] = everything();
    let hangs = "echo 'cannot reach db.example' >&2; echo '  retrying' >&2; exec sleep 600";
    let rows: [(&[&str], &str); 3] = [
        (&["sh", "-c", hangs], "    cannot reach db.example\n      retrying\n"),
        (&["sh", "-c", "echo 'TOKEN is not set' >&2; exit 1"], "    TOKEN is not set\n"),
        (&[&node, "none.js"], "  code: 'MODULE_NOT_FOUND',\n"),
    ];
    for (server, lines) in rows {
        let folder = TempFolder::new("add-stderr");
        let (exit, _, message) =
            add_mcp(&folder, &[&["x", "--timeout", "2s", "--"], server].concat());
        assert_eq!(exit, 3, "{message}");
        assert!(message.contains("cannot use `x`: "), "{message}");
        let (_, shown) = message.split_once("; standard error:\n").expect(&message);
        assert!(shown.contains(lines), "{message}");
    }
}

/// Servers that are built with version 1 of the official Python library.
#[test]
fn add_mcp_does_not_make_servers_log_errors() {
    for name in ["time", "git", "sqlite"] {
        let folder = TempFolder::new("add-quiet");
        let program = python().with_file_name(format!("mcp-server-{name}"));
        let mut add = command(&["add", "mcp", name, "--", program.to_str().unwrap()]);
        let added = run(add.env("TOOLPOST_LOG", "info").current_dir(folder.path()));
        let log = stderr(&added);
        assert!(added.status.success(), "{log}");
        let logged = log.lines().filter(|line| line.contains("toolpost::mcp::stderr")).count();
        assert!(logged < 12 && !log.contains("validation error"), "{name}: {log}");
    }
}
