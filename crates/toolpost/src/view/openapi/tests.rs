use serde_json::json;

use super::*;
use crate::handler::{Handler, HandlerOutput};
use crate::operation::{OutputPolicy, ResultPolicy};
use crate::schema::{Schema, unbundle};
use crate::spec::{ErrorDefinition, OperationKind, OperationSpec};

fn operation(id: &str, kind: OperationKind, input: Value, output: Value) -> Operation {
    let mut spec = OperationSpec::new(&id.parse().unwrap(), kind);
    spec.input_schema = Schema::new(input).unwrap();
    spec.output_schema = Schema::new(output).unwrap();
    spec.forwards = id == "hub.call";
    Operation::from_spec(spec).build().unwrap()
}

fn document<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Value {
    HttpApi::new("1.2.3").document(operations)
}

fn operation_extension<'a>(document: &'a Value, path: &str) -> &'a Value {
    &document["paths"][path]["post"]["x-toolpost-operation"]
}

/// Every schema, in any notation, round-trips exactly, and every reference in the document
/// resolves.
#[test]
fn document_round_trips_operation_schemas() {
    let shape =
        json!({"type": "object", "properties": {"x": {"type": "number"}}, "title": "Point"});
    for schema in [
        json!(true),
        json!(false),
        json!({}),
        json!({"title": "Anything"}),
        json!({"type": "string", "title": "Word", "description": "A word."}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "integer"}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}),
        json!({"$id": "https://example.com/s", "items": {"$ref": "https://example.com/s"}}),
        json!({"items": {"$anchor": "a", "type": "string"}, "contains": {"$ref": "#a"}}),
        json!({"items": {"$ref": "#"}}),
        json!({"properties": {"a": {"$ref": "#/properties/b"}, "b": true}}),
        json!({"items": {"$ref": "#/$defs/p"}, "$defs": {"p": shape, "unused": {"type": "null"}}}),
        json!({"items": {"$ref": "#/$defs/a~1b"}, "$defs": {"a/b": {"type": "null"}}}),
        json!({"items": {"$ref": "#/$defs/a%20b"}, "$defs": {"a b": {"type": "null"}}}),
        json!({"items": {"$ref": "#/definitions/p"}, "definitions": {"p": shape}}),
        json!({"items": {"$ref": "#/$defs/none"}}),
        json!({"type": "integer", "default": "none", "minimum": 0, "exclusiveMinimum": true}),
        json!({"type": "unheard of"}),
    ] {
        let made = operation("shop.sell", OperationKind::Query, schema.clone(), schema.clone());
        let document = document([&made]);
        let described = operation_extension(&document, "/api/shop/sell");
        let component = |name: &str| document["components"]["schemas"].get(name);
        for role in ["inputSchema", "outputSchema"] {
            assert_eq!(unbundle(&described[role], component).as_ref(), Some(&schema), "{schema}");
        }
        check_references(&document, &document["paths"]);
        check_references(&document, &document["components"]);
    }
}

/// Asserts that every reference outside the `x-toolpost` extensions resolves.
fn check_references(document: &Value, part: &Value) {
    match part {
        Value::Array(items) => items.iter().for_each(|item| check_references(document, item)),
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                let target = reference.strip_prefix('#').and_then(|it| document.pointer(it));
                assert!(target.is_some(), "{reference} leads nowhere");
            }
            let members = members.iter().filter(|(name, _)| !name.starts_with("x-toolpost"));
            members.for_each(|(_, member)| check_references(document, member));
        }
        _ => {}
    }
}

#[test]
fn equal_definitions_share_one_component() {
    let with = |item: Value| {
        json!({
            "items": {"$ref": "#/$defs/list"},
            "$defs": {"list": {"items": {"$ref": "#/$defs/item"}}, "item": item},
        })
    };
    let (number, string) = (with(json!({"type": "number"})), with(json!({"type": "string"})));
    let operations = [
        operation("a.one", OperationKind::Mutation, number.clone(), number.clone()),
        operation("a.two", OperationKind::Mutation, number, string.clone()),
        operation("b.one", OperationKind::Mutation, string, json!(true)),
    ];
    let document = document(&operations);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let own = ["AItem", "AList", "AOneInput", "AOneOutput", "ATwoInput", "ATwoOutput"];
    let others = ["ATwoOutputItem", "ATwoOutputList", "BItem", "BList", "BOneInput"];
    for name in own.iter().chain(&others) {
        assert!(schemas.contains_key(*name), "{name} of {:?}", schemas.keys());
    }
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    assert_eq!(schemas["ATwoInput"], json!({"items": to("AList")}));
    assert_eq!(schemas["ATwoOutput"], json!({"items": to("ATwoOutputList")}));
    let origin = json!({"key": "list"});
    let list = json!({"items": to("ATwoOutputItem"), "x-toolpost-definition": origin});
    assert_eq!(schemas["ATwoOutputList"], list);
    assert!(!schemas.contains_key("AItem_1"));
}

