//! Lossless conversion of tool results into envelopes.

use serde_json::Value;
use serde_json::value::RawValue;

use super::json;
use super::settings::McpSettings;
use crate::envelope::{ContentBlock, Envelope, McpMeta, RESERVED_MEMBERS};
use crate::json::{JsonObject, RawObject};
use crate::payload::Payload;
use crate::schema::{Extras, Schema};
use crate::tool_envelope;

/// How tool results of a source are interpreted.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResultOptions {
    pub(super) parse_json_text: bool,
    pub(super) tool_envelope: bool,
}

impl From<&McpSettings> for ResultOptions {
    fn from(settings: &McpSettings) -> Self {
        let McpSettings { parse_json_text, tool_envelope, .. } = *settings;
        Self { parse_json_text, tool_envelope }
    }
}

/// Members of a tool result; large ones stay raw JSON.
#[derive(Default)]
struct ToolResult<'a> {
    content: Option<&'a RawValue>,
    structured: Option<&'a RawValue>,
    /// Whether the flag is set; a value that is not a boolean counts as an error.
    is_error: bool,
    meta: Option<JsonObject>,
    extra: JsonObject,
}

impl<'a> ToolResult<'a> {
    fn parse(text: &'a str) -> serde_json::Result<Self> {
        let mut members = Self::default();
        for (name, raw) in RawObject::parse(text)?.0 {
            match &*name {
                "content" => members.content = Some(raw),
                "structuredContent" => members.structured = Some(raw),
                "isError" => members.is_error = !matches!(raw.get(), "false" | "null"),
                "_meta" => match serde_json::from_str(raw.get())? {
                    Value::Object(meta) => members.meta = Some(meta),
                    Value::Null => {}
                    other => drop(members.extra.insert("_meta".to_owned(), other)),
                },
                // Protocol member that carries no information in a complete result.
                "resultType" => {}
                name => {
                    let key = meta_key(name).to_owned();
                    members.extra.insert(key, serde_json::from_str(raw.get())?);
                }
            }
        }
        Ok(members)
    }
}

/// Converts a tool result into an envelope.
///
/// # Errors
///
/// Returns an error if the result is not an object.
pub(super) fn to_envelope(
    raw: &RawValue,
    output: &Schema,
    options: ResultOptions,
) -> Result<Envelope<Payload>, String> {
    parse_envelope(raw, output, options).or_else(|error| {
        // Lone surrogates are repaired; a result that cannot be parsed is kept as text.
        match json::parse_lenient(raw.get()) {
            Ok(value) => {
                let repaired = RawValue::from_string(value.to_string());
                parse_envelope(&repaired.map_err(|error| error.to_string())?, output, options)
            }
            Err(_) if raw.get().starts_with('{') => Ok(text_envelope(raw, &error)),
            Err(_) => Err(error),
        }
    })
}

