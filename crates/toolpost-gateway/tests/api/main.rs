//! The document of the HTTP API, as the programs of others read it: a validator, a tester that makes
//! requests up, and generators of clients. `scripts/fetch-test-data` brings them.
//!
//! It is a program of its own, since it keeps the machine busy and other tests watch the clock.
//!
//! | file | holds |
//! |---|---|
//! | `world` | a gateway with operations from everywhere, and with odd ones |
//! | `program` | a program of somebody else: found, started, and ended in time |
//! | `schemathesis.toml`, `hooks.py` | what the tester is told |
//! | `client.ts`, `client.py` | what is written against a generated client |
#![allow(
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and says what it leaves out"
)]

mod program;
mod world;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolpost::Identity;
use toolpost_gateway::auth::{Authenticator, Token};

use program::{Program, cache};
use world::{Served, World};

#[tokio::test(flavor = "multi_thread")]
async fn the_document_of_everything_is_valid() {
    let Some(cache) = cache(&["validator", "npm"]) else { return };
    let world = World::start(&cache).await;
    let document = world.served.document().await;
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
    let said = validator.arguments([file.to_str().unwrap()]).run().await.unwrap();
    assert!(said.contains("OK"), "{said}");
    world.close().await;
}

/// Every whole description of an operation.
fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    let items = document["paths"].as_object().unwrap().values();
    items.map(|item| &item["post"]["x-toolpost-operation"])
}

/// All checks, in every phase; what is told otherwise is in the file, with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_tester_finds_nothing_wrong() {
    let Some(cache) = cache(&["tester"]) else { return };
    let served = Served::start(world::local_and_percent(), Authenticator::open()).await;
    let tested = test(&cache, &served, "tester", &["--max-examples=8"]).await;
    assert!(tested > 2_000, "{tested} requests");
    served.stop().await;
}

/// The same where a token is needed, for a few operations: each must miss it.
#[tokio::test(flavor = "multi_thread")]
async fn a_tester_with_a_token_finds_nothing_wrong() {
    let Some(cache) = cache(&["tester"]) else { return };
    let token = Token::generate().unwrap();
    let known = Authenticator::with([(token.hash(), Identity::new("tester"))]);
    let served = Served::start(world::local(), known).await;
    let header = format!("--header=Authorization: Bearer {}", token.reveal());
    // The last two lead to each other, without which nothing could be done in a row.
    let few = "--include-path-regex=/(demo/(add|note)|hub/(list|schema))$";
    let few = [few, "--max-examples=5", &header];
    let tested = test(&cache, &served, "tester-with-token", &few).await;
    assert!(tested > 100, "{tested} requests");
    served.stop().await;
}

/// How many requests were made, none of which was answered in a way that the document does not say.
async fn test(cache: &Path, served: &Served, name: &str, more: &[&str]) -> usize {
    let tester = Program::new(cache.join("tester/bin/schemathesis")).folder(&folder(name));
    let tester = tester.variable("SCHEMATHESIS_HOOKS", source("hooks.py").to_str().unwrap());
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
    let ran = tester.arguments(arguments).run().await;
    let said = ran.unwrap_or_else(|said| panic!("{said}"));
    assert!(said.contains("✅ Stateful"), "every phase has run: {said}");
    // So many scenarios, along links of which some were covered and so many could be.
    let links = said.lines().find_map(|line| line.trim().strip_prefix("API Links:"));
    let links = links.and_then(|links| links.split_once(" selected")?.0.rsplit_once(' '));
    let links = links.and_then(|(_, number)| number.parse::<usize>().ok());
    assert!(links.is_some_and(|links| links > 0), "{said}");
    let line = said.lines().find(|line| line.contains(" generated, ")).unwrap_or_default();
    let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.len() >= 2 && numbers[0] == numbers[1], "{said}");
    numbers[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_client_for_typescript_calls() {
    let Some(cache) = cache(&["typed", "npm"]) else { return };
    let served = Served::start(world::local(), Authenticator::open()).await;
    let folder = folder("typed");
    fs::write(folder.join("package.json"), r#"{"type": "module"}"#).unwrap();
    fs::copy(source("client.ts"), folder.join("client.ts")).unwrap();
    std::os::unix::fs::symlink(cache.join("typed/node_modules"), folder.join("node_modules"))
        .unwrap();
    let node = |script: &str| {
        let node = Program::new(cache.join("npm/node_modules/.bin/node")).folder(&folder);
        node.arguments([script])
    };
    let url = served.url("/openapi.json");
    let generator = node("node_modules/openapi-typescript/bin/cli.js");
    generator.arguments([&*url, "-o", "schema.d.ts"]).run().await.unwrap();
    let checker = node("node_modules/typescript/bin/tsc");
    let options =
        ["--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "client.ts"];
    checker.arguments(options).run().await.unwrap();
    let said = node("client.js").arguments([served.url("").as_str()]).run().await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), expected());
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_client_for_python_calls() {
    let Some(cache) = cache(&["generator"]) else { return };
    let served = Served::start(world::local(), Authenticator::open()).await;
    let folder = folder("generated");
    let generator = Program::new(cache.join("generator/bin/openapi-python-client")).folder(&folder);
    let url = served.url("/openapi.json");
    let arguments =
        ["generate", "--url", &url, "--meta", "none", "--output-path", "toolpost_client"];
    // It tidies what it has made with a program that lies beside it.
    let beside = format!("{}:/usr/bin:/bin", cache.join("generator/bin").display());
    let generator = generator.variable("PATH", &beside);
    // It warns of everything that it cannot make a function or a type of.
    let generator = generator.arguments(arguments).arguments(["--fail-on-warning"]);
    generator.run().await.unwrap();
    let script = source("client.py");
    let python = Program::new(cache.join("generator/bin/python")).folder(&folder);
    let python = python.variable("PYTHONPATH", folder.to_str().unwrap());
    let url = served.url("");
    let said = python.arguments([script.to_str().unwrap(), &url]).run().await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), expected());
    served.stop().await;
}

/// What either client has to say: a query by both methods, a mutation, a declared error, and an input
/// that does not fit.
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

/// An empty folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("api").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
