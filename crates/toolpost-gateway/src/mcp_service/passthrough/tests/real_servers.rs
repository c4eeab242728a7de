//! Resources and prompts of real servers, two of which have the same names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use toolpost::mcp::{McpSettings, McpSource, McpTransport, StdioSettings};
use toolpost::view::ProtocolGeneration;
use toolpost::{RunningSource, SourceHooks};

use super::fixture::Fixture;

const START_TIMEOUT: Duration = Duration::from_secs(40);
const LISTS: [(&str, &str, &str); 3] = [
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("prompts/list", "prompts", "name"),
];

/// Starts a server for each name and command line, and waits until all of them are ready.
async fn start_servers(servers: &[(&str, &[&str])]) -> (Fixture, Vec<RunningSource>) {
    let (fixture, mut sources) = (Fixture::new(), Vec::new());
    for (name, command) in servers {
        let stdio = StdioSettings::new(command[0], command[1..].iter().copied());
        let settings = McpSettings::new(McpTransport::Stdio(stdio));
        let registry = fixture.pipeline.registry();
        sources.push(RunningSource::start(
            registry,
            McpSource::new(name, settings),
            SourceHooks::default(),
        ));
    }
    for source in &sources {
        source.ready(START_TIMEOUT).await.unwrap();
    }
    (fixture, sources)
}

async fn close_sources(sources: Vec<RunningSource>) {
    for source in sources {
        tokio::time::timeout(START_TIMEOUT, source.close()).await.unwrap();
    }
}

fn project_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn shelf_server_path() -> String {
    project_path("crates/toolpost/tests/servers/resource_prompt_server.py")
        .to_string_lossy()
        .into_owned()
}

