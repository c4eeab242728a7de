//! Open streams, connections and room memberships whose access ends.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use toolpost::{CallRequest, Operation};
use toolpost_gateway::auth::{Authenticator, Token, TokenHash};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, builtin};

use super::hub::HubClient;
use super::jwt::{Issuer, Signer, unix_now};
use super::mcp::{McpEvents, message};
use super::spokes::{caller, final_error_code, spoke, with_timeout};
use super::{TestGateway, client};

/// Everything that a caller can keep open.
struct OpenStreams {
    sse: reqwest::Response,
    hub: HubClient,
    room: WebSocketStream<TcpStream>,
    session_stream: McpEvents,
    session: String,
    subscription: McpEvents,
}

impl OpenStreams {
    async fn open(running: &TestGateway, token: &str) -> Self {
        let post = |path: &str| client().post(running.url(path)).bearer_auth(token);
        let clock = json!({"count": 1_000_000, "everyMs": 20});
        let sse = post("/api/demo/clock").json(&clock).send().await.unwrap();
        assert_eq!(sse.status(), 200);
        let mut hub = HubClient::with_token(running.address, token).await;
        hub.assert_works("before").await;
        let url = format!("ws://{}/ws?topic=lobby", running.address);
        let mut request = url.into_client_request().unwrap();
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let stream = TcpStream::connect(running.address).await.unwrap();
        let room = tokio_tungstenite::client_async(request, stream).await.unwrap().0;

        let accept = "application/json, text/event-stream";
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let hello = post("/mcp").header("accept", accept).json(&message(1, "initialize", &hello));
        let session = hello.send().await.unwrap().headers()["mcp-session-id"].clone();
        let session = session.to_str().unwrap().to_owned();
        let listen = client().get(running.url("/mcp")).bearer_auth(token);
        let listen = listen.header("accept", accept).header("mcp-session-id", &session);
        let session_stream = McpEvents::of(listen).await;
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}});
        let listen = post("/mcp").json(&message(2, "subscriptions/listen", &params));
        let listen = listen.header("accept", accept).header("mcp-protocol-version", "2026-07-28");
        let mut subscription =
            McpEvents::of(listen.header("mcp-method", "subscriptions/listen")).await;
        assert!(subscription.next().await.is_some(), "the acknowledgment");
        Self { sse, hub, room, session_stream, session, subscription }
    }

    /// Reads the server-sent events to their end.
    async fn read_sse(&mut self) -> String {
        let mut text = String::new();
        while let Some(chunk) = self.sse.chunk().await.unwrap() {
            text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
        text
    }

    /// Reads the messages of the room up to the close frame.
    async fn room_close(&mut self) -> (u16, String) {
        while let Some(message) = self.room.next().await {
            if let Message::Close(Some(frame)) = message.unwrap() {
                return (frame.code.into(), frame.reason.to_string());
            }
        }
        panic!("the connection ended without a close frame");
    }
}

