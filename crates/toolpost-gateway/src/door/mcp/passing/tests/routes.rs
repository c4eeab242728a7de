//! Who is asked for what.

use serde_json::{Value, json};
use toolpost::CallError;
use toolpost::view::Era;

use super::world::{World, said};

fn world() -> World {
    let names = ["a", "a-b", "far.a"];
    let methods = ["prompts/get", "resources/read", "completion/complete"];
    let pairs = names.iter().flat_map(|name| methods.map(|method| (*name, method)));
    let world = pairs.fold(World::new(), |world, (name, method)| world.telling(name, method));
    // A source that completes nothing.
    world.telling("mute", "prompts/get").telling("mute", "resources/read")
}

/// Each row: a method and its params, who is asked, and with which input.
#[tokio::test]
async fn the_name_says_who_is_asked() {
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
    let world = world();
    for (method, params, at, got) in rows {
        let told = world.value(method, params.clone()).await.unwrap();
        assert_eq!(told, json!({"at": at, "got": got}), "{method} {params}");
    }
    let nothing = world.value("completion/complete", prompt("mute__p")).await.unwrap();
    assert_eq!(nothing["completion"]["values"], json!([]));
}

#[tokio::test]
async fn a_single_source_is_asked_as_the_client_asks() {
    let mut world = world();
    world.source = Some("a");
    for (method, params) in [
        ("prompts/get", json!({"name": "a__p"})),
        ("resources/read", json!({"uri": "toolpost:a:u"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "a__p"}, "argument": {"name": "n", "value": ""}}),
        ),
    ] {
        let told = world.value(method, params.clone()).await.unwrap();
        assert_eq!(told, json!({"at": "a", "got": params}), "{method}");
    }
}

/// Each row: a method and its params, and what a client is told.
#[tokio::test]
async fn what_cannot_be_asked_is_refused_with_a_reason() {
    let reference = |reference: Value| json!({"ref": reference, "argument": {}});
    let world = world();
    for (method, params, words) in [
        ("prompts/get", json!({}), "`name` must be a text"),
        ("prompts/get", json!({"name": 7}), "`name` must be a text"),
        ("prompts/get", json!([1]), "`params` must be an object"),
        ("prompts/get", json!({"name": "p"}), "there is no prompt `p`"),
        ("prompts/get", json!({"name": "none__p"}), "there is no prompt `none__p`"),
        ("resources/read", json!(null), "`uri` must be a text"),
        ("completion/complete", json!({}), "`ref` must be an object"),
        ("completion/complete", reference(json!({"type": "ref/tool"})), "`ref.type` must be"),
        ("completion/complete", reference(json!({"type": "ref/prompt"})), "`ref.name` must be"),
        (
            "completion/complete",
            reference(json!({"type": "ref/resource", "uri": "u:{x}"})),
            "no source here has `u:{x}`",
        ),
    ] {
        for era in [Era::Legacy, Era::Modern] {
            let fault = world.ask(era, method, params.clone()).await.unwrap_err();
            assert_eq!(fault.code, -32602, "{method} {params}");
            assert!(fault.message.contains(words), "{fault:?}");
        }
    }
    assert!(!world.knows("tools/list").await);
    assert!(!world.knows("resources/subscribe").await);
    assert!(world.knows("prompts/list").await);
}

#[tokio::test]
async fn errors_go_out_as_they_came() {
    let denied = |_: Value| Ok("{}".to_owned());
    let world = World::new()
        .failing("a", "prompts/get", said(-32050, "out of paper", &json!({"left": 0})))
        .failing("b", "prompts/get", CallError::unavailable("the box is away"))
        .scoped_method("c", "prompts/get", &["source:c"], denied)
        .fixed("d", "prompts/get", "[1]");
    let own = |code: &str, message: &str| json!({"code": code, "message": message});
    for (name, code, message, data) in [
        ("a__p", -32050, "out of paper", json!({"left": 0})),
        ("b__p", -32603, "the box is away", own("UNAVAILABLE", "the box is away")),
        ("c__p", -32602, "there is no prompt `c__p`", json!({"name": "c__p"})),
        (
            "d__p",
            -32603,
            "the source answered with something that is no result",
            own("EXECUTION_ERROR", "the source answered with something that is no result"),
        ),
    ] {
        let fault = world.value("prompts/get", json!({"name": name})).await.unwrap_err();
        assert_eq!((fault.code, &*fault.message), (code, message));
        let found = fault.data.unwrap();
        for (member, value) in data.as_object().unwrap() {
            assert_eq!(&found[member], value, "{name} {found}");
        }
    }
}
