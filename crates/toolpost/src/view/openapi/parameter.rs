//! The input in the query, and the options beside it.

use serde_json::{Map, Value, json};

use super::component::Placed;
use super::publish::published;
use crate::query::{QueryForm, QueryParameter, QueryStyle};

/// The parameters that an input is in the query; `component` is its schema as it stands in the
/// document.
pub(super) fn of(
    form: &QueryForm<'_>,
    input: &Placed,
    component: Option<&Value>,
    is_required: bool,
) -> Vec<Value> {
    match form {
        QueryForm::Properties(parameters) => {
            parameters.iter().map(|parameter| one(parameter, component)).collect()
        }
        QueryForm::Whole => vec![json!({
            "name": QueryForm::WHOLE,
            "in": "query",
            "description": "The input, as JSON.",
            "required": is_required,
            "content": {"application/json": {"schema": input.reference}},
        })],
    }
}

fn one(parameter: &QueryParameter<'_>, component: Option<&Value>) -> Value {
    let property = || component?.get("properties")?.get(parameter.name).cloned();
    let mut schema = match parameter.style {
        QueryStyle::Json => property().unwrap_or_else(|| json!({})),
        // What stands as text is said in full, so that nothing leads anywhere.
        _ => published(&parameter.schema()).unwrap_or_else(|| json!({})),
    };
    let mut described = Map::new();
    described.insert("name".to_owned(), parameter.name.into());
    described.insert("in".to_owned(), "query".into());
    if let Some(members) = schema.as_object_mut() {
        members.shift_remove("title");
        let words = members.get("description").filter(|words| words.is_string()).cloned();
        described.extend(words.map(|words| ("description".to_owned(), words)));
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

/// The options, where `has` says that the query has them.
pub(super) fn options(has: impl Fn(&str) -> bool) -> Vec<Value> {
    let options = [("envelope", "Envelope"), ("timeout", "Timeout")];
    let options = options.into_iter().filter(|(name, _)| has(name)).map(|(_, name)| shared(name));
    options.chain([shared("RequestTimeout")]).collect()
}

/// A parameter of `shared`.
pub(super) fn shared(name: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{name}")})
}
