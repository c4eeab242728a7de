//! Operations for MCP methods other than tool calls, such as `resources/read`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::json;
use super::rpc::Param;
use super::source_handle::SourceHandle;
use crate::envelope::{ContentBlock, Envelope, McpMeta};
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, Handler, HandlerOutput};
use crate::payload::Payload;
use crate::schema::Schema;
use crate::spec::{OperationId, OperationKind, OperationSpec};

/// Returns the MCP method that an operation forwards, such as `resources/read`; `None` for tools
/// and all other operations.
///
/// The metadata alone is not trusted, because a spoke can set it too. The operation must be named
/// after the method, optionally prefixed with hub names, and must be a query or subscription,
/// because the resource passthrough calls it without the client specifying it.
///
/// ```
/// use toolpost::mcp::method_of;
/// use toolpost::{OperationKind, OperationSpec};
///
/// let mut spec = OperationSpec::new(&"box.prompts/get".parse().unwrap(), OperationKind::Query);
/// assert_eq!(method_of(&spec), None);
/// spec.meta.get_or_insert_default().mcp_method = Some("prompts/get".to_owned());
/// assert_eq!(method_of(&spec), Some("prompts/get"));
/// ```
pub fn method_of(spec: &OperationSpec) -> Option<&'static str> {
    let method_name = spec.meta.as_ref()?.mcp_method.as_deref()?;
    let mut methods = PASSTHROUGH_METHODS.iter().chain([&SUBSCRIBE]);
    let method = methods.find(|method| method.name == method_name)?;
    let hubs = spec.name.strip_suffix(method_name)?;
    let is_full_segment = hubs.is_empty() || hubs.ends_with('.');
    (is_full_segment && spec.kind == method.kind).then_some(method.name)
}

/// An MCP method that is exposed as an operation.
#[derive(Debug)]
pub(super) struct PassthroughMethod {
    /// Name of the method and of the operation.
    pub(super) name: &'static str,
    kind: OperationKind,
    /// Capability that the server must declare.
    pub(super) capability: &'static str,
    /// Input member that identifies the subject of the request.
    subject_param: Option<&'static str>,
    description: &'static str,
    /// The input schema as JSON.
    input: &'static str,
}

pub(super) const PASSTHROUGH_METHODS: [PassthroughMethod; 6] = [
    PassthroughMethod::query(
        "resources/list",
        "resources",
        None,
        PAGE_INPUT,
        "Lists the resources of the server, one page at a time.",
    ),
    PassthroughMethod::query(
        "resources/templates/list",
        "resources",
        None,
        PAGE_INPUT,
        "Lists the resource templates of the server, one page at a time.",
    ),
    PassthroughMethod::query(
        "resources/read",
        "resources",
        Some("uri"),
        URI_INPUT,
        "Reads a resource of the server.",
    ),
    PassthroughMethod::query(
        "prompts/list",
        "prompts",
        None,
        PAGE_INPUT,
        "Lists the prompts of the server, one page at a time.",
    ),
    PassthroughMethod::query(
        "prompts/get",
        "prompts",
        Some("name"),
        PROMPT_INPUT,
        "Returns a prompt of the server, rendered with the given arguments.",
    ),
    PassthroughMethod::query(
        "completion/complete",
        "completions",
        None,
        COMPLETION_INPUT,
        "Suggests values for an argument of a prompt or of a resource template.",
    ),
];

/// Subscribes to a resource. Handled by `subscriptions`.
pub(super) const SUBSCRIBE: PassthroughMethod = PassthroughMethod {
    name: "resources/subscribe",
    kind: OperationKind::Subscription,
    capability: "resources",
    subject_param: None,
    description: "Subscribes to a resource of the server. Emits `subscribed` when the server \
        confirms the subscription, then `updated` after every change.",
    input: URI_INPUT,
};

