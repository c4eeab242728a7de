//! One operation: its path, and what stands there.

use serde_json::{Map, Value, json};

use super::component::{Components, Owner, Placed};
use super::name::{self, Names, code_name, type_name};
use super::{parameter, response};
use crate::operation::{Operation, OutputPolicy};
use crate::query::QueryForm;
use crate::schema::Schema;
use crate::spec::{Kind, OperationSpec};

/// The schemas of an operation.
pub(super) struct Schemas {
    /// The beginning of every name that the operation brings.
    pub(super) stem: String,
    pub(super) input: Placed,
    pub(super) output: Placed,
    /// Of the details of each declared error, in their order.
    pub(super) errors: Vec<Placed>,
}

/// What stands at the path of an operation.
pub(super) fn item(operation: &Operation, components: &mut Components, names: &mut Names) -> Value {
    let schemas = schemas(operation, components);
    let spec = operation.spec();
    let name = names.claim(&name::plain(operation.id()), operation.id().as_str());
    let responses = response::responses(spec, &schemas, components);
    let mut item = Map::new();
    if spec.kind != Kind::Mutation {
        let wished = format!("{name}.get");
        let name = names.claim(&wished, &wished);
        item.insert("get".to_owned(), get(spec, &schemas, components, &name, &responses));
    }
    item.insert("post".to_owned(), post(spec, &schemas, &name, &responses));
    item.into()
}

fn schemas(operation: &Operation, components: &mut Components) -> Schemas {
    let (id, spec) = (operation.id(), operation.spec());
    let stem = format!("{}{}", type_name(id.namespace()), type_name(id.name()));
    let mut place = |role: &str, schema| {
        let wished = format!("{stem}{role}");
        components.place(Owner { namespace: id.namespace(), wished: &wished }, schema)
    };
    let input = place("Input", &spec.input_schema);
    let mut output = place("Output", &spec.output_schema);
    if operation.policy().output == OutputPolicy::Raw {
        // Nobody looks whether it fits.
        output.reference = json!({});
    }
    let errors = spec.error_schemas.iter();
    let errors =
        errors.map(|error| place(&format!("{}Details", code_name(&error.code)), &error.schema));
    let errors = errors.collect();
    Schemas { stem, input, output, errors }
}

fn post(
    spec: &OperationSpec,
    schemas: &Schemas,
    name: &str,
    responses: &Map<String, Value>,
) -> Value {
    let mut described = head(spec, name);
    let mut parameters = parameter::options(|_| true);
    if spec.kind == Kind::Subscription {
        parameters.push(parameter::shared("LastEventId"));
    }
    described.insert("parameters".to_owned(), parameters.into());
    let body = json!({
        "required": !takes_nothing(spec),
        "content": {"application/json": {"schema": schemas.input.reference}},
    });
    described.insert("requestBody".to_owned(), body);
    described.insert("responses".to_owned(), responses.clone().into());
    described.insert("x-toolpost-operation".to_owned(), whole(spec, schemas));
    described.into()
}

fn get(
    spec: &OperationSpec,
    schemas: &Schemas,
    components: &Components,
    name: &str,
    responses: &Map<String, Value>,
) -> Value {
    let mut described = head(spec, name);
    let input = spec.input_schema.json();
    let form = QueryForm::of(&input);
    let published = schemas.input.name.as_deref().and_then(|name| components.get(name));
    let mut parameters = parameter::of(&form, &schemas.input, published, !takes_nothing(spec));
    parameters.extend(parameter::options(|option| !form.has(option)));
    if spec.kind == Kind::Subscription {
        parameters.push(parameter::shared("LastEventId"));
    }
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

fn head(spec: &OperationSpec, name: &str) -> Map<String, Value> {
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

/// Whether a call without an input is one with `{}`, which is what no input means.
fn takes_nothing(spec: &OperationSpec) -> bool {
    spec.input_schema.fits(&json!({})).unwrap_or(false)
}

/// The whole spec, from which another gateway makes the same operation.
fn whole(spec: &OperationSpec, schemas: &Schemas) -> Value {
    // Schemas that are parts of a large document would be written out once more, for nothing.
    let mut bare = spec.clone();
    (bare.input_schema, bare.output_schema) = (Schema::unknown(), Schema::unknown());
    bare.error_schemas.iter_mut().for_each(|error| error.schema = Schema::unknown());
    let mut whole = serde_json::to_value(bare).expect("a spec is JSON");
    whole["inputSchema"] = schemas.input.described.clone();
    whole["outputSchema"] = schemas.output.described.clone();
    let errors = whole.get_mut("errorSchemas").and_then(Value::as_array_mut);
    for (error, placed) in errors.into_iter().flatten().zip(&schemas.errors) {
        error["schema"] = placed.described.clone();
    }
    whole
}
