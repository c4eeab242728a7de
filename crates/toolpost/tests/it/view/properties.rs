//! Properties that hold for every operation and every result.

use jsonschema::Draft;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Map, Value, json};
use toolpost::view::{Dialect, ProtocolGeneration, ResultStatus, ToolSet, ViewSettings, tool_name};
use toolpost::{
    CallError, Envelope, ErrorCode, OperationId, OperationKind, Outcome, OutputPolicy, Payload,
    Schema,
};

use super::fixture::{
    HandlerResponse, WrittenResult, catalog, mcp, spec, tool, tool_with_policy, write,
};
use crate::schema_generators::{schema, value};

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), rng_seed: seed(), ..ProptestConfig::default() })]

    #[test]
    fn tool_name_resolves_to_its_operation_id(
        ids in prop::collection::btree_set(("[a-z0-9]{1,70}([-_][a-z0-9]{1,3}){0,3}", operation_name()), 1..20),
    ) {
        let ids: Vec<_> = ids.iter().map(|(namespace, name)| OperationId::new(namespace, name).unwrap()).collect();
        let specs = ids.iter().map(|id| spec(id.as_str(), OperationKind::Query, json!(true), json!(true)));
        let tool_set = ToolSet::new(catalog(specs), ViewSettings::default());
        prop_assert_eq!(tool_set.warnings(), &[] as &[String]);
        for id in &ids {
            let name = tool_name(id);
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            prop_assert!((1..=64).contains(&name.len()) && name.bytes().all(fits), "{}", name);
            prop_assert_eq!(tool_set.tool(&name).map(|tool| tool.id()), Some(id));
        }
    }

    #[test]
    fn sent_result_matches_declared_schema(
        schema in schema(), value in value(), dialect in dialect(), generation in generation(), raw: bool,
        is_stream in prop::bool::weighted(0.1), policy in policy(),
    ) {
        let kind = if is_stream { OperationKind::Subscription } else { OperationKind::Query };
        let spec = spec("demo.x", kind, json!(true), schema.clone());
        let tool = tool_with_policy(spec, dialect, policy);
        let payload = match raw {
            true => Payload::from_json(value.to_string()).unwrap(),
            false => value.clone().into(),
        };
        let outcome = Outcome::from(Envelope::local(payload, "demo.x"));
        let written = write(&tool, generation, Ok(outcome));
        assert_client_requirements(&written, generation);
        let fits = Schema::new(schema).unwrap().is_valid(&value);
        if policy != OutputPolicy::Enforce || !is_stream && fits.unwrap_or(false) {
            prop_assert_eq!(written.status, ResultStatus::Success);
        }
        if policy == OutputPolicy::Raw {
            prop_assert_eq!(written.output_schema, None);
        }
    }

    #[test]
    fn relaxed_schema_accepts_what_declared_accepts(schema in schema(), value in value()) {
        let Ok(validator) = jsonschema::options().should_validate_formats(false).build(&schema) else {
            return Ok(());
        };
        let tool = tool(spec("demo.x", OperationKind::Query, json!(true), schema.clone()), Dialect::Envelope);
        let outcome = Outcome::from(Envelope::local(value.clone().into(), "demo.x"));
        let written = write(&tool, ProtocolGeneration::Legacy, Ok(outcome));
        let Some(mut published) = written.output_schema else { return Ok(()) };
        let variants = published["properties"]["data"]["anyOf"].as_array_mut().unwrap();
        prop_assert_eq!(variants.pop(), Some(json!({})));
        let sent = &written.result["structuredContent"];
        for draft in [Draft::Draft7, Draft::Draft202012] {
            let relaxed = jsonschema::options().with_draft(draft).build(&published).unwrap();
            if validator.is_valid(&value) {
                prop_assert!(relaxed.is_valid(sent), "{} {}", schema, published);
            }
            // Below the root, null is accepted everywhere.
            let nested = json!({"data": null_members(&value), "meta": {"source": "local"}});
            if value.is_object() && relaxed.is_valid(sent) {
                prop_assert!(relaxed.is_valid(&nested), "{} {} {}", schema, published, nested);
            }
        }
    }

    #[test]
    fn server_result_is_relayed_within_declared_schema(
        schema in schema(), result in server_result(), dialect in dialect(), generation in generation(),
    ) {
        let tool = tool(spec("box.x", OperationKind::Query, json!(true), schema), dialect);
        let HandlerResponse::Mcp(data, meta) = mcp(&result) else { unreachable!() };
        let written = write(&tool, generation, Ok(Outcome::from(Envelope::mcp(data.into(), *meta))));
        assert_client_requirements(&written, generation);
        if result.get("isError") == Some(&json!(true)) {
            prop_assert_eq!(written.status, ResultStatus::Failure);
        }
        if dialect == Dialect::Data && written.status != ResultStatus::InvalidOutput {
            prop_assert_eq!(&written.result["content"], &result["content"]);
        }
    }

    #[test]
    fn error_message_is_preserved_in_every_dialect(
        code in "[A-Z_]{1,12}|VALIDATION_ERROR|EXECUTION_ERROR", message in any::<String>(),
        details in prop::option::of(value()), dialect in dialect(), generation in generation(), schema in schema(),
    ) {
        let tool = tool(spec("demo.x", OperationKind::Query, schema, json!({"type": "object"})), dialect);
        let mut error = CallError::new(ErrorCode::from(code.as_str()), message.clone());
        if let Some(details) = details {
            error = error.with_details(details);
        }
        let written = write(&tool, generation, Err(error));
        assert_client_requirements(&written, generation);
        let text = written.result["content"][0]["text"].as_str().unwrap();
        let message = match dialect {
            Dialect::Ok => serde_json::from_str::<Value>(text).unwrap()["error"]["message"].clone(),
            _ => text.contains(&message).then(|| message.clone()).into(),
        };
        prop_assert!(message.is_string());
    }
}

