//! Parsing and validation of the configuration file, and the reported problems.

mod docs;
mod limits;
mod mcp;
mod room;

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use toolpost::{Extras, OutputPolicy};

use super::*;
use crate::admin;
use crate::journal::JournalMode;
use crate::room::RoomSettings;

const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// A valid configuration with an entry of every kind.
const GOOD: &str = r#"
# Who may come in.
[identity.ci]
token_hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
scopes = ["github:read"]
resources = { "repo:toolpost" = ["read", "write"], "repo:*" = ["read"] }
capabilities = ["mcp/request:tools/call:github__*"]

[identity."ada@example"]
token_hash = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AE"

[source.box]
spoke = { identity = "ci" }

[source.office]
hub = { url = "wss://${HOST}:7411/hub", token = "${SECRET}" }
access = { scopes = ["office"] }
timeout = "30s"
output = "enforce"
extras = "keep"
exclusive = true
include = ["issues/*", "repos/*"]
exclude = ["*/delete"]

[source.files]
timeout = "5s"
[source.files.mcp]
command = "npx"
args = ["-y", "${SECRET}"]
env = { TOKEN = "${SECRET}", PLAIN = "x" }
cwd = "data"
protocol = "2025-11-25"
start_timeout = "2m"
max_timeout = 900
max_restart = "3s"
message_bytes = 1_000_000
elicitation = { accept = { name = "${SECRET}", age = 5 } }
roots = ["/data", "file:///srv"]
parse_json_text = true
tool_envelope = "off"

[source.tracker]
mcp = { url = "https://${HOST}/mcp?key=${SECRET}", headers = { X-Team = "${SECRET}" }, oauth = { client_id = "me", client_secret = "${SECRET}", client_metadata_url = "https://x.example/me", scopes = ["read"] }, sampling = "client", roots = "client" }
access = "open"
"#;

fn parse(text: &str) -> Result<Config, ConfigError> {
    let environment = |name: &str| match name {
        "HOST" => Some("hub.example".to_owned()),
        "SECRET" => Some("hush-hush".to_owned()),
        _ => None,
    };
    let config = Config::parse(Path::new("toolpost.toml"), text, &environment)?;
    config.check_missing().map(|()| config)
}

#[test]
fn valid_file_parses_to_expected_config() {
    let config = parse(GOOD).unwrap();
    let names: Vec<_> = config.identities.iter().map(|known| known.identity.id.as_str()).collect();
    assert_eq!(names, ["ada@example", "ci"]);
    let ci = &config.identities[1];
    assert_eq!(ci.token_hash.unwrap().to_string(), HASH);
    assert_eq!(ci.identity.scopes, ["github:read"]);
    assert_eq!(ci.identity.resources["repo:toolpost"], ["read", "write"]);
    assert_eq!(ci.identity.capabilities, ["mcp/request:tools/call:github__*"]);
    assert_eq!(config.authenticator().lookup_token(Some("abc")).unwrap().id, "ci");

    let [spoke, .., office, _] = &config.sources[..] else { panic!("{:?}", config.sources) };
    assert!(matches!(&spoke.kind, SourceKind::Spoke { identity } if identity == "ci"));
    assert!(spoke.adjustments.access.is_none() && spoke.adjustments.timeout.is_none());
    assert_eq!(spoke.adjustments.include, [Glob::new("*")]);
    let SourceKind::Hub { url, token, .. } = &office.kind else { panic!("{office:?}") };
    assert_eq!(url, "wss://hub.example:7411/hub");
    assert_eq!(token.as_ref().unwrap().reveal(), "hush-hush");
    let adjustments = &office.adjustments;
    assert_eq!(adjustments.access, Some(Access::Scopes(vec!["office".to_owned()])));
    assert_eq!(adjustments.timeout, Some(Duration::from_secs(30)));
    assert_eq!(adjustments.policy.output, OutputPolicy::Enforce);
    assert_eq!(adjustments.policy.extras, Extras::Keep);
    assert_eq!(adjustments.exclusive, Some(true));
    assert_eq!(adjustments.exclude, [Glob::new("*/delete")]);
    assert!(!format!("{config:?}").contains("hush"), "secrets are not printed");
}

/// Each row: a string, and the expected mode with its body limit, or a part of the error.
#[test]
fn journal_accepts_mode_or_table() {
    for (text, expected) in [
        ("", Ok((JournalMode::Batch, 65_536))),
        ("journal = 'sync'", Ok((JournalMode::Sync, 65_536))),
        ("journal = 'off'", Ok((JournalMode::Off, 65_536))),
        ("[journal]\nmode = 'sync'\nbody_limit = '1KiB'", Ok((JournalMode::Sync, 1_024))),
        ("[journal]\nbody_limit = 17", Ok((JournalMode::Batch, 17))),
        ("journal = 'fast'", Err("expected \"sync\"")),
        ("journal = true", Err("expected \"sync\"")),
        ("[journal]\nmod = 'sync'", Err("did you mean `mode`?")),
        ("[journal]\nretain_for = 0", Err("must be greater than zero; set mode")),
    ] {
        match (parse(text), expected) {
            (Ok(config), Ok(awaited)) => {
                assert_eq!((config.journal.mode, config.journal.body_limit), awaited, "{text}");
            }
            (Err(error), Err(message)) => {
                assert!(error.to_string().contains(message), "{text}: {error}");
            }
            (found, _) => panic!("{text}: {found:?}"),
        }
    }
}