async fn ping(running: &TestGateway, token: &str, session: &str) -> u16 {
    let request = client().post(running.url("/mcp")).bearer_auth(token);
    let request = request.header("accept", "application/json, text/event-stream");
    let request = request.header("mcp-session-id", session).json(&message(3, "ping", &json!({})));
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn expired_jwt_ends_streams_and_connections() {
    let key = Signer::new("one");
    let issuer = Issuer::start(&[&key]).await;
    let mut settings = issuer.settings();
    settings.leeway = Duration::ZERO;
    let gateway = Gateway::builder(builtin::registry());
    let gateway = gateway.authenticator(Authenticator::with_tokens([]).with_jwt(settings));
    let running = TestGateway::serve(gateway, "127.0.0.1:0").await;
    let token = |subject: &str, lifetime: u64| {
        let mut claims = issuer.claims();
        (claims["sub"], claims["exp"]) = (subject.into(), (unix_now() + lifetime).into());
        key.sign(&claims)
    };
    let of_bob = token("bob", 3_600);
    let mut bob = OpenStreams::open(&running, &of_bob).await;
    let of_ada = token("ada", 3_600);
    let mut ada = OpenStreams::open(&running, &token("ada", 15)).await;
    let reason = "the token has expired";
    let text = with_timeout("the end of the events", ada.read_sse()).await;
    assert!(text.ends_with("\n\n") && text.contains("event: error"), "{text}");
    assert!(text.contains(reason), "{text}");
    let closed = loop {
        match with_timeout("the hub", ada.hub.recv_message()).await {
            Message::Close(Some(frame)) => break (frame.code.into(), frame.reason.to_string()),
            other => drop(other),
        }
    };
    assert_eq!(closed, (4401, reason.to_owned()));
    let closed = with_timeout("the room", ada.room_close()).await;
    assert_eq!(closed, (4401, format!("{reason}; reconnect with a valid token")));
    assert_eq!(with_timeout("the session stream", ada.session_stream.next()).await, None);
    assert_eq!(with_timeout("the subscription", ada.subscription.next()).await, None);
    // The session continues with a new token of the same subject only.
    assert_eq!(ping(&running, &of_ada, &ada.session).await, 200);
    assert_eq!(ping(&running, &of_bob, &ada.session).await, 404);

    // Other callers are not interrupted.
    bob.hub.assert_works("after").await;
    assert!(bob.sse.chunk().await.unwrap().is_some());
    assert_eq!(ping(&running, &of_bob, &bob.session).await, 200);
    running.stop().await;
}

/// Returns a configuration with a spoke whose operations need these scopes.
fn spoke_config(access: &str) -> Config {
    let identity = |name: &str, scopes: &str| {
        let hash = TokenHash::of(&format!("tpt_{name}"));
        format!("[identity.{name}]\ntoken_hash = \"{hash}\"\nscopes = [{scopes}]\n")
    };
    let [ada, bob, spoke] =
        [identity("ada", "\"files\""), identity("bob", ""), identity("box", "")];
    let text = format!(
        "{ada}{bob}{spoke}[source.box]\nspoke = {{ identity = \"box\" }}\naccess = {access}\n"
    );
    Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap()
}

fn ticks() -> Operation {
    let ticks = |_: Value| {
        futures::stream::unfold(0_u64, |tick| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, toolpost::HandlerError>(json!(tick)), tick + 1))
        })
    };
    Operation::subscription("t.ticks", ticks).build().unwrap()
}

#[tokio::test]
async fn narrowed_access_ends_running_subscriptions() {
    let builder = Gateway::builder(builtin::registry()).config(spoke_config("\"open\""));
    let running = TestGateway::serve(builder, "127.0.0.1:0").await;
    let [ada, bob, of_spoke] = ["ada", "bob", "box"].map(|name| Token::from(format!("tpt_{name}")));
    let spoke = spoke(&running, Some(&of_spoke), "box", [ticks()]).await;
    let subscribe = async |token: &Token| {
        let request = client().post(running.url("/api/box/t.ticks")).bearer_auth(token.reveal());
        let mut response = request.json(&json!({})).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(response.chunk().await.unwrap().is_some());
        response
    };
    let (mut of_ada, of_bob) = (subscribe(&ada).await, subscribe(&bob).await);
    let bob_peer = caller(&running, Some(&bob)).await;
    let mut values = bob_peer.subscribe(CallRequest::new("box.t.ticks", json!({}))).boxed();
    assert!(with_timeout("a value", values.next()).await.unwrap().is_ok());

    running.gateway.apply_config(spoke_config("{ scopes = [\"files\"] }")).await.unwrap();
    let text = with_timeout("the end of the events", of_bob.text()).await.unwrap();
    let last = text.split_terminator("\n\n").last().unwrap();
    assert!(last.contains("event: error"), "{text}");
    assert!(last.contains("ACCESS_DENIED") && last.contains("lacks the scope `files`"), "{text}");
    assert_eq!(final_error_code(values).await.as_deref(), Some("ACCESS_DENIED"));
    // The connection of the caller, and callers with the scope, are not interrupted.
    bob_peer.call_json("demo.add", json!({"a": 2, "b": 3})).await.unwrap();
    for _ in 0..3 {
        assert!(with_timeout("a value", of_ada.chunk()).await.unwrap().is_some());
    }
    spoke.close().await;
    running.stop().await;
}
