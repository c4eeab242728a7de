//! Calls that wait for somebody's word, through every door.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use toolpost::{
    CallContext, Change, HandlerError, Identity, Operation, Pipeline, Schema, build_env,
};
use toolpost_gateway::approval::{self, ApprovalSettings, Approvals};
use toolpost_gateway::auth::{Authenticator, TokenHash};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, GatewaySettings, Part, Reloaded, admin, builtin};

use super::call::{Raw, requested};
use super::mcp::{Events, message};
use super::{Running, client};

/// A bank in which somebody else has to agree to each payment.
struct Bank {
    running: Running,
    approvals: Approvals,
    paid: Arc<AtomicU64>,
}

impl Bank {
    async fn open(settings: ApprovalSettings) -> Self {
        let paid = Arc::new(AtomicU64::new(0));
        let registry = builtin::registry();
        let approvals = Approvals::new(settings);
        let operations = approval::operations(&approvals).into_iter();
        let operations = operations.chain([pay(&paid), pay_twice(), self_service()]);
        registry.apply(operations.map(Change::Register)).unwrap();
        let pipeline = Pipeline::builder(registry).approval(approvals.clone()).build();
        let gateway = Gateway::with(pipeline, GatewaySettings::default());
        let scopes = |name: &str| match name {
            "operator" => admin::operator(),
            "ada" => Identity::new("ada"),
            name => Identity::new(name).with_scopes([admin::scope::APPROVE]),
        };
        let known = ["ada", "bob", "carl", "operator"];
        let known = known.map(|name| (TokenHash::of(&format!("tpt_{name}")), scopes(name)));
        let running =
            Running::serve(gateway.with_authenticator(Authenticator::with(known)), "127.0.0.1:0");
        Self { running: running.await, approvals, paid }
    }

    fn paid(&self) -> u64 {
        self.paid.load(Ordering::SeqCst)
    }

    /// Calls over HTTP: the status and the body.
    async fn call(&self, who: &str, operation: &str, input: &Value) -> (StatusCode, Value) {
        let (namespace, name) = operation.split_once('.').unwrap();
        let request = client().post(self.running.url(&format!("/api/{namespace}/{name}")));
        let response = request.bearer_auth(format!("tpt_{who}")).json(input).send().await.unwrap();
        (response.status(), response.json().await.unwrap())
    }

    /// What waits, as soon as that is one call.
    async fn waiting(&self) -> Value {
        loop {
            let (status, mut listed) = self.call("carl", "gateway.approvals", &json!({})).await;
            assert_eq!(status, 200, "{listed}");
            if let [_] = listed["approvals"].as_array().unwrap()[..] {
                return listed["approvals"][0].take();
            }
        }
    }

