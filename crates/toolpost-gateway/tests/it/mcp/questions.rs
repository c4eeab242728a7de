//! What is asked of a client while its call runs, and what it may and may not do about it.

use std::time::Duration;

use reqwest::{RequestBuilder, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost::{
    CallContext, Handler, HandlerError, Kind, Operation, OperationSpec, Output, Pipeline, Question,
    Respondent, Settings,
};
use toolpost_gateway::{Gateway, GatewaySettings, builtin};

use super::super::{Running, client};
use super::{Events, LEGACY, MODERN, answer, message, modern};

/// What is wanted of a client that comes again; the member nobody knows must reach it.
const WANTED: &str = r#"{"resultType":"input_required","inputRequests":{},"newer":  [1e2]}"#;

/// Asks whoever called, and says what came of it.
async fn ask(context: CallContext) -> Result<Output, HandlerError> {
    let body = RawValue::from_string(r#"{"message":"which?"}"#.to_owned()).unwrap();
    let said = match context.respondent() {
        None => json!("nobody"),
        Some(Respondent::Returning(client)) => match (&client.answers, &client.state) {
            (None, None) => {
                return Err(client.leave(RawValue::from_string(WANTED.to_owned()).unwrap()).into());
            }
            (answers, state) => json!({"answers": answers, "state": state}),
        },
        Some(Respondent::Present(client)) => {
            let asking = client.ask(Question::new("elicitation/create", Some(body)));
            tokio::select! {
                said = asking => match said {
                    Ok(said) => serde_json::from_str(said.get()).unwrap(),
                    Err(unanswered) => json!(unanswered.to_string()),
                },
                () = context.cancelled() => json!("canceled"),
            }
        }
        _ => json!("somebody new"),
    };
    Ok(Output::dynamic(json!({"said": said})))
}

fn pipeline(call_timeout: Duration) -> Pipeline {
    let registry = builtin::registry();
    let spec = OperationSpec::new(&"shop.ask".parse().unwrap(), Kind::Query);
    let handler = Handler::once_fn(|context, _| ask(context));
    let operation = Operation::from_spec(spec).handler(handler).build().unwrap();
    registry.register(operation).unwrap();
    let mut settings = Settings::default();
    settings.call_timeout = call_timeout;
    Pipeline::builder(registry).settings(settings).build()
}

async fn start(call_timeout: Duration) -> Running {
    let gateway = Gateway::with(pipeline(call_timeout), GatewaySettings::default());
    Running::serve(gateway, "127.0.0.1:0").await
}

const LONG: Duration = Duration::from_secs(60);

impl Running {
    async fn begin_with(&self, capabilities: &Value) -> String {
        let hello = json!({"protocolVersion": LEGACY, "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}});
        let response = self.ask("", "initialize", &hello).send().await.unwrap();
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    fn call_in(&self, session: &str) -> RequestBuilder {
        let call = message(7, "tools/call", &json!({"name": "shop__ask", "arguments": {}}));
        self.post("").header("mcp-session-id", session).json(&call)
    }

    /// Sends a message that has no answer of its own.
    async fn tell(&self, session: Option<&str>, message: &Value) {
        let request = self.post("").json(message);
        let request = match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        };
        assert_eq!(request.send().await.unwrap().status(), StatusCode::ACCEPTED);
    }
}

fn result(id: &Value, said: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"action": said}})
}

fn said(message: &Value) -> &Value {
    &message["result"]["structuredContent"]["said"]
}

#[tokio::test]
async fn only_the_client_that_was_asked_answers_and_only_once() {
    let gateway = start(LONG).await;
    let session = gateway.begin_with(&json!({"elicitation": {}})).await;
    let other = gateway.begin_with(&json!({"elicitation": {}})).await;
    let mut events = Events::of(gateway.call_in(&session)).await;
    let asked = events.next().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    assert_eq!(asked["params"], json!({"message": "which?"}));
    let id = &asked["id"];
    for forged in [json!(1), json!("toolpost-2"), json!("x"), json!(7)] {
        gateway.tell(Some(&session), &result(&forged, "forged")).await;
    }
    gateway.tell(Some(&other), &result(id, "of another session")).await;
    gateway.tell(None, &result(id, "of no session")).await;
    gateway.tell(Some(&session), &result(id, "accept")).await;
    let answered = events.next().await.unwrap();
    assert_eq!((&answered["id"], said(&answered)), (&json!(7), &json!({"action": "accept"})));
    assert!(events.next().await.is_none());
    gateway.tell(Some(&session), &result(id, "again")).await;

    let mut events = Events::of(gateway.call_in(&session)).await;
    let asked = events.next().await.unwrap();
    assert_ne!(asked["id"], *id);
    let refusal =
        json!({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no"}});
    gateway.tell(Some(&session), &refusal).await;
    assert_eq!(said(&events.next().await.unwrap()), "the client refused the question");
    gateway.stop().await;
}

#[tokio::test]
async fn who_cannot_be_asked_is_not() {
    let gateway = start(LONG).await;
    let session = gateway.begin_with(&json!({"experimental": {}})).await;
    assert_eq!(said(&answer(gateway.call_in(&session)).await), "nobody");
    let session = gateway.begin_with(&json!({"elicitation": {}})).await;
    // It does not read events, so there is no way to ask.
    let call = message(7, "tools/call", &json!({"name": "shop__ask"}));
    let deaf = client().post(gateway.url("/mcp")).header("accept", "application/json");
    let deaf = answer(deaf.header("mcp-session-id", &session).json(&call)).await;
    assert_eq!(said(&deaf), "nobody");
    let without = gateway.ask("", "tools/call", &json!({"name": "shop__ask"}));
    assert_eq!(said(&answer(without).await), "nobody");
    let called = client().post(gateway.url("/api/shop/ask")).json(&json!({})).send().await.unwrap();
    let called: Value = called.json().await.unwrap();
    assert_eq!(called["said"], "nobody", "{called}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_question_ends_with_its_call_and_the_client_is_told() {
    let gateway = start(LONG).await;
    let session = gateway.begin_with(&json!({"elicitation": {}})).await;
    let mut events = Events::of(gateway.call_in(&session)).await;
    let asked = events.next().await.unwrap();
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    gateway.tell(Some(&session), &cancel).await;
    let told = events.all().await;
    let taken_back = told.iter().find(|told| told["method"] == "notifications/cancelled");
    assert_eq!(taken_back.unwrap()["params"]["requestId"], asked["id"], "{told:?}");
    gateway.tell(Some(&session), &result(&asked["id"], "late")).await;
    assert_eq!(gateway.gateway.pipeline().in_flight(), 0);

    // A session that ends takes the questions with it.
    let mut events = Events::of(gateway.call_in(&session)).await;
    events.next().await.unwrap();
    let end = client().delete(gateway.url("/mcp")).header("mcp-session-id", &session);
    assert_eq!(end.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    let ended = events.next().await.unwrap();
    assert_eq!(said(&ended), "the client that called is not there any more");
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_that_never_answers_runs_into_the_deadline() {
    let gateway = start(Duration::from_millis(300)).await;
    let session = gateway.begin_with(&json!({"elicitation": {}})).await;
    let mut events = Events::of(gateway.call_in(&session)).await;
    let asked = events.next().await.unwrap();
    let told = events.all().await;
    let answered = told.iter().find(|told| told["id"] == 7).unwrap();
    assert_eq!(answered["result"]["_meta"]["toolpost/error"]["code"], "TIMEOUT", "{answered}");
    gateway.tell(Some(&session), &result(&asked["id"], "late")).await;
    gateway.stop().await;
}

#[tokio::test]
async fn a_client_of_now_is_told_what_is_wanted_and_brings_it() {
    let gateway = start(LONG).await;
    let ask = |query: &str, params: &Value| {
        let mut params = modern(params);
        let able = json!({"elicitation": {}});
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = able;
        let name = params["name"].as_str().unwrap().to_owned();
        let request = gateway.post(query).json(&message(1, "tools/call", &params));
        let request = request.header("mcp-protocol-version", MODERN);
        request.header("mcp-method", "tools/call").header("mcp-name", name)
    };
    // Whatever the dialect, and through the hub's own operation, it is the same.
    let direct = json!({"name": "shop__ask", "arguments": {}});
    let through = json!({"name": "hub__call", "arguments": {"id": "shop.ask", "input": {}}});
    for (query, params) in [("", &direct), ("?dialect=ok", &direct), ("", &through)] {
        let wanted = ask(query, params).send().await.unwrap().text().await.unwrap();
        assert_eq!(wanted, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{WANTED}}}"#));
    }
    let brings = json!({"name": "shop__ask", "arguments": {}, "inputResponses": {"a": {"n": 1}},
        "requestState": "opaque"});
    let done = answer(ask("", &brings)).await;
    assert_eq!(said(&done), &json!({"answers": {"a": {"n": 1}}, "state": "opaque"}));
    assert_eq!(done["result"]["resultType"], "complete");
    // Who declares nothing and brings nothing is nobody to be asked.
    let plain = gateway.ask_modern("", "tools/call", &json!({"name": "shop__ask"}));
    assert_eq!(said(&answer(plain).await), "nobody");
    gateway.stop().await;
}