#[test]
fn empty_config_requires_no_auth() {
    for text in ["", "# nothing\n", "[identity]\n[source]\n"] {
        let config = parse(text).unwrap();
        assert!(config.authenticator().allows_anonymous(), "{text}");
        assert!(config.sources.is_empty(), "{text}");
    }
}

/// Each row: the timeout of a source, and its value in seconds if it is valid.
#[test]
fn timeout_accepts_text_or_seconds() {
    let seconds = |text: &str| {
        let text = format!("[source.a]\nhub = {{ url = \"ws://x\" }}\ntimeout = {text}\n");
        let config = parse(&text).ok()?;
        config.sources[0].adjustments.timeout.map(|timeout| timeout.as_secs_f64())
    };
    for (text, expected) in [
        ("\"30s\"", Some(30.0)),
        ("\"500ms\"", Some(0.5)),
        ("\"2m\"", Some(120.0)),
        ("\"7\"", Some(7.0)),
        ("7", Some(7.0)),
        ("0x10", Some(16.0)),
        ("1_000", Some(1_000.0)),
        ("1.5", Some(1.5)),
        ("0", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e300", None),
        ("\"soon\"", None),
        ("true", None),
        ("2026-01-01", None),
    ] {
        assert_eq!(seconds(text), expected, "{text}");
    }
}

/// Each row: a file and all of its expected problems, in order.
#[test]
fn problems_report_position_key_and_remedy() {
    let identity = format!("[identity.ci]\ntoken_hash = \"{HASH}\"\n");
    let twice = format!("{identity}[identity.cd]\ntoken_hash = \"{}\"\n", HASH.to_uppercase());
    let misspelt = format!("{identity}scope = []\n\"odd key\" = 1\n[sources.x]\n");
    let spaced = format!("{identity}scopes = [\"a b\", \"\"]\n");
    let local = format!("[identity.local]\ntoken_hash = \"{HASH}\"\n");
    let resource = format!("{identity}resources = {{ repo = [\"read\"], \":x\" = [] }}\n");
    let rows: [(&str, &[&str]); 37] = [
        (
            "[journal]\nmod = 1\nbody_limit = \"x\"\nretain_size = true\nretain_for = \"y\"\n",
            &[
                "2:1: journal.mod: unknown key; did you mean `mode`?",
                "3:14: journal.body_limit: expected a size",
                "4:15: journal.retain_size: expected a size",
                "5:14: journal.retain_for: expected a duration",
            ],
        ),
        (
            "[limits]\ncalls = 0\nsource_queue = -1\nnesting = \"x\"\n",
            &[
                "2:9: limits.calls: expected a positive integer",
                "3:16: limits.source_queue: expected a non-negative integer",
                "4:11: limits.nesting: expected a non-negative integer, found a string",
            ],
        ),
        (&spaced, &["3:10: identity.ci.scopes: invalid scope; use one word without whitespace"]),
        ("a = ", &["1:5: invalid TOML: "]),
        ("[identity", &["1:10: invalid TOML: "]),
        ("a = 1\na = 2", &["2:1: invalid TOML: duplicate key"]),
        (
            &misspelt,
            &[
                "3:1: identity.ci.scope: unknown key; did you mean `scopes`?",
                "4:1: identity.ci.\"odd key\": unknown key; known keys: `token_hash`, `certificate`, ",
                "5:2: sources: unknown key; did you mean `source`?",
            ],
        ),
        ("identity = 3", &["1:12: identity: expected tables such as [identity.NAME]"]),
        ("[identity]\nci = 3", &["2:6: identity.ci: expected a table with `token_hash` or"]),
        ("[[source]]", &["source: expected tables such as [source.NAME]"]),
        ("[identity.ci]\n", &["1:1: identity.ci: missing key `token_hash` or `certificate`"]),
        (
            "[identity.ci]\ntoken_hash = \"abc\"",
            &["2:14: identity.ci.token_hash: expected a token hash: the 64 hexadecimal digits"],
        ),
        (
            "[identity.ci]\ntoken_hash = 5",
            &["2:14: identity.ci.token_hash: expected a string, found a number"],
        ),
        (
            "[identity.ci]\ntoken_hash = \"\"\nscopes = [\"a\", 5]",
            &[
                "2:14: identity.ci.token_hash: expected a token hash",
                "3:16: identity.ci.scopes[1]: expected a string, found a number",
            ],
        ),
        (
            "[identity.ci]\ntoken_hash = 5\nscopes = 5\nscope = 5\nresources = { a = 5 }",
            &[
                "2:14: identity.ci.token_hash: expected a string, found a number",
                "3:10: identity.ci.scopes: expected a list, found a number",
                "4:1: identity.ci.scope: unknown key; did you mean `scopes`?",
                "5:19: identity.ci.resources.a: expected a list, found a number",
            ],
        ),
        (
            "[identity.ci]\nscopes = 5",
            &[
                "1:1: identity.ci: missing key `token_hash` or `certificate`",
                "2:10: identity.ci.scopes: ex",
            ],
        ),
        (
            &twice,
            &[
                "2:14: identity.ci.token_hash: same token as `cd`; create another with `toolpost token new ci",
            ],
        ),
        (&local, &["1:1: identity.local: `local` is reserved for callers without a token; choose"]),
        (
            "[identity.\"a b\"]\ntoken_hash = \"\"",
            &["\"a b\": invalid identity name", "64 hexadecimal"],
        ),
        (
            &resource,
            &[
                "3:22: identity.ci.resources.repo: invalid resource; use `type:id`",
                "3:39: identity.ci.resources.\":x\": invalid resource; use `type:id`",
            ],
        ),
        (
            "[source.a]",
            &[
                "1:1: source.a: expected exactly one of `mcp`, `openapi`, `spoke` and `hub`; add one",
            ],
        ),
        (
            "[source.a]\nspoke = { identity = \"ci\" }\nhub = { url = \"ws://x\" }",
            &[
                "source.a: expected exactly one of `mcp`, `openapi`, `spoke` and `hub`; remove the others",
            ],
        ),
        (
            "[source.a]\nmcp = { command = 'x' }\nhub = { url = \"ws://x\" }",
            &[
                "source.a: expected exactly one of `mcp`, `openapi`, `spoke` and `hub`; remove the others",
            ],
        ),
        ("mcp_servers = 'x'", &["1:15: mcp_servers: expected a list, found a string"]),
        ("mcp_server = []", &["1:1: mcp_server: unknown key; did you mean `mcp_servers`?"]),
        (
            "[source.a]\nspoke = { identity = \"ci\" }",
            &["2:22: source.a.spoke.identity: unknown identity; create it with `toolpost token"],
        ),
        (
            "[source.A]\nhub = { url = \"ws://x\" }",
            &["1:1: source.A: `A` is not a namespace: expected lowercase letters"],
        ),
        (
            "[source.demo]\nhub = { url = \"ws://x\" }",
            &["1:1: source.demo: `demo` is a reserved namespace; choose another"],
        ),
        ("[source.a]\nhub = { url = \"http://x\" }", &["2:15: source.a.hub.url: invalid hub URL"]),
        ("[source.a]\nhub = { url = \"ws://me:hush@x\" }", &["use `token`"]),
        (
            "[source.a]\nhub = { url = \"ws://x\", tokn = \"hush-hush\" }",
            &["2:25: source.a.hub.tokn: unknown key; did you mean `token`?"],
        ),
        (
            "[source.a]\nhub = { url = \"ws://${WHERE}\" }",
            &["2:15: source.a.hub.url: the environment variable `WHERE` is not set"],
        ),
        (
            "[source.a]\nhub = { url = \"ws://x\" }\noutput = \"normalze\"",
            &["3:10: source.a.output: expected one of `normalize`, `cast`, `enforce`, `raw`; did \
               you mean `normalize`?"],
        ),
        (
            "[source.a]\nhub = { url = \"ws://x\" }\noutput = \"${SECRET}\"",
            &["3:10: source.a.output: expected one of `normalize`, `cast`, `enforce`, `raw`"],
        ),
        (
            "[source.a]\nhub = \"${SECRET}\"\n[source.b]\naccess = \"${SECRET}\"\nhub.url = 'ws://x'\n\
             [source.c]\ntimeout = \"${SECRET}\"\nhub.url = 'ws://x'\n[source.d]\naccess = { scopes = [] }\n\
             hub = { url = \"${SECRET}\" }\n[source.e]\naccess = { scope = [] }\nhub.url = 'ws://x'\n\
             [source.f]\nspoke = { identity = \"${SECRET}\" }",
            &[
                "2:7: source.a.hub: expected a table such as { url = \"wss://…\" }, found a string",
                "4:10: source.b.access: expected \"open\" or { scopes = […] }",
                "7:11: source.c.timeout: expected a duration such as \"500ms\"",
                "10:21: source.d.access.scopes: no scopes; use access = \"open\"",
                "11:15: source.d.hub.url: invalid hub URL",
                "13:12: source.e.access.scope: unknown key; did you mean `scopes`?",
                "16:22: source.f.spoke.identity: unknown identity",
            ],
        ),
        (
            "[source.a]\nhub = { url = \"ws://x\" }\ninclude = [\"\"]\nexclusive = \"yes\"",
            &[
                "3:12: source.a.include[0]: empty pattern",
                "4:13: source.a.exclusive: expected true or false, found a string",
            ],
        ),
        (
            "[source.a]\nhub = { url = \"ws://x\" }\ninclude = [\"\"]\ntimeout = 0",
            &[
                "3:12: source.a.include[0]: empty pattern",
                "4:11: source.a.timeout: must be greater than zero",
            ],
        ),
    ];
    for (text, expected) in rows {
        let error = parse(text).expect_err(text);
        let message = error.to_string();
        assert_eq!(error.problems().len(), expected.len(), "{text}\n{message}");
        for (problem, expected) in error.problems().iter().zip(expected) {
            let problem = problem.to_string();
            assert!(problem.starts_with("toolpost.toml:"), "{problem}");
            assert!(problem.contains(expected), "{text}\n{problem}\n{expected}");
        }
        assert!(!message.contains("hush"), "no value is printed: {message}");
    }
}

#[test]
fn missing_file_error_names_the_file() {
    let error = Config::load(Path::new("no-such/toolpost.toml")).unwrap_err();
    assert!(
        error.to_string().starts_with("no-such/toolpost.toml: cannot read the file: "),
        "{error}"
    );
}

#[test]
fn approval_applies_by_pattern_source_and_operation() {
    let config = parse(
        r#"
        [approval]
        operations = ["demo.n*"]
        expires = "2m"
        max_pending = 7
        max_pending_per_caller = 3

        [source.a]
        hub = { url = "ws://x" }
        approval = ["del*"]
        access = { scopes = ["a"] }
        [source.a.operation."get/it"]
        access = "open"
        approval = true
        timeout = "2s"
        exclusive = true
        [source.a.operation.delete]
        approval = false
        access = { scopes = ["b"] }

        [source.b]
        hub = { url = "ws://y" }
        approval = true
        "#,
    );
    let config = config.unwrap();
    assert!(
        config.approval.requires_approval("demo.note")
            && !config.approval.requires_approval("demo.add")
    );
    let approval = &config.approval;
    let numbers =
        (approval.expires.as_secs(), approval.max_pending, approval.max_pending_per_caller);
    assert_eq!(numbers, (120, 7, 3));
    for (source, name, scopes, approval, timeout, exclusive) in [
        (0, "get/it", &[][..], true, Some(2), true),
        (0, "get", &["a"], false, None, false),
        (0, "delete", &["b"], false, None, false),
        (0, "delete_all", &["a"], true, None, false),
        (1, "any", &[], true, None, false),
    ] {
        let id = toolpost::OperationId::new("x", name).unwrap();
        let spec = toolpost::OperationSpec::new(&id, toolpost::OperationKind::Query);
        let (spec, policy) = config.sources[source].adjustments.apply(spec).unwrap();
        let timeout_found = policy.timeout.map(|timeout| timeout.as_secs());
        assert_eq!(spec.access_control.required_scopes, scopes, "{name}");
        assert_eq!((spec.approval, timeout_found), (approval, timeout), "{name}");
        assert_eq!(spec.exclusive, exclusive, "{name}");
    }
    let strays = config.sources[0].adjustments.unmatched_settings(&["get/id", "list"]);
    assert_eq!(
        strays,
        [
            "`approval`: `del*` matches no operation, so it requires no approval",
            "`operation`: no operation `delete`",
            "`operation`: no operation `get/it`; did you mean `get/id`?",
        ]
    );
}

#[test]
fn auth_section_rejects_unsafe_issuer_settings() {
    let with = |more: &str| parse(&format!("[auth]\n{more}"));
    let issuer = "issuer = \"https://as.example\"";
    let config = with(&format!("{issuer}\nresource = \"https://gw.example/\"")).unwrap();
    let auth = config.auth.as_ref().unwrap();
    assert_eq!(
        auth.audience,
        ["https://gw.example", "https://gw.example/", "https://gw.example/mcp"]
    );
    assert_eq!(auth.reserved_names, ["local", "operator"]);
    assert_eq!((&auth.resources_claim, &auth.capabilities_claim), (&None, &None));
    let claims = "audience = [\"a\"]\nresources = \"may\"\ncapabilities = \"can\"";
    let jwt_settings = with(&format!("{issuer}\n{claims}")).unwrap().auth.unwrap();
    let found =
        (jwt_settings.resources_claim.as_deref(), jwt_settings.capabilities_claim.as_deref());
    assert_eq!(found, (Some("may"), Some("can")));
    assert!(config.requires_auth() && !config.authenticator().allows_anonymous());
    for (more, message) in [
        ("audience = [\"a\"]", "issuer"),
        ("issuer = \"http://as.example\"\naudience = [\"a\"]", "expected an https:// URL"),
        (issuer, "missing key `audience`"),
        (&format!("{issuer}\naudience = [\"a\"]\njwks = \"http://as.example/k\""), "https://"),
        (
            &format!("{issuer}\naudience = [\"a\"]\nalgorithms = [\"HS256\"]"),
            "symmetric algorithms are not accepted",
        ),
        (
            &format!("{issuer}\naudience = [\"a\"]\nalgorithms = [\"none\"]"),
            "symmetric algorithms are not accepted",
        ),
        (
            &format!("{issuer}\naudience = [\"a\"]\nalgorithms = [\"RS265\"]"),
            "expected one of `RS256`",
        ),
        (
            &format!("{issuer}\naudience = [\"a\"]\nalgorithms = []"),
            "expected at least one algorithm",
        ),
        (&format!("{issuer}\naudience = [\"a\"]\nleeway = \"1h\""), "at most 5m"),
        (&format!("{issuer}\naudience = [\"a\"]\nissuers = 1"), "did you mean `issuer`?"),
        (
            &format!("{issuer}\naudience = [\"a\"]\nresources = \"\""),
            "resources: expected the name of a claim",
        ),
        (&format!("{issuer}\naudience = [\"a\"]\ncapabilities = [\"b\"]"), "found a list"),
    ] {
        let error = with(more).unwrap_err().to_string();
        assert!(error.contains(message), "{more}: {error}");
    }
    let error = parse("[identity.operator]\ntoken_hash = \"\"").unwrap_err().to_string();
    assert!(error.contains("reserved for the operator"), "{error}");
}

/// Each row: a table, its definition in the schema, its required keys, and the keys with a default.
#[test]
fn schema_defaults_match_effective_defaults() {
    let schema = Config::json_schema();
    let rows: [(&str, &str, &str, &[&str]); 7] = [
        (
            "source.a.mcp",
            "Mcp",
            "command = 'x'\n",
            &[
                "start_timeout",
                "max_timeout",
                "max_restart",
                "message_bytes",
                "elicitation",
                "sampling",
                "roots",
                "parse_json_text",
                "tool_envelope",
            ],
        ),
        (
            "source.a.openapi",
            "OpenApi",
            "document = 'x.yaml'\n",
            &["connect_timeout", "response_bytes", "retries", "reconnect", "private", "namespaces"],
        ),
        (
            "room.a",
            "Room",
            "",
            &[
                "history",
                "history_bytes",
                "participants",
                "message_bytes",
                "messages_per_minute",
                "streams",
                "proposal_expires",
                "capabilities",
            ],
        ),
        ("journal", "Journal", "", &["mode", "body_limit", "retain_size"]),
        (
            "approval",
            "Approval",
            "",
            &["operations", "expires", "max_pending", "max_pending_per_caller"],
        ),
        (
            "auth",
            "AuthorizationServer",
            "issuer = 'https://as.example'\naudience = ['a']\n",
            &["algorithms", "identity", "leeway"],
        ),
        (
            "mcp",
            "McpEndpoint",
            "",
            &[
                "dialect",
                "tools",
                "compact_above",
                "sessions",
                "session_idle",
                "subscription_values",
                "subscription_time",
            ],
        ),
    ];
    for (table, definition, needed, keys) in rows {
        let properties = &schema["$defs"][definition]["properties"];
        let message: String =
            keys.iter().map(|key| format!("{key} = {}\n", properties[key]["default"])).collect();
        let [implicit, explicit] = [needed.to_owned(), format!("{needed}{message}")]
            .map(|text| parse(&format!("[{table}]\n{text}")))
            .map(|config| config.unwrap_or_else(|error| panic!("{message}: {error}")));
        assert_eq!(format!("{implicit:?}"), format!("{explicit:?}"), "{table}");
    }
}

/// The schema accepts what the parser accepts, and every property has a description.
#[test]
fn schema_accepts_what_the_parser_accepts() {
    let json = Config::json_schema();
    let schema = toolpost::Schema::new(json.clone()).unwrap();
    let good: serde_json::Value = toml::from_str(GOOD).unwrap();
    assert_eq!(schema.validate(&good).unwrap(), []);
    let timeout = |value: serde_json::Value| serde_json::json!({"source": {"a": {"hub": {"url": "ws://x"}, "timeout": value}}});
    for (value, fits) in [
        (timeout("30s".into()), true),
        (timeout(5.into()), true),
        (timeout("${LONG}".into()), true),
        (timeout("soon".into()), false),
        (serde_json::json!({"source": {"a": {}}}), false),
        (serde_json::json!({"identity": {"a": {"token_hash": "x"}}}), false),
        (serde_json::json!({"identity": {"a": {"token_hash": "${HASH}"}}}), true),
        (serde_json::json!({"journal": {"body_limit": "${LIMIT}"}}), true),
        (serde_json::json!({"journal": {"body_limit": "64KB"}}), false),
        (serde_json::json!({"source": {"a": {"mcp": {"command": "x"}}}}), true),
        (serde_json::json!({"source": {"a": {"mcp": {"url": "${URL}"}}}}), true),
        (serde_json::json!({"source": {"a": {"mcp": {}}}}), false),
        (serde_json::json!({"source": {"a": {"mcp": {"command": "x", "url": "y"}}}}), false),
        (
            serde_json::json!({"source": {"a": {"mcp": {"command": "x"}, "hub": {"url": "y"}}}}),
            false,
        ),
        (
            serde_json::json!({"source": {"a": {"mcp": {"command": "x", "elicitation": "no"}}}}),
            false,
        ),
        (
            serde_json::json!({"source": {"a": {"mcp": {"command": "x", "elicitation": "client",
                "sampling": "client", "roots": "client"}}}}),
            true,
        ),
        (serde_json::json!({"source": {"a": {"mcp": {"command": "x", "roots": "x"}}}}), false),
        (serde_json::json!({"mcp_servers": [".mcp.json"]}), true),
        (serde_json::json!({"mcp_servers": ".mcp.json"}), false),
        (serde_json::json!({"sources": {}}), false),
        (serde_json::json!({}), true),
    ] {
        assert_eq!(schema.validate(&value).unwrap().is_empty(), fits, "{value}");
    }
    let source = &json["$defs"]["Source"]["properties"];
    for (key, default) in [
        ("output", serde_json::json!("normalize")),
        ("extras", serde_json::json!("strip")),
        ("include", serde_json::json!(["*"])),
        ("exclude", serde_json::json!([])),
    ] {
        assert_eq!(source[key]["default"], default, "{key}");
    }
    for (name, definition) in json["$defs"].as_object().unwrap() {
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{name}.{key} has no description");
        }
    }
    let room = |value: serde_json::Value| serde_json::json!({"room": {"a": value}});
    for (value, fits) in [
        (
            room(
                serde_json::json!({"history_bytes": "1MiB", "capabilities": ["chat", {"kind": ["a"]}]}),
            ),
            true,
        ),
        (room(serde_json::json!({"capabilities": [{"kinds": "a"}]})), false),
        (room(serde_json::json!({"participants": 0})), false),
        (room(serde_json::json!({"participant": 1})), false),
    ] {
        assert_eq!(schema.validate(&value).unwrap().is_empty(), fits, "{value}");
    }
    for (key, property) in json["properties"].as_object().unwrap() {
        // The files of `[tls]` must exist.
        if key == "tls" {
            continue;
        }
        let empty = match key.as_str() {
            // The required keys of `[auth]` cannot be omitted.
            "auth" => "[auth]\nissuer = \"https://as.example\"\naudience = [\"a\"]".to_owned(),
            _ if property["type"] == "array" => format!("{key} = []"),
            _ if property["type"] == "boolean" => format!("{key} = {}", property["default"]),
            _ => format!("[{key}]"),
        };
        assert!(parse(&empty).is_ok(), "the parser accepts {key}");
    }
    assert!(!json.to_string().contains("null"), "TOML has no null: {json}");
}

