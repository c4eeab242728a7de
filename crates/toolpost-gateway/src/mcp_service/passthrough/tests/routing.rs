//! Routing of requests to sources.

use serde_json::{Value, json};
use toolpost::CallError;
use toolpost::view::ProtocolGeneration;

use super::fixture::{Fixture, server_error};

fn fixture() -> Fixture {
    let names = ["a", "a-b", "far.a"];
    let methods = ["prompts/get", "resources/read", "completion/complete"];
    let pairs = names.iter().flat_map(|name| methods.map(|method| (*name, method)));
    let echo_fixture = pairs
        .fold(Fixture::new(), |echo_fixture, (name, method)| echo_fixture.echoing(name, method));
    // This source does not support `completion/complete`.
    echo_fixture.echoing("mute", "prompts/get").echoing("mute", "resources/read")
}

/// Each row: a method and its params, the called source, and its input.
#[tokio::test]
async fn name_routes_request_to_its_source() {
    let complete =
        |reference: Value| json!({"ref": reference, "argument": {"name": "n", "value": ""}});
    let prompt = |name: &str| complete(json!({"type": "ref/prompt", "name": name, "title": "t"}));
    let resource = |uri: &str| complete(json!({"type": "ref/resource", "uri": uri}));
    let rows = [
        ("prompts/get", json!({"name": "a__p"}), "a", json!({"name": "p"})),
        (
            "prompts/get",
            json!({"name": "a-b__p q", "arguments": {"x": "1"}, "_meta": {"progressToken": 1}}),
            "a-b",
            json!({"name": "p q", "arguments": {"x": "1"}}),
        ),
        ("prompts/get", json!({"name": "far.a__a__p"}), "far.a", json!({"name": "a__p"})),
        ("resources/read", json!({"uri": "toolpost:a:u:1"}), "a", json!({"uri": "u:1"})),
        (
            "resources/read",
            json!({"uri": "toolpost:far.a:toolpost:a:u", "newer": 1}),
            "far.a",
            json!({"uri": "toolpost:a:u", "newer": 1}),
        ),
        ("completion/complete", prompt("a__p"), "a", prompt("p")),
        ("completion/complete", resource("toolpost:a-b:u:{x}"), "a-b", resource("u:{x}")),
    ];
    let echo_fixture = fixture();
    for (method, params, at, got) in rows {
        let response = echo_fixture.request_json(method, params.clone()).await.unwrap();
        assert_eq!(response, json!({"at": at, "got": got}), "{method} {params}");
    }
    let nothing =
        echo_fixture.request_json("completion/complete", prompt("mute__p")).await.unwrap();
    assert_eq!(nothing["completion"]["values"], json!([]));
}

#[tokio::test]
async fn single_source_receives_params_unchanged() {
    let mut echo_fixture = fixture();
    echo_fixture.source = Some("a");
    for (method, params) in [
        ("prompts/get", json!({"name": "a__p"})),
        ("resources/read", json!({"uri": "toolpost:a:u"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "a__p"}, "argument": {"name": "n", "value": ""}}),
        ),
    ] {
        let response = echo_fixture.request_json(method, params.clone()).await.unwrap();
        assert_eq!(response, json!({"at": "a", "got": params}), "{method}");
    }
}

/// Each row: a method, its params, and part of the expected error.
#[tokio::test]
async fn unroutable_request_is_rejected_with_reason() {
    let reference = |reference: Value| json!({"ref": reference, "argument": {}});
    let echo_fixture = fixture();
    for (method, params, text) in [
        ("prompts/get", json!({}), "`name` must be a string"),
        ("prompts/get", json!({"name": 7}), "`name` must be a string"),
        ("prompts/get", json!([1]), "`params` must be an object"),
        ("prompts/get", json!({"name": "p"}), "unknown prompt `p`"),
        ("prompts/get", json!({"name": "none__p"}), "unknown prompt `none__p`"),
        ("resources/read", json!(null), "`uri` must be a string"),
        ("completion/complete", json!({}), "`ref` must be an object"),
        ("completion/complete", reference(json!({"type": "ref/tool"})), "`ref.type` must be"),
        ("completion/complete", reference(json!({"type": "ref/prompt"})), "`ref.name` must be"),
        (
            "completion/complete",
            reference(json!({"type": "ref/resource", "uri": "u:{x}"})),
            "no source has `u:{x}`",
        ),
    ] {
        for generation in [ProtocolGeneration::Legacy, ProtocolGeneration::Modern] {
            let rpc_error =
                echo_fixture.request(generation, method, params.clone()).await.unwrap_err();
            assert_eq!(rpc_error.code, -32602, "{method} {params}");
            assert!(rpc_error.message.contains(text), "{rpc_error:?}");
        }
    }
    assert!(!echo_fixture.supports("tools/list").await);
    assert!(!echo_fixture.supports("resources/subscribe").await);
    assert!(echo_fixture.supports("prompts/list").await);
}

#[tokio::test]
async fn source_errors_pass_through_unchanged() {
    let denied = |_: Value| Ok("{}".to_owned());
    let fixture = Fixture::new()
        .failing("a", "prompts/get", server_error(-32050, "out of paper", &json!({"left": 0})))
        .failing("b", "prompts/get", CallError::unavailable("the box is away"))
        .scoped_method("c", "prompts/get", &["source:c"], denied)
        .fixed("d", "prompts/get", "[1]");
    let own = |code: &str, message: &str| json!({"code": code, "message": message});
    for (name, code, message, data) in [
        ("a__p", -32050, "out of paper", json!({"left": 0})),
        ("b__p", -32603, "the box is away", own("UNAVAILABLE", "the box is away")),
        ("c__p", -32602, "unknown prompt `c__p`", json!({"name": "c__p"})),
        (
            "d__p",
            -32603,
            "the source returned an invalid result",
            own("EXECUTION_ERROR", "the source returned an invalid result"),
        ),
    ] {
        let rpc_error =
            fixture.request_json("prompts/get", json!({"name": name})).await.unwrap_err();
        assert_eq!((rpc_error.code, &*rpc_error.message), (code, message));
        let found = rpc_error.data.unwrap();
        for (member, value) in data.as_object().unwrap() {
            assert_eq!(&found[member], value, "{name} {found}");
        }
    }
}
