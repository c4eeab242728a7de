//! Configuration reload of a running gateway: only what changed in the configuration changes.

mod fixture;
mod load;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use toolpost::connection::{Client, Connection, ConnectionSettings, IncomingRequests};
use toolpost::hub::Spoke;
use toolpost::protocol::Secret;
use toolpost::transport::{Connector, WsConnector};
use toolpost_gateway::auth::Token;
use toolpost_gateway::builtin;

use crate::TempFolder;
use crate::process::wait_until;
use fixture::{Gateway, Service, identity, labeled_server};

fn call_who(gateway: &Gateway, id: &str) -> Value {
    let (status, message) = gateway.call(id, None, &json!({}));
    assert_eq!(status, 200, "{message}");
    message["data"].clone()
}

fn names(report: &Value, key: &str) -> Vec<String> {
    let names = report["data"][key].as_array().unwrap_or_else(|| panic!("{report}"));
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn reload_toggles_demo_operations() {
    let gateway = Gateway::start("reload-demo", "");
    for (text, status) in [("demo = false\n", 404), ("", 200), ("demo = false\n", 404)] {
        gateway.write_config(text);
        let (_, report) = gateway.reload();
        assert_eq!(names(&report, "notes").len(), 1, "{report}");
        let (found, message) = gateway.call("demo.add", None, &json!({"a": 2, "b": 3}));
        assert_eq!(found, status, "{text}: {message}");
    }
}

#[test]
fn unmatched_approval_pattern_warns_on_start_and_reload() {
    let approval_config = |pattern: &str| format!("[approval]\noperations = [\"{pattern}\"]\n");
    let gateway = Gateway::start("reload-approval", &approval_config("demo.nte"));
    let message = |pattern: &str| format!("[approval]: `{pattern}` matches no operation");
    wait_until("the start warns", || gateway.log().contains(&message("demo.nte")));
    for (pattern, is_expected) in [("demo.note", false), ("dem.note", true), ("dem.note", true)] {
        gateway.write_config(&approval_config(pattern));
        let (_, report) = gateway.reload();
        let is_reported =
            names(&report, "notes").iter().any(|note| note.starts_with(&message(pattern)));
        assert_eq!(is_reported, is_expected, "{pattern}: {report}");
    }
    wait_until("a reload warns", || gateway.log().contains(&message("dem.note")));
    assert!(!gateway.log().contains(&message("demo.note")), "{}", gateway.log());
}

#[test]
fn reload_result_is_in_metrics_and_log() {
    let gateway = Gateway::start("reload-metrics", "");
    let successful =
        || gateway.get("/metrics").contains("toolpost_config_last_reload_successful 1\n");
    assert!(successful());
    gateway.signal("-HUP");
    wait_until("the log reports it", || gateway.log().contains("configuration unchanged"));
    for (text, expected) in [("wrong = 1\n", false), ("", true)] {
        gateway.write_config(text);
        gateway.reload();
        assert_eq!(successful(), expected, "{text}");
    }
    assert!(gateway.get("/metrics").contains("toolpost_config_last_reload_timestamp_seconds 1"));
}

/// Each row: the text added to a file with one unchanged source, and the reported changes.
#[test]
fn reload_affects_only_changed_sources() {
    let stays = labeled_server("stays", "one");
    let gateway = Gateway::start("reload-table", &stays);
    gateway.wait_for("stays", "ready");
    let before = call_who(&gateway, "stays.who");
    let tight = labeled_server("moves", "two").replace("\"open\"", "{ scopes = [\"none\"] }");
    let bearer = "[source.pets]\nopenapi = { document = \"pets.json\" }\nauth = { bearer = ";
    let service = Service::start();
    gateway.folder.write("pets.json", &service.document());
    let rows: [(&str, &str, &[&str]); 9] = [
        ("nothing", "", &["unchanged stays"]),
        ("an MCP server", &labeled_server("moves", "one"), &["added moves", "unchanged stays"]),
        (
            "another variable",
            &labeled_server("moves", "two"),
            &["changed moves", "unchanged stays"],
        ),
        ("only its access", &tight, &["adjusted moves", "unchanged stays"]),
        ("without it", "", &["removed moves", "unchanged stays"]),
        ("a service", &format!("{bearer}\"a\" }}"), &["added pets", "unchanged stays"]),
        ("another secret", &format!("{bearer}\"b\" }}"), &["changed pets", "unchanged stays"]),
        ("a comment", &format!("# so\n{bearer}\"b\" }}"), &["unchanged pets", "unchanged stays"]),
        ("without both", "[mcp]\ncompact_above = 5", &["removed pets", "unchanged stays"]),
    ];
    for (row, added, expected) in rows {
        gateway.write_config(&format!("{stays}{added}"));
        let (status, report) = gateway.reload();
        assert_eq!(status, 200, "{row}: {report}");
        let message = ["added", "removed", "changed", "adjusted", "unchanged"]
            .map(|key| names(&report, key).into_iter().map(move |name| format!("{key} {name}")));
        assert_eq!(message.into_iter().flatten().collect::<Vec<_>>(), expected, "{row}");
        assert_eq!(
            call_who(&gateway, "stays.who"),
            before,
            "{row}: the same process with one handshake"
        );
    }
    assert_eq!(gateway.state("pets"), "absent");
    let (status, _) = gateway.call("pets.who", None, &json!({}));
    assert_eq!(status, 404);
}

#[test]
fn reload_replaces_server_without_failing_calls() {
    let gateway = Gateway::start("reload-replace", &labeled_server("moves", "one"));
    gateway.wait_for("moves", "ready");
    let before = call_who(&gateway, "moves.who");
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| gateway.call("moves.who", None, &json!({"ms": 2_000})));
        // The start of the slow call is not observable directly. This call shows that the old
        // process is serving.
        wait_until("the call is under way", || {
            let (_, message) = gateway.call("moves.other", None, &json!({}));
            message["data"]["pid"] == before["pid"]
        });
        gateway.write_config(&labeled_server("moves", "two"));
        assert_eq!(names(&gateway.reload().1, "changed"), ["moves"]);
        let mut seen = Vec::new();
        wait_until("the new server responds", || {
            let (status, message) = gateway.call("moves.other", None, &json!({}));
            seen.push(status);
            message["data"]["label"] == "two"
        });
        assert!(
            seen.iter().all(|status| *status == 200),
            "the source was always available: {seen:?}"
        );
        let (status, message) = slow.join().unwrap();
        assert_eq!(
            (status, &message["data"]["pid"]),
            (200, &before["pid"]),
            "the call ran to completion"
        );
    });
    let old = format!("/proc/{}", before["pid"]);
    wait_until("the old process has ended", || !std::path::Path::new(&old).exists());
    // An adjusted source keeps its process.
    let now = call_who(&gateway, "moves.who");
    gateway.write_config(&format!(
        "{}exclude = [\"other\"]\ntimeout = \"1s\"\n",
        labeled_server("moves", "two")
    ));
    assert_eq!(names(&gateway.reload().1, "adjusted"), ["moves"]);
    assert_eq!(
        gateway.call("moves.other", None, &json!({})).0,
        404,
        "an excluded operation is removed immediately"
    );
    assert_eq!(call_who(&gateway, "moves.who"), now);
    let (status, message) = gateway.call("moves.who", None, &json!({"ms": 30_000}));
    assert_eq!(status, 504, "the new timeout applies: {message}");
}

