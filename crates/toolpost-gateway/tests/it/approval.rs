//! Calls pending approval, on every endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolpost::{CallContext, Change, HandlerError, Operation, Schema, build_env};
use toolpost_gateway::approval::ApprovalSettings;
use toolpost_gateway::auth::TokenHash;
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, builtin};

use super::hub::{HubClient, request_event};
use super::mcp::{McpEvents, message};
use super::spokes::with_timeout;
use super::{TestGateway, client};

/// A gateway with a payment operation that needs approval.
struct BankFixture {
    server: TestGateway,
    paid: Arc<AtomicU64>,
}

impl BankFixture {
    async fn start(settings: ApprovalSettings) -> Self {
        let paid = Arc::new(AtomicU64::new(0));
        let registry = builtin::registry();
        let operations = [pay_operation(&paid), nested_pay_operation(), self_approve_operation()];
        registry.apply(operations.map(Change::Register)).unwrap();
        let mut config = identities(&["ada", "bob", "carl"]);
        config.approval = settings;
        let operator = TokenHash::of("tpt_operator");
        let builder = Gateway::builder(registry).config(config).operator(operator);
        Self { server: TestGateway::serve(builder, "127.0.0.1:0").await, paid }
    }

    fn paid(&self) -> u64 {
        self.paid.load(Ordering::SeqCst)
    }

    /// Calls an operation over HTTP and returns the status and the body.
    async fn call(&self, caller: &str, operation: &str, input: &Value) -> (StatusCode, Value) {
        let (namespace, name) = operation.split_once('.').unwrap();
        let request = client().post(self.server.url(&format!("/api/{namespace}/{name}")));
        let response =
            request.bearer_auth(format!("tpt_{caller}")).json(input).send().await.unwrap();
        (response.status(), response.json().await.unwrap())
    }

    /// Polls until exactly one call is pending approval, and returns it.
    async fn pending_approval(&self) -> Value {
        self.wait_for_pending(1).await;
        let mut listed = self.call("carl", "gateway.approvals", &json!({})).await.1;
        listed["approvals"][0].take()
    }

    /// Polls until exactly this many calls are pending approval.
    async fn wait_for_pending(&self, expected: usize) {
        with_timeout("calls pending approval", async {
            while self.pending_count().await != expected {}
        })
        .await;
    }

    async fn pending_count(&self) -> usize {
        let (status, listed) = self.call("carl", "gateway.approvals", &json!({})).await;
        assert_eq!(status, 200, "{listed}");
        listed["approvals"].as_array().unwrap().len()
    }
}

