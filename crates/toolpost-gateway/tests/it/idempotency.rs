//! Idempotency keys on every endpoint: a repeated call gets the first outcome.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures::StreamExt;
use futures::future::join_all;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolpost::{CallContext, CallError, Change, HandlerError, Operation, Schema};
use toolpost_gateway::auth::TokenHash;
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, builtin};

use super::hub::{HubClient, request_event};
use super::mcp::message;
use super::spokes::{wait_until, with_timeout};
use super::{TestGateway, client};

/// A gateway with operations that count how often they run.
struct BankFixture {
    server: TestGateway,
    bank: Arc<Bank>,
    data: PathBuf,
}

struct Bank {
    runs: AtomicU64,
    /// One permit for each call of `bank.slow` that can finish.
    finish_permits: Semaphore,
}

const IDENTITIES: [(&str, &str); 3] =
    [("ada", "tpt_ada"), ("bob", "tpt_bob"), ("operator_2", "tpt_operator_2")];

impl BankFixture {
    async fn start() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("toolpost-idempotency-{}-{number}", std::process::id());
        let data = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&data);
        Self::serve(data, "").await
    }

    async fn serve(data: PathBuf, settings: &str) -> Self {
        let bank = Arc::new(Bank { runs: 0.into(), finish_permits: Semaphore::new(0) });
        let registry = builtin::registry();
        registry.apply(operations(&bank).map(Change::Register)).unwrap();
        let builder =
            Gateway::builder(registry).config(config(settings, &IDENTITIES)).journal(&data);
        Self { server: TestGateway::serve(builder, "127.0.0.1:0").await, bank, data }
    }

    /// Stops the gateway and starts another one with the same data folder. Nothing has run there.
    async fn restart(self, settings: &str) -> Self {
        self.server.stop().await;
        Self::serve(self.data, settings).await
    }

    async fn stop(self) {
        self.server.stop().await;
        std::fs::remove_dir_all(&self.data).unwrap();
    }

    fn runs(&self) -> u64 {
        self.bank.runs.load(Ordering::SeqCst)
    }

    fn post(&self, token: &str, operation: &str, key: &str, input: &Value) -> RequestBuilder {
        let path = format!("/api/{}", operation.replacen('.', "/", 1));
        let request = client().post(self.server.url(&path)).bearer_auth(token).json(input);
        if key.is_empty() { request } else { request.header("idempotency-key", key) }
    }

    /// Returns the status, the body, and whether the response is marked as replayed.
    async fn call(
        &self,
        token: &str,
        operation: &str,
        key: &str,
        input: &Value,
    ) -> (StatusCode, Value, bool) {
        let response = self.post(token, operation, key, input).send().await.unwrap();
        let is_replayed = response.headers().get("toolpost-replayed").is_some();
        (response.status(), response.json().await.unwrap(), is_replayed)
    }
}

/// Returns a configuration with these identities and tokens.
fn config(settings: &str, identities: &[(&str, &str)]) -> Config {
    let identities = identities.iter().map(|(name, token)| {
        let hash = TokenHash::of(token);
        format!("[identity.{name}]\ntoken_hash = \"{hash}\"\nscopes = [\"toolpost:read\"]\n")
    });
    let text = format!("{settings}\n{}", identities.collect::<String>());
    Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap()
}

fn operations(bank: &Arc<Bank>) -> [Operation; 5] {
    let counted = |bank: &Arc<Bank>| {
        let bank = Arc::clone(bank);
        move || json!({"run": bank.runs.fetch_add(1, Ordering::SeqCst) + 1})
    };
    let input = json!({"type": "object", "properties": {
        "amount": {"type": "integer"}, "to": {"type": "string", "default": "eve"}}});
    let run = counted(bank);
    let pay = Operation::mutation("bank.pay", move |_: Value| {
        std::future::ready(Ok::<_, HandlerError>(run()))
    });
    let run = counted(bank);
    let balance = Operation::query("bank.balance", move |_: Value| {
        std::future::ready(Ok::<_, HandlerError>(run()))
    });
    let (slow_bank, run) = (Arc::clone(bank), counted(bank));
    let slow = Operation::mutation("bank.slow", move |_: Value| {
        let (bank, result) = (Arc::clone(&slow_bank), run());
        async move {
            bank.finish_permits.acquire().await.unwrap().forget();
            Ok::<_, HandlerError>(result)
        }
    });
    let run = counted(bank);
    let fail = Operation::mutation("bank.fail", move |input: Value| {
        let run = run();
        let error = CallError::unavailable(format!("failed in run {}", run["run"]));
        let error = if input["sent"] == false { error.not_sent() } else { error };
        std::future::ready(Err::<Value, HandlerError>(error.into()))
    });
    let ticks = Operation::subscription("bank.ticks", |_: CallContext, _: Value| {
        futures::stream::iter([Ok::<_, HandlerError>(1)]).boxed()
    });
    [
        pay.schemas(Schema::new(input).unwrap(), Schema::unknown()).build().unwrap(),
        balance.build().unwrap(),
        slow.build().unwrap(),
        fail.build().unwrap(),
        ticks.build().unwrap(),
    ]
}

