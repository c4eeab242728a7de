//! The input as query parameters, and the call options.

use serde_json::{Map, Value, json};

use super::components::PublishedSchema;
use super::publish::publish_inline;
use crate::query::{QueryEncoding, QueryParameter, QueryStyle};

/// Returns the query parameters for an input; `component` is the input schema in the document.
pub(super) fn query_parameters(
    form: &QueryEncoding<'_>,
    input: &PublishedSchema,
    component: Option<&Value>,
    is_required: bool,
) -> Vec<Value> {
    match form {
        QueryEncoding::Properties(parameters) => {
            parameters.iter().map(|parameter| query_parameter(parameter, component)).collect()
        }
        QueryEncoding::SingleParameter => vec![json!({
            "name": QueryEncoding::INPUT_PARAMETER,
            "in": "query",
            "description": "The input, as JSON.",
            "required": is_required,
            "content": {"application/json": {"schema": input.reference}},
        })],
    }
}

fn query_parameter(parameter: &QueryParameter<'_>, component: Option<&Value>) -> Value {
    let property = || component?.get("properties")?.get(parameter.name).cloned();
    let mut schema = match parameter.style {
        QueryStyle::Json => property().unwrap_or_else(|| json!({})),
        // Parameters in text form have an inline schema without references.
        _ => publish_inline(&parameter.schema()).unwrap_or_else(|| json!({})),
    };
    let mut described = Map::new();
    described.insert("name".to_owned(), parameter.name.into());
    described.insert("in".to_owned(), "query".into());
    if let Some(members) = schema.as_object_mut() {
        members.shift_remove("title");
        let description =
            members.get("description").filter(|description| description.is_string()).cloned();
        described.extend(description.map(|description| ("description".to_owned(), description)));
    }
    described.insert("required".to_owned(), parameter.required.into());
    match parameter.style {
        QueryStyle::Text => drop(described.insert("schema".to_owned(), schema)),
        QueryStyle::Repeated => {
            described.insert("style".to_owned(), "form".into());
            described.insert("explode".to_owned(), true.into());
            described.insert("schema".to_owned(), schema);
        }
        QueryStyle::Json => {
            let content = json!({"application/json": {"schema": schema}});
            described.insert("content".to_owned(), content);
        }
    }
    described.into()
}

/// Returns the call options. `has` reports whether an option is available in the query.
pub(super) fn options(has: impl Fn(&str) -> bool) -> Vec<Value> {
    let options = [("envelope", "Envelope"), ("timeout", "Timeout")];
    let options =
        options.into_iter().filter(|(name, _)| has(name)).map(|(_, name)| parameter_ref(name));
    options.chain([parameter_ref("RequestTimeout")]).collect()
}

/// Returns a reference to a shared parameter.
pub(super) fn parameter_ref(name: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{name}")})
}
