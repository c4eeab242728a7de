//! What a server offers beside its tools, as operations of the same names as the protocol's methods.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::desk::{Desk, Errand};
use super::greeting::Peer;
use super::rpc::Param;
use crate::envelope::{ContentBlock, Envelope, McpMeta};
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, Handler, Output};
use crate::payload::Payload;
use crate::schema::Schema;
use crate::spec::{Kind, OperationId, OperationSpec};

/// A method of the protocol that is an operation.
#[derive(Debug)]
pub(super) struct Method {
    /// The method, and the name of the operation.
    pub(super) name: &'static str,
    /// What the server must say it has.
    capability: &'static str,
    /// The input that names what it is about.
    subject: Option<&'static str>,
    description: &'static str,
    input: fn() -> Value,
}

const METHODS: [Method; 6] = [
    Method {
        name: "resources/list",
        capability: "resources",
        subject: None,
        description: "Lists the resources of the server, a page at a time.",
        input: page_input,
    },
    Method {
        name: "resources/templates/list",
        capability: "resources",
        subject: None,
        description: "Lists the templates of resource addresses of the server, a page at a time.",
        input: page_input,
    },
    Method {
        name: "resources/read",
        capability: "resources",
        subject: Some("uri"),
        description: "Reads a resource of the server.",
        input: read_input,
    },
    Method {
        name: "prompts/list",
        capability: "prompts",
        subject: None,
        description: "Lists the prompts of the server, a page at a time.",
        input: page_input,
    },
    Method {
        name: "prompts/get",
        capability: "prompts",
        subject: Some("name"),
        description: "Fills in a prompt of the server.",
        input: prompt_input,
    },
    Method {
        name: "completion/complete",
        capability: "completions",
        subject: None,
        description: "Suggests values for an argument of a prompt or of a resource template.",
        input: completion_input,
    },
];

fn page_input() -> Value {
    json!({"type": "object", "properties": {"cursor": {"type": "string"}}})
}

fn read_input() -> Value {
    json!({"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]})
}

fn prompt_input() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["name"],
    })
}

fn completion_input() -> Value {
    json!({
        "type": "object",
        "properties": {
            "ref": {"type": "object"},
            "argument": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
                "required": ["name", "value"],
            },
            "context": {"type": "object"},
        },
        "required": ["ref", "argument"],
    })
}

/// What this server offers.
pub(super) fn offered(peer: &Peer) -> impl Iterator<Item = &'static Method> {
    METHODS.iter().filter(|method| peer.has(method.capability))
}

impl Method {
    pub(super) fn spec(&self, source: &str) -> OperationSpec {
        let id =
            OperationId::new(source, self.name).or_else(|_| OperationId::new("mcp", self.name));
        let mut spec = OperationSpec::new(&id.expect("the names are plain"), Kind::Query);
        spec.description = self.description.to_owned();
        spec.tags = vec!["mcp".to_owned()];
        spec.input_schema = Schema::new((self.input)()).expect("an object is a schema");
        spec
    }

    pub(super) fn handler(&'static self, desk: &Arc<Desk>) -> Handler {
        let desk = Arc::clone(desk);
        Handler::once_fn(move |context, input| {
            let desk = Arc::clone(&desk);
            async move {
                tokio::select! {
                    biased;
                    called = self.call(&desk, &context, input) => called,
                    () = context.cancelled() => {
                        Err(CallError::aborted("the call was cancelled").into())
                    }
                }
            }
        })
    }

    async fn call(
        &self,
        desk: &Desk,
        context: &CallContext,
        input: Payload,
    ) -> Result<Output, HandlerError> {
        let input: Map<String, Value> = input
            .into_typed()
            .map_err(|error| CallError::validation(error.to_string(), &[]).before_sending())?;
        // What stands in `_meta` is between us and the server.
        let given = input.iter().filter(|(name, _)| *name != "_meta");
        let params: Vec<_> =
            given.map(|(name, value)| (name.as_str(), Param::Value(value))).collect();
        let subject = self.subject.and_then(|name| input.get(name)).and_then(Value::as_str);
        let errand = Errand {
            method: self.name,
            params: &params,
            subject,
            headers: Vec::new(),
            is_repeatable: true,
        };
        let answer = desk.run(context, errand).await?;
        Ok(Output::Envelope(envelope(answer)?))
    }
}

/// The whole result is the data; the contents of resources are blocks too.
fn envelope(answer: Box<RawValue>) -> Result<Envelope<Payload>, CallError> {
    let members: Map<String, Value> = serde_json::from_str(answer.get())
        .map_err(|error| CallError::execution(format!("the result is not an object: {error}")))?;
    let contents = members.get("contents").and_then(Value::as_array);
    let blocks = contents.into_iter().flatten().map(|contents| {
        ContentBlock::from_value(json!({"type": "resource", "resource": contents}))
    });
    let mut meta = McpMeta::new(blocks.collect());
    meta.meta = members.get("_meta").and_then(Value::as_object).cloned();
    Ok(Envelope::mcp(answer.into(), meta))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_the_data_and_resources_are_blocks() {
        let text = r#"{"contents":[{"uri":"a:b","text":"t"}],"_meta":{"k":1},"newer":2}"#;
        let envelope = envelope(RawValue::from_string(text.to_owned()).unwrap()).unwrap();
        let written = serde_json::to_value(&envelope).unwrap();
        assert_eq!(written["data"], serde_json::from_str::<Value>(text).unwrap());
        let block = json!({"type": "resource", "resource": {"uri": "a:b", "text": "t"}});
        assert_eq!(written["meta"]["content"], json!([block]));
        assert_eq!(written["meta"]["_meta"], json!({"k": 1}));
        for method in &METHODS {
            let spec = method.spec("box");
            assert!(spec.input_schema.compile().is_ok(), "{}", method.name);
            assert_eq!(spec.id().unwrap().name(), method.name);
        }
    }
}