#[tokio::test]
async fn repeated_key_returns_first_outcome_over_http() {
    let bank = BankFixture::start().await;
    let input = json!({"amount": 5});
    let first = bank.call("tpt_ada", "bank.pay", "k 1", &input).await;
    assert_eq!(first, (StatusCode::OK, json!({"run": 1}), false));
    // Members in another order, a default that is given, and another notation of a number.
    for same in [json!({"amount": 5, "to": "eve"}), json!({"to": "eve", "amount": 5.0})] {
        let again = bank.call("tpt_ada", "bank.pay", "k 1", &same).await;
        assert_eq!(again, (StatusCode::OK, json!({"run": 1}), true), "{same}");
    }
    let request = bank.post("tpt_ada", "bank.pay", "k 1", &input);
    let request = request.header("accept", "application/vnd.toolpost.envelope+json");
    let envelope: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!((&envelope["data"]["run"], &envelope["replayed"]), (&json!(1), &json!(true)));
    assert_eq!(envelope["meta"]["operationId"], "bank.pay");
    // Another key, another operation, another identity, and no key.
    for (token, operation, key, run) in [
        ("tpt_ada", "bank.pay", "k 2", 2),
        ("tpt_ada", "bank.balance", "k 1", 3),
        ("tpt_bob", "bank.pay", "k 1", 4),
        ("tpt_ada", "bank.pay", "", 5),
        ("tpt_ada", "bank.pay", "", 6),
    ] {
        let other = bank.call(token, operation, key, &input).await;
        assert_eq!(other, (StatusCode::OK, json!({"run": run}), false), "{operation} {key}");
    }
    bank.stop().await;
}

#[tokio::test]
async fn every_endpoint_replays_the_same_outcome() {
    let bank = BankFixture::start().await;
    let input = json!({"amount": 5});
    let first = bank.call("tpt_ada", "bank.pay", "k", &input).await;
    assert_eq!(first, (StatusCode::OK, json!({"run": 1}), false));

    let params = json!({"name": "bank__pay", "arguments": input,
        "_meta": {"toolpost/idempotencyKey": "k"}});
    let request = client().post(bank.server.url("/mcp")).bearer_auth("tpt_ada");
    let request = request.header("accept", "application/json, text/event-stream");
    let result = request.json(&message(1, "tools/call", &params)).send().await.unwrap();
    let result: Value = result.json().await.unwrap();
    assert_eq!(result["result"]["structuredContent"], json!({"run": 1}), "{result}");
    assert_eq!(result["result"]["_meta"]["toolpost/replayed"], true, "{result}");

    let mut hub = HubClient::with_token(bank.server.address, "tpt_ada").await;
    let mut event = request_event("r", "bank.pay", &input);
    event["payload"]["idempotencyKey"] = "k".into();
    hub.send_json(&event).await;
    let responded = hub.recv_event().await;
    assert_eq!(responded["payload"]["output"]["data"], json!({"run": 1}), "{responded}");
    assert_eq!(responded["payload"]["replayed"], true, "{responded}");

    // `hub.call` uses its member, or else the key of its own request.
    let target = json!({"id": "bank.pay", "input": input});
    let mut keyed = target.clone();
    keyed["idempotencyKey"] = "k".into();
    for (key, input) in [("", &keyed), ("k", &target), ("other", &keyed)] {
        let replayed = bank.call("tpt_ada", "hub.call", key, input).await;
        assert_eq!(replayed, (StatusCode::OK, json!({"run": 1}), true), "{key} {input}");
    }
    assert_eq!(bank.runs(), 1);
    bank.stop().await;
}

