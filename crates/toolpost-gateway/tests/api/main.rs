//! The OpenAPI document of the HTTP API, checked with third-party tools: a validator, a fuzzer and
//! client generators. `scripts/fetch-test-data` installs them.
//!
//! It is a separate test binary, since it keeps the CPU busy and other tests are sensitive to
//! timing.
//!
//! | file | contains |
//! |---|---|
//! | `fixture` | a gateway with operations from all sources, and with unusual ones |
//! | `program` | runs a third-party program with a timeout |
//! | `schemathesis.toml`, `hooks.py` | the configuration of the fuzzer |
//! | `client.ts`, `client.py` | programs that use a generated client |
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by panicking and prints what it skips"
)]

mod fixture;
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolpost::Identity;
use toolpost_gateway::auth::{Authenticator, Token};

use fixture::{Fixture, TestGateway};
use program::{Program, package_cache};

#[tokio::test(flavor = "multi_thread")]
async fn openapi_document_of_all_operations_is_valid() {
    let cache = package_cache(&["validator", "npm"]);
    let fixture = Fixture::start(&cache).await;
    let document = fixture.gateway.document().await;
    for (kind, least) in [("query", 20), ("mutation", 5), ("subscription", 3)] {
        let count = operations(&document).filter(|operation| operation["type"] == kind).count();
        assert!(count >= least, "{count} of kind {kind}");
    }
    for namespace in ["demo", "hub", "odd", "everything", "shop", "streams", "box"] {
        assert!(operations(&document).any(|it| it["namespace"] == namespace), "{namespace}");
    }
    let file = folder("document").join("openapi.json");
    fs::write(&file, document.to_string()).unwrap();
    let validator = Program::new(cache.join("validator/bin/openapi-spec-validator"));
    let message = validator.args([file.to_str().unwrap()]).run().await.unwrap();
    assert!(message.contains("OK"), "{message}");
    fixture.close().await;
}

/// Returns the complete description of every operation.
fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    let items = document["paths"].as_object().unwrap().values();
    items.map(|item| &item["post"]["x-toolpost-operation"])
}

/// Runs all checks in every phase. Exceptions are listed in `schemathesis.toml` with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_finds_no_failures() {
    let cache = package_cache(&["tester"]);
    let served =
        TestGateway::start(fixture::local_and_percent(), Authenticator::allow_anonymous()).await;
    let tested = run_schemathesis(&cache, &served, "tester", &["--max-examples=8"]).await;
    assert!(tested > 2_000, "{tested} requests");
    served.stop().await;
}

/// The same with authentication, for a few operations. Each must reject requests without the token.
#[tokio::test(flavor = "multi_thread")]
async fn schemathesis_with_token_finds_no_failures() {
    let cache = package_cache(&["tester"]);
    let token = Token::generate().unwrap();
    let known = Authenticator::with_tokens([(token.hash(), Identity::new("tester"))]);
    let served = TestGateway::start(fixture::local(), known).await;
    let header = format!("--header=Authorization: Bearer {}", token.reveal());
    // The last two operations link to each other; stateful testing needs links.
    let few = "--include-path-regex=/(demo/(add|note)|hub/(list|schema))$";
    let few = [few, "--max-examples=5", &header];
    let tested = run_schemathesis(&cache, &served, "tester-with-token", &few).await;
    assert!(tested > 100, "{tested} requests");
    served.stop().await;
}

