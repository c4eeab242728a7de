//! How an input stands in the query of a URL.
//!
//! One convention, which OpenAPI can describe to the letter. A property that is plain text, a number
//! or a truth value is a parameter of that text; a list of them is a parameter that is repeated; any
//! other property is a parameter that holds JSON. An input that is not a plain object is one
//! parameter, `input`, that holds JSON.

mod param_type;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::payload::Payload;
use crate::schema::Issue;
use param_type::{ParamType, ScalarKind};

/// How many wrong places are told.
const MAX_ISSUES: usize = 100;

/// How the inputs of a schema stand in a query; whoever describes a query and whoever reads it ask
/// the same.
///
/// ```
/// use toolpost::QueryEncoding;
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"name": {"type": "string"}, "ids": {"type": "array", "items": {"type": "integer"}}},
///     "required": ["name"],
/// });
/// let encoding = QueryEncoding::from_schema(&schema);
/// let input = encoding.parse([("name", "42"), ("ids", "1"), ("ids", "2")]).unwrap();
/// assert_eq!(input, json!({"name": "42", "ids": [1, 2]}));
/// assert_eq!(encoding.parse([("nme", "x")]).unwrap_err()[0].path, "/nme");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum QueryEncoding<'a> {
    /// A parameter for each property, and no others.
    Properties(Vec<QueryParameter<'a>>),
    /// One parameter, [`QueryEncoding::INPUT_PARAMETER`], with the whole input as JSON; without it the input is `{}`.
    SingleParameter,
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
    param_type: ParamType<'a>,
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

impl<'a> QueryEncoding<'a> {
    /// The parameter of an input that has no parameters of its own.
    pub const INPUT_PARAMETER: &'static str = "input";

    /// How inputs of this schema stand in a query.
    pub fn from_schema(schema: &'a Value) -> Self {
        let Some(properties) = param_type::plain_properties(schema) else {
            return Self::SingleParameter;
        };
        let required = schema.get("required").and_then(Value::as_array);
        let required: HashSet<&str> =
            required.into_iter().flatten().filter_map(Value::as_str).collect();
        if required.iter().any(|name| !properties.contains_key(*name)) {
            return Self::SingleParameter;
        }
        let parameters = properties.iter().filter(|(_, property)| **property != Value::Bool(false));
        let parameters = parameters.map(|(name, property)| {
            let param_type = ParamType::new(schema, property);
            let required = required.contains(name.as_str());
            QueryParameter { name, required, style: param_type.style(), param_type }
        });
        Self::Properties(parameters.collect())
    }

    /// Whether a parameter of that name belongs to the input.
    pub fn has_parameter(&self, name: &str) -> bool {
        match self {
            Self::Properties(parameters) => {
                parameters.iter().any(|parameter| parameter.name == name)
            }
            Self::SingleParameter => name == Self::INPUT_PARAMETER,
        }
    }

    /// The input that these decoded pairs say. Whether it fits its schema is not looked at: a text
    /// that is no number stays a text, and whoever checks the input says so.
    ///
    /// # Errors
    ///
    /// What belongs to no property, stands there twice, or should be JSON and is not.
    pub fn parse<N, T>(&self, pairs: impl IntoIterator<Item = (N, T)>) -> Result<Value, Vec<Issue>>
    where
        N: AsRef<str>,
        T: AsRef<str>,
    {
        let (mut input, mut issues) = (Map::new(), Vec::new());
        for (name, text) in pairs {
            let (name, text) = (name.as_ref(), text.as_ref());
            if let Err(message) = self.insert(&mut input, name, text)
                && issues.len() < MAX_ISSUES
            {
                issues.push(Issue::new(self.path(name), message));
            }
        }
        match (issues.is_empty(), self) {
            (true, Self::Properties(_)) => Ok(Value::Object(input)),
            (true, Self::SingleParameter) => {
                Ok(input.remove(Self::INPUT_PARAMETER).unwrap_or_else(|| json!({})))
            }
            (false, _) => Err(issues),
        }
    }

    fn insert(&self, input: &mut Map<String, Value>, name: &str, text: &str) -> Result<(), String> {
        let (style, scalar_kind) = match self {
            Self::Properties(parameters) => {
                let parameter = parameters.iter().find(|parameter| parameter.name == name);
                let parameter = parameter.ok_or("unknown parameter")?;
                (parameter.style, parameter.param_type.scalar_kind())
            }
            Self::SingleParameter if name == Self::INPUT_PARAMETER => {
                (QueryStyle::Json, ScalarKind::Json)
            }
            Self::SingleParameter => {
                return Err("the input is one parameter, `input`, as JSON".to_owned());
            }
        };
        let value = parse_text(scalar_kind, text)?;
        match (input.get_mut(name), style) {
            (Some(Value::Array(items)), QueryStyle::Repeated) => items.push(value),
            (Some(_), _) => return Err("duplicate parameter".to_owned()),
            (None, QueryStyle::Repeated) => drop(input.insert(name.to_owned(), json!([value]))),
            (None, _) => drop(input.insert(name.to_owned(), value)),
        }
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        match self {
            Self::SingleParameter if name == Self::INPUT_PARAMETER => String::new(),
            _ => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        }
    }
}

impl QueryParameter<'_> {
    /// The schema of what can be written: a text or a list cannot say `null`, and a list is not empty.
    /// Schemas of JSON are as the property has them, with references into the schema of the input.
    pub fn schema(&self) -> Cow<'_, Value> {
        self.param_type.schema()
    }
}

fn parse_text(scalar_kind: ScalarKind, text: &str) -> Result<Value, String> {
    match scalar_kind {
        ScalarKind::Text => Ok(text.into()),
        ScalarKind::Literal => Ok(parse_literal(text).unwrap_or_else(|| text.into())),
        ScalarKind::Json => Payload::from_untrusted(text.as_bytes())
            .and_then(Payload::into_value)
            .map_err(|error| error.to_string()),
    }
}

/// A number or a truth value, exactly as JSON writes it.
fn parse_literal(text: &str) -> Option<Value> {
    let is_graphic = text.bytes().all(|byte| byte.is_ascii_graphic());
    let value = serde_json::from_str(text).ok().filter(|_| is_graphic)?;
    matches!(value, Value::Bool(_) | Value::Number(_)).then_some(value)
}

#[cfg(test)]
mod tests;