/// The examples in the guide are valid, and the invalid one produces the errors that the guide
/// lists.
#[test]
fn configuration_guide_examples_are_valid() {
    let guide = include_str!("../../../../docs/configuration.md");
    let block = |kind: &str| {
        let start = format!("```{kind}\n");
        let blocks = guide.split(start.as_str()).skip(1);
        blocks.map(|rest| rest.split("```").next().unwrap()).collect::<Vec<_>>()
    };
    let [good, signed, tls, waits, clients, pages, rooms, capable, bad] = block("toml")[..] else {
        panic!("eight valid files and an invalid one")
    };
    for problem in parse(tls).unwrap_err().problems() {
        assert!(problem.message.starts_with("cannot read the file"), "{problem}");
    }
    assert_eq!(parse(rooms).unwrap().rooms.rooms["lobby"], RoomSettings::default());
    assert_eq!(parse(capable).unwrap().identities[0].identity.capabilities.len(), 3);
    assert_eq!(parse(pages).unwrap().cors, ["https://app.example"]);
    let auth = parse(signed).unwrap().auth.unwrap();
    assert_eq!((auth.audience.len(), auth.algorithms.len()), (1, 3));
    assert_eq!(
        parse(waits).unwrap().approval,
        Default::default(),
        "the template shows the defaults"
    );
    let config = parse(&good.replace("OFFICE_TOKEN", "SECRET").replace("PETS_KEY", "SECRET"));
    let config = config.unwrap();
    assert_eq!((config.identities.len(), config.sources.len()), (2, 4));
    let mut documented = parse(clients).unwrap().mcp;
    assert_eq!(documented.instructions.take().as_deref(), Some("Tickets and files of the office."));
    assert_eq!(documented, McpEndpointSettings::default(), "the template shows the defaults");
    let error = parse(bad).unwrap_err();
    assert_eq!(error.to_string(), block("text")[0].trim());
}

