//! Files in the formats of other clients.

use std::path::Path;

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<ClientFile, ConfigError> {
    let file = ClientFile::parse(Path::new("/home/x/.mcp.json"), text)?;
    let problems = file.servers.iter().flat_map(|server| server.problems.clone());
    let problems: Vec<_> = problems.collect();
    if problems.is_empty() { Ok(file) } else { Err(ConfigError::new(problems)) }
}

/// Each row: a server as a client writes it, and the expected entry.
#[test]
fn client_config_shapes_are_parsed() {
    let process = "x | a, ${HOME} | K=${V}, N=5 | ";
    for (server, expected) in [
        (
            r#"{"command": "x", "args": ["a", "${HOME}"], "env": {"K": "${V}", "N": 5, "Z": null}}"#,
            process,
        ),
        (
            r#"{"type": "stdio", "command": "x", "args": ["a", "${env:HOME}"], "env": {"K": "${env:V}", "N": "5"}, "url": "ignored"}"#,
            process,
        ),
        (
            r#"{"command": {"path": "x", "args": ["a", "${HOME}"], "env": {"K": "${V}", "N": "5"}}, "settings": {}}"#,
            process,
        ),
        (
            r#"{"command": "x", "args": null, "disabled": false, "enabled": true, "alwaysAllow": ["y"], "timeout": 5}"#,
            "x |  |  | ",
        ),
        (r#"{"command": "x", "args": [8080, true]}"#, "x | 8080, true |  | "),
        (
            r#"{"url": "https://x/mcp", "headers": {"A": "${V:-w}"}}"#,
            " |  |  | https://x/mcp A=${V:-w}",
        ),
        (r#"{"serverUrl": "https://x/mcp"}"#, " |  |  | https://x/mcp "),
        (r#"{"httpUrl": "https://x/mcp"}"#, " |  |  | https://x/mcp "),
        (
            r#"{"type": "http", "url": "https://x/mcp", "command": "ignored"}"#,
            " |  |  | https://x/mcp ",
        ),
        (r#"{"transport": "streamable-http", "url": "https://x/mcp"}"#, " |  |  | https://x/mcp "),
        (r#"{"type": "streamableHttp", "url": "https://x/mcp"}"#, " |  |  | https://x/mcp "),
        (r#"{"type": "sse", "url": "https://x/sse"}"#, " |  |  | https://x/sse "),
    ] {
        for root in ["mcpServers", "servers", "context_servers"] {
            let text = format!("// mine\n{{\"{root}\": {{\"a\": {server},}}, \"inputs\": [],}}");
            let file = parse(&text).unwrap_or_else(|error| panic!("{server}: {error}"));
            let [found] = &file.servers[..] else { panic!("{server}: {file:?}") };
            let entry = &found.entry;
            let pairs = |pairs: &BTreeMap<String, String>| {
                pairs
                    .iter()
                    .map(|(key, value)| format!("{key}={value}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let url = entry.url.as_ref().map(|url| format!("{url} {}", pairs(&entry.headers)));
            let message =
                [text(&entry.command), entry.args.join(", "), pairs(&entry.env), text(&url)];
            assert_eq!(message.join(" | "), expected, "{server}");
            assert!(file.notes.is_empty(), "{server}: {:?}", file.notes);
        }
    }
}

#[test]
fn skipped_and_renamed_servers_produce_notes() {
    let text = r#"{"mcp": {"servers": {
        "off": {"command": "x", "disabled": true},
        "also-off": {"nonsense": 5, "enabled": false},
        "theirs": {"source": "extension", "settings": {}},
        "My Server": {"command": "x", "envFile": "a", "oauth": {}, "disabledTools": ["y"]},
        "hub": {"url": "http://x"}
    }}}"#;
    let file = parse(text).unwrap();
    let names: Vec<_> = file.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["my-server", "hub-mcp"]);
    assert_eq!(file.servers[0].key, "mcp.servers.\"My Server\"");
    let expected = [
        "`off` is skipped: disabled",
        "`also-off` is skipped: disabled",
        "`theirs` is skipped: managed by an editor extension",
        "`My Server` has unsupported keys, which are ignored: `envFile`, `disabledTools`",
        "`My Server` becomes the source `my-server`",
        "`hub` becomes the source `hub-mcp`",
    ];
    assert_eq!(file.notes, expected.map(|note| format!("/home/x/.mcp.json: {note}")));
    assert!(parse(r#"{"mcpServers": {}}"#).unwrap().servers.is_empty());
}

/// Each row: a file and all of its expected problems.
#[test]
fn every_problem_is_reported() {
    let rows: [(&str, &[&str]); 15] = [
        ("", &[": no MCP servers"]),
        ("{\n  \"mcpServers\": hush\n}", &[":2:17: invalid JSON: Unexpected word"]),
        ("[]", &[": no MCP servers; expected `mcpServers` or `servers` or"]),
        ("{}", &[": no MCP servers"]),
        (r#"{"mcpServers": []}"#, &["mcpServers: expected an object that maps names to servers"]),
        (
            r#"{"mcpServers": {"a": "hush"}}"#,
            &["mcpServers.a: expected an object with `command` or"],
        ),
        (
            r#"{"mcpServers": {"a": {}, "b": {"env": {}}}}"#,
            &["mcpServers.a: expected exactly", "mcpServers.b: expected exactly"],
        ),
        (
            r#"{"mcpServers": {"a": {"command": "x", "url": "y"}}}"#,
            &["mcpServers.a: expected exactly one of `command` and `url`; remove one, or"],
        ),
        (
            r#"{"mcpServers": {"a": {"type": "stdio", "url": "y"}}}"#,
            &["mcpServers.a: expected exactly one of `command`"],
        ),
        (
            r#"{"mcpServers": {"a": {"type": "hush", "url": "y"}}}"#,
            &["mcpServers.a.type: expected one of `stdio`, `http`"],
        ),
        (
            r#"{"mcpServers": {"a": {"command": ["hush"]}}}"#,
            &["mcpServers.a.command: expected a string"],
        ),
        (
            r#"{"mcpServers": {"a": {"command": "x", "args": "hush", "env": ["hush"]}}}"#,
            &["mcpServers.a.args: expected a list", "mcpServers.a.env: expected an object"],
        ),
        (
            r#"{"servers": {"a": {"command": "x", "env": {"K": "${input:key}"}}}}"#,
            &["servers.a.env.K: `${input:…}` is not supported"],
        ),
        (
            r#"{"mcpServers": {"a b": {"command": "x"}, "A-B": {"command": "y"}}}"#,
            &["mcpServers.A-B: same source name `a-b` as `a b`; rename one"],
        ),
        (r#"{"mcpServers": {"日本": {"command": "x"}}}"#, &["no source name can be derived"]),
    ];
    for (text, expected) in rows {
        let message = parse(text).expect_err(text).to_string();
        assert_eq!(message.lines().count(), expected.len(), "{text}\n{message}");
        for (line, expected) in message.lines().zip(expected) {
            assert!(
                line.starts_with("/home/x/.mcp.json:") && line.contains(expected),
                "{text}\n{line}"
            );
        }
        assert!(!message.contains("hush"), "no value is printed: {message}");
    }
}

#[test]
fn malformed_files_return_errors() {
    for text in [
        "[".repeat(1_000_000),
        "{\"a\":".repeat(100_000),
        "/*".repeat(100_000),
        ",".repeat(1_000_000),
    ] {
        assert!(parse(&text).is_err());
    }
}

proptest! {
    #[test]
    fn parse_arbitrary_text_never_panics(text in "\\PC*") {
        drop(parse(&text));
    }

    #[test]
    fn parse_arbitrary_value_never_panics(key in "command|url|env|args|headers|type|disabled|source|cwd", value in "null|true|5|\"\\$\\{[a-z:]*\\}?\"|\\[1\\]|\\{\"a\":\\[\\]\\}") {
        drop(parse(&format!("{{\"mcpServers\":{{\"a\":{{\"{key}\":{value}}}}}}}")));
    }
}
