//! One caller at full speed: it gets its share, and others, the operator and probes keep theirs.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use toolpost::{CallRequest, Identity, IdentityKind};
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, GatewaySettings, builtin};

use super::super::hub::{HubClient, control_event};
use super::super::spokes::{call_data, caller, wait_until, with_timeout};
use super::{HEALTH_REQUEST, RawClient, TestGateway, client};

const NAMES: [&str; 4] = ["mallory", "ada", "bob", "operator"];

/// A gateway with a token for each of [`NAMES`].
struct SharedGateway {
    gateway: TestGateway,
    tokens: [Token; NAMES.len()],
}

impl SharedGateway {
    async fn start(config: Config, settings: GatewaySettings) -> Self {
        let tokens = NAMES.map(|_| Token::generate().unwrap());
        let known = NAMES.iter().zip(&tokens).map(|(name, token)| {
            let kind = match *name {
                "operator" => IdentityKind::Operator,
                _ => IdentityKind::Token,
            };
            let identity = Identity::new(*name).with_kind(kind);
            let identity = identity.with_scopes(["toolpost:read"]).with_capabilities(["*"]);
            (token.hash(), identity)
        });
        let builder = Gateway::builder(builtin::registry())
            .config(config)
            .settings(settings)
            .authenticator(Authenticator::with_tokens(known));
        Self { gateway: TestGateway::serve(builder, "127.0.0.1:0").await, tokens }
    }

    /// Starts a gateway with `[limits]`.
    async fn with_limits(limits: &str) -> Self {
        let text = format!("[limits]\n{limits}");
        let config = Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap();
        Self::start(config, GatewaySettings::default()).await
    }

    fn token(&self, name: &str) -> &Token {
        &self.tokens[NAMES.iter().position(|known| *known == name).unwrap()]
    }

    /// Sends a request and returns its response once the head has arrived.
    async fn send(&self, name: &str, path: &str, input: &Value) -> reqwest::Response {
        let request = client().post(self.gateway.url(path)).json(input);
        let request = request.bearer_auth(self.token(name).reveal());
        with_timeout("a response", request.send()).await.unwrap()
    }

    async fn open_stream(&self, name: &str) -> reqwest::Response {
        self.send(name, "/api/demo/clock", &json!({"count": 1_000_000, "everyMs": 200})).await
    }

    async fn add(&self, name: &str) -> u16 {
        self.send(name, "/api/demo/add", &json!({"a": 1, "b": 2})).await.status().as_u16()
    }

    async fn get(&self, name: &str, path: &str) -> reqwest::Response {
        let request = client().get(self.gateway.url(path));
        let request = request.bearer_auth(self.token(name).reveal());
        with_timeout("a response", request.send()).await.unwrap()
    }

    async fn hub(&self, name: &str) -> HubClient {
        HubClient::with_token(self.gateway.address, self.token(name).reveal()).await
    }
}