const PAGE_INPUT: &str = r#"{"type":"object","properties":{"cursor":{"type":"string"}}}"#;

const URI_INPUT: &str =
    r#"{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"]}"#;

const PROMPT_INPUT: &str = r#"{
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}}
    },
    "required": ["name"]
}"#;

const COMPLETION_INPUT: &str = r#"{
    "type": "object",
    "properties": {
        "ref": {"type": "object"},
        "argument": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
            "required": ["name", "value"]
        },
        "context": {"type": "object"}
    },
    "required": ["ref", "argument"]
}"#;

impl PassthroughMethod {
    const fn query(
        name: &'static str,
        capability: &'static str,
        subject_param: Option<&'static str>,
        input: &'static str,
        description: &'static str,
    ) -> Self {
        Self { name, kind: OperationKind::Query, capability, subject_param, description, input }
    }

    pub(super) fn spec(&self, source: &str) -> OperationSpec {
        let id =
            OperationId::new(source, self.name).or_else(|_| OperationId::new("mcp", self.name));
        let mut spec = OperationSpec::new(&id.expect("method names are valid"), self.kind);
        spec.description = self.description.to_owned();
        spec.tags = vec!["mcp".to_owned()];
        spec.meta.get_or_insert_default().mcp_method = Some(self.name.to_owned());
        let input: Value = serde_json::from_str(self.input).expect("a valid JSON literal");
        spec.input_schema = Schema::new(input).expect("the schema is an object");
        spec
    }

    pub(super) fn handler(&'static self, handle: &Arc<SourceHandle>) -> Handler {
        let handle = Arc::clone(handle);
        Handler::once_fn(move |context, input| {
            let handle = Arc::clone(&handle);
            async move { self.call(&handle, &context, input).await }
        })
    }

    async fn call(
        &self,
        handle: &SourceHandle,
        context: &CallContext,
        input: Payload,
    ) -> Result<HandlerOutput, HandlerError> {
        let input: Map<String, Value> = input
            .into_typed()
            .map_err(|error| CallError::validation(error.to_string(), &[]).not_sent())?;
        // `_meta` is set by this client, not by the caller.
        let given = input.iter().filter(|(name, _)| *name != "_meta");
        let params: Vec<_> =
            given.map(|(name, value)| (name.as_str(), Param::Value(value))).collect();
        let mut request = handle.request(context, self.name, &params);
        request.subject =
            self.subject_param.and_then(|name| input.get(name)).and_then(Value::as_str);
        let result = handle.call(context, &request, true).await?;
        let result = json::without_transport_meta(result);
        Ok(HandlerOutput::Envelope(into_envelope(result)?))
    }
}

/// Members of a result that are parsed; the others stay raw JSON.
#[derive(Default, Deserialize)]
struct ResourceResultMembers<'a> {
    #[serde(borrow)]
    contents: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// Converts a result to an envelope. Resource contents also become content blocks.