/// Deeply nested, very long and otherwise malformed input.
#[test]
fn malformed_toml_returns_errors() {
    let deep_key = format!("source.{}a = 1", "a.".repeat(100_000));
    let deep_list = format!("source = {}", "[".repeat(100_000));
    let deep_table = format!("[source.a]\nhub = {}", "{a=".repeat(100_000));
    let long_key = format!("[source.a]\n{} = 1", "k".repeat(1_000_000));
    let references = format!("[source.a]\nhub = {{ url = \"{}\" }}", "${HOST}".repeat(100_000));
    let deep_elicitation =
        format!("[source.a.mcp]\nelicitation.accept.{}a = 1", "a.".repeat(100_000));
    let wrong: String = (0..20_000).map(|n| format!("K{n} = 1\n")).collect();
    let wrong = format!("[source.a.mcp]\ncommand = 'x'\n[source.a.mcp.env]\n{wrong}");
    let many: String = (0..5_000).map(|n| format!("[source.a{n}]\nx = 1\n")).collect();
    let texts = [
        &deep_key,
        &deep_list,
        &deep_table,
        &long_key,
        &references,
        &many,
        &deep_elicitation,
        &wrong,
    ];
    for text in texts {
        assert!(parse(text).is_err(), "{}", &text[..40]);
    }
    for text in ["\u{feff}", "\0", "\"", "[", "[[", "=", "a.", "\u{feff}[source.a]\nhub=1", "''''"]
    {
        drop(parse(text));
    }
}

