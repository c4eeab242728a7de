//! How an input stands in the query of a URL.
//!
//! One convention, which OpenAPI can describe to the letter. A property that is plain text, a number
//! or a truth value is a parameter of that text; a list of them is a parameter that is repeated; any
//! other property is a parameter that holds JSON. An input that is not a plain object is one
//! parameter, `input`, that holds JSON.

mod settle;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::payload::Payload;
use crate::schema::Issue;
use settle::{Reading, Settled};

/// How many wrong places are told.
const MOST_ISSUES: usize = 100;

/// How the inputs of a schema stand in a query; whoever describes a query and whoever reads it ask
/// the same.
///
/// ```
/// use toolpost::QueryForm;
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"name": {"type": "string"}, "ids": {"type": "array", "items": {"type": "integer"}}},
///     "required": ["name"],
/// });
/// let form = QueryForm::of(&schema);
/// let input = form.read([("name", "42"), ("ids", "1"), ("ids", "2")]).unwrap();
/// assert_eq!(input, json!({"name": "42", "ids": [1, 2]}));
/// assert_eq!(form.read([("nme", "x")]).unwrap_err()[0].path, "/nme");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum QueryForm<'a> {
    /// A parameter for each property, and no others.
    Properties(Vec<QueryParameter<'a>>),
    /// One parameter, [`QueryForm::WHOLE`], with the whole input as JSON; without it the input is `{}`.
    Whole,
}

/// A property as it stands in a query.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueryParameter<'a> {
    /// The name of the property, and of the parameter.
    pub name: &'a str,
    /// Whether an input without it is refused.
    pub required: bool,
    /// How it is written.
    pub style: QueryStyle,
    settled: Settled<'a>,
}

/// How a parameter is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryStyle {
    /// Once, as text: OpenAPI's `style: form`.
    Text,
    /// Once for each item: OpenAPI's `style: form` with `explode: true`. A list without items cannot
    /// be written.
    Repeated,
    /// Once, as JSON: OpenAPI's `content` with `application/json`.
    Json,
}

impl<'a> QueryForm<'a> {
    /// The parameter of an input that has no parameters of its own.
    pub const WHOLE: &'static str = "input";

    /// How inputs of this schema stand in a query.
    pub fn of(schema: &'a Value) -> Self {
        let Some(properties) = settle::properties(schema) else { return Self::Whole };
        let required = schema.get("required").and_then(Value::as_array);
        let required: HashSet<&str> =
            required.into_iter().flatten().filter_map(Value::as_str).collect();
        if required.iter().any(|name| !properties.contains_key(*name)) {
            return Self::Whole;
        }
        let parameters = properties.iter().filter(|(_, property)| **property != Value::Bool(false));
        let parameters = parameters.map(|(name, property)| {
            let settled = Settled::of(schema, property);
            let required = required.contains(name.as_str());
            QueryParameter { name, required, style: settled.style(), settled }
        });
        Self::Properties(parameters.collect())
    }

    /// Whether a parameter of that name belongs to the input.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Properties(parameters) => {
                parameters.iter().any(|parameter| parameter.name == name)
            }
            Self::Whole => name == Self::WHOLE,
        }
    }

    /// The input that these decoded pairs say. Whether it fits its schema is not looked at: a text
    /// that is no number stays a text, and whoever checks the input says so.
    ///
    /// # Errors
    ///
    /// What belongs to no property, stands there twice, or should be JSON and is not.
    pub fn read<N, T>(&self, pairs: impl IntoIterator<Item = (N, T)>) -> Result<Value, Vec<Issue>>
    where
        N: AsRef<str>,
        T: AsRef<str>,
    {
        let (mut input, mut issues) = (Map::new(), Vec::new());
        for (name, text) in pairs {
            let (name, text) = (name.as_ref(), text.as_ref());
            if let Err(message) = self.add(&mut input, name, text)
                && issues.len() < MOST_ISSUES
            {
                issues.push(Issue::new(self.path(name), message));
            }
        }
        match (issues.is_empty(), self) {
            (true, Self::Properties(_)) => Ok(Value::Object(input)),
            (true, Self::Whole) => Ok(input.remove(Self::WHOLE).unwrap_or_else(|| json!({}))),
            (false, _) => Err(issues),
        }
    }

    fn add(&self, input: &mut Map<String, Value>, name: &str, text: &str) -> Result<(), String> {
        let (style, reading) = match self {
            Self::Properties(parameters) => {
                let parameter = parameters.iter().find(|parameter| parameter.name == name);
                let parameter = parameter.ok_or("no property of the input has this name")?;
                (parameter.style, parameter.settled.reading())
            }
            Self::Whole if name == Self::WHOLE => (QueryStyle::Json, Reading::Json),
            Self::Whole => return Err("the input is one parameter, `input`, as JSON".to_owned()),
        };
        let value = read_text(reading, text)?;
        match (input.get_mut(name), style) {
            (Some(Value::Array(items)), QueryStyle::Repeated) => items.push(value),
            (Some(_), _) => return Err("this parameter stands there twice".to_owned()),
            (None, QueryStyle::Repeated) => drop(input.insert(name.to_owned(), json!([value]))),
            (None, _) => drop(input.insert(name.to_owned(), value)),
        }
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        match self {
            Self::Whole if name == Self::WHOLE => String::new(),
            _ => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        }
    }
}

impl QueryParameter<'_> {
    /// The schema of what can be written: a text or a list cannot say `null`, and a list is not empty.
    /// Schemas of JSON are as the property has them, with references into the schema of the input.
    pub fn schema(&self) -> Cow<'_, Value> {
        self.settled.schema()
    }
}

fn read_text(reading: Reading, text: &str) -> Result<Value, String> {
    match reading {
        Reading::Words => Ok(text.into()),
        Reading::Literal => Ok(literal(text).unwrap_or_else(|| text.into())),
        Reading::Json => Payload::from_outside(text.as_bytes())
            .and_then(Payload::into_value)
            .map_err(|error| error.to_string()),
    }
}

/// A number or a truth value, exactly as JSON writes it.
fn literal(text: &str) -> Option<Value> {
    let is_whole = text.bytes().all(|byte| byte.is_ascii_graphic());
    let value = serde_json::from_str(text).ok().filter(|_| is_whole)?;
    matches!(value, Value::Bool(_) | Value::Number(_)).then_some(value)
}

#[cfg(test)]
mod tests;