/// Returns a configuration with these identities, whose tokens are `tpt_NAME`. All except `ada` can
/// approve.
fn identities(names: &[&str]) -> Config {
    let text = names.iter().map(|name| {
        let scopes = if *name == "ada" { "[]" } else { "[\"toolpost:approve\"]" };
        let hash = TokenHash::of(&format!("tpt_{name}"));
        format!("[identity.{name}]\ntoken_hash = \"{hash}\"\nscopes = {scopes}\n")
    });
    Config::parse("toolpost.toml".as_ref(), &text.collect::<String>(), &|_| None).unwrap()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoInput {}

fn pay_operation(paid: &Arc<AtomicU64>) -> Operation {
    let paid = Arc::clone(paid);
    let input = json!({"type": "object", "required": ["amount"], "properties": {
        "amount": {"type": "integer"}, "pin": {"type": "string", "writeOnly": true},
        "to": {"type": "string"}}});
    let run = move |input: Value| {
        let all = paid.fetch_add(input["amount"].as_u64().unwrap_or_default(), Ordering::SeqCst);
        std::future::ready(Ok::<_, HandlerError>(json!({"before": all})))
    };
    let operation = Operation::mutation("bank.pay", run).needs_approval();
    operation.schemas(Schema::new(input).unwrap(), Schema::unknown()).build().unwrap()
}

/// Calls `bank.pay` from a handler. The nested call is trusted but still needs approval.
fn nested_pay_operation() -> Operation {
    let run = async |context: CallContext, _: NoInput| {
        let env = build_env(&context, ["bank"]);
        let paid = env.call_trusted("bank.pay", json!({"amount": 1})).await?;
        Ok::<_, HandlerError>(paid.data)
    };
    Operation::mutation("bank.standing_order", run).build().unwrap()
}

/// Calls `gateway.approve` from a handler, as a trusted call.
fn self_approve_operation() -> Operation {
    let run = async |context: CallContext, input: Value| {
        let env = build_env(&context, ["gateway"]);
        let approved = env.call_trusted("gateway.approve", input).await?;
        Ok::<_, HandlerError>(approved.data)
    };
    Operation::mutation("bank.self_service", run).build().unwrap()
}

/// A running call. Returns the response as text and whether the call failed.
type CallTask = JoinHandle<(String, bool)>;

fn start_call(bank: &BankFixture, endpoint: &'static str) -> CallTask {
    let (url, address) = (bank.server.url(""), bank.server.address);
    let input = json!({"amount": 5, "pin": "1234", "to": "bob"});
    let by_hub = json!({"id": "bank.pay", "input": input});
    tokio::spawn(async move {
        match endpoint {
            "http" => call_over_http(&url, "/api/bank/pay", &input).await,
            "hub.call over http" => call_over_http(&url, "/api/hub/call", &by_hub).await,
            "mcp" => call_over_mcp(&url, "bank__pay", &input).await,
            "hub.call over mcp" => call_over_mcp(&url, "hub__call", &by_hub).await,
            "hub" => call_over_hub(address, "bank.pay", &input).await,
            _ => call_over_hub(address, "hub.call", &by_hub).await,
        }
    })
}

async fn call_over_http(url: &str, path: &str, input: &Value) -> (String, bool) {
    let request = client().post(format!("{url}{path}")).bearer_auth("tpt_ada").json(input);
    let response = request.send().await.unwrap();
    let failed = !response.status().is_success();
    (response.text().await.unwrap(), failed)
}

/// Checks that a progress notification precedes the response.
async fn call_over_mcp(url: &str, tool: &str, input: &Value) -> (String, bool) {
    let params = json!({"name": tool, "arguments": input, "_meta": {"progressToken": "p"}});
    let request = client().post(format!("{url}/mcp")).bearer_auth("tpt_ada");
    let request = request.header("accept", "application/json, text/event-stream");
    let mut events = McpEvents::of(request.json(&message(1, "tools/call", &params))).await;
    let first = events.next().await.unwrap();
    assert_eq!(first["method"], "notifications/progress", "{first}");
    assert_eq!(first["params"]["progressToken"], "p");
    let progress_message = first["params"]["message"].as_str().unwrap();
    assert!(progress_message.starts_with("pending approval, expires in "), "{progress_message}");
    let response = events.all().await.pop().unwrap();
    (response.to_string(), response["result"]["isError"] == true)
}

async fn call_over_hub(
    address: std::net::SocketAddr,
    operation: &str,
    input: &Value,
) -> (String, bool) {
    let mut peer = HubClient::with_token(address, "tpt_ada").await;
    peer.send_json(&request_event("r", operation, input)).await;
    let first = peer.recv_event().await;
    assert_eq!(first["type"], "call.progress", "{first}");
    assert!(first.to_string().contains("pending approval, expires in "), "{first}");
    let response = peer.recv_event().await;
    (response.to_string(), response["type"] == "call.error")
}

const ENDPOINTS: [&str; 6] =
    ["http", "hub.call over http", "mcp", "hub.call over mcp", "hub", "hub.call over the hub"];

#[tokio::test]
async fn call_is_pending_on_every_endpoint_until_approved_once() {
    let bank = BankFixture::start(ApprovalSettings::default()).await;
    for (number, endpoint) in (1..).zip(ENDPOINTS) {
        let call_task = start_call(&bank, endpoint);
        let waiting = bank.pending_approval().await;
        assert_eq!(waiting["operation"], "bank.pay", "{endpoint}");
        assert_eq!(waiting["caller"], "ada", "{endpoint}");
        assert_eq!(waiting["input"], json!({"amount": 5, "pin": "***", "to": "bob"}), "{endpoint}");
        let seen = waiting["inputDigest"].as_str().unwrap();
        let id = json!({"id": waiting["id"]});
        let other = json!({"id": waiting["id"], "inputDigest": "0".repeat(64)});
        assert_eq!(bank.call("bob", "gateway.approve", &other).await.0, 409, "{endpoint}");
        assert_eq!(bank.call("ada", "gateway.approve", &id).await.0, 403, "{endpoint}: no scope");
        assert_eq!(bank.paid(), 5 * (number - 1), "{endpoint}: nothing runs before approval");
        let exact = json!({"id": waiting["id"], "inputDigest": seen});
        let (status, decided) = bank.call("bob", "gateway.approve", &exact).await;
        assert_eq!((status.as_u16(), &decided["status"]), (200, &json!("approved")), "{decided}");
        assert_eq!(decided["requestId"], waiting["requestId"], "{endpoint}");
        let (response, failed) = call_task.await.unwrap();
        assert!(!failed && response.contains("before"), "{endpoint}: {response}");
        assert_eq!(bank.paid(), 5 * number, "{endpoint}");
        let (status, again) = bank.call("carl", "gateway.approve", &id).await;
        assert_eq!(status, 404, "{endpoint}");
        assert!(again["detail"].as_str().unwrap().contains("approved by `bob`"), "{again}");
    }
    bank.server.stop().await;
}

#[tokio::test]
async fn rejected_call_returns_reason_on_every_endpoint() {
    let bank = BankFixture::start(ApprovalSettings::default()).await;
    for endpoint in ENDPOINTS {
        let call_task = start_call(&bank, endpoint);
        let waiting = bank.pending_approval().await;
        let message = json!({"id": waiting["id"], "reason": "not on a Friday"});
        assert_eq!(bank.call("operator", "gateway.reject", &message).await.0, 200, "{endpoint}");
        let (response, failed) = call_task.await.unwrap();
        assert!(failed && response.contains("not on a Friday"), "{endpoint}: {response}");
        assert!(response.contains("rejected by `operator`"), "{endpoint}: {response}");
        assert!(response.contains("ACCESS_DENIED"), "{endpoint}: {response}");
    }
    assert_eq!(bank.paid(), 0);
    bank.server.stop().await;
}

#[tokio::test]
async fn caller_cannot_approve_own_call() {
    let bank = Arc::new(BankFixture::start(ApprovalSettings::default()).await);
    // Directly, through `hub.call`, and nested in an operation that needs no approval itself.
    let by_hub = json!({"id": "bank.pay", "input": {"amount": 1}});
    let rows = [
        ("bob", "bank.pay", json!({"amount": 1})),
        ("bob", "hub.call", by_hub.clone()),
        ("bob", "bank.standing_order", json!({})),
        ("operator", "bank.pay", json!({"amount": 1})),
        ("operator", "hub.call", by_hub),
    ];
    for (number, (caller, operation, input)) in (1..).zip(rows) {
        let call_task = tokio::spawn({
            let bank = Arc::clone(&bank);
            async move { bank.call(caller, operation, &input).await }
        });
        let waiting = bank.pending_approval().await;
        let id = json!({"id": waiting["id"]});
        assert_eq!(
            (&waiting["caller"], &waiting["operation"]),
            (&json!(caller), &json!("bank.pay"))
        );
        for decision in ["gateway.approve", "gateway.reject"] {
            let (status, rejected) = bank.call(caller, decision, &id).await;
            assert_eq!(status, 403, "{caller} {decision}");
            assert!(
                rejected["detail"]
                    .as_str()
                    .unwrap()
                    .starts_with("callers cannot approve their own")
            );
            let by_hub = json!({"id": decision, "input": id});
            assert_eq!(
                bank.call(caller, "hub.call", &by_hub).await.0,
                403,
                "{caller} hub.call {decision}"
            );
        }
        // A trusted call from a handler cannot approve the call.
        assert_eq!(bank.call("ada", "bank.self_service", &id).await.0, 403, "{caller}");
        assert_eq!(bank.call(caller, "bank.self_service", &id).await.0, 403, "{caller}");
        assert_eq!(bank.call("carl", "gateway.approve", &id).await.0, 200);
        assert_eq!(call_task.await.unwrap().0, 200, "{caller} {operation}");
        assert_eq!(bank.paid(), number);
    }
}

#[tokio::test]
async fn abandoned_call_withdraws_pending_approval() {
    let bank = BankFixture::start(ApprovalSettings::default()).await;
    let input = json!({"amount": 1});
    let begin = |timeout: Option<&str>| {
        let request = client().post(bank.server.url("/api/bank/pay")).bearer_auth("tpt_ada");
        let request = request.json(&input).header("request-timeout", timeout.unwrap_or("600"));
        tokio::spawn(request.send())
    };
    // The client disconnects.
    let abandoned_call = begin(None);
    let first = bank.pending_approval().await;
    abandoned_call.abort();
    bank.wait_for_pending(0).await;
    // The client aborts the call on its connection.
    let mut peer = HubClient::with_token(bank.server.address, "tpt_ada").await;
    peer.send_json(&request_event("r", "bank.pay", &input)).await;
    let second = bank.pending_approval().await;
    peer.send_json(&json!({"type": "call.aborted", "id": "r", "payload": {"requestId": "r"}}))
        .await;
    bank.wait_for_pending(0).await;
    // The deadline of the call passes.
    let late = begin(Some("0.05")).await.unwrap().unwrap();
    assert_eq!(late.status(), 504);
    bank.wait_for_pending(0).await;
    for waited in [first, second] {
        let (status, message) =
            bank.call("bob", "gateway.approve", &json!({"id": waited["id"]})).await;
        assert_eq!(status, 404);
        assert!(
            message["detail"].as_str().unwrap().contains("withdrawn by its caller"),
            "{message}"
        );
    }
    assert_eq!(bank.paid(), 0);
    bank.server.stop().await;
}

#[tokio::test]
async fn undecided_call_expires_with_timeout_error() {
    let mut settings = ApprovalSettings::default();
    settings.expires = Duration::from_millis(50);
    let bank = BankFixture::start(settings).await;
    let (status, message) = bank.call("ada", "bank.pay", &json!({"amount": 1})).await;
    assert_eq!(status, 504);
    let expected = "the call to bank.pay was not approved within 50ms and was not run";
    assert!(message["detail"].as_str().unwrap().starts_with(expected), "{message}");
    assert_eq!(message["error"]["code"], "TIMEOUT");
    assert_eq!(message["error"]["retryable"], true, "the call did not run");
    let approval = &message["error"]["details"]["approval"];
    assert_eq!(approval["status"], "expired");
    let (_, late) = bank.call("bob", "gateway.approve", &json!({"id": approval["id"]})).await;
    assert!(late["detail"].as_str().unwrap().contains("no decision was made in time"), "{late}");
    assert_eq!(bank.paid(), 0);
    bank.server.stop().await;
}

#[tokio::test]
async fn approval_limits_return_429_and_spare_other_calls() {
    let mut settings = ApprovalSettings::default();
    settings.operations = vec![toolpost_gateway::config::Glob::new("demo.n*")];
    (settings.max_pending, settings.max_pending_per_caller) = (2, 1);
    let bank = BankFixture::start(settings).await;
    let begin = |caller: &str| {
        let request = client().post(bank.server.url("/api/demo/note"));
        tokio::spawn(
            request.bearer_auth(format!("tpt_{caller}")).json(&json!({"text": "x"})).send(),
        )
    };
    let waits: Vec<_> = ["ada", "bob"].map(begin).into();
    bank.wait_for_pending(2).await;
    let message = "approval limit reached: 2 pending";
    for caller in ["ada", "carl"] {
        let (status, problem) = bank.call(caller, "demo.note", &json!({"text": "y"})).await;
        assert_eq!(status, 429, "{caller}");
        assert!(problem["detail"].as_str().unwrap().contains(message), "{problem}");
    }
    let listed = bank.call("carl", "gateway.approvals", &json!({})).await.1;
    let of_bob = listed["approvals"].as_array().unwrap().iter().find(|one| one["caller"] == "bob");
    let id = json!({"id": of_bob.unwrap()["id"]});
    assert_eq!(bank.call("carl", "gateway.approve", &id).await.0, 200);
    let (status, problem) = bank.call("ada", "demo.note", &json!({"text": "y"})).await;
    assert_eq!(status, 429);
    assert!(problem["detail"].as_str().unwrap().contains("1 pending for `ada`"), "{problem}");
    let sum = bank.call("ada", "demo.add", &json!({"a": 2, "b": 3})).await;
    assert_eq!(sum.1["sum"], 5, "operations without a pattern are not pending");
    waits.into_iter().for_each(|wait| wait.abort());
    bank.server.stop().await;
}

/// A pending call is canceled when the token of its caller is revoked.
#[tokio::test]
async fn pending_call_of_revoked_identity_is_rejected() {
    let bank = BankFixture::start(ApprovalSettings::default()).await;
    let call_task = start_call(&bank, "http");
    let waiting = bank.pending_approval().await;
    bank.server.gateway.apply_config(identities(&["ada", "bob", "carl"])).await.unwrap();
    assert_eq!(bank.pending_count().await, 1, "an unchanged identity stays pending");
    let report = bank.server.gateway.apply_config(identities(&["bob", "carl"])).await.unwrap();
    let canceled = "calls pending approval that were canceled: 1";
    assert!(report.notes.iter().any(|note| note == canceled), "{report:?}");
    let (message, is_error) = call_task.await.unwrap();
    assert!(is_error && message.contains("the caller's token was revoked"), "{message}");
    let (status, _) = bank.call("bob", "gateway.approve", &json!({"id": waiting["id"]})).await;
    assert_eq!((status, bank.paid()), (StatusCode::NOT_FOUND, 0));
    bank.server.stop().await;
}