#[test]
fn operation_kind_determines_methods_and_responses() {
    let input = json!({
        "type": "object",
        "properties": {"timeout": {"type": "string"}, "at": {"$ref": "#/$defs/at"}},
        "required": ["at"],
        "$defs": {"at": {"type": "object"}},
    });
    let kinds = [OperationKind::Query, OperationKind::Mutation, OperationKind::Subscription];
    for (kind, methods, media) in kinds
        .into_iter()
        .zip([2, 1, 2])
        .zip(["application/json", "application/json", "text/event-stream"])
        .map(|((kind, methods), media)| (kind, methods, media))
    {
        let made = operation("a.b", kind, input.clone(), json!({"type": "string"}));
        let document = document([&made]);
        let item = document["paths"]["/api/a/b"].as_object().unwrap();
        assert_eq!(item.len(), methods, "{kind:?}");
        for (method, described) in item {
            assert!(described["responses"]["200"]["content"].get(media).is_some(), "{kind:?}");
            assert_eq!(described["responses"].get("415").is_some(), method == "post");
            assert_eq!(
                described["responses"].get("204").is_some(),
                kind == OperationKind::Subscription
            );
        }
        assert_eq!(item["post"]["requestBody"]["required"], true);
        let Some(get) = item.get("get") else { continue };
        let parameters = get["parameters"].as_array().unwrap();
        assert_eq!(
            parameters[0],
            json!({
                "name": "timeout", "in": "query", "required": false, "schema": {"type": "string"},
            })
        );
        assert_eq!(
            parameters[1],
            json!({
                "name": "at", "in": "query", "required": true,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/AAt"}}},
            })
        );
        let shared = |name: &str| json!({"$ref": format!("#/components/parameters/{name}")});
        assert!(!parameters.contains(&shared("Timeout")), "`timeout` is a property of the input");
        assert!(parameters.contains(&shared("Envelope")));
        assert_eq!(
            get["x-toolpost-operation"],
            json!({"namespace": "a", "name": "b", "form": "query"})
        );
    }
}

#[test]
fn declared_errors_are_listed_under_their_status() {
    let mut spec = OperationSpec::new(&"a.b".parse().unwrap(), OperationKind::Mutation);
    let details =
        Schema::new(json!({"type": "object", "properties": {"left": {"type": "integer"}}}));
    spec.error_schemas = vec![
        ErrorDefinition::new("SOLD_OUT", "Nothing is left.")
            .with_http_status(409)
            .with_schema(details.unwrap()),
        ErrorDefinition::new("NOT_HERE", "It moved").with_http_status(404),
        ErrorDefinition::new("TIMEOUT", "Too slow.").with_http_status(418),
        ErrorDefinition::new("ODD", "").with_http_status(200),
        ErrorDefinition::new("WHO", "").with_http_status(401),
    ];
    let made = Operation::from_spec(spec).build().unwrap();
    let document = document([&made]);
    let responses = &document["paths"]["/api/a/b"]["post"]["responses"];
    let schema = |status: &str| &responses[status]["content"]["application/problem+json"]["schema"];
    let to = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    assert_eq!(*schema("409"), to("ABSoldOutProblem"));
    assert_eq!(*schema("404"), json!({"anyOf": [to("ABNotHereProblem"), to("Problem")]}));
    let others = [to("ABOddProblem"), to("ABWhoProblem"), to("Problem")];
    assert_eq!(*schema("502"), json!({"anyOf": others}));
    let schemas = &document["components"]["schemas"];
    let error = &schemas["ABSoldOutError"]["properties"];
    assert_eq!(error["code"], json!({"const": "SOLD_OUT"}));
    assert_eq!(error["details"], to("ABSoldOutDetails"));
    let message = responses["404"]["description"].as_str().unwrap();
    assert_eq!(message, "It moved. `OPERATION_NOT_FOUND`: no such operation.");
    assert!(responses.get("418").is_none(), "this error has a fixed status");
    assert_eq!(*schema("504"), json!({"anyOf": [to("ABTimeoutProblem"), to("Problem")]}));
}