#[tokio::test]
async fn concurrent_callers_with_one_key_run_once() {
    const CALLERS: usize = 64;
    let bank = BankFixture::start().await;
    let input = json!({});
    let calls = (0..CALLERS).map(|_| bank.call("tpt_ada", "bank.slow", "k", &input));
    let other_identity = bank.call("tpt_bob", "bank.slow", "k", &input);
    let release = async {
        wait_until("both identities have a run", || bank.runs() == 2).await;
        bank.bank.finish_permits.add_permits(2);
    };
    let calling = async { tokio::join!(join_all(calls), other_identity, release) };
    let (results, other, ()) = with_timeout("all callers get an outcome", calling).await;
    assert_eq!(bank.runs(), 2);
    assert!(!other.2);
    let first = results[0].1.clone();
    assert_ne!(first, other.1);
    assert!(results.iter().all(|(status, body, _)| *status == StatusCode::OK && *body == first));
    let replayed = results.iter().filter(|(.., is_replayed)| *is_replayed).count();
    assert_eq!(replayed, CALLERS - 1);
    bank.stop().await;
}

/// A second caller waits within its own deadline; the first call is not affected.
#[tokio::test]
async fn waiting_caller_times_out_by_its_own_deadline() {
    let bank = BankFixture::start().await;
    let input = json!({});
    let first = bank.call("tpt_ada", "bank.slow", "k", &input);
    let second = async {
        wait_until("the first call runs", || bank.runs() == 1).await;
        let request = bank.post("tpt_ada", "bank.slow", "k", &input);
        let request = request.header("request-timeout", "0.05");
        let status = request.send().await.unwrap().status();
        bank.bank.finish_permits.add_permits(1);
        status
    };
    let ended = with_timeout("both calls end", async { tokio::join!(first, second) }).await;
    assert_eq!(ended, ((StatusCode::OK, json!({"run": 1}), false), StatusCode::GATEWAY_TIMEOUT));
    bank.stop().await;
}

#[tokio::test]
async fn key_with_other_input_is_a_conflict() {
    let bank = BankFixture::start().await;
    assert_eq!(bank.call("tpt_ada", "bank.pay", "k", &json!({"amount": 5})).await.0, 200);
    for input in [json!({"amount": 6}), json!({}), json!({"amount": 5, "to": "bob"})] {
        let (status, problem, _) = bank.call("tpt_ada", "bank.pay", "k", &input).await;
        assert_eq!(
            (status.as_u16(), &problem["error"]["code"]),
            (422, &json!("IDEMPOTENCY_CONFLICT"))
        );
        assert_eq!(problem["error"]["retryable"], false, "{problem}");
    }
    assert_eq!(bank.runs(), 1);
    bank.stop().await;
}

/// Each row: the operation, its input, the expected code, and whether a repeated call runs.
#[tokio::test]
async fn errors_are_replayed_unless_a_retry_is_safe() {
    let bank = BankFixture::start().await;
    for (operation, input, code, runs_again) in [
        ("bank.fail", json!({}), "UNAVAILABLE", false),
        ("bank.fail", json!({"sent": false}), "UNAVAILABLE", true),
    ] {
        let key = input.to_string();
        let before = bank.runs();
        let (first, second) = (
            bank.call("tpt_ada", operation, &key, &input).await,
            bank.call("tpt_ada", operation, &key, &input).await,
        );
        assert_eq!(first.1["error"]["code"], code, "{}", first.1);
        assert_eq!(first.1["error"]["retryable"], runs_again, "{}", first.1);
        assert_eq!(bank.runs() - before, 1 + u64::from(runs_again), "{input}");
        assert_eq!(second.2, !runs_again, "{}", second.1);
        assert_eq!(first.1["error"]["message"] == second.1["error"]["message"], !runs_again);
        if !runs_again {
            assert_eq!(second.1["error"]["replayed"], true, "{}", second.1);
            assert_eq!(second.1["error"]["details"]["mayHaveRun"], true, "{}", second.1);
        }
    }
    bank.stop().await;
}

/// Each row: the operation, the key, the input and the expected status.
#[tokio::test]
async fn rejected_call_stores_nothing() {
    let bank = BankFixture::start().await;
    let long = "x".repeat(256);
    for (operation, key, input, status) in [
        ("bank.pay", "k", json!({"amount": "much"}), 422),
        ("bank.pay", &long, json!({"amount": 5}), 422),
        ("bank.ticks", "k", json!({}), 422),
        ("bank.pay", "k", json!({"amount": 5}), 200),
    ] {
        let response = bank.post("tpt_ada", operation, key, &input).send().await.unwrap();
        let mark = response.headers().get("toolpost-replayed").cloned();
        let (found, text) = (response.status(), response.text().await.unwrap());
        assert_eq!((found.as_u16(), mark), (status, None), "{operation} {text}");
        if key.len() < 255 && status == 422 && operation == "bank.ticks" {
            assert!(text.contains("a subscription cannot have an idempotency key"), "{text}");
        }
    }
    let twice = bank.post("tpt_ada", "bank.pay", "k", &json!({})).header("idempotency-key", "l");
    assert_eq!(twice.send().await.unwrap().status(), 400);
    assert_eq!(bank.runs(), 1);
    bank.stop().await;
}