/// Each row: a source, a string in it, its replacement, and the expected change.
#[test]
fn source_change_is_detected_by_meaning() {
    let mcp = "[source.a]\nmcp = { command = 'x', args = ['y'], env = { K = 'hush' } }\n";
    let http = "[source.a]\nmcp = { url = 'https://x/mcp', bearer = 'hush' }\n";
    let hub = "[source.a]\nhub = { url = 'wss://x', token = 'hush' }\n";
    let openapi = "[source.a]\nopenapi = 'none.yaml'\nauth = { bearer = 'hush' }\n";
    let rows = [
        (mcp, "'x'", "'x'", SourceChange::Unchanged),
        (mcp, "'x'", "\"x\"", SourceChange::Unchanged),
        (mcp, "'hush'", "'hush-hush'", SourceChange::Connection),
        (mcp, "'y'", "'z'", SourceChange::Connection),
        (mcp, "}\n", "}\ntimeout = 5", SourceChange::Adjustments),
        (mcp, "}\n", "}\naccess = 'open'", SourceChange::Adjustments),
        (mcp, "}\n", "}\naccess = { scopes = ['s'] }", SourceChange::Adjustments),
        (mcp, "'y']", "'y'], max_timeout = 7", SourceChange::Connection),
        (
            mcp,
            "mcp = { command = 'x', args = ['y'], env = { K = 'hush' } }",
            "hub.url = 'ws://x'",
            SourceChange::Connection,
        ),
        (http, "'hush'", "'${SECRET}'", SourceChange::Connection),
        (http, "}\n", "}\noutput = 'raw'", SourceChange::Adjustments),
        (hub, "'hush'", "'${SECRET}'", SourceChange::Connection),
        (hub, "}\n", "}\nexclude = ['x']", SourceChange::Adjustments),
        (openapi, "'hush'", "'${SECRET}'", SourceChange::Connection),
        (openapi, "}\n", "}\ntimeout = '5s'", SourceChange::Adjustments),
        (openapi, "}\n", "}\nprefix = 'p_'", SourceChange::Adjustments),
    ];
    for (text, old, new, expected) in rows {
        let [before, now] = [text.to_owned(), text.replace(old, new)]
            .map(|text| parse(&text).unwrap_or_else(|error| panic!("{text}: {error}")));
        let change = now.sources[0].change_from(&before.sources[0]);
        assert_eq!(change, expected, "{text}: {old} → {new}");
    }
}