#[test]
fn relay_operation_has_default_error_response() {
    let [relay, other] =
        ["hub.call", "a.b"].map(|id| operation(id, OperationKind::Mutation, json!({}), json!({})));
    let document = document([&relay, &other]);
    for (path, is_open) in [("/api/hub/call", true), ("/api/a/b", false)] {
        let responses = &document["paths"][path]["post"]["responses"];
        assert_eq!(responses.get("default").is_some(), is_open, "{path}");
    }
}

/// Each row: the operation ids, and whether the list response links to `hub.schema`.
#[test]
fn list_response_links_to_schema_operation() {
    for (ids, is_linked) in [(vec!["hub.list", "hub.schema"], true), (vec!["hub.list"], false)] {
        let made = ids.iter().map(|id| operation(id, OperationKind::Query, json!({}), json!({})));
        let document = document(&made.collect::<Vec<_>>());
        for method in ["get", "post"] {
            let response = &document["paths"]["/api/hub/list"][method]["responses"]["200"];
            let leads_to = response["links"]["schema"]["operationId"].as_str();
            assert_eq!(leads_to, is_linked.then_some("hub.schema.get"), "{ids:?}");
        }
    }
}

/// Each row: the output schema of a subscription, and the expected content schema of its events.
#[test]
fn subscription_events_declare_output_schema() {
    for (output, expected) in [
        (json!({"type": "integer"}), json!({"$ref": "#/components/schemas/ABOutput"})),
        (json!({}), Value::Null),
    ] {
        let made = operation("a.b", OperationKind::Subscription, json!({}), output.clone());
        let document = document([&made]);
        let response = &document["paths"]["/api/a/b"]["get"]["responses"]["200"]["content"];
        let event = response["text/event-stream"]["schema"]["$ref"].as_str().unwrap();
        let event = document.pointer(event.strip_prefix('#').unwrap()).unwrap();
        let data = &event["properties"]["data"];
        let message = &data["contentSchema"]["anyOf"][0];
        assert_eq!((&data["type"], message), (&json!("string"), &expected));
    }
}

#[test]
fn raw_output_policy_declares_no_response_schema() {
    let mut spec = OperationSpec::new(&"a.b".parse().unwrap(), OperationKind::Query);
    spec.output_schema = Schema::new(json!({"type": "string"})).unwrap();
    let handler = Handler::once_fn(async |_, input| Ok(HandlerOutput::Data(input)));
    let policy = ResultPolicy::new(OutputPolicy::Raw);
    let made = Operation::from_spec(spec).handler(handler).policy(policy).build().unwrap();
    let document = document([&made]);
    let response = &document["paths"]["/api/a/b"]["get"]["responses"]["200"]["content"];
    assert_eq!(response["application/json"]["schema"], json!({}));
    let described = &operation_extension(&document, "/api/a/b")["outputSchema"];
    assert_eq!(*described, json!({"$ref": "#/components/schemas/ABOutput"}));
}

#[test]
fn document_is_deterministic_with_unique_ids() {
    let operations = || {
        let schema =
            json!({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "null"}}});
        ["a.one", "a.ONE", "b.x/y", "b.x y"]
            .map(|id| operation(id, OperationKind::Query, schema.clone(), schema.clone()))
    };
    let first = document(&operations()).to_string();
    assert_eq!(document(&operations()).to_string(), first);
    let document = document(&operations());
    let items = document["paths"].as_object().unwrap().values();
    let described = items.flat_map(|item| item.as_object().unwrap().values());
    let names: std::collections::HashSet<_> =
        described.map(|described| described["operationId"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 8, "{names:?}");
}

#[test]
fn document_declares_bearer_security_if_required() {
    let mut api = HttpApi::new("1.0.0");
    assert!(api.document([]).get("security").is_none());
    api.needs_token = true;
    let document = api.document([]);
    assert_eq!(document["security"], json!([{"token": []}]));
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
}