/// The document is served only once, so the new access rules cannot depend on loading it again.
#[test]
fn narrowed_access_applies_immediately() {
    let service = Service::start();
    let url = serve_once(service.document());
    let sources = |access: &str| {
        let pets = format!("[source.pets]\nopenapi = \"{url}\"\naccess = {access}\n");
        format!("{pets}{}", labeled_server("files", "one").replace("\"open\"", access))
    };
    let gateway = Gateway::start("reload-tight", &sources("\"open\""));
    for (name, id) in [("pets", "pets.who"), ("files", "files.who")] {
        gateway.wait_for(name, "ready");
        call_who(&gateway, id);
    }
    gateway.write_config(&sources("{ scopes = [\"more\"] }"));
    assert_eq!(names(&gateway.reload().1, "adjusted"), ["files", "pets"]);
    for id in ["pets.who", "files.who"] {
        let (status, message) = gateway.call(id, None, &json!({}));
        assert_eq!(status, 403, "{id}: {message}");
    }
}

/// Serves a body to the first connection and leaves all others without a response.
fn serve_once(text: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        let _ = first.read(&mut [0; 4096]);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        let _ = write!(first, "{head}\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        drop(first);
        let _waiting: Vec<_> = listener.incoming().collect();
    });
    format!("http://{address}/pets.json")
}