/// Wraps a result as text if it nests too deeply or contains numbers out of range.
fn text_envelope(raw: &RawValue, error: &str) -> Envelope<Payload> {
    tracing::warn!(error, "tool result kept as text");
    let block = ContentBlock::text(raw.get());
    let data = Value::Array(vec![block.clone().into_value()]);
    let mut meta = McpMeta::new(vec![block]);
    meta.is_error = raw.get().contains(r#""isError":true"#);
    Envelope::mcp(data.into(), meta)
}

fn parse_envelope(
    raw: &RawValue,
    output: &Schema,
    options: ResultOptions,
) -> Result<Envelope<Payload>, String> {
    let members = ToolResult::parse(raw.get())
        .map_err(|error| format!("the result cannot be read: {error}"))?;
    let blocks = parse_blocks(members.content)?;
    let structured = members.structured.map(|raw| serde_json::from_str::<Value>(raw.get()));
    let structured = structured.transpose().map_err(|error| error.to_string())?;
    let structured = structured.filter(|value| !value.is_null());
    let mut meta = McpMeta::new(blocks.blocks);
    meta.is_error = members.is_error;
    (meta.meta, meta.extra) = (members.meta, members.extra);
    let data = match (&structured, members.structured) {
        // Validation needs the parsed value, and a clone is cheaper than parsing the text again.
        (Some(value), _) if !output.is_unknown() => value.clone().into(),
        (Some(_), Some(raw)) => raw.to_owned().into(),
        _ => interpret_blocks(&meta, output, options).unwrap_or(blocks.data),
    };
    meta.structured_content = structured;
    Ok(Envelope::mcp(data, meta))
}

/// Removes the line breaks of pretty-printed JSON, so that a document is a single line.
fn compact(raw: &RawValue) -> Payload {
    let is_compact = memchr::memchr2(b'\n', b'\r', raw.get().as_bytes()).is_none();
    match serde_json::from_str::<Value>(raw.get()) {
        Ok(value) if !is_compact => value.into(),
        _ => raw.to_owned().into(),
    }
}

struct ContentBlocks {
    blocks: Vec<ContentBlock>,
    /// The same blocks as envelope data.
    data: Payload,
}

fn parse_blocks(content: Option<&RawValue>) -> Result<ContentBlocks, String> {
    let Some(content) = content.filter(|content| content.get() != "null") else {
        return Ok(ContentBlocks { blocks: Vec::new(), data: Value::Array(Vec::new()).into() });
    };
    let parsed: Value = serde_json::from_str(content.get()).map_err(|error| error.to_string())?;
    let (items, is_list) = match parsed {
        Value::Array(items) => (items, true),
        // A single block instead of a list.
        other => (vec![other], false),
    };
    let is_known = items.iter().all(ContentBlock::is_supported);
    let read: Vec<_> = items.into_iter().map(ContentBlock::from_value).collect();
    // Supported blocks are copied as raw JSON. Unsupported ones become text blocks.
    let data = match is_list && is_known {
        true => compact(content),
        false => read.iter().cloned().map(ContentBlock::into_value).collect::<Value>().into(),
    };
    Ok(ContentBlocks { blocks: read, data })
}

/// Returns the payload of a ToolEnvelope, or the JSON of the only text block.
fn interpret_blocks(meta: &McpMeta, output: &Schema, options: ResultOptions) -> Option<Payload> {
    if options.tool_envelope
        && let Some(payload) = tool_envelope_payload(&meta.content)
    {
        return Some(payload.into());
    }
    if meta.is_error || (output.is_unknown() && !options.parse_json_text) {
        return None;
    }
    let value: Value = serde_json::from_str(single_text(&meta.content)?).ok()?;
    let fits = output.is_unknown() || fits_normalized(output, &value);
    fits.then(|| value.into())
}

/// Whether the value matches the schema after normalization. The pipeline repeats the repairs and
/// reports them.
fn fits_normalized(output: &Schema, value: &Value) -> bool {
    let is_repaired = || {
        let normalized = output.normalize(&mut value.clone(), Extras::Strip);
        normalized.is_ok_and(|normalized| normalized.issues.is_empty())
    };
    output.is_valid(value).unwrap_or(false) || is_repaired()
}

fn single_text(blocks: &[ContentBlock]) -> Option<&str> {
    let mut texts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(block) => Some(block.text.as_str()),
        _ => None,
    });
    let first = texts.next()?;
    texts.next().is_none().then_some(first)
}

/// Returns the payload of a ToolEnvelope, which consists of two text blocks.
fn tool_envelope_payload(blocks: &[ContentBlock]) -> Option<Value> {
    let [ContentBlock::Text(_), ContentBlock::Text(second)] = blocks else { return None };
    if !second.text.starts_with(tool_envelope::PREFIX) {
        return None;
    }
    match tool_envelope::EnvelopeReader::default().read_block(&second.text) {
        Ok(envelope) => Some(envelope.payload),
        Err(error) => {
            tracing::debug!(%error, "second block has the ToolEnvelope prefix but is invalid");
            None
        }
    }
}

