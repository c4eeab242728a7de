//! Encodes operation inputs in URL queries.
//!
//! The encoding can be described exactly in OpenAPI. A string, number or boolean property is one
//! parameter with the value as text. A list of these is a repeated parameter. Any other property
//! is a parameter that contains JSON, or text that is not JSON of its types if it accepts strings.
//! An input that is not a plain object is a single parameter `input` that contains JSON.

mod param_type;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::json::{JsonObject, escape_token};
use crate::schema::{Issue, TypeSet};
use param_type::{ParamType, ScalarKind};

/// Maximum number of reported issues.
const MAX_ISSUES: usize = 100;

/// How inputs of a schema are encoded in a query. Used both to describe queries and to parse them.
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
    /// One parameter per property; other parameters are rejected.
    Properties(Vec<QueryParameter<'a>>),
    /// [`QueryEncoding::INPUT_PARAMETER`] holds the whole input as JSON; `{}` if it is missing.
    SingleParameter,
}

/// A property encoded as a query parameter.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueryParameter<'a> {
    /// Name of the property and of its parameter.
    pub name: &'a str,
    /// Whether the input must contain the property.
    pub required: bool,
    /// How the value is encoded.
    pub style: QueryStyle,
    param_type: ParamType<'a>,
}

/// Encoding of a parameter value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryStyle {
    /// A single text value: `style: form` in OpenAPI.
    Text,
    /// One occurrence per item, as `style: form` with `explode`. An empty list has no encoding.
    Repeated,
    /// A single JSON value: `content` with `application/json` in OpenAPI.
    Json,
}

impl<'a> QueryEncoding<'a> {
    /// Name of the parameter that carries the whole input in [`QueryEncoding::SingleParameter`].
    pub const INPUT_PARAMETER: &'static str = "input";

    /// Returns the encoding for inputs of this schema.
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

    /// Whether `name` is a parameter of the input.
    pub fn has_parameter(&self, name: &str) -> bool {
        match self {
            Self::Properties(parameters) => {
                parameters.iter().any(|parameter| parameter.name == name)
            }
            Self::SingleParameter => name == Self::INPUT_PARAMETER,
        }
    }

    /// Builds the input from decoded name-value pairs. The input is not validated against the
    /// schema: text that is not a number stays a string, and validation reports it later.
    ///
    /// # Errors
    ///
    /// Returns an issue for each unknown, duplicate or invalid parameter.
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

    fn insert(&self, input: &mut JsonObject, name: &str, text: &str) -> Result<(), String> {
        let (style, scalar_kind) = match self {
            Self::Properties(parameters) => {
                let parameter = parameters.iter().find(|parameter| parameter.name == name);
                let parameter = parameter.ok_or("unknown parameter")?;
                (parameter.style, parameter.param_type.scalar_kind())
            }
            Self::SingleParameter if name == Self::INPUT_PARAMETER => {
                (QueryStyle::Json, ScalarKind::Json(TypeSet::OBJECT))
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
            _ => format!("/{}", escape_token(name)),
        }
    }
}

impl QueryParameter<'_> {
    /// Returns the schema of the values that the parameter can express: a string or a list cannot
    /// be `null`, and a list is not empty. The schema of a JSON parameter is the schema of the
    /// property, with references into the input schema.
    pub fn schema(&self) -> Cow<'_, Value> {
        self.param_type.schema()
    }
}

/// Returns the value of a string for a property of an input schema: JSON if the property accepts its
/// type, else the text as a string, which validation rejects if the property accepts none.
///
/// ```
/// use serde_json::json;
///
/// let flag = json!({"oneOf": [{"type": "string"}, {"type": "boolean"}]});
/// let value = |text| toolpost::property_from_text(&json!({}), &flag, text);
/// assert_eq!((value("true"), value("123")), (json!(true), json!("123")));
/// ```
pub fn property_from_text(root: &Value, property: &Value, text: &str) -> Value {
    let types = param_type::value_types(root, property, &mut { param_type::MAX_SCHEMAS });
    param_type::value_of_text(types, text).unwrap_or_else(|_| text.into())
}

fn parse_text(scalar_kind: ScalarKind, text: &str) -> Result<Value, String> {
    match scalar_kind {
        ScalarKind::Text => Ok(text.into()),
        ScalarKind::Literal => Ok(parse_literal(text).unwrap_or_else(|| text.into())),
        ScalarKind::Json(types) => {
            param_type::value_of_text(types, text).map_err(|error| error.to_string())
        }
    }
}

/// Parses a number or boolean in exact JSON notation.
fn parse_literal(text: &str) -> Option<Value> {
    let is_graphic = text.bytes().all(|byte| byte.is_ascii_graphic());
    let value = serde_json::from_str(text).ok().filter(|_| is_graphic)?;
    matches!(value, Value::Bool(_) | Value::Number(_)).then_some(value)
}

#[cfg(test)]
mod tests;
