//! Resources and prompts of real servers, two of which have the same ones.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use toolpost::mcp::{McpSettings, McpSource, McpTransport, SourceHooks, StdioSettings};
use toolpost::view::Era;

use super::world::World;

const PATIENCE: Duration = Duration::from_secs(40);
const LISTS: [(&str, &str, &str); 3] = [
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("prompts/list", "prompts", "name"),
];

/// Starts a server in each pair of a name and a command line, and waits until all are there.
async fn serve(servers: &[(&str, &[&str])]) -> (World, Vec<McpSource>) {
    let (world, mut sources) = (World::new(), Vec::new());
    for (name, command) in servers {
        let stdio = StdioSettings::new(command[0], command[1..].iter().copied());
        let settings = McpSettings::new(McpTransport::Stdio(stdio));
        let registry = world.pipeline.registry();
        sources.push(McpSource::start(registry, name, settings, SourceHooks::default()));
    }
    for source in &sources {
        source.ready(PATIENCE).await.unwrap();
    }
    (world, sources)
}

async fn end(sources: Vec<McpSource>) {
    for source in sources {
        tokio::time::timeout(PATIENCE, source.close()).await.unwrap();
    }
}

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn shelf() -> String {
    project("crates/toolpost/tests/servers/shelf.py").to_string_lossy().into_owned()
}

#[tokio::test]
async fn what_a_server_says_goes_out_byte_for_byte() {
    let shelf = shelf();
    let (legacy, modern) = (["python3", &shelf], ["python3", &shelf, "--modern"]);
    let (world, sources) = serve(&[("new", &modern), ("old", &legacy)]).await;
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
        assert_eq!(world.ask(Era::Legacy, method, json!({})).await.unwrap(), expected);
    }
    let read = r#"{"contents":[{"uri":"shelf://same","mimeType":"text/x","text":"t","_meta":{"k":1.0},"unknown":[ null ]}],"_meta":{"x/y":[1e2]},"unknown":{"member":1.50}"#;
    let hints = r#","resultType":"complete","ttlMs":1500,"cacheScope":"public"}"#;
    let added = r#","resultType":"complete","ttlMs":0,"cacheScope":"private"}"#;
    for (uri, era, rest) in [
        ("toolpost:new:shelf://same", Era::Legacy, "}"),
        ("toolpost:old:shelf://same", Era::Legacy, "}"),
        ("toolpost:new:shelf://same", Era::Modern, hints),
        ("toolpost:old:shelf://same", Era::Modern, added),
        ("shelf://same", Era::Modern, hints),
    ] {
        let found = world.ask(era, "resources/read", json!({"uri": uri})).await.unwrap();
        assert_eq!(found, format!("{read}{rest}"), "{uri} {era:?}");
    }
    let params = json!({"name": "new__say it", "arguments": {"what": "é"}});
    let filled = world.ask(Era::Legacy, "prompts/get", params).await.unwrap();
    assert!(filled.ends_with(r#","unknown":1.0}}],"unknown":[ 1e2 ]}"#), "{filled}");
    assert!(filled.contains(r#"\"name\": \"say it\""#), "{filled}");
    let reference = json!({"type": "ref/resource", "uri": "toolpost:old:shelf://page/{number}"});
    let params = json!({"ref": reference, "argument": {"name": "number", "value": "1"}});
    let completed = world.ask(Era::Modern, "completion/complete", params).await.unwrap();
    let expected = r#"{"completion":{"values":["{\"type\": \"ref/resource\", \"uri\": \"shelf://page/{number}\"}"],"newer":1.50},"resultType":"complete"}"#;
    assert_eq!(completed, expected);
    end(sources).await;
}

#[tokio::test]
async fn errors_of_servers_keep_their_code_their_words_and_their_data() {
    let shelf = shelf();
    let (legacy, modern) = (["python3", &shelf], ["python3", &shelf, "--modern"]);
    let (world, sources) = serve(&[("new", &modern), ("old", &legacy)]).await;
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
                "nobody says shout",
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
            let fault = world.value(method, params).await.unwrap_err();
            let found = (fault.code, &*fault.message, fault.data);
            assert_eq!(found, (code, message, Some(data)), "{source} {method}");
        }
    }
    let unknown = world.value("resources/read", json!({"uri": "a:b"})).await.unwrap_err();
    assert_eq!((unknown.code, unknown.data), (-32002, Some(json!({"uri": "a:b"}))));
    end(sources).await;
}

#[tokio::test]
async fn two_of_the_same_server_are_told_apart() {
    let cache = project(".cache/npm");
    if !cache.join(".packages").exists() {
        assert!(std::env::var_os("CI").is_none(), ".cache/npm is missing");
        eprintln!("SKIPPED: a real MCP server; scripts/fetch-test-data brings .cache/npm");
        return;
    }
    let modules = cache.canonicalize().unwrap().join("node_modules");
    let node = modules.join(".bin/node").to_string_lossy().into_owned();
    let script = modules.join("@modelcontextprotocol/server-everything/dist/index.js");
    let script = script.to_string_lossy().into_owned();
    let (everything, shelf) = ([node.as_str(), &script, "stdio"], shelf());
    let odd: &[&str] = &["python3", &shelf];
    let (mut world, sources) =
        serve(&[("one", &everything), ("two", &everything), ("odd", odd)]).await;
    lists_are_those_of_the_sources(&world).await;
    everything_can_be_asked_for(&world).await;
    world.source = Some("two");
    for (method, ..) in LISTS {
        let own = world.pipeline.execute(&format!("two.{method}"), json!({})).await.unwrap().data;
        assert_eq!(world.value(method, json!({})).await.unwrap(), own, "{method}");
    }
    end(sources).await;
}

async fn lists_are_those_of_the_sources(world: &World) {
    for (method, member, key) in LISTS {
        let listed = world.value(method, json!({})).await.unwrap();
        assert_eq!(listed.get("_meta"), None, "{listed}");
        for source in ["one", "two"] {
            let operation = format!("{source}.{method}");
            let own = world.pipeline.execute(&operation, json!({})).await.unwrap().data;
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

async fn everything_can_be_asked_for(world: &World) {
    let features = "demo://resource/static/document/features.md";
    let links =
        world.pipeline.execute("one.get-resource-links", json!({"count": 1})).await.unwrap();
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
    for (method, params, words) in rows {
        let said = world.ask(Era::Legacy, method, params.clone()).await.unwrap();
        assert!(said.contains(words), "{method} {params}: {said:.300}");
    }
}