/// Asserts what every client requires of a result.
fn assert_client_requirements(written: &WrittenResult, generation: ProtocolGeneration) {
    let WrittenResult { result, output_schema: declared, status: sent } = written;
    assert!(result["content"].is_array(), "{result}");
    assert!(result.as_object().unwrap().values().all(|member| !member.is_null()), "{result}");
    let is_error = result.get("isError") == Some(&json!(true));
    assert_eq!(is_error, *sent != ResultStatus::Success, "{result}");
    let structured = result.get("structuredContent");
    if let ProtocolGeneration::Legacy = generation {
        assert!(structured.is_none_or(Value::is_object), "{result}");
        assert!(declared.as_ref().is_none_or(|schema| schema["type"] == "object"), "{declared:?}");
        assert_eq!(result.get("resultType"), None);
    } else {
        assert_eq!(result["resultType"], "complete");
    }
    let Some(declared) = declared else { return };
    assert!(is_error || structured.is_some(), "{declared} {result}");
    if *sent == ResultStatus::InvalidOutput {
        assert!(structured.is_none_or(|structured| structured["ok"] == false), "{result}");
        assert!(
            result["content"][0]["text"].as_str().unwrap().contains("OUTPUT_VALIDATION_FAILED")
        );
    }
    // JSON Schema does not define the meaning of a schema that applies itself to the same value.
    if Schema::new(declared.clone()).unwrap().is_cyclic().unwrap_or(false) {
        return;
    }
    for draft in [Draft::Draft7, Draft::Draft202012] {
        let options = jsonschema::options().with_draft(draft).should_validate_formats(true);
        let validator =
            options.build(declared).unwrap_or_else(|error| panic!("{declared} {error}"));
        if let Some(structured) = structured {
            assert!(validator.is_valid(structured), "{draft:?} {declared} {structured}");
        }
    }
}

/// Replaces the members of an object by null.
fn null_members(value: &Value) -> Value {
    let members = value.as_object().into_iter().flatten();
    Value::Object(members.map(|(name, _)| (name.clone(), Value::Null)).collect())
}

fn policy() -> impl Strategy<Value = OutputPolicy> {
    prop::sample::select(vec![OutputPolicy::Normalize, OutputPolicy::Enforce, OutputPolicy::Raw])
}

fn operation_name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9_-]{1,100}", "[a-c/._ ]{1,8}", "\\PC{1,200}"]
}

fn dialect() -> impl Strategy<Value = Dialect> {
    prop::sample::select(Dialect::ALL.to_vec())
}

fn generation() -> impl Strategy<Value = ProtocolGeneration> {
    prop::sample::select(vec![ProtocolGeneration::Legacy, ProtocolGeneration::Modern])
}

fn server_result() -> impl Strategy<Value = Value> {
    let text = |text: String| json!({"type": "text", "text": text});
    let content = prop::collection::vec(any::<String>().prop_map(text), 0..3);
    let rest = prop::collection::vec(
        (prop::sample::select(vec!["newer", "_meta", "toolpost/source"]), value()),
        0..3,
    );
    (content, prop::option::of(value()), any::<bool>(), rest).prop_map(
        |(content, structured, is_error, rest)| {
            let mut result: Map<String, Value> =
                rest.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            result.insert("content".to_owned(), content.into());
            result.insert("isError".to_owned(), is_error.into());
            if let Some(structured) = structured {
                result.insert("structuredContent".to_owned(), structured);
            }
            result.into()
        },
    )
}

/// Returns the number of cases: `PROPTEST_CASES` if set, otherwise more in CI than locally.
fn cases() -> u32 {
    let configured = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    configured.unwrap_or(if std::env::var_os("CI").is_some() { 1_000 } else { 200 })
}

/// Fixed seed by default; random if `PROPTEST_CASES` is set.
fn seed() -> RngSeed {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => RngSeed::Random,
        None => RngSeed::Fixed(2026),
    }
}

/// A thousand references to one definition do not expand the schema.
#[test]
fn shared_definitions_are_not_expanded() {
    let properties = (0..1_000).map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/a"})));
    let properties: Map<String, Value> = properties.collect();
    let large = json!({"enum": (0..1_000).collect::<Vec<_>>()});
    let output = json!({"type": "object", "properties": properties, "$defs": {"a": large}});
    let length = output.to_string().len();
    let tools = super::fixture::list_tools(
        catalog([spec("demo.x", OperationKind::Query, json!(true), output)]),
        Dialect::Ok,
        ProtocolGeneration::Legacy,
    );
    assert!(tools.to_string().len() < length * 2);
}