#[tokio::test]
async fn server_result_passes_through_byte_for_byte() {
    let shelf = shelf_server_path();
    let (legacy, modern) = (["python3", &shelf], ["python3", &shelf, "--modern"]);
    let (fixture, sources) = start_servers(&[("new", &modern), ("old", &legacy)]).await;
    let more = r#""title":"T","annotations":{"priority":0.50,"newer":[1e2]},"_meta":{"a/b":{"c":null}},"x":[ 1.0 ]"#;
    for (method, member, template) in [
        (
            "resources/list",
            "resources",
            r#"{"uri":"toolpost:@:shelf://plain","name":"plain"},{#,"uri":"toolpost:@:shelf://rich","name":"rich","size":3},{"uri":"toolpost:@:shelf://same","name":"gr\u00f6\u00dfe \ud83d\ude00"}"#,
        ),
        (
            "resources/templates/list",
            "resourceTemplates",
            r#"{"uriTemplate":"toolpost:@:shelf://page/{number}","name":"page",#}"#,
        ),
        (
            "prompts/list",
            "prompts",
            r#"{#,"name":"@__say it","arguments":[{"name":"what","required":true,"newer":1.50}]},{"name":"@__same"}"#,
        ),
    ] {
        let of = |source: &str| template.replace('@', source).replace('#', more);
        let expected = format!(r#"{{"{member}":[{},{}]}}"#, of("new"), of("old"));
        assert_eq!(
            fixture.request(ProtocolGeneration::Legacy, method, json!({})).await.unwrap(),
            expected
        );
    }
    let read = r#"{"contents":[{"uri":"shelf://same","mimeType":"text/x","text":"t","_meta":{"k":1.0},"unknown":[ null ]}],"_meta":{"x/y":[1e2]},"unknown":{"member":1.50}"#;
    let hints = r#","resultType":"complete","ttlMs":1500,"cacheScope":"public"}"#;
    let added = r#","resultType":"complete","ttlMs":0,"cacheScope":"private"}"#;
    for (uri, generation, rest) in [
        ("toolpost:new:shelf://same", ProtocolGeneration::Legacy, "}"),
        ("toolpost:old:shelf://same", ProtocolGeneration::Legacy, "}"),
        ("toolpost:new:shelf://same", ProtocolGeneration::Modern, hints),
        ("toolpost:old:shelf://same", ProtocolGeneration::Modern, added),
        ("shelf://same", ProtocolGeneration::Modern, hints),
    ] {
        let found =
            fixture.request(generation, "resources/read", json!({"uri": uri})).await.unwrap();
        assert_eq!(found, format!("{read}{rest}"), "{uri} {generation:?}");
    }
    let params = json!({"name": "new__say it", "arguments": {"what": "é"}});
    let filled = fixture.request(ProtocolGeneration::Legacy, "prompts/get", params).await.unwrap();
    assert!(filled.ends_with(r#","unknown":1.0}}],"unknown":[ 1e2 ]}"#), "{filled}");
    assert!(filled.contains(r#"\"name\": \"say it\""#), "{filled}");
    let reference = json!({"type": "ref/resource", "uri": "toolpost:old:shelf://page/{number}"});
    let params = json!({"ref": reference, "argument": {"name": "number", "value": "1"}});
    let completed =
        fixture.request(ProtocolGeneration::Modern, "completion/complete", params).await.unwrap();
    let expected = r#"{"completion":{"values":["{\"type\": \"ref/resource\", \"uri\": \"shelf://page/{number}\"}"],"newer":1.50},"resultType":"complete"}"#;
    assert_eq!(completed, expected);
    close_sources(sources).await;
}

#[tokio::test]
async fn server_error_keeps_code_message_and_data() {
    let shelf = shelf_server_path();
    let (legacy, modern) = (["python3", &shelf], ["python3", &shelf, "--modern"]);
    let (fixture, sources) = start_servers(&[("new", &modern), ("old", &legacy)]).await;
    let none = json!({"uri": "a:b", "shelves": [1.5]});
    for source in ["new", "old"] {
        for (method, params, code, message, data) in [
            (
                "resources/read",
                json!({"uri": format!("toolpost:{source}:a:b")}),
                -32002,
                "it is on no shelf",
                none.clone(),
            ),
            (
                "prompts/get",
                json!({"name": format!("{source}__shout")}),
                -32602,
                "unknown prompt shout",
                json!({"name": "shout"}),
            ),
            (
                "resources/read",
                json!({"uri": "shelf://page/0"}),
                -32077,
                "pages begin with one",
                json!({"uri": "shelf://page/0"}),
            ),
        ] {
            let rpc_error = fixture.request_json(method, params).await.unwrap_err();
            let found = (rpc_error.code, &*rpc_error.message, rpc_error.data);
            assert_eq!(found, (code, message, Some(data)), "{source} {method}");
        }
    }
    let unknown = fixture.request_json("resources/read", json!({"uri": "a:b"})).await.unwrap_err();
    assert_eq!((unknown.code, unknown.data), (-32002, Some(json!({"uri": "a:b"}))));
    close_sources(sources).await;
}

#[tokio::test]
async fn identical_servers_are_addressed_separately() {
    let cache = project_path(".cache/npm");
    assert!(cache.join(".packages").exists(), "no .cache/npm: run scripts/fetch-test-data");
    let modules = cache.canonicalize().unwrap().join("node_modules");
    let node = modules.join(".bin/node").to_string_lossy().into_owned();
    let script = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    let script = script.to_string_lossy().into_owned();
    let (everything, shelf) = ([node.as_str(), &script, "stdio"], shelf_server_path());
    let odd: &[&str] = &["python3", &shelf];
    let (mut fixture, sources) =
        start_servers(&[("one", &everything), ("two", &everything), ("odd", odd)]).await;
    assert_lists_match_sources(&fixture).await;
    assert_entries_are_readable(&fixture).await;
    fixture.source = Some("two");
    for (method, ..) in LISTS {
        let own =
            fixture.pipeline.call_trusted(&format!("two.{method}"), json!({})).await.unwrap().data;
        assert_eq!(fixture.request_json(method, json!({})).await.unwrap(), own, "{method}");
    }
    close_sources(sources).await;
}

async fn assert_lists_match_sources(fixture: &Fixture) {
    for (method, member, key) in LISTS {
        let listed = fixture.request_json(method, json!({})).await.unwrap();
        assert_eq!(listed.get("_meta"), None, "{listed}");
        for source in ["one", "two"] {
            let operation = format!("{source}.{method}");
            let own = fixture.pipeline.call_trusted(&operation, json!({})).await.unwrap().data;
            let own = own[member].as_array().unwrap();
            assert!(!own.is_empty(), "{operation}");
            for entry in own {
                let mut expected = entry.clone();
                let name = entry[key].as_str().unwrap();
                let outside = match key {
                    "name" => format!("{source}__{name}"),
                    _ => format!("toolpost:{source}:{name}"),
                };
                expected[key] = outside.into();
                let found = listed[member].as_array().unwrap().iter();
                assert_eq!(found.filter(|found| **found == expected).count(), 1, "{expected}");
            }
        }
    }
}

async fn assert_entries_are_readable(fixture: &Fixture) {
    let features = "demo://resource/static/document/features.md";
    let links =
        fixture.pipeline.call_trusted("one.get-resource-links", json!({"count": 1})).await.unwrap();
    let link = links.data.as_array().unwrap().iter().find_map(|block| block["uri"].as_str());
    let link = link.unwrap().to_owned();
    let department = json!({"name": "department", "value": "E"});
    let prompt = json!({"type": "ref/prompt", "name": "two__completable-prompt"});
    let resource = json!({"type": "ref/resource", "uri": "toolpost:one:demo://resource/dynamic/text/{resourceId}"});
    let number = json!({"name": "resourceId", "value": "7"});
    let rows: [(&str, Value, &str); 7] = [
        ("resources/read", json!({"uri": format!("toolpost:one:{features}")}), "text/markdown"),
        ("resources/read", json!({"uri": format!("toolpost:two:{features}")}), "text/markdown"),
        ("resources/read", json!({"uri": features}), "text/markdown"),
        ("resources/read", json!({"uri": link}), "contents"),
        ("prompts/get", json!({"name": "two__args-prompt", "arguments": {"city": "Bern"}}), "Bern"),
        ("completion/complete", json!({"ref": prompt, "argument": department}), "Engineering"),
        ("completion/complete", json!({"ref": resource, "argument": number}), "\"7\""),
    ];
    for (method, params, message) in rows {
        let response =
            fixture.request(ProtocolGeneration::Legacy, method, params.clone()).await.unwrap();
        assert!(response.contains(message), "{method} {params}: {response:.300}");
    }
}