#[test]
fn invalid_config_keeps_old_configuration() {
    let good = labeled_server("stays", "one");
    let gateway = Gateway::start("reload-bad", &good);
    gateway.wait_for("stays", "ready");
    let before = call_who(&gateway, "stays.who");
    gateway.write_config(&format!("{good}timout = 5\n[source.x]\nhub = {{ url = \"hush\" }}\n"));
    let (status, rejection) = gateway.reload();
    assert_eq!(
        (status, rejection["error"]["code"].as_str()),
        (409, Some("CONFIGURATION_REJECTED"))
    );
    let problems = rejection["error"]["details"]["problems"].to_string();
    for text in ["source.stays.timout: unknown key; did you mean `timeout`?", "source.x.hub.url"] {
        assert!(problems.contains(text), "{rejection}");
    }
    assert_eq!(call_who(&gateway, "stays.who"), before);
    wait_until("the log contains the reason", || {
        let log = gateway.log();
        log.contains("configuration rejected; keeping the previous one") && log.contains("timout")
    });
    assert!(!gateway.log().contains("hush"));
    std::fs::remove_file(gateway.folder.path().join("toolpost.toml")).unwrap();
    let (status, text) = gateway.reload();
    assert_eq!(status, 409, "a removed file is an error: {text}");
    assert!(
        text["error"]["message"].as_str().unwrap().contains("toolpost.toml was removed"),
        "{text}"
    );
    // A `.mcp.json` does not replace the removed file.
    gateway.folder.write(".mcp.json", r#"{"mcpServers": {}}"#);
    assert_eq!(gateway.reload().0, 409);
    assert_eq!(call_who(&gateway, "stays.who"), before);
    gateway.write_config(&good);
    assert_eq!(names(&gateway.reload().1, "unchanged"), ["stays"]);
}

/// A gateway started without a configuration file loads the file once it exists, and keeps the
/// configuration if the file is removed.
#[test]
fn config_file_created_later_is_loaded() {
    let folder = TempFolder::new("reload-appears");
    let gateway = Gateway::start_in(folder, &["--listen", "127.0.0.1:0"]);
    let status = |token| gateway.call("demo.add", token, &json!({"a": 1, "b": 1})).0;
    assert_eq!(status(None), 200);
    let (ada, token) = identity("ada", "");
    gateway.write_config(&ada);
    wait_until("a token is required", || status(None) == 401);
    // A rejected configuration is loaded as soon as the missing file exists.
    gateway.write_config(&format!("mcp_servers = [\"others.json\"]\n{ada}"));
    wait_until("the file is rejected", || gateway.log().contains("others.json"));
    let server = json!({"command": "toolpost-test-no-such-program"});
    gateway.folder.write("others.json", &json!({"mcpServers": {"other": server}}).to_string());
    wait_until("the source is added", || gateway.state("other") != "absent");
    gateway.write_config(&ada);
    wait_until("the source is removed", || gateway.state("other") == "absent");
    std::fs::remove_file(gateway.folder.path().join("toolpost.toml")).unwrap();
    wait_until("the log contains the reason", || {
        gateway.log().contains("toolpost.toml was removed")
    });
    assert_eq!((status(None), status(Some(&token))), (401, 200));
}

#[test]
fn file_change_and_sighup_trigger_reload() {
    let gateway = Gateway::start_watching("reload-watch", "");
    gateway.write_config(&labeled_server("one", ""));
    gateway.wait_for("one", "ready");
    // Changes of included files and of secret files also trigger a reload.
    gateway.folder.write("secret", "hush-1\n");
    let service = Service::start();
    gateway.folder.write("pets.json", &service.document());
    let pets = "[source.pets]\nopenapi = \"pets.json\"\nauth = { bearer = \"${file:secret}\" }\n";
    gateway.write_config(&format!("mcp_servers = [\"other.json\"]\n{pets}"));
    gateway.folder.write("other.json", r#"{"mcpServers": {}}"#);
    gateway.signal("-HUP");
    gateway.wait_for("pets", "ready");
    wait_until("the other source is removed", || gateway.state("one") == "absent");
    assert_eq!(call_who(&gateway, "pets.who")["authorization"], "Bearer hush-1");
    gateway.folder.write("secret", "hush-2\n");
    wait_until("the secret changed", || {
        call_who(&gateway, "pets.who")["authorization"] == "Bearer hush-2"
    });
    let server = json!({"command": "python3", "args": [fixture::SCRIPT, "mcp"]});
    gateway.folder.write("other.json", &json!({"mcpServers": {"two": server}}).to_string());
    gateway.wait_for("two", "ready");
    let renamed = service.document().replace("\"who\"", "\"owner\"");
    gateway.folder.write("pets.json", &renamed);
    wait_until("the document changed", || gateway.call("pets.owner", None, &json!({})).0 == 200);
    assert_eq!(gateway.call("pets.who", None, &json!({})).0, 404);
    assert!(!gateway.log().contains("hush"), "secrets are not printed");
}

#[test]
fn incomplete_source_does_not_block_others() {
    let incomplete =
        "[source.lacks]\nmcp = { command = \"x\", env = { K = \"${NO_SUCH_VARIABLE}\" } }\n";
    let config = format!("{incomplete}{}", labeled_server("stays", "${SET_VARIABLE}"));
    let gateway = Gateway::start_watching("reload-lacks", &config);
    gateway.wait_for("stays", "ready");
    assert_eq!(call_who(&gateway, "stays.who")["label"], "set");
    let seen = gateway.source("lacks");
    assert_eq!((&seen["state"], &seen["kind"]), (&json!("disabled"), &json!("mcp")));
    assert!(seen["reason"].as_str().unwrap().contains("`NO_SUCH_VARIABLE` is not set"), "{seen}");
    let (status, text) = gateway.call("lacks.any", None, &json!({}));
    assert_eq!(status, 503, "{text}");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "lacks__any", "arguments": {}}});
    let text = gateway.post("/mcp", &call)["error"]["message"].to_string();
    assert!(text.contains("unknown tool") && text.contains("is not set"), "{text}");
    let checked = gateway.folder.toolpost(&["serve", "--check"]);
    assert_eq!(checked.status.code(), Some(2), "a check reports it");
    let file = "[source.lacks]\naccess = \"open\"\nmcp = { command = \"python3\", args = [\"SCRIPT\", \"mcp\"], env = { STANDING_LABEL = \"${file:late}\" } }\n";
    gateway.write_config(&file.replace("SCRIPT", fixture::SCRIPT));
    wait_until("a file is missing", || {
        gateway.source("lacks")["reason"].as_str().is_some_and(|text| text.contains("late"))
    });
    gateway.folder.write("late", "here\n");
    gateway.wait_for("lacks", "ready");
    assert_eq!(call_who(&gateway, "lacks.who")["label"], "here");
}

