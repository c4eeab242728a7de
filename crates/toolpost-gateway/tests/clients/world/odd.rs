//! Operations that do what their input asks for: succeed, fail, or give what does not fit.

use std::collections::BTreeMap;

use futures::stream::{self, BoxStream, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use toolpost::{
    CallError, DomainError, ErrorDefinition, Handler, HandlerError, Kind, Operation, OperationSpec,
    Output, Payload, Schema,
};

/// The error that every operation declares, and one that none does.
pub(crate) const DECLARED: (&str, &str) = ("NO_ROOM", "the shelf is full");
pub(crate) const UNDECLARED: &str = "the lamp is «broken»";

/// An operation, and what it gives.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Odd {
    /// The name in the namespace `odd`.
    pub(crate) name: String,
    #[serde(default = "query")]
    kind: Kind,
    #[serde(default = "how_as_member")]
    input: Value,
    #[serde(default)]
    pub(crate) asking: Asking,
    #[serde(default = "anything")]
    output: Value,
    pub(crate) good: Value,
    /// What its schema forbids, and no repair mends.
    pub(crate) bad: Option<Value>,
    /// What its schema forbids in words that cannot be said to every client.
    pub(crate) strays: Option<Value>,
    #[serde(default)]
    pub(crate) stands: Stands,
    pub(crate) instead: Option<Instead>,
}

/// Where the data stands in the structured content of the dialect `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Stands {
    /// It is the structured content.
    #[default]
    Alone,
    /// In `{result}` before 2026-07-28.
    WrappedBefore,
    /// In `{result}`, since it may be `null`.
    Wrapped,
    /// There is no structured content, since nothing is declared and no member is ever `null`.
    Nowhere,
}

/// How an input says what is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Asking {
    /// In its member `how`.
    #[default]
    Member,
    /// It is the word.
    Text,
    /// It is a list that begins with the word.
    List,
    /// It cannot.
    Never,
}

/// What comes of a call that should succeed, if not what is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Instead {
    /// Nothing fits the schema.
    DoesNotFit,
    /// The output schema cannot be read, which is worth a warning.
    Warned,
    /// The input schema cannot be read, so there are no calls.
    Unusable,
}

/// Every operation: those of the table, and those that are too long for it.
pub(crate) fn odds() -> Vec<Odd> {
    let table = include_str!("../odd.json");
    let groups: BTreeMap<String, Vec<Odd>> = serde_json::from_str(table).expect("a table");
    let deep = (0..60).fold(json!([]), |inner, _| json!([inner]));
    let text = json!({"type": "object", "properties": {"t": {"type": "string"}}});
    let list = json!({"type": "object", "properties": {"d": {"type": "array"}}});
    let large = json!({"t": "größer ".repeat(10_000)});
    let long = [
        json!({"name": "large", "output": text, "good": large, "bad": {"t": []}}),
        json!({"name": "deep", "output": list, "good": {"d": deep}, "bad": {"d": "flat"}}),
        json!({"name": "n".repeat(200), "output": text, "good": {"t": ""}, "bad": {"t": []}}),
    ];
    let long = long.map(|odd| serde_json::from_value(odd).expect("as in the table"));
    groups.into_values().flatten().chain(long).collect()
}

fn query() -> Kind {
    Kind::Query
}

fn how_as_member() -> Value {
    json!({"type": "object", "properties": {"how": {"type": "string"}}})
}

fn anything() -> Value {
    Value::Bool(true)
}

impl Odd {
    pub(crate) fn id(&self) -> String {
        format!("odd.{}", self.name)
    }

    /// The arguments that ask for something.
    pub(crate) fn arguments(&self, how: &str) -> Value {
        match self.asking {
            Asking::Member => json!({"how": how}),
            Asking::Text => json!({"input": how}),
            Asking::List => json!({"input": [how]}),
            Asking::Never => json!({}),
        }
    }

    pub(crate) fn operation(self) -> Operation {
        let id = self.id().parse().expect("a plain id");
        let mut spec = OperationSpec::new(&id, self.kind);
        spec.description = format!("Odd on purpose: {}.", id.name());
        spec.input_schema = Schema::new(self.input.clone()).expect("a schema");
        spec.output_schema = Schema::new(self.output.clone()).expect("a schema");
        spec.error_schemas = vec![ErrorDefinition::new(DECLARED.0, "When there is no room.")];
        let handler = match self.kind {
            Kind::Subscription => Handler::stream_fn(move |_, input| self.stream(input)),
            _ => Handler::once_fn(move |_, input| std::future::ready(self.answer(input))),
        };
        Operation::from_spec(spec).handler(handler).build().expect("well formed")
    }

    fn answer(&self, input: Payload) -> Result<Output, HandlerError> {
        let data = match (&*how(input), &self.bad, &self.strays) {
            ("declared", ..) => {
                let details = json!({"shelf": 3});
                return Err(DomainError::new(DECLARED.0, DECLARED.1).with_details(details).into());
            }
            ("undeclared", ..) => return Err(CallError::execution(UNDECLARED).into()),
            ("invalid", Some(bad), _) => bad,
            ("strays", _, Some(strays)) => strays,
            _ => &self.good,
        };
        Ok(Output::Data(data.clone().into()))
    }

    /// The items of what would be the answer; a failure comes after the first of them.
    fn stream(&self, input: Payload) -> BoxStream<'static, Result<Output, HandlerError>> {
        let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
        let given = |item: Value| Ok(Output::Data(item.into()));
        let values: Vec<Result<Output, HandlerError>> = match self.answer(input) {
            Ok(Output::Data(data)) => {
                let list = data.into_value().unwrap_or_default();
                items(&list).into_iter().map(given).collect()
            }
            failed => items(&self.good).into_iter().take(1).map(given).chain([failed]).collect(),
        };
        stream::iter(values).boxed()
    }
}

/// What an input asks for.
fn how(input: Payload) -> String {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let input = input.into_value().unwrap_or_default();
    let asked = match &input {
        Value::Object(members) => members.get("how").and_then(word),
        Value::Array(items) => items.first().and_then(word),
        other => word(other),
    };
    asked.unwrap_or_else(|| "ok".to_owned())
}