    async fn until_nothing_waits(&self) {
        while self.approvals.waiting() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn pay(paid: &Arc<AtomicU64>) -> Operation {
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

/// Calls on as a handler does: trusted, and waiting all the same.
fn pay_twice() -> Operation {
    let run = async |context: CallContext, _: Nothing| {
        let env = build_env(&context, ["bank"]);
        let paid = env.execute("bank.pay", json!({"amount": 1})).await?;
        Ok::<_, HandlerError>(paid.data)
    };
    Operation::mutation("bank.standing_order", run).build().unwrap()
}

/// Lends the rights of a running handler to its caller, or tries to.
fn self_service() -> Operation {
    let run = async |context: CallContext, input: Value| {
        let env = build_env(&context, ["gateway"]);
        let approved = env.execute("gateway.approve", input).await?;
        Ok::<_, HandlerError>(approved.data)
    };
    Operation::mutation("bank.self_service", run).build().unwrap()
}

/// How a call is made, and what comes of it: the answer as text, and whether it is a failure.
type Calling = JoinHandle<(String, bool)>;

fn begin(bank: &Bank, door: &'static str) -> Calling {
    let (url, address) = (bank.running.url(""), bank.running.address);
    let input = json!({"amount": 5, "pin": "1234", "to": "bob"});
    let by_hub = json!({"id": "bank.pay", "input": input});
    tokio::spawn(async move {
        match door {
            "http" => over_http(&url, "/api/bank/pay", &input).await,
            "hub.call over http" => over_http(&url, "/api/hub/call", &by_hub).await,
            "mcp" => over_mcp(&url, "bank__pay", &input).await,
            "hub.call over mcp" => over_mcp(&url, "hub__call", &by_hub).await,
            "hub" => over_hub(address, "bank.pay", &input).await,
            _ => over_hub(address, "hub.call", &by_hub).await,
        }
    })
}

async fn over_http(url: &str, path: &str, input: &Value) -> (String, bool) {
    let request = client().post(format!("{url}{path}")).bearer_auth("tpt_ada").json(input);
    let response = request.send().await.unwrap();
    let failed = !response.status().is_success();
    (response.text().await.unwrap(), failed)
}

/// The progress that was seen comes before the answer.
async fn over_mcp(url: &str, tool: &str, input: &Value) -> (String, bool) {
    let params = json!({"name": tool, "arguments": input, "_meta": {"progressToken": "p"}});
    let request = client().post(format!("{url}/mcp")).bearer_auth("tpt_ada");
    let request = request.header("accept", "application/json, text/event-stream");
    let mut events = Events::of(request.json(&message(1, "tools/call", &params))).await;
    let first = events.next().await.unwrap();
    assert_eq!(first["method"], "notifications/progress", "{first}");
    assert_eq!(first["params"]["progressToken"], "p");
    let words = first["params"]["message"].as_str().unwrap();
    assert!(words.starts_with("waiting for approval as "), "{words}");
    let answer = events.all().await.pop().unwrap();
    (answer.to_string(), answer["result"]["isError"] == true)
}

async fn over_hub(address: std::net::SocketAddr, operation: &str, input: &Value) -> (String, bool) {
    let mut peer = Raw::with_token(address, "tpt_ada").await;
    peer.say(&requested("r", operation, input)).await;
    let first = peer.hear().await;
    assert_eq!(first["type"], "call.progress", "{first}");
    assert!(first.to_string().contains("waiting for approval as "), "{first}");
    let answer = peer.hear().await;
    (answer.to_string(), answer["type"] == "call.error")
}

const DOORS: [&str; 6] =
    ["http", "hub.call over http", "mcp", "hub.call over mcp", "hub", "hub.call over the hub"];

#[tokio::test]
async fn a_call_waits_at_every_door_until_somebody_else_agrees_once() {
    let bank = Bank::open(ApprovalSettings::default()).await;
    for (number, door) in (1..).zip(DOORS) {
        let calling = begin(&bank, door);
        let waiting = bank.waiting().await;
        assert_eq!(waiting["operation"], "bank.pay", "{door}");
        assert_eq!(waiting["caller"], "ada", "{door}");
        assert_eq!(waiting["input"], json!({"amount": 5, "pin": "***", "to": "bob"}), "{door}");
        let seen = waiting["inputDigest"].as_str().unwrap();
        let id = json!({"id": waiting["id"]});
        let other = json!({"id": waiting["id"], "inputDigest": "0".repeat(64)});
        assert_eq!(bank.call("bob", "gateway.approve", &other).await.0, 409, "{door}");
        assert_eq!(bank.call("ada", "gateway.approve", &id).await.0, 403, "{door}: no scope");
        assert_eq!(bank.paid(), 5 * (number - 1), "{door}: nothing runs before somebody agrees");
        let exact = json!({"id": waiting["id"], "inputDigest": seen});
        let (status, decided) = bank.call("bob", "gateway.approve", &exact).await;
        assert_eq!((status.as_u16(), &decided["status"]), (200, &json!("approved")), "{decided}");
        assert_eq!(decided["requestId"], waiting["requestId"], "{door}");
        let (answer, failed) = calling.await.unwrap();
        assert!(!failed && answer.contains("before"), "{door}: {answer}");
        assert_eq!(bank.paid(), 5 * number, "{door}");
        let (status, again) = bank.call("carl", "gateway.approve", &id).await;
        assert_eq!(status, 404, "{door}");
        assert!(again["detail"].as_str().unwrap().contains("approved by `bob`"), "{again}");
    }
    bank.running.stop().await;
}

#[tokio::test]
async fn a_rejected_call_is_told_why_at_every_door() {
    let bank = Bank::open(ApprovalSettings::default()).await;
    for door in DOORS {
        let calling = begin(&bank, door);
        let waiting = bank.waiting().await;
        let said = json!({"id": waiting["id"], "reason": "not on a Friday"});
        assert_eq!(bank.call("operator", "gateway.reject", &said).await.0, 200, "{door}");
        let (answer, failed) = calling.await.unwrap();
        assert!(failed && answer.contains("not on a Friday"), "{door}: {answer}");
        assert!(answer.contains("rejected by `operator`"), "{door}: {answer}");
        assert!(answer.contains("ACCESS_DENIED"), "{door}: {answer}");
    }
    assert_eq!(bank.paid(), 0);
    bank.running.stop().await;
}

#[tokio::test]
async fn nobody_approves_his_own_call() {
    let bank = Arc::new(Bank::open(ApprovalSettings::default()).await);
    // Directly, through `hub.call`, and as part of a call that asks for nothing itself.
    let by_hub = json!({"id": "bank.pay", "input": {"amount": 1}});
    let rows = [
        ("bob", "bank.pay", json!({"amount": 1})),
        ("bob", "hub.call", by_hub.clone()),
        ("bob", "bank.standing_order", json!({})),
        ("operator", "bank.pay", json!({"amount": 1})),
        ("operator", "hub.call", by_hub),
    ];
    for (number, (who, operation, input)) in (1..).zip(rows) {
        let calling = tokio::spawn({
            let bank = Arc::clone(&bank);
            async move { bank.call(who, operation, &input).await }
        });
        let waiting = bank.waiting().await;
        let id = json!({"id": waiting["id"]});
        assert_eq!((&waiting["caller"], &waiting["operation"]), (&json!(who), &json!("bank.pay")));
        for way in ["gateway.approve", "gateway.reject"] {
            let (status, refused) = bank.call(who, way, &id).await;
            assert_eq!(status, 403, "{who} {way}");
            assert!(refused["detail"].as_str().unwrap().starts_with("nobody approves his own"));
            let by_hub = json!({"id": way, "input": id});
            assert_eq!(bank.call(who, "hub.call", &by_hub).await.0, 403, "{who} hub.call {way}");
        }
        // A handler that lends its rights lends none of these.
        assert_eq!(bank.call("ada", "bank.self_service", &id).await.0, 403, "{who}");
        assert_eq!(bank.call(who, "bank.self_service", &id).await.0, 403, "{who}");
        assert_eq!(bank.call("carl", "gateway.approve", &id).await.0, 200);
        assert_eq!(calling.await.unwrap().0, 200, "{who} {operation}");
        assert_eq!(bank.paid(), number);
    }
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_takes_its_proposal_along() {
    let bank = Bank::open(ApprovalSettings::default()).await;
    let input = json!({"amount": 1});
    let begin = |timeout: Option<&str>| {
        let request = client().post(bank.running.url("/api/bank/pay")).bearer_auth("tpt_ada");
        let request = request.json(&input).header("request-timeout", timeout.unwrap_or("600"));
        tokio::spawn(request.send())
    };
    // The client hangs up.
    let left = begin(None);
    let first = bank.waiting().await;
    left.abort();
    bank.until_nothing_waits().await;
    // The call is aborted over its connection.
    let mut peer = Raw::with_token(bank.running.address, "tpt_ada").await;
    peer.say(&requested("r", "bank.pay", &input)).await;
    let second = bank.waiting().await;
    peer.say(&json!({"type": "call.aborted", "id": "r", "payload": {"requestId": "r"}})).await;
    bank.until_nothing_waits().await;
    // Its deadline passes.
    let late = begin(Some("0.05")).await.unwrap().unwrap();
    assert_eq!(late.status(), 504);
    bank.until_nothing_waits().await;
    for waited in [first, second] {
        let (status, said) =
            bank.call("bob", "gateway.approve", &json!({"id": waited["id"]})).await;
        assert_eq!(status, 404);
        assert!(said["detail"].as_str().unwrap().contains("withdrawn by its caller"), "{said}");
    }
    assert_eq!(bank.paid(), 0);
    bank.running.stop().await;
}

#[tokio::test]
async fn a_call_about_which_nobody_decides_ends_in_time_and_says_so() {
    let mut settings = ApprovalSettings::default();
    settings.expires = Duration::from_millis(50);
    let bank = Bank::open(settings).await;
    let (status, said) = bank.call("ada", "bank.pay", &json!({"amount": 1})).await;
    assert_eq!(status, 504);
    let expected = "nobody approved the call of bank.pay within 50ms, so it was not run";
    assert!(said["detail"].as_str().unwrap().starts_with(expected), "{said}");
    assert_eq!(said["error"]["code"], "TIMEOUT");
    assert_eq!(said["error"]["retryable"], true, "nothing was done");
    let approval = &said["error"]["details"]["approval"];
    assert_eq!(approval["status"], "expired");
    let (_, late) = bank.call("bob", "gateway.approve", &json!({"id": approval["id"]})).await;
    assert!(late["detail"].as_str().unwrap().contains("nobody decided in time"), "{late}");
    assert_eq!(bank.paid(), 0);
    bank.running.stop().await;
}

#[tokio::test]
async fn only_so_many_calls_wait_and_others_go_on() {
    let mut settings = ApprovalSettings::default();
    settings.operations = vec![toolpost_gateway::config::Glob::new("demo.n*")];
    (settings.most, settings.most_per_caller) = (2, 1);
    let bank = Bank::open(settings).await;
    let begin = |who: &str| {
        let request = client().post(bank.running.url("/api/demo/note"));
        tokio::spawn(request.bearer_auth(format!("tpt_{who}")).json(&json!({"text": "x"})).send())
    };
    let waits: Vec<_> = ["ada", "bob"].map(begin).into();
    while bank.approvals.waiting() < 2 {
        tokio::task::yield_now().await;
    }
    for (who, words) in [("ada", "2 calls wait for approval"), ("carl", "2 calls wait")] {
        let (status, said) = bank.call(who, "demo.note", &json!({"text": "y"})).await;
        assert_eq!(status, 429, "{who}");
        assert!(said["detail"].as_str().unwrap().contains(words), "{said}");
    }
    let listed = bank.call("carl", "gateway.approvals", &json!({})).await.1;
    let of_bob = listed["approvals"].as_array().unwrap().iter().find(|one| one["caller"] == "bob");
    let id = json!({"id": of_bob.unwrap()["id"]});
    assert_eq!(bank.call("carl", "gateway.approve", &id).await.0, 200);
    let (status, said) = bank.call("ada", "demo.note", &json!({"text": "y"})).await;
    assert_eq!(status, 429);
    assert!(said["detail"].as_str().unwrap().contains("`ada` has 1 calls"), "{said}");
    let sum = bank.call("ada", "demo.add", &json!({"a": 2, "b": 3})).await;
    assert_eq!(sum.1["sum"], 5, "what no pattern names does not wait");
    waits.into_iter().for_each(|wait| wait.abort());
    bank.running.stop().await;
}

/// Whoever is another one when his call is agreed to does not run it.
#[tokio::test]
async fn a_call_whose_caller_has_changed_is_not_run() {
    let bank = Bank::open(ApprovalSettings::default()).await;
    let calling = begin(&bank, "http");
    let waiting = bank.waiting().await;
    let known = format!("[identity.ada]\ntoken_hash = \"{}\"\n", TokenHash::of("tpt_ada"));
    let config = |text: &str| Config::parse("toolpost.toml".as_ref(), text, &|_| None).unwrap();
    let (before, same) = (config(&known), config(&known));
    bank.approvals.change(&before, &same, &mut Reloaded::default());
    assert_eq!(bank.approvals.waiting(), 1, "who is the same waits on");
    let mut report = Reloaded::default();
    bank.approvals.change(&before, &config(&known.replace("ada", "eve")), &mut report);
    assert_eq!(report.notes, ["calls that waited for approval and were ended: 1"]);
    let (said, is_error) = calling.await.unwrap();
    assert!(is_error && said.contains("who called is not known any more"), "{said}");
    let (status, _) = bank.call("bob", "gateway.approve", &json!({"id": waiting["id"]})).await;
    assert_eq!((status, bank.paid()), (StatusCode::NOT_FOUND, 0));
    bank.running.stop().await;
}