#[test]
fn down_source_is_reported_and_does_not_block_start() {
    let down = "[source.down]\nmcp = { command = \"toolpost-test-no-such-program\" }\n";
    let silent = "[source.silent]\nmcp = { command = \"sleep\", args = [\"1000\"] }\n";
    let spoke = identity("box", "");
    let expected = "[source.far]\nspoke = { identity = \"box\" }\n";
    let config = format!("{}{expected}{down}{silent}{}", spoke.0, labeled_server("stays", ""));
    let gateway = Gateway::start("sources-down", &config);
    gateway.wait_for("stays", "ready");
    gateway.wait_for("down", "down");
    let seen = gateway.source("down");
    assert!(seen["retryAt"].as_i64().unwrap() > seen["since"].as_i64().unwrap(), "{seen}");
    assert!(seen["lastError"]["message"].as_str().is_some(), "{seen}");
    assert_eq!(gateway.state("silent"), "starting");
    assert_eq!(gateway.state("far"), "down");
    assert_eq!(gateway.source("stays")["operations"], 2);
    let data = gateway.folder.path().join("data");
    let arguments = ["sources", "--data", data.to_str().unwrap(), "--json"];
    let listed = crate::json(&gateway.folder.toolpost(&arguments));
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["down", "far", "silent", "stays"]);
    // The gateway operations require their scopes.
    for operation in ["gateway.sources", "gateway.reload"] {
        let (status, text) = gateway.call(operation, Some(&spoke.1), &json!({}));
        assert_eq!(status, 403, "{operation}: {text}");
    }
}