fn into_envelope(result: Box<RawValue>) -> Result<Envelope<Payload>, CallError> {
    if !result.get().starts_with('{') {
        return Err(CallError::execution("the result is not an object"));
    }
    let members: ResourceResultMembers<'_> = serde_json::from_str(result.get()).unwrap_or_default();
    let read = |member: Option<&RawValue>| {
        let member = json::parse_lenient(member?.get());
        member.inspect_err(|error| tracing::warn!(%error, "result kept as text only")).ok()
    };
    let contents = match read(members.contents) {
        Some(Value::Array(contents)) => contents,
        _ => Vec::new(),
    };
    let blocks = contents.into_iter().map(|contents| {
        ContentBlock::from_value(json!({"type": "resource", "resource": contents}))
    });
    let mut meta = McpMeta::new(blocks.collect());
    meta.meta = match read(members.meta) {
        Some(Value::Object(members)) => Some(members),
        _ => None,
    };
    Ok(Envelope::mcp(result.into(), meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Meta;

    #[test]
    fn method_result_is_data_with_resource_content_blocks() {
        let text = r#"{"contents":[{"uri":"a:b","text":"t"}],"_meta":{"k":1},"newer":2}"#;
        let envelope = into_envelope(RawValue::from_string(text.to_owned()).unwrap()).unwrap();
        let written = serde_json::to_value(&envelope).unwrap();
        assert_eq!(written["data"], serde_json::from_str::<Value>(text).unwrap());
        let block = json!({"type": "resource", "resource": {"uri": "a:b", "text": "t"}});
        assert_eq!(written["meta"]["content"], json!([block]));
        assert_eq!(written["meta"]["_meta"], json!({"k": 1}));
        for method in &PASSTHROUGH_METHODS {
            let spec = method.spec("box");
            assert!(spec.input_schema.compile().is_ok(), "{}", method.name);
            assert_eq!(spec.id().unwrap().name(), method.name);
        }
    }

    #[test]
    fn method_result_passes_unparsable_json_through() {
        let deep = format!(r#"{{"contents":[{}1{}]}}"#, "[".repeat(200), "]".repeat(200));
        for (text, blocks) in [
            (r#"{"contents":[{"uri":"a:b","text":"cut \ud83d"}]}"#, 1),
            (r#"{"contents":[{"uri":"a:b","size":1e999}]}"#, 0),
            (r#"{"contents":"none","_meta":7}"#, 0),
            (r#"{"contents":[],"contents":[]}"#, 0),
            (r#"{"\ud83d":1}"#, 0),
            (&deep, 0),
        ] {
            let envelope = into_envelope(RawValue::from_string(text.to_owned()).unwrap()).unwrap();
            assert_eq!(envelope.data.as_raw().unwrap().get(), text);
            let Meta::Mcp(meta) = envelope.meta else { panic!("{text}") };
            assert_eq!((meta.content.len(), meta.meta), (blocks, None), "{text}");
        }
        let list = RawValue::from_string("[1]".to_owned()).unwrap();
        assert!(into_envelope(list).unwrap_err().message().contains("not an object"));
    }

    #[test]
    fn method_of_requires_meta_name_and_kind() {
        let mark = |method: &str| Some(json!({"toolpost/method": method}));
        for (id, meta, kind, expected) in [
            ("box.prompts/get", mark("prompts/get"), OperationKind::Query, Some("prompts/get")),
            ("far.box.prompts/get", mark("prompts/get"), OperationKind::Query, Some("prompts/get")),
            ("a.b.c.prompts/get", mark("prompts/get"), OperationKind::Query, Some("prompts/get")),
            ("box.prompts/get", None, OperationKind::Query, None),
            ("box.prompts/get", Some(json!({"toolpost/method": 1})), OperationKind::Query, None),
            ("box.prompts/get", mark("prompts/list"), OperationKind::Query, None),
            ("box.tools/call", mark("tools/call"), OperationKind::Query, None),
            ("box.my-prompts/get", mark("prompts/get"), OperationKind::Query, None),
            ("box.delete", mark("prompts/get"), OperationKind::Query, None),
            ("box.prompts/get", mark("prompts/get"), OperationKind::Mutation, None),
            (
                "box.resources/subscribe",
                mark(SUBSCRIBE.name),
                OperationKind::Subscription,
                Some(SUBSCRIBE.name),
            ),
            ("box.resources/subscribe", mark(SUBSCRIBE.name), OperationKind::Query, None),
        ] {
            let mut spec = OperationSpec::new(&id.parse().unwrap(), kind);
            spec.meta = meta.as_ref().and_then(Value::as_object).cloned().map(Into::into);
            assert_eq!(method_of(&spec), expected, "{id} {meta:?} {kind:?}");
        }
        for method in &PASSTHROUGH_METHODS {
            assert_eq!(method_of(&method.spec("box")), Some(method.name));
        }
    }
}