/// Runs Schemathesis, asserts that every response conforms to the document, and returns the number
/// of requests.
async fn run_schemathesis(cache: &Path, served: &TestGateway, name: &str, more: &[&str]) -> usize {
    let tester = Program::new(cache.join("tester/bin/schemathesis")).current_dir(&folder(name));
    let tester = tester.env("SCHEMATHESIS_HOOKS", source("hooks.py").to_str().unwrap());
    let file = source("schemathesis.toml");
    let options = [
        "--checks=all",
        "--phases=examples,coverage,fuzzing,stateful",
        "--mode=all",
        "--seed=20261116",
        "--workers=1",
        "--continue-on-failure",
        "--no-color",
        "--generation-database=none",
    ];
    let url = served.url("/openapi.json");
    let arguments = ["--config-file", file.to_str().unwrap(), "run", &url];
    let arguments = arguments.iter().chain(&options).chain(more).copied();
    let ran = tester.args(arguments).run().await;
    let message = ran.unwrap_or_else(|message| panic!("{message}"));
    assert!(message.contains("✅ Stateful"), "every phase ran: {message}");
    // At least one API link must be selected for stateful testing.
    let links = message.lines().find_map(|line| line.trim().strip_prefix("API Links:"));
    let links = links.and_then(|links| links.split_once(" selected")?.0.rsplit_once(' '));
    let links = links.and_then(|(_, number)| number.parse::<usize>().ok());
    assert!(links.is_some_and(|links| links > 0), "{message}");
    let line = message.lines().find(|line| line.contains(" generated, ")).unwrap_or_default();
    let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.len() >= 2 && numbers[0] == numbers[1], "{message}");
    numbers[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_typescript_client_calls_operations() {
    let cache = package_cache(&["typed", "npm"]);
    let served = TestGateway::start(fixture::local(), Authenticator::allow_anonymous()).await;
    let folder = folder("typed");
    fs::write(folder.join("package.json"), r#"{"type": "module"}"#).unwrap();
    fs::copy(source("client.ts"), folder.join("client.ts")).unwrap();
    std::os::unix::fs::symlink(cache.join("typed/node_modules"), folder.join("node_modules"))
        .unwrap();
    let node = |script: &str| {
        let node = Program::new(cache.join("npm/node_modules/.bin/node")).current_dir(&folder);
        node.args([script])
    };
    let url = served.url("/openapi.json");
    let generator = node("node_modules/openapi-typescript/bin/cli.js");
    generator.args([&*url, "-o", "schema.d.ts"]).run().await.unwrap();
    let checker = node("node_modules/typescript/bin/tsc");
    let options =
        ["--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "client.ts"];
    checker.args(options).run().await.unwrap();
    let message = node("client.js").args([served.url("").as_str()]).run().await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&message).unwrap(), expected());
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_python_client_calls_operations() {
    let cache = package_cache(&["generator"]);
    let served = TestGateway::start(fixture::local(), Authenticator::allow_anonymous()).await;
    let folder = folder("generated");
    let generator =
        Program::new(cache.join("generator/bin/openapi-python-client")).current_dir(&folder);
    let url = served.url("/openapi.json");
    let arguments =
        ["generate", "--url", &url, "--meta", "none", "--output-path", "toolpost_client"];
    // The generator formats its output with a program in the same folder.
    let beside = format!("{}:/usr/bin:/bin", cache.join("generator/bin").display());
    let generator = generator.env("PATH", &beside);
    // The generator warns about everything that it cannot convert to a function or a type.
    let generator = generator.args(arguments).args(["--fail-on-warning"]);
    generator.run().await.unwrap();
    let script = source("client.py");
    let python = Program::new(cache.join("generator/bin/python")).current_dir(&folder);
    let python = python.env("PYTHONPATH", folder.to_str().unwrap());
    let url = served.url("");
    let message = python.args([script.to_str().unwrap(), &url]).run().await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&message).unwrap(), expected());
    served.stop().await;
}

/// Expected output of both clients: a query by both methods, a mutation, a declared error and an
/// invalid input.
fn expected() -> Value {
    json!({
        "read": {"sum": 5},
        "posted": {"sum": 5},
        "noted": {"text": "from a client", "kept": 1},
        "failed": {
            "status": 409, "code": "DEMO_FAILURE", "remedy": "call another operation",
        },
        "refused": {"status": 422, "code": "VALIDATION_ERROR"},
    })
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api").join(name)
}

/// Creates an empty folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("api").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