/// Only callers with access to a source see why it is unavailable, because the reason contains
/// commands and variables.
#[test]
fn source_error_details_require_access() {
    let dead = "[source.dead]\nmcp = { command = \"/no/such/hush-command\" }\n";
    let needs = "[source.needs]\nmcp = { command = \"x\", env = { K = \"${HUSH_VARIABLE}\" } }\n";
    let (ada, of_ada) = identity("ada", "scopes = [\"source:dead\", \"source:needs\"]\n");
    let (bob, of_bob) = identity("bob", "");
    let gateway = Gateway::start("reload-reasons", &format!("{dead}{needs}"));
    gateway.wait_for("dead", "down");
    let check = |caller: &str, token: Option<&str>, has_details: bool| {
        for (source, reason, retryable) in
            [("dead", "hush-command", true), ("needs", "HUSH_VARIABLE", false)]
        {
            let id = format!("{source}.x");
            let (status, direct) = gateway.call(&id, token, &json!({}));
            assert_eq!(status, 503, "{caller}: {direct}");
            assert_eq!(direct["error"]["retryable"], retryable, "{caller}: {direct}");
            let by_hub = gateway.call("hub.call", token, &json!({"id": id}));
            assert_eq!(by_hub.0, 503, "{caller}: {}", by_hub.1);
            for message in [direct, by_hub.1] {
                assert_eq!(
                    message.to_string().contains(reason),
                    has_details,
                    "{caller}: {message}"
                );
            }
        }
    };
    check("open", None, true);
    gateway.write_config(&format!("{dead}{needs}{ada}{bob}"));
    assert_eq!(gateway.reload().0, 200);
    gateway.wait_for("dead", "down");
    check("ada", Some(&of_ada), true);
    check("bob", Some(&of_bob), false);
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_token_closes_open_connections() {
    let (ada, of_ada) = identity("ada", "");
    let (bob, of_bob) = identity("bob", "");
    let gateway = Gateway::start("reload-revoked", &format!("{ada}{bob}"));
    let [by_ada, by_bob] = [connect(&gateway, &of_ada).await, connect(&gateway, &of_bob).await];
    let add = json!({"a": 2, "b": 3});
    for client in [&by_ada, &by_bob] {
        client.call_json("demo.add", add.clone()).await.unwrap();
    }
    let mut streams = [&of_ada, &of_bob].map(|token| subscribe(&gateway, token));
    let sessions =
        [&of_ada, &of_bob].map(|token| mcp(&gateway, token, None, &initialize_request()).1);
    gateway.write_config(&bob);
    let (_, report) = gateway.reload();
    assert!(names(&report, "notes")[0].contains("`ada` was removed"), "{report}");
    by_ada.closed().await;
    assert_eq!(by_ada.close_reason().unwrap().code, 4401);
    assert!(!by_bob.is_closed());
    by_bob.call_json("demo.add", add.clone()).await.unwrap();
    for (token, status) in [(&of_ada, 401), (&of_bob, 200)] {
        assert_eq!(gateway.call("demo.add", Some(token), &add).0, status);
    }
    let [of_ada_stream, of_bob_stream] = &mut streams;
    let last = read_to_end(of_ada_stream);
    assert!(last.contains("event: error") && last.contains("was revoked or reissued"), "{last}");
    assert!(next_line(of_bob_stream).is_some(), "the other stream continues");
    let [_, bobs] = sessions;
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    assert_eq!(
        mcp(&gateway, &of_bob, bobs.as_deref(), &ping).0,
        200,
        "the other session continues"
    );
    // A new token for an identity closes the connections opened with the old one.
    let (bob, new) = identity("bob", "");
    gateway.write_config(&bob);
    gateway.reload();
    by_bob.closed().await;
    assert_eq!(
        mcp(&gateway, &new, bobs.as_deref(), &ping).0,
        404,
        "the session belonged to the old token"
    );
    assert_eq!(gateway.call("demo.add", Some(&new), &add).0, 200);
}

/// Adjustments apply to a spoke and a hub on their existing connections; another token means a new
/// connection.
#[tokio::test(flavor = "multi_thread")]
async fn reload_keeps_spoke_and_hub_connections() {
    let (guest, of_guest) = identity("guest", "");
    let (other, of_other) = identity("other", "");
    let far = Gateway::start("reload-far", &format!("{guest}{other}"));
    let (ours, of_box) = identity("box", "");
    let hub = |token: &str, more: &str| {
        let url = format!("ws://{}/hub", far.address);
        format!(
            "{ours}[source.box]\nspoke = {{ identity = \"box\" }}\n{more}\n\
             [source.far]\nhub = {{ url = \"{url}\", token = \"{token}\" }}\n{more}\n"
        )
    };
    let near = Gateway::start("reload-near", &hub(&of_guest, ""));
    let url = format!("ws://{}/hub", near.address);
    let connector = WsConnector::new(&url, Some(Secret::new(of_box.clone()))).unwrap();
    let spoke = Spoke::with_registry("box", builtin::registry()).connect(connector);
    spoke.ready().await.unwrap();
    for name in ["box", "far"] {
        near.wait_for(name, "ready");
    }
    let status = |id: &str| near.call(id, Some(&of_box), &json!({"a": 1, "b": 2})).0;
    let [since, at] = ["box", "far"].map(|name| near.source(name)["since"].clone());
    assert_eq!(["box.demo.add", "far.demo.add"].map(status), [200, 200]);

    near.write_config(&hub(&of_guest, "exclude = [\"demo.add\"]"));
    assert_eq!(names(&near.reload().1, "adjusted"), ["box", "far"]);
    assert_eq!(["box.demo.add", "far.demo.add"].map(status), [404, 404]);
    near.write_config(&hub(&of_guest, "access = { scopes = [\"unknown\"] }"));
    near.reload();
    assert_eq!(["box.demo.add", "far.demo.add"].map(status), [403, 403]);
    let [still, there] = ["box", "far"].map(|name| near.source(name)["since"].clone());
    assert_eq!([since, at], [still, there], "no connection was reopened");

    // A new token requires a new connection. The old connection serves calls until the new one is
    // ready.
    near.write_config(&hub(&of_other, ""));
    let (_, report) = near.reload();
    assert_eq!(names(&report, "changed"), ["far"]);
    assert_eq!(["box.demo.add", "far.demo.add"].map(status), [200, 200]);
    wait_until("the new source is ready", || near.state("far") == "ready");
    assert_eq!(status("far.demo.add"), 200);
    near.write_config(&ours);
    assert_eq!(names(&near.reload().1, "removed"), ["box", "far"]);
    assert_eq!(status("far.demo.add"), 404);
    spoke.close().await;
}

#[test]
fn reload_changes_mcp_tool_list_immediately() {
    let gateway = Gateway::start("reload-mcp", "");
    let tools = || {
        let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let message = gateway.post("/mcp", &ask);
        message["result"]["tools"].as_array().unwrap_or_else(|| panic!("{message}")).len()
    };
    let all = tools();
    gateway.write_config("[mcp]\ntools = \"compact\"\n");
    let (_, report) = gateway.reload();
    assert!(names(&report, "notes")[0].contains("[mcp]"), "{report}");
    assert!(tools() < all, "{} of {all}", tools());
    gateway.write_config("");
    gateway.reload();
    assert_eq!(tools(), all);
}

/// Each row: the listen address, the new configuration (`None` removes the file), and the expected
/// error.
#[test]
fn reload_cannot_remove_authentication() {
    let rows: [(&str, Option<&str>, &str); 4] = [
        ("0.0.0.0:0", Some(""), "cannot disable authentication"),
        ("127.0.0.1:0", Some(""), "cannot disable authentication"),
        ("127.0.0.1:0", Some("[mcp]\ntools = \"compact\"\n"), "restart the gateway"),
        ("127.0.0.1:0", None, "was removed"),
    ];
    for (listen, now, why) in rows {
        let (ada, token) = identity("ada", "");
        let gateway = Gateway::start_with("reload-open", &ada, &["--listen", listen]);
        match now {
            Some(now) => gateway.write_config(now),
            None => std::fs::rename(
                gateway.folder.path().join("toolpost.toml"),
                gateway.folder.path().join("moved.toml"),
            )
            .unwrap(),
        }
        wait_until("the log contains the reason", || gateway.log().contains(why));
        let (status, text) = gateway.reload();
        assert_eq!(status, 409, "{listen} {now:?}: {text}");
        assert!(text["error"]["message"].as_str().unwrap().contains(why), "{text}");
        for (token, expected) in [(Some(token.as_str()), 200), (None, 401)] {
            let (status, text) = gateway.call("demo.add", token, &json!({"a": 1, "b": 1}));
            assert_eq!(status, expected, "{listen} {now:?}: {text}");
        }
    }
}

async fn connect(gateway: &Gateway, token: &str) -> Client {
    let url = format!("ws://{}/hub", gateway.address);
    let connector = WsConnector::new(&url, Some(Secret::new(token))).unwrap();
    let link = connector.connect().await.unwrap();
    let (client, connection) =
        Connection::new(link, IncomingRequests::Reject, ConnectionSettings::default());
    tokio::spawn(connection.run());
    client
}

fn subscribe(gateway: &Gateway, token: &str) -> BufReader<TcpStream> {
    let body = r#"{"count":1000000,"everyMs":20}"#;
    let head = format!(
        "POST /api/demo/clock HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         authorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    while !next_line(&mut reader).unwrap().starts_with("data:") {}
    reader
}

fn next_line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = stream.read_line(&mut line).ok()?;
    (read > 0).then_some(line)
}

/// Reads a stream up to its last chunk, which is empty.
fn read_to_end(stream: &mut BufReader<TcpStream>) -> String {
    let lines = std::iter::from_fn(|| next_line(stream));
    lines.take_while(|line| line.trim() != "0").collect()
}

fn initialize_request() -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

/// Sends a request to the MCP endpoint and returns the status and the session id, if any.
fn mcp(
    gateway: &Gateway,
    token: &str,
    session: Option<&str>,
    body: &Value,
) -> (u16, Option<String>) {
    let body = body.to_string();
    let session = session.map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{session}\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         authorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(&gateway.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let lines: Vec<String> = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .take_while(|it| !it.is_empty())
        .collect();
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let id = lines.iter().find_map(|line| line.strip_prefix("mcp-session-id: "));
    (status, id.map(str::to_owned))
}

/// Opening a named pipe without a writer would block forever.
#[test]
fn config_or_secret_replaced_by_fifo_is_rejected() {
    let config = "demo = true\n[identity.ci]\ntoken_hash = \"${file:hash}\"\n";
    let folder = TempFolder::new("reload-fifo");
    let hash = Token::generate().unwrap().hash().to_string();
    folder.write("hash", &hash);
    folder.write("toolpost.toml", config);
    let gateway = Gateway::start_in(folder, &["--listen", "127.0.0.1:0"]);
    for (file, content) in [("hash", hash.as_str()), ("toolpost.toml", config)] {
        let path = gateway.folder.path().join(file);
        std::fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let rejections = || gateway.log().matches("not a regular file").count();
        let before = rejections();
        wait_until("the watcher rejects the pipe", || rejections() > before);
        let (status, message) = gateway.reload();
        assert_ne!(status, 200, "{message}");
        assert!(message.to_string().contains("not a regular file"), "{message}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, content).unwrap();
        wait_until("the file is read again", || gateway.reload().0 == 200);
    }
}

/// The server floods standard error and standard output without ever sending a valid message.
#[test]
fn log_volume_of_a_source_is_bounded() {
    let flood = "i=0; while [ $i -lt 20000 ]; do echo noise >&2; echo noise; i=$((i+1)); done";
    let config =
        format!("[source.noise]\nmcp = {{ command = \"sh\", args = [\"-c\", \"{flood}\"] }}\n");
    let started = Instant::now();
    let gateway = Gateway::start("reload-flood", &config);
    let dropped = || -> u64 {
        let log = gateway.log();
        let reports = log.lines().filter(|line| line.contains("lines dropped"));
        let counts = reports.filter_map(|line| line.rsplit_once("lines=")?.1.parse::<u64>().ok());
        counts.sum()
    };
    wait_until("dropped lines are counted", || dropped() > 10_000);
    let log = gateway.log();
    let lines =
        log.lines().filter(|line| line.contains("noise") && !line.contains("lines dropped"));
    let bound = 250 + 10 * started.elapsed().as_secs();
    let count = u64::try_from(lines.count()).unwrap();
    assert!(count < bound, "{count} lines, {bound} expected at most");
    gateway.reload();
    wait_until("lines of others are logged", || gateway.log().contains("configuration unchanged"));
}