#[test]
fn missing_reference_disables_only_its_source() {
    let text = "[source.a]\nmcp = { command = 'x', args = ['${NONE}', '${file:none/at-all}'] }\n\
                [source.b]\nmcp = { command = '${SECRET}' }\n";
    let config = Config::parse(Path::new("toolpost.toml"), text, &|name| {
        (name == "SECRET").then(|| "hush-hush".to_owned())
    });
    let config = config.unwrap();
    let [incomplete, fine] = &config.sources[..] else { panic!("{config:?}") };
    assert!(matches!(&incomplete.kind, SourceKind::Incomplete { kind, .. } if *kind == "mcp"));
    assert!(matches!(&fine.kind, SourceKind::Mcp(_)));
    let message = config.check_missing().unwrap_err().to_string();
    assert!(
        message.contains("2:32: source.a.mcp.args[0]: the environment variable `NONE`"),
        "{message}"
    );
    // A missing reference outside of a source rejects the file.
    let identity = "[identity.ci]\ntoken_hash = '${NONE}'\n";
    let message = parse(&format!("{text}{identity}")).unwrap_err().to_string();
    assert!(
        message.contains("identity.ci.token_hash: the environment") && message.contains("source.a"),
        "{message}"
    );
}

/// Each row: the content of a secret file, if it exists, and whether the source is incomplete.
#[cfg(unix)]
#[test]
fn secret_file_notations_are_equivalent() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("toolpost-secret-forms-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, secret) = (folder.join("toolpost.toml"), folder.join("key"));
    let source =
        |key: &str| format!("[source.a]\nopenapi = 'a.yaml'\nauth.schemes.s.bearer = {key}\n");
    let read = |key: &str| {
        Config::parse(&file, &source(key), &|_| None).map(|config| {
            let about = config.sources[0].kind.describe();
            (about, config.sources[0].clone(), config.files, config.notes)
        })
    };
    let large = "x".repeat(1024 * 1024 + 1);
    for (content, is_incomplete) in [
        (Some("hush"), false),
        (Some("hush\n"), false),
        (Some("hush\n\n"), false),
        (Some(large.as_str()), true),
        (None, true),
    ] {
        let _ = std::fs::remove_file(&secret);
        if let Some(content) = content {
            std::fs::write(&secret, content).unwrap();
            std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let (description, found, files, notes) = read("{ file = 'key' }").unwrap();
        let (_, expected, of_reference, notes_of_reference) = read("'${file:key}'").unwrap();
        assert_eq!(
            matches!(found.kind, SourceKind::Incomplete { .. }),
            is_incomplete,
            "{description}"
        );
        assert_eq!((files.contains(&secret), &files), (true, &of_reference));
        assert_eq!((notes.len(), &notes), (usize::from(content.is_some()), &notes_of_reference));
        if !is_incomplete {
            assert_eq!(found.change_from(&expected), SourceChange::Unchanged);
        }
    }
    assert!(read("{ file = '' }").unwrap_err().to_string().contains("empty file name"));
    std::fs::remove_dir_all(&folder).unwrap();
}

proptest! {
    #[test]
    fn parse_arbitrary_text_never_panics(text in "\\PC*") {
        drop(parse(&text));
    }

    /// A valid file with a piece removed, moved or replaced.
    #[test]
    fn parse_damaged_file_never_panics(from in 0..GOOD.len(), length in 0..40usize, to in 0..GOOD.len(), with in "[\\[\\]{}=.\"'${}\\n a0-]{0,6}") {
        let (mut text, end) = (GOOD.to_owned(), (from + length).min(GOOD.len()));
        let piece: String = text.drain(from..end).collect();
        let to = to.min(text.len());
        text.insert_str(to, &piece);
        text.insert_str(from.min(text.len()), &with);
        drop(parse(&text));
    }
}

#[test]
fn config_change_returns_revoked_identities() {
    let known = |name: &str, scopes: &str| {
        format!("[identity.{name}]\ntoken_hash = \"{HASH}\"\nscopes = [{scopes}]\n")
    };
    let (ada, other) = (known("ada", ""), known("ada", "\"more\""));
    let auth = "[auth]\nissuer = \"https://id.example\"\naudience = [\"toolpost\"]\n";
    let both = format!("{ada}{auth}");
    for (before, next, is_ended) in [
        (auth, auth, false),
        (&both, &format!("{both}{}", known("eve", "").replace('b', "c")), false),
        (&both, &ada, true),
        (&ada, &both, true),
        (&both, &both.replace("toolpost", "other"), true),
    ] {
        let read = |text: &str| Config::parse(Path::new("toolpost.toml"), text, &|_| None).unwrap();
        let (before, next) = (read(before), read(next));
        let ended = before.revoked_identities(&next);
        let jwt = IdentityKind::Jwt { issuer: "https://id.example".into() };
        let [jwt, eve, other_issuer] = [
            ("ada2", jwt.clone()),
            ("eve", jwt),
            ("ada2", IdentityKind::Jwt { issuer: "https://other.example".into() }),
        ]
        .map(|(id, kind)| Identity::new(id).with_kind(kind));
        assert_eq!(ended.contains(&jwt), is_ended);
        let has_eve = next.identities.iter().any(|known| known.identity.id == "eve");
        assert_eq!(ended.contains(&eve), is_ended || has_eve);
        assert!(!ended.contains(&Identity::new("ada")) && !ended.contains(&admin::operator()));
        assert_eq!(next.has_identity(&jwt), next.auth.is_some());
        assert_eq!(next.has_identity(&eve), next.auth.is_some() && !has_eve);
        assert!(!next.has_identity(&other_issuer));
    }
    let rows: [(&str, &str, &[&str]); 6] = [
        ("", "", &[]),
        ("", &ada, &["local"]),
        (&ada, &ada, &[]),
        (&ada, &other, &["ada"]),
        (&ada, &known("eve", ""), &["ada"]),
        (&ada, "", &["ada"]),
    ];
    for (before, next, ended) in rows {
        let read = |text: &str| Config::parse(Path::new("toolpost.toml"), text, &|_| None).unwrap();
        let (before, next) = (read(before), read(next));
        assert_eq!(before.revoked_identities(&next).ids.into_iter().collect::<Vec<_>>(), ended);
    }
}