/// Returns the status and the limit of a rejection.
async fn reached_limit(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    assert!(response.headers().contains_key("retry-after"), "{status}");
    let body: Value = response.json().await.unwrap();
    (status, body["error"]["details"]["limit"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_caller_leave_connections_to_others() {
    let limits = "connections = 8\ncaller_connections = 2\nreserved_connections = 4";
    let shared = SharedGateway::with_limits(limits).await;
    let held = [shared.open_stream("mallory").await, shared.open_stream("mallory").await];
    assert!(held.iter().all(|stream| stream.status() == 200));
    for _ in 0..3 {
        let rejected = shared.open_stream("mallory").await;
        assert_eq!(reached_limit(rejected).await, (429, json!("caller_connections")));
        assert_eq!(shared.add("ada").await, 200);
    }
    drop(held);
    let free = async { while shared.add("mallory").await != 200 {} };
    with_timeout("the connections of the caller are free again", free).await;
    shared.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_and_operator_are_served_at_connection_limit() {
    let limits = "connections = 2\ncaller_connections = 1\nreserved_connections = 4";
    let shared = SharedGateway::with_limits(limits).await;
    let held = [shared.open_stream("mallory").await, shared.open_stream("ada").await];
    assert!(held.iter().all(|stream| stream.status() == 200));
    let rejected = shared.send("bob", "/api/demo/add", &json!({"a": 1, "b": 2})).await;
    assert_eq!(reached_limit(rejected).await, (503, json!("connections")));
    for round in 0..8 {
        for path in ["/health", "/ready", "/metrics"] {
            assert_eq!(shared.get("bob", path).await.status(), 200, "{path} {round}");
        }
        let mut unauthenticated = RawClient::connect(shared.gateway.address).await;
        unauthenticated.send(HEALTH_REQUEST).await;
        assert_eq!(unauthenticated.recv_response().await.unwrap().status, 200);
        assert_eq!(shared.add("operator").await, 200);
    }
    let stream = shared.open_stream("operator").await;
    assert_eq!(stream.status(), 200);
    assert_eq!(shared.add("operator").await, 200);
    shared.gateway.stop().await;
}

/// The connection of another caller has been idle for longer than those of the flood.
#[tokio::test(flavor = "multi_thread")]
async fn connection_flood_evicts_only_own_connections() {
    let shared = SharedGateway::with_limits("connections = 16\nreserved_connections = 2").await;
    let request = |name: &str| {
        let token = shared.token(name).reveal();
        format!(
            "GET /api/demo/add?a=1&b=2 HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
        )
    };
    let mut idle = RawClient::connect(shared.gateway.address).await;
    idle.send(request("ada")).await;
    assert_eq!(idle.recv_response().await.unwrap().status, 200);
    let mut flood = Vec::new();
    for _ in 0..64 {
        let mut raw = RawClient::connect(shared.gateway.address).await;
        raw.send(request("mallory")).await;
        assert_eq!(raw.recv_response().await.unwrap().status, 200);
        flood.push(raw);
    }
    assert!(flood[0].recv_response().await.is_none(), "its first connection is evicted");
    idle.send(request("ada")).await;
    assert_eq!(idle.recv_response().await.unwrap().status, 200);
    shared.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_websockets_of_one_address_are_bounded() {
    let limits = "connections = 8\naddress_connections = 2\nauth_timeout = \"10m\"";
    let shared = SharedGateway::with_limits(limits).await;
    let address = shared.gateway.address;
    let mut silent = [HubClient::connect(address).await, HubClient::connect(address).await];
    for path in ["/hub", "/ws"] {
        let upgrade = client().get(shared.gateway.url(path)).header("connection", "upgrade");
        let upgrade = upgrade.header("upgrade", "websocket").header("sec-websocket-version", "13");
        let upgrade = upgrade.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let rejected = with_timeout("a rejection", upgrade.send()).await.unwrap();
        assert_eq!(reached_limit(rejected).await, (429, json!("address_connections")), "{path}");
    }
    // A token in the handshake, from the same address.
    shared.hub("ada").await.assert_works("beside silent clients").await;
    // A client that authenticates leaves the share of its address.
    let token = shared.token("bob").reveal();
    silent[0].send_json(&control_event("__auth", &json!({"token": token}))).await;
    silent[0].assert_works("authenticated").await;
    drop(HubClient::connect(address).await);
    shared.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_of_one_caller_are_bounded() {
    let shared = SharedGateway::with_limits("connections = 8\ncaller_connections = 2").await;
    let mut held = [shared.hub("mallory").await, shared.hub("mallory").await];
    for open in &mut held {
        open.assert_works("within the share").await;
    }
    let mut late = HubClient::connect(shared.gateway.address).await;
    let token = shared.token("mallory").reveal();
    late.send_json(&control_event("__auth", &json!({"token": token}))).await;
    let (code, message) = late.recv_close().await;
    assert_eq!(code, 1013);
    assert!(message.contains("limits.caller_connections"), "{message}");
    shared.hub("ada").await.assert_works("another caller").await;
    shared.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rooms_of_one_caller_are_bounded() {
    let shared = SharedGateway::with_limits("rooms = 3\ncaller_rooms = 1").await;
    let history = |room: &str| format!("/v0.1/topics/{room}/history");
    for (name, room, status) in [
        ("mallory", "first", 200),
        ("mallory", "second", 503),
        ("mallory", "third", 503),
        ("mallory", "lobby", 200),
        ("ada", "second", 200),
        ("mallory", "second", 200),
    ] {
        let response = shared.get(name, &history(room)).await;
        assert_eq!(response.status(), status, "{name} {room}");
        if status == 503 {
            let text = response.text().await.unwrap();
            assert!(text.contains("limits.caller_rooms"), "{text}");
        }
    }
    shared.gateway.stop().await;
}

fn spec(name: &str, description: &str) -> Value {
    json!({"namespace": "x", "name": name, "type": "query", "version": "1", "description": description,
        "inputSchema": {}, "outputSchema": {}, "accessControl": {"requiredScopes": []}})
}

#[tokio::test(flavor = "multi_thread")]
async fn spokes_of_one_identity_are_bounded_in_names_and_bytes() {
    let limits = "spokes = 8\ncaller_spokes = 2\nregistration_bytes = 100000\n\
        caller_registration_bytes = 10000\nspoke_description_bytes = 1000";
    let shared = SharedGateway::with_limits(limits).await;
    let (mut mallory, mut ada) = (shared.hub("mallory").await, shared.hub("ada").await);
    let small = json!([spec("small", "small")]);
    // The offline name of another identity is not evicted by a flood of names.
    ada.register("ada", &small).await.unwrap();
    drop(ada);
    while shared.gateway.gateway.hub().stats().offline_spokes == 0 {
        tokio::task::yield_now().await;
    }
    for (name, expected) in [("m1", true), ("m2", true), ("m3", false), ("m4", false)] {
        let registered = mallory.register(name, &small).await;
        assert_eq!(registered.is_ok(), expected, "{name} {registered:?}");
    }
    let hub = shared.gateway.gateway.hub();
    assert!(hub.spoke_status("ada").is_some());

    let many: Vec<Value> = (0..20).map(|n| spec(&format!("op{n}"), &"d".repeat(900))).collect();
    let rejected = mallory.call("hub.register", json!({"name": "m1", "operations": many})).await;
    assert_eq!(rejected.unwrap_err(), "OVERLOADED");
    shared.hub("bob").await.register("bob", &Value::from(&many[..5])).await.unwrap();
    let long = json!([spec("long", &"d".repeat(1_001))]);
    let result = mallory.register("m1", &long).await.unwrap();
    let reason = result["refused"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("limits.spoke_description_bytes"), "{reason}");
    shared.gateway.stop().await;
}

/// A list of digits needs some forty times the memory of its text once it is parsed. The limits come
/// before the input stage, which would parse it.
#[tokio::test(flavor = "multi_thread")]
async fn frame_of_digits_is_rejected_before_it_is_parsed() {
    let shared = SharedGateway::with_limits("").await;
    let mut mallory = shared.hub("mallory").await;
    let digits = format!("[{}0]", "0,".repeat(7_900_000));
    let frame = format!(
        r#"{{"type":"call.requested","id":"1","payload":{{"requestId":"1","operationId":"demo.add","input":{{"a":{digits}}}}}}}"#
    );
    mallory.send(Message::text(frame)).await;
    let (_, code, message) = mallory.recv_error().await;
    assert_eq!(code, "OVERLOADED");
    assert!(message.contains("limits.caller_input_bytes"), "{message}");

    let body = format!("{{\"a\":[{}0]}}", "0,".repeat(2_000_000));
    let request = client().post(shared.gateway.url("/api/demo/add")).body(body);
    let request = request.bearer_auth(shared.token("mallory").reveal());
    let response = request.header("content-type", "application/json").send().await.unwrap();
    assert_eq!(response.status(), 413);
    assert!(response.text().await.unwrap().contains("limits.caller_input_bytes"));
    shared.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_in_flight_of_one_caller_are_bounded_in_bytes() {
    let shared = SharedGateway::with_limits("caller_input_bytes = 1000000").await;
    let (mallory, ada) = (
        caller(&shared.gateway, Some(shared.token("mallory"))).await,
        caller(&shared.gateway, Some(shared.token("ada"))).await,
    );
    let large = || json!({"ms": 600_000, "padding": "x".repeat(400_000)});
    let mut held: Vec<_> =
        (0..2).map(|_| Box::pin(mallory.call(CallRequest::new("demo.slow", large())))).collect();
    for call in &mut held {
        assert!(futures::poll!(call).is_pending());
    }
    let rejected =
        with_timeout("a rejection", mallory.call(CallRequest::new("demo.slow", large())));
    assert_eq!(rejected.await.unwrap_err().limit(), Some("caller_input_bytes"));
    let input = json!({"a": 1, "b": 2, "padding": "x".repeat(400_000)});
    assert!(call_data(&ada, "demo.add", input).await.is_ok());
    drop(held);
    shared.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_history_is_complete_and_truncated_in_welcome() {
    const MESSAGES: usize = 200;
    let shared = SharedGateway::with_limits("").await;
    let request = format!("ws://{}/ws?topic=archive", shared.gateway.address);
    let mut request = request.into_client_request().unwrap();
    let token = format!("Bearer {}", shared.token("ada").reveal());
    request.headers_mut().insert("authorization", token.parse().unwrap());
    let stream = TcpStream::connect(shared.gateway.address).await.unwrap();
    let (mut room, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let text = "x".repeat(32 * 1024);
    for number in 0..MESSAGES {
        let id = format!("m{number}");
        let message = json!({"id": id, "kind": "chat", "payload": {"text": text}}).to_string();
        room.send(Message::text(message)).await.unwrap();
        let echo = async {
            loop {
                let received = room.next().await.unwrap().unwrap().into_text().unwrap();
                if received.contains(&format!("\"{id}\"")) {
                    return;
                }
            }
        };
        with_timeout("the message", echo).await;
    }
    let body = shared.get("ada", "/v0.1/topics/archive/history?limit=1000").await;
    let body: Value = body.json().await.unwrap();
    for list in ["messages", "history"] {
        let messages = body[list].as_array().unwrap();
        assert_eq!(messages.len(), MESSAGES, "{list}");
        assert_eq!(messages[0]["payload"]["text"], text.as_str());
    }
    drop(room);
    let again = format!("ws://{}/ws?topic=archive&history=1000", shared.gateway.address);
    let mut again = again.into_client_request().unwrap();
    let token = format!("Bearer {}", shared.token("bob").reveal());
    again.headers_mut().insert("authorization", token.parse().unwrap());
    let stream = TcpStream::connect(shared.gateway.address).await.unwrap();
    let (mut room, _) = tokio_tungstenite::client_async(again, stream).await.unwrap();
    let welcome = with_timeout("the welcome", room.next()).await.unwrap().unwrap();
    let welcome: Value = serde_json::from_str(welcome.to_text().unwrap()).unwrap();
    assert_eq!(welcome["payload"]["history_truncated"], true);
    let history = welcome["payload"]["history"].as_array().unwrap();
    assert!((1..MESSAGES).contains(&history.len()), "{}", history.len());
    assert_eq!(history.last().unwrap()["id"], format!("m{}", MESSAGES - 1));
    shared.gateway.stop().await;
}

/// The searches of one caller take turns, so that those of another are not behind all of them.
#[tokio::test(flavor = "multi_thread")]
async fn large_searches_of_one_caller_do_not_delay_others() {
    const SEARCHES: usize = 2_000;
    let shared = SharedGateway::with_limits("").await;
    let operations: Vec<Value> = (0..2_000)
        .map(|number| {
            let words = (0..40).map(|word| format!("w{:x}", number * 7_919 + word * 104_729));
            spec(&format!("op{number}"), &words.collect::<Vec<_>>().join(" "))
        })
        .collect();
    let mut spoke = shared.hub("bob").await;
    spoke.register("large", &Value::from(operations)).await.unwrap();
    let mallory = caller(&shared.gateway, Some(shared.token("mallory"))).await;
    let ada = caller(&shared.gateway, Some(shared.token("ada"))).await;
    let query = (0..32).map(|word| format!("w{word:x}")).collect::<Vec<_>>().join(" ");
    let search = || json!({"query": query, "full": false});
    // Builds the index.
    assert!(call_data(&ada, "hub.search", search()).await.is_ok());
    let mut flood = tokio::task::JoinSet::new();
    for _ in 0..SEARCHES {
        let (mallory, input) = (mallory.clone(), search());
        flood.spawn(async move { mallory.call(CallRequest::new("hub.search", input)).await });
    }
    let hub = shared.gateway.gateway.hub();
    wait_until("many searches wait", || hub.stats().inflight > SEARCHES / 2).await;
    assert!(call_data(&ada, "hub.search", search()).await.is_ok());
    let waiting = hub.stats().inflight;
    assert!(waiting > SEARCHES / 8, "{waiting} searches wait");
    let long = json!({"query": "x".repeat(1_001)});
    assert_eq!(call_data(&ada, "hub.search", long).await, Err("VALIDATION_ERROR".to_owned()));
    drop(flood);
    shared.gateway.stop().await;
}
