//! One operation: its path and path item.

use serde_json::{Map, Value, json};

use super::components::{Components, PublishedSchema, SchemaOwner};
use super::name::{self, UniqueNames, code_name, type_name};
use super::{parameter, response};
use crate::json::JsonObject;
use crate::operation::{Operation, OutputPolicy};
use crate::query::QueryEncoding;
use crate::schema::Schema;
use crate::spec::{OperationKind, OperationSpec};

/// The published schemas of an operation.
pub(super) struct OperationSchemas {
    /// Prefix of all component names of the operation.
    pub(super) name_prefix: String,
    pub(super) input: PublishedSchema,
    pub(super) output: PublishedSchema,
    /// Schemas of the details of each declared error, in declaration order.
    pub(super) errors: Vec<PublishedSchema>,
}

/// Returns the path item of an operation.
pub(super) fn path_item(
    operation: &Operation,
    components: &mut Components,
    names: &mut UniqueNames,
) -> Value {
    let schemas = schemas(operation, components);
    let spec = operation.spec();
    let name = names.claim(&name::operation_id(operation.id()), operation.id().as_str());
    let responses = response::responses(spec, &schemas, components);
    let mut item = Map::new();
    if spec.kind != OperationKind::Mutation {
        let preferred_name = format!("{name}.get");
        let name = names.claim(&preferred_name, &preferred_name);
        item.insert("get".to_owned(), get(spec, &schemas, components, &name, &responses));
    }
    item.insert("post".to_owned(), post(spec, &schemas, &name, &responses));
    item.into()
}

fn schemas(operation: &Operation, components: &mut Components) -> OperationSchemas {
    let (id, spec) = (operation.id(), operation.spec());
    let prefix = format!("{}{}", type_name(id.namespace()), type_name(id.name()));
    let mut publish = |role: &str, schema| {
        let preferred_name = format!("{prefix}{role}");
        components.publish(
            SchemaOwner { namespace: id.namespace(), preferred_name: &preferred_name },
            schema,
        )
    };
    let input = publish("Input", &spec.input_schema);
    let mut output = publish("Output", &spec.output_schema);
    if operation.policy().output == OutputPolicy::Raw {
        // Raw output is not validated, so no schema is declared.
        output.reference = json!({});
    }
    let errors = spec.error_schemas.iter();
    let errors =
        errors.map(|error| publish(&format!("{}Details", code_name(&error.code)), &error.schema));
    let errors = errors.collect();
    OperationSchemas { name_prefix: prefix, input, output, errors }
}

/// Returns the header that a call or a subscription accepts.
fn header_parameter(spec: &OperationSpec) -> Value {
    parameter::parameter_ref(match spec.kind {
        OperationKind::Subscription => "LastEventId",
        OperationKind::Query | OperationKind::Mutation => "IdempotencyKey",
    })
}

fn post(
    spec: &OperationSpec,
    schemas: &OperationSchemas,
    name: &str,
    responses: &JsonObject,
) -> Value {
    let mut described = operation_base(spec, name);
    let mut parameters = parameter::options(|_| true);
    parameters.push(header_parameter(spec));
    described.insert("parameters".to_owned(), parameters.into());
    let body = json!({
        "required": !accepts_empty_input(spec),
        "content": {"application/json": {"schema": schemas.input.reference}},
    });
    described.insert("requestBody".to_owned(), body);
    described.insert("responses".to_owned(), responses.clone().into());
    described.insert("x-toolpost-operation".to_owned(), operation_extension(spec, schemas));
    described.into()
}

fn get(
    spec: &OperationSpec,
    schemas: &OperationSchemas,
    components: &Components,
    name: &str,
    responses: &JsonObject,
) -> Value {
    let mut described = operation_base(spec, name);
    let input = spec.input_schema.json();
    let form = QueryEncoding::from_schema(&input);
    let published = schemas.input.component.as_deref().and_then(|name| components.get(name));
    let mut parameters =
        parameter::query_parameters(&form, &schemas.input, published, !accepts_empty_input(spec));
    parameters.extend(parameter::options(|option| !form.has_parameter(option)));
    parameters.push(header_parameter(spec));
    described.insert("parameters".to_owned(), parameters.into());
    let is_for_bodies = |status: &str| matches!(status, "408" | "413" | "415");
    let responses = responses.iter().filter(|(status, _)| !is_for_bodies(status));
    let responses: Map<_, _> =
        responses.map(|(status, response)| (status.clone(), response.clone())).collect();
    described.insert("responses".to_owned(), responses.into());
    let form = json!({"namespace": spec.namespace, "name": spec.name, "form": "query"});
    described.insert("x-toolpost-operation".to_owned(), form);
    described.into()
}

fn operation_base(spec: &OperationSpec, name: &str) -> JsonObject {
    let mut tags = vec![&spec.namespace];
    tags.extend(spec.tags.iter().filter(|tag| **tag != spec.namespace));
    let mut head = Map::new();
    head.insert("operationId".to_owned(), name.into());
    head.insert("tags".to_owned(), json!(tags));
    if let Some(title) = &spec.title {
        head.insert("summary".to_owned(), title.as_str().into());
    }
    if !spec.description.is_empty() {
        head.insert("description".to_owned(), spec.description.as_str().into());
    }
    head
}

/// Whether the input schema admits `{}` with its defaults, which a call without an input sends.
fn accepts_empty_input(spec: &OperationSpec) -> bool {
    let filled = spec.input_schema.fill_defaults(&mut json!({}));
    filled.is_ok_and(|filled| filled.issues.is_empty())
}

/// Returns the complete spec, from which another gateway can recreate the operation.
fn operation_extension(spec: &OperationSpec, schemas: &OperationSchemas) -> Value {
    // The schemas are set below; serializing parts of a large document is expensive.
    let mut stripped = spec.clone();
    (stripped.input_schema, stripped.output_schema) = (Schema::unknown(), Schema::unknown());
    stripped.error_schemas.iter_mut().for_each(|error| error.schema = Schema::unknown());
    let mut extension = serde_json::to_value(stripped).expect("a spec serializes");
    extension["inputSchema"] = schemas.input.lossless.clone();
    extension["outputSchema"] = schemas.output.lossless.clone();
    let errors = extension.get_mut("errorSchemas").and_then(Value::as_array_mut);
    for (error, placed) in errors.into_iter().flatten().zip(&schemas.errors) {
        error["schema"] = placed.lossless.clone();
    }
    extension
}