#[tokio::test]
async fn outcome_survives_restart_and_expires() {
    let bank = BankFixture::start().await;
    let input = json!({"amount": 5});
    assert_eq!(bank.call("tpt_ada", "bank.pay", "k", &input).await.1, json!({"run": 1}));
    assert!(!bank.call("tpt_ada", "bank.fail", "f", &input).await.2);
    // The files contain neither the key nor the input nor the outcome, and are private.
    for entry in walk(&bank.data.join("tasks")) {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&entry).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.display());
        let bytes = std::fs::read(&entry).unwrap();
        assert!(!bytes.windows(5).any(|part| part == b"\"run\""), "{}", entry.display());
    }
    let bank = bank.restart("").await;
    let again = bank.call("tpt_ada", "bank.pay", "k", &input).await;
    assert_eq!(again, (StatusCode::OK, json!({"run": 1}), true));
    assert!(bank.call("tpt_ada", "bank.fail", "f", &input).await.2);
    assert_eq!(bank.call("tpt_ada", "bank.pay", "k", &json!({})).await.0, 422);
    assert_eq!(bank.runs(), 0);
    let bank = bank.restart("[idempotency]\nretain = \"1ms\"").await;
    let expired = bank.call("tpt_ada", "bank.pay", "k", &input).await;
    assert_eq!(expired, (StatusCode::OK, json!({"run": 1}), false));
    bank.stop().await;
}

fn walk(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] });
    let files: Vec<_> = files.collect();
    assert!(!files.is_empty());
    files
}

/// A key belongs to a credential: the outcome is not visible after the token is reissued.
#[tokio::test]
async fn reissued_token_does_not_see_old_outcomes() {
    let bank = BankFixture::start().await;
    let input = json!({"amount": 5});
    assert_eq!(bank.call("tpt_ada", "bank.pay", "k", &input).await.1, json!({"run": 1}));
    let reissued = [("ada", "tpt_ada_2"), ("bob", "tpt_bob"), ("operator_2", "tpt_operator_2")];
    bank.server.gateway.apply_config(config("", &reissued)).await.unwrap();
    assert_eq!(bank.call("tpt_ada", "bank.pay", "k", &input).await.0, 401);
    let other = bank.call("tpt_ada_2", "bank.pay", "k", &input).await;
    assert_eq!(other, (StatusCode::OK, json!({"run": 2}), false));
    bank.stop().await;
}

#[tokio::test]
async fn full_store_rejects_new_keys_only() {
    let bank = BankFixture::start().await.restart("[idempotency]\nmax = 1").await;
    let input = json!({"amount": 5});
    assert_eq!(bank.call("tpt_ada", "bank.pay", "k", &input).await.1, json!({"run": 1}));
    let (status, problem, _) = bank.call("tpt_ada", "bank.pay", "l", &input).await;
    assert_eq!((status.as_u16(), &problem["error"]["code"]), (429, &json!("OVERLOADED")));
    assert_eq!(problem["error"]["details"]["limit"], "idempotency_max", "{problem}");
    assert!(bank.call("tpt_ada", "bank.pay", "k", &input).await.2);
    assert_eq!(bank.call("tpt_ada", "bank.pay", "", &input).await.1, json!({"run": 2}));
    bank.stop().await;
}

#[tokio::test]
async fn replayed_call_is_journaled_with_first_call() {
    let bank = BankFixture::start().await;
    let input = json!({"amount": 5});
    for _ in 0..2 {
        assert_eq!(bank.call("tpt_ada", "bank.pay", "k", &input).await.1, json!({"run": 1}));
    }
    let journal = bank.call("tpt_bob", "gateway.journal", "", &json!({"op": "bank.pay"})).await.1;
    let calls = journal["calls"].as_array().unwrap_or_else(|| panic!("{journal}"));
    let [second, first] = &calls[..] else { panic!("{journal}") };
    assert_eq!(first.get("replayOf"), None, "{journal}");
    assert_eq!(second["replayOf"], first["callId"], "{journal}");
    bank.stop().await;
}