/// Returns the key in envelope meta for a member of a tool result.
fn meta_key(name: &str) -> &str {
    RESERVED_MEMBERS.iter().find(|(member, _)| *member == name).map_or(name, |(_, key)| key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::envelope::Meta;

    const PLAIN: ResultOptions = ResultOptions { parse_json_text: false, tool_envelope: true };

    fn parse(result: &Value, output: &Schema, options: ResultOptions) -> Envelope<Value> {
        let raw = RawValue::from_string(result.to_string()).unwrap();
        to_envelope(&raw, output, options).unwrap().into_value().unwrap()
    }

    fn object_schema() -> Schema {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}},
            "required": ["a"]});
        Schema::new(schema).unwrap()
    }

    #[test]
    fn tool_result_data_prefers_structured_content() {
        let text = |text: &str| json!({"type": "text", "text": text});
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        let (unknown, json_text) =
            (Schema::unknown(), ResultOptions { parse_json_text: true, ..PLAIN });
        let envelope = "__ENVELOPE_V1__:eyJwYXlsb2FkIjp7ImEiOjF9LCJtZXRhIjp7InRvb2wiOiJ0IiwidHMiO\
                        iIyMDI1LTA2LTE3VDE4OjMwOjAwLjAwMFoiLCJ2ZXJzaW9uIjoxfX0=";
        let rows = [
            (json!({"content": [text("x")]}), &unknown, PLAIN, json!([text("x")])),
            (
                json!({"content": [], "structuredContent": {"a": 1}}),
                &unknown,
                PLAIN,
                json!({"a": 1}),
            ),
            (json!({"content": [], "structuredContent": [1]}), &unknown, PLAIN, json!([1])),
            (json!({"content": []}), &unknown, PLAIN, json!([])),
            (json!({}), &unknown, PLAIN, json!([])),
            (json!({"content": null, "structuredContent": 5}), &unknown, PLAIN, json!(5)),
            (json!({"structuredContent": null, "content": []}), &unknown, PLAIN, json!([])),
            (json!({"content": text("lone")}), &unknown, PLAIN, json!([text("lone")])),
            // JSON in a text block.
            (json!({"content": [text("{\"a\":1}")]}), &object_schema(), PLAIN, json!({"a": 1})),
            (
                json!({"content": [image, text("{\"a\":1}")]}),
                &object_schema(),
                PLAIN,
                json!({"a": 1}),
            ),
            (
                json!({"content": [text("{\"a\":\"x\"}")]}),
                &object_schema(),
                PLAIN,
                json!([text("{\"a\":\"x\"}")]),
            ),
            // It fits after normalization, which the pipeline does.
            (
                json!({"content": [text("{\"a\":\"1\"}")]}),
                &object_schema(),
                PLAIN,
                json!({"a": "1"}),
            ),
            (json!({"content": [text("{\"a\":1}")]}), &unknown, PLAIN, json!([text("{\"a\":1}")])),
            (json!({"content": [text("{\"a\":1}")]}), &unknown, json_text, json!({"a": 1})),
            (json!({"content": [text("plain")]}), &unknown, json_text, json!([text("plain")])),
            (
                json!({"content": [text("1"), text("2")]}),
                &unknown,
                json_text,
                json!([text("1"), text("2")]),
            ),
            (
                json!({"content": [text("{\"a\":1}")], "isError": true}),
                &object_schema(),
                json_text,
                json!([text("{\"a\":1}")]),
            ),
            // A ToolEnvelope in two text blocks.
            (json!({"content": [text("done"), text(envelope)]}), &unknown, PLAIN, json!({"a": 1})),
            (
                json!({"content": [text("done"), text(envelope)]}),
                &unknown,
                ResultOptions { tool_envelope: false, ..PLAIN },
                json!([text("done"), text(envelope)]),
            ),
            (
                json!({"content": [text("done"), text("__ENVELOPE_V1__:!")]}),
                &unknown,
                PLAIN,
                json!([text("done"), text("__ENVELOPE_V1__:!")]),
            ),
            (json!({"content": [text(envelope)]}), &unknown, PLAIN, json!([text(envelope)])),
        ];
        for (result, schema, options, expected) in rows {
            assert_eq!(parse(&result, schema, options).data, expected, "{result}");
        }
    }

    #[test]
    fn tool_result_keeps_every_member_and_block() {
        let annotations = json!({"audience": ["user", "robot"], "priority": 0.3,
            "lastModified": "2025-01-01T00:00:00Z", "newer": [1]});
        let known = json!([
            {"type": "text", "text": "t", "annotations": annotations, "_meta": {"a": 1}, "x": null},
            {"type": "image", "data": "AA==", "mimeType": "image/png", "annotations": annotations},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav", "y": {"deep": [true]}},
            {"type": "resource", "resource": {"uri": "a:b", "text": "t", "mimeType": "m", "z": 1},
                "annotations": annotations},
            {"type": "resource", "resource": {"uri": "a:b", "blob": "AA==", "_meta": {}}},
            {"type": "resource_link", "uri": "a:b", "name": "n", "title": "t", "size": 3,
                "description": "d", "mimeType": "m", "icons": [{"src": "s"}]},
        ]);
        let result = json!({"content": known, "isError": false, "_meta": {"k": {"v": [1]}},
            "structuredContent": {"q": 1.0}, "newer": {"member": "x"}, "resultType": "complete"});
        let envelope = parse(&result, &Schema::unknown(), PLAIN);
        let Meta::Mcp(meta) = &envelope.meta else { panic!("the result is an MCP envelope") };
        let mut written = serde_json::to_value(&envelope.meta).unwrap();
        assert_eq!(written["source"].take(), "mcp");
        let mut expected = result;
        expected["source"] = Value::Null;
        expected.as_object_mut().unwrap().remove("resultType");
        assert_eq!(written, expected);
        assert_eq!((meta.content.len(), &envelope.data), (6, &json!({"q": 1.0})));

        let odd = json!({"content": [{"type": "hologram", "size": 3}, "loose", {"type": "text"}]});
        let envelope = parse(&odd, &Schema::unknown(), PLAIN);
        let as_text = |json: &str| json!({"type": "text", "text": json});
        let all = [r#"{"type":"hologram","size":3}"#, r#""loose""#, r#"{"type":"text"}"#];
        assert_eq!(envelope.data, Value::from_iter(all.map(as_text)));
        let forged = json!({"content": [], "source": "local", "operationId": "demo.add"});
        let written = serde_json::to_value(parse(&forged, &Schema::unknown(), PLAIN)).unwrap();
        assert_eq!(written["meta"]["source"], "mcp");
        assert_eq!(written["meta"]["toolpost/source"], "local");
        assert_eq!(written["meta"]["operationId"], Value::Null);
        let odd_members = json!({"content": [], "isError": "yes", "_meta": [1]});
        let written = serde_json::to_value(parse(&odd_members, &Schema::unknown(), PLAIN)).unwrap();
        assert_eq!(written["meta"]["isError"], json!(true));
        assert_eq!(written["meta"]["_meta"], json!([1]));
    }

    #[test]
    fn tool_result_with_unparsable_json_becomes_text() {
        let deep = format!(r#"{{"content":[],"x":{}{}}}"#, "[".repeat(300), "]".repeat(300));
        let huge = r#"{"content":[],"isError":true,"x":1e999}"#.to_owned();
        for (text, is_error) in [(deep, false), (huge, true)] {
            let raw = RawValue::from_string(text.clone()).unwrap();
            let envelope =
                to_envelope(&raw, &Schema::unknown(), PLAIN).unwrap().into_value().unwrap();
            assert_eq!(envelope.data, json!([{"type": "text", "text": text}]));
            assert_eq!(envelope.is_error(), is_error);
        }
        let cut = r#"{"content":[{"type":"text","text":"a\ud83d"}]}"#;
        let raw = RawValue::from_string(cut.to_owned()).unwrap();
        let repaired = to_envelope(&raw, &Schema::unknown(), PLAIN).unwrap().into_value().unwrap();
        assert_eq!(repaired.data, json!([{"type": "text", "text": "a\u{fffd}"}]));
    }

    #[test]
    fn tool_result_must_be_an_object() {
        for text in ["1", "null", "[]", "\"x\""] {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            assert!(to_envelope(&raw, &Schema::unknown(), PLAIN).is_err(), "{text}");
        }
    }
}
