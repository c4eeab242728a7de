//! MCP servers in the configuration file and in the files of other clients.

use toolpost::mcp::{Elicitation, McpSettings, McpTransport, Roots, Sampling};

use super::*;

#[test]
fn mcp_source_parses_to_expected_settings() {
    let config = parse(GOOD).unwrap();
    let settings = |name: &str| {
        let source = config.sources.iter().find(|source| source.name == name).unwrap();
        let SourceKind::Mcp(settings) = &source.kind else { panic!("{source:?}") };
        (settings.as_ref().clone(), &source.adjustments)
    };
    let (files, adjustments) = settings("files");
    let McpTransport::Stdio(process) = &files.transport else { panic!() };
    assert_eq!((process.command.as_str(), &process.args[1][..]), ("npx", "hush-hush"));
    assert_eq!(process.env["TOKEN"].reveal(), "hush-hush");
    assert_eq!(process.cwd.as_deref(), Some(Path::new("data")));
    assert_eq!(files.protocol.as_deref(), Some("2025-11-25"));
    let seconds = [files.start_timeout, files.timeout, files.max_timeout, files.restart.1]
        .map(|time| time.as_secs());
    assert_eq!(seconds, [120, 5, 900, 3]);
    assert_eq!(files.message_bytes, 1_000_000);
    let Elicitation::Accept(response) = &files.elicitation else { panic!() };
    assert_eq!(serde_json::to_string(response).unwrap(), r#"{"name":"hush-hush","age":5}"#);
    let Roots::Static(roots) = &files.roots else { panic!() };
    let roots: Vec<_> = roots.iter().map(|root| root.uri.as_str()).collect();
    assert_eq!(roots, ["file:///data", "file:///srv"]);
    assert_eq!(files.sampling, Sampling::Reject);
    assert!(files.parse_json_text && !files.tool_envelope);
    let closed = Access::Scopes(vec!["source:files".to_owned()]);
    assert_eq!(adjustments.effective_access(), Some(&closed));

    let (tracker, adjustments) = settings("tracker");
    let McpTransport::Http(http) = &tracker.transport else { panic!() };
    assert_eq!(http.url.as_str(), "https://hub.example/mcp?key=hush-hush");
    assert_eq!(http.headers["X-Team"].reveal(), "hush-hush");
    assert_eq!(http.oauth.client_secret.as_ref().unwrap().reveal(), "hush-hush");
    assert_eq!((http.oauth.client_id.as_deref(), &http.oauth.scopes[0][..]), (Some("me"), "read"));
    assert_eq!(adjustments.effective_access(), Some(&Access::Open));
    assert_eq!(tracker.elicitation, Elicitation::Client);
    assert_eq!((&tracker.sampling, &tracker.roots), (&Sampling::Client, &Roots::Client));

    let open = parse("[source.a]\nmcp = { command = 'x' }").unwrap();
    assert_eq!(open.sources[0].adjustments.effective_access(), Some(&Access::Open));
    let SourceKind::Mcp(settings) = &open.sources[0].kind else { panic!() };
    let default = McpSettings::new(settings.transport.clone());
    assert_eq!(format!("{settings:?}"), format!("{default:?}"), "an absent key has its default");
    let descriptions =
        config.sources.iter().map(|source| source.kind.describe()).collect::<Vec<_>>();
    assert_eq!(
        descriptions[1..],
        ["MCP server `npx`", "remote hub", "MCP server at https://hub.example"]
    );
}

/// Each row: the content of `mcp = { … }` and all of its expected problems, by key and message.
#[test]
fn mcp_source_problems_are_reported() {
    let rows: [(&str, &[&str]); 27] = [
        ("", &["mcp: expected exactly one of `command` and `url`; add one"]),
        (
            "command = 'x', url = 'http://x'",
            &["mcp: expected exactly one of `command` and `url`; remove"],
        ),
        ("comand = 'x'", &["mcp.comand: unknown key; did you mean `command`?"]),
        ("ulr = 'x'", &["mcp.ulr: unknown key; did you mean `url`?"]),
        (
            "arg = ['x']",
            &["mcp.arg: unknown key; did you mean `args`?", "mcp: expected exactly one of"],
        ),
        ("command = ' '", &["mcp.command: invalid program name"]),
        ("command = 'x', args = 'y'", &["mcp.args: expected a list, found a string"]),
        ("command = 'x', args = ['a', 5]", &["mcp.args[1]: expected a string, found a number"]),
        (
            "command = 'x', headers = { a = 'hush' }, bearer = 'hush', oauth = {}",
            &["mcp.headers: requires `url`", "mcp.bearer: requires", "mcp.oauth: requires"],
        ),
        (
            "url = 'http://x', args = ['hush'], env = { A = 'hush' }, cwd = 'hush'",
            &["mcp.args: requires `command`", "mcp.env: requires", "mcp.cwd: requires"],
        ),
        (
            "command = 'x', env = { 'A=B' = 'hush' }",
            &["mcp.env.\"A=B\": invalid environment variable"],
        ),
        (
            "command = 'x', env = { A = 5, B = 6 }",
            &["mcp.env.A: expected a string, found a number"],
        ),
        ("url = 'ws://hush'", &["mcp.url: invalid MCP server URL; use https://HOST/…"]),
        ("url = 'https://'", &["mcp.url: invalid MCP server URL"]),
        ("url = 'http://me:hush@x'", &["mcp.url: a URL must not contain a user or password; use"]),
        ("url = 'http://x/#hush'", &["mcp.url: a server URL must not contain a fragment"]),
        (
            "url = 'hush', headers = { 'a b' = 'hush', Host = 'hush', X-A = \"hu\\nsh\", y = '1', Y = '2' }",
            &[
                "mcp.url: invalid MCP server URL",
                "mcp.headers.Host: reserved header",
                "mcp.headers.X-A: invalid header value",
                "mcp.headers.\"a b\": invalid header name",
                "mcp.headers.y: duplicate header",
            ],
        ),
        ("url = 'https://x', bearer = ''", &["mcp.bearer: invalid token"]),
        (
            "url = 'https://x', bearer = 'hush', oauth = { client_id = 'a' }",
            &["mcp.oauth: cannot be combined with `bearer`"],
        ),
        (
            "url = 'https://x', bearer = 'hush', headers = { authorization = 'hush' }",
            &["mcp.bearer: cannot be combined with an `Authorization` header"],
        ),
        (
            "url = 'http://x', oauth = { client_secret = 'hush', client_metadata_url = 'http://hush' }",
            &[
                "oauth.client_secret: requires `client_id`",
                "client_metadata_url: invalid client metadata URL",
            ],
        ),
        (
            "url = 'http://x', oauth = { clientid = 'hush' }",
            &["oauth.clientid: unknown key; did you mean `client_id`?"],
        ),
        (
            "command = 'x', protocol = 'hush', start_timeout = 0, max_timeout = 'hush', roots = ['hush']",
            &[
                "mcp.protocol: expected one of `2024-11-05`",
                "mcp.start_timeout: must be greater than zero",
                "mcp.max_timeout: expected a duration",
                "mcp.roots: invalid root",
            ],
        ),
        (
            "command = 5, message_bytes = 1, elicitation = 'hush', tool_envelope = 'of', parse_json_text = 1",
            &[
                "mcp.command: expected a string",
                "mcp.message_bytes: expected a size of at least 4096 bytes",
                "mcp.elicitation: expected \"client\", \"reject\", \"decline\"",
                "mcp.tool_envelope: expected one of `auto`, `off`; did you mean `off`?",
                "mcp.parse_json_text: expected true or false",
                "mcp: expected exactly one of",
            ],
        ),
        (
            "command = 'x', sampling = 'hush', roots = 'hush'",
            &[
                "mcp.sampling: expected one of `reject`, `client`",
                "mcp.roots: expected a list of absolute paths, or \"client\"",
            ],
        ),
        (
            "command = 'x', elicitation = { acept = {} }",
            &["elicitation.acept: unknown key; did you mean `accept`?"],
        ),
        (
            "command = '${NONE}', args = ['${NONE}']",
            &["mcp.command: the environment variable `NONE`", "mcp.args[0]: the env"],
        ),
    ];
    for (server, expected) in rows {
        let text = format!("[source.a]\nmcp = {{ {server} }}");
        let message = parse(&text).expect_err(&text).to_string();
        assert_eq!(message.lines().count(), expected.len(), "{server}\n{message}");
        for expected in expected {
            assert!(
                message.lines().any(|line| line.contains(expected)),
                "{server}\n{message}\n{expected}"
            );
        }
        assert!(!message.contains("hush"), "no value is printed: {message}");
    }
}

/// Uses a folder with a configuration that refers to the files of other clients.
#[test]
fn client_file_servers_become_sources() {
    let folder = std::env::temp_dir().join(format!("toolpost-clients-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write(
        "one.json",
        r#"{"mcpServers": {"One": {"command": "x", "cwd": "y", "env": {"A": "${SECRET}"}}}}"#,
    );
    write("sub/two.json", r#"{"servers": {"two": {"url": "https://${HOST}/mcp", "type": "sse"}}}"#);
    write("bad.json", r#"{"mcpServers": {"box": {"command": "${NONE}"}, "d": {"url": "hush"}}}"#);
    let read = |text: &str| {
        let environment = |name: &str| match name {
            "HOST" => Some("hub.example".to_owned()),
            "SECRET" => Some("hush-hush".to_owned()),
            _ => None,
        };
        Config::parse(&folder.join("toolpost.toml"), text, &environment)
    };
    let config =
        read("mcp_servers = ['one.json', 'sub/two.json']\n[source.three]\nmcp.command = 'z'");
    let config = config.unwrap();
    let names: Vec<_> = config.sources.iter().map(|source| source.name.as_str()).collect();
    assert_eq!(names, ["three", "one", "two"]);
    let SourceKind::Mcp(one) = &config.sources[1].kind else { panic!() };
    let McpTransport::Stdio(process) = &one.transport else { panic!() };
    assert_eq!(process.env["A"].reveal(), "hush-hush");
    assert_eq!(process.cwd, Some(folder.join("y")), "from the folder of the file");
    assert_eq!(config.sources[2].adjustments.effective_access(), Some(&Access::Open));
    let notes = config.notes.join("\n");
    assert!(notes.contains("`One` becomes the source `one`"), "{notes}");

    let message = read(
        "mcp_servers = ['bad.json', 'none.json', 'one.json']\n[source.one]\nmcp.command = 'z'\n\
                     [source.box]\nspoke.identity = 'no'",
    );
    let message = message.unwrap_err().to_string();
    for expected in [
        "source.box.spoke.identity: unknown identity",
        "bad.json: mcpServers.box.command: the environment variable `NONE` is not set",
        "bad.json: mcpServers.d.url: invalid MCP server URL",
        "none.json: cannot read the file",
        "one.json: mcpServers.One: duplicate source `one`; rename one",
    ] {
        assert!(message.contains(expected), "{message}\n{expected}");
    }
    assert!(!message.contains("hush"), "{message}");
    let config = Config::load(&folder.join("bad.json")).unwrap_err().to_string();
    assert!(
        config.contains("mcpServers.d.url"),
        "the file of a client is a configuration: {config}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
