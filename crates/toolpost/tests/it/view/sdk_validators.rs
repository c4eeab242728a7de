//! Random schemas and results against the validators of MCP client SDKs.
//!
//! Each published schema must compile, and each result must be valid. `scripts/fetch-test-data`
//! installs the SDKs.

use std::fmt::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use tokio::process::Command;
use toolpost::view::{Dialect, ProtocolGeneration};
use toolpost::{Envelope, OperationKind, Outcome, OutputPolicy, Schema};

use super::fixture::{spec, tool_with_policy, write};
use crate::schema_generators::{schema, schema_with_defaults, value};

/// Bound of the run of one validator.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Validators: the program and its arguments. `{cache}` is the folder of the installed packages.
const VALIDATORS: [(&str, &[&str]); 4] = [
    (
        "{cache}/npm/node_modules/.bin/node",
        &["validate.mjs", "{cache}/clients", "@modelcontextprotocol/sdk/validation/ajv"],
    ),
    (
        "{cache}/npm/node_modules/.bin/node",
        &["validate.mjs", "{cache}/clients", "@modelcontextprotocol/client/validators/ajv"],
    ),
    ("{cache}/py/bin/python", &["validate.py"]),
    ("{cache}/py2/bin/python", &["validate.py"]),
];

#[tokio::test]
async fn sdk_validators_accept_every_result() {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let missing: Vec<_> = ["npm", "clients", "py", "py2"]
        .into_iter()
        .filter(|folder| !cache.join(folder).join(".packages").exists())
        .collect();
    assert!(missing.is_empty(), "no {missing:?} in .cache: run scripts/fetch-test-data");
    let cache = cache.canonicalize().unwrap();
    let results = random_results();
    let (count, wrapped) =
        (results.len(), results.iter().filter(|it| it["wrapped"] == true).count());
    assert!(count > 1_000 && wrapped > 100, "{count} results, {wrapped} wrapped");
    let lines = results.iter().fold(String::new(), |mut lines, line| {
        let _ = writeln!(lines, "{line}");
        lines
    });
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk-validators.jsonl");
    std::fs::write(&file, lines).unwrap();
    for (program, arguments) in VALIDATORS {
        let fill_in = |text: &str| text.replace("{cache}", &cache.to_string_lossy());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/view/sdk_validators");
        let mut command = Command::new(fill_in(program));
        command.args(arguments.iter().map(|text| fill_in(text))).current_dir(folder);
        command.stdin(std::fs::File::open(&file).unwrap()).stderr(Stdio::inherit());
        let output = tokio::time::timeout(TIMEOUT, command.kill_on_drop(true).output());
        let output = output.await.expect("the validator ends in time").unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let (rejected, last) = output.trim_end().rsplit_once('\n').unwrap_or(("", output.trim()));
        assert_eq!(rejected, "", "{arguments:?}");
        assert_eq!(last, format!("{count} results"), "{arguments:?}");
    }
}

/// Returns published schemas, each with the structured content of a result.
fn random_results() -> Vec<Value> {
    let mut runner = runner();
    let schemas = prop_oneof![3 => schema(), 1 => schema_with_defaults()];
    let mut results = Vec::new();
    for case in 0..cases() {
        let mut schema = schemas.new_tree(&mut runner).unwrap().current();
        let mut value = value().new_tree(&mut runner).unwrap().current();
        if case % 4 == 0 {
            (schema, value) = (with_inherited_name(&schema), with_inherited_name(&value));
        }
        // The pipeline returns normalized data.
        let mut normalized = value.clone();
        let declared = Schema::new(schema.clone()).unwrap();
        let _ = declared.normalize(&mut normalized, Default::default());
        let data = if case % 2 == 0 { value } else { normalized };
        for dialect in [Dialect::Data, Dialect::Envelope, Dialect::Ok] {
            for generation in [ProtocolGeneration::Legacy, ProtocolGeneration::Modern] {
                for policy in [OutputPolicy::Normalize, OutputPolicy::Enforce] {
                    let spec = spec("demo.x", OperationKind::Query, json!(true), schema.clone());
                    let tool = tool_with_policy(spec, dialect, policy);
                    let outcome = Outcome::from(Envelope::local(data.clone().into(), "demo.x"));
                    let written = write(&tool, generation, Ok(outcome));
                    let is_error = written.result["isError"] == true;
                    let structured = written.result.get("structuredContent");
                    assert!(policy == OutputPolicy::Enforce || !is_error, "{schema} {data}");
                    let Some(published) = written.output_schema else { continue };
                    let mut line = json!({"schema": published});
                    if let Some(structured) = structured {
                        line["structured"] = structured.clone();
                        line["wrapped"] =
                            (written.result["_meta"]["toolpost/wrapped"] == true).into();
                    } else {
                        assert!(is_error, "a success has structured content: {schema} {data}");
                    }
                    results.push(line);
                }
            }
        }
    }
    results
}

/// Renames a property to a member that every JavaScript object inherits.
fn with_inherited_name(json: &Value) -> Value {
    serde_json::from_str(&json.to_string().replace("\"kind\"", "\"constructor\"")).unwrap()
}

/// Returns the number of schemas: `PROPTEST_CASES` if set.
fn cases() -> u32 {
    let configured = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    configured.unwrap_or(200)
}

/// Fixed seed by default; random if `PROPTEST_CASES` is set.
fn runner() -> TestRunner {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => TestRunner::new(Config::default()),
        None => {
            let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[26; 32]);
            TestRunner::new_with_rng(Config::default(), rng)
        }
    }
}
