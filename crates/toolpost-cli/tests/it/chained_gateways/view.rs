//! The endpoint and protocol generation of a client, and how its responses differ from the
//! server's.

use serde_json::{Map, Value, json};

use super::client::ProtocolGeneration;
use super::expected_changes;

/// One endpoint of the last gateway and a client of one protocol generation.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    source: &'static str,
    /// Protocol generation of the server.
    server_generation: ProtocolGeneration,
    /// Whether names have the source as a prefix.
    is_prefixed: bool,
    pub(super) generation: ProtocolGeneration,
}

impl View {
    pub(super) fn all(
        source: &'static str,
        upstream_generation: ProtocolGeneration,
    ) -> impl Iterator<Item = Self> {
        let variants = [
            (false, ProtocolGeneration::Legacy),
            (false, ProtocolGeneration::Modern),
            (true, ProtocolGeneration::Legacy),
            (true, ProtocolGeneration::Modern),
        ];
        variants.into_iter().map(move |(is_prefixed, generation)| Self {
            source,
            server_generation: upstream_generation,
            is_prefixed,
            generation,
        })
    }

    pub(super) fn path(self) -> String {
        match self.is_prefixed {
            true => "/mcp?tools=all".to_owned(),
            false => format!("/mcp?source={}", self.source),
        }
    }

    /// Returns the parameters with the names used in this view.
    pub(super) fn params(self, method: &str, params: &str) -> String {
        if !self.is_prefixed {
            return params.to_owned();
        }
        let (tool, resource) = (format!("{}__", self.source), format!("toolpost:{}:", self.source));
        match method {
            "tools/call" | "prompts/get" => {
                params.replacen(r#""name":""#, &format!(r#""name":"{tool}"#), 1)
            }
            "resources/read" => params.replacen(r#""uri":""#, &format!(r#""uri":"{resource}"#), 1),
            "completion/complete" => params
                .replacen(r#"prompt","name":""#, &format!(r#"prompt","name":"{tool}"#), 1)
                .replacen(r#"resource","uri":""#, &format!(r#"resource","uri":"{resource}"#), 1),
            _ => params.to_owned(),
        }
    }

    /// Returns the response expected in this view.
    pub(super) fn expected(self, method: &str, params: &str, message: &Value) -> Value {
        let mut message = expected_changes::expected_for(params).unwrap_or_else(|| message.clone());
        if let Some(result) = message.get_mut("result").and_then(Value::as_object_mut) {
            if self.server_generation == ProtocolGeneration::Modern {
                strip_generation_members(result);
            }
            match method {
                "tools/list" => normalize_tool_list(result),
                "tools/call" => normalize_call_result(result),
                "resources/list" | "resources/templates/list" | "prompts/list"
                    if self.is_prefixed =>
                {
                    keep_lists(result);
                }
                _ => {}
            }
        }
        strip_timestamps(&mut message);
        message
    }

    /// Returns the received response without the members that the protocol generation adds.
    pub(super) fn strip_protocol_members(self, method: &str, mut received: Value) -> Value {
        if let Some(result) = received.get_mut("result").and_then(Value::as_object_mut) {
            if self.generation == ProtocolGeneration::Modern {
                assert_eq!(result.get("resultType"), Some(&json!("complete")), "{method}");
                strip_generation_members(result);
            }
            if self.is_prefixed {
                self.without_prefixes(result);
            }
        }
        if let Some(Value::String(text)) = received.pointer_mut("/error/message")
            && text.starts_with("unknown tool: ")
        {
            // The message also contains the requested name and a hint with the known names.
            text.truncate("unknown tool".len());
        }
        strip_timestamps(&mut received);
        received
    }

    /// Keeps only the entries of this source and removes its prefix from their names.
    fn without_prefixes(self, result: &mut Map<String, Value>) {
        let (tool, resource) = (format!("{}__", self.source), format!("toolpost:{}:", self.source));
        for (list, member, prefix) in [
            ("tools", "name", &tool),
            ("prompts", "name", &tool),
            ("resources", "uri", &resource),
            ("resourceTemplates", "uriTemplate", &resource),
        ] {
            let Some(items) = result.get_mut(list).and_then(Value::as_array_mut) else { continue };
            items.retain_mut(|item| {
                let own = item[member].as_str().and_then(|name| name.strip_prefix(prefix.as_str()));
                let Some(own) = own.map(str::to_owned) else { return false };
                item[member] = own.into();
                true
            });
        }
    }
}

/// Tools are sorted by name, and members other than lists are removed. `execution` moves to
/// `_meta`, because tasks of the server are not accessible through the gateway. Output schemas are
/// relaxed.
fn normalize_tool_list(result: &mut Map<String, Value>) {
    keep_lists(result);
    let tools = result["tools"].as_array_mut().unwrap();
    tools.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    for tool in tools.iter_mut().map(|tool| tool.as_object_mut().unwrap()) {
        if let Some(execution) = tool.shift_remove("execution") {
            let meta = tool.entry("_meta").or_insert_with(|| json!({}));
            meta["toolpost/mcp"] = json!({"execution": execution});
        }
        if let Some(schema) = tool.get_mut("outputSchema") {
            relax(schema);
        }
    }
}

/// Relaxes the output schema of an object with simple properties.
fn relax(schema: &mut Value) {
    let members = schema.as_object_mut().unwrap();
    for name in ["$schema", "required", "additionalProperties"] {
        members.shift_remove(name);
    }
    let note = "Relaxed: results may violate the full schema, which `hub.schema` returns.";
    members.insert("description".to_owned(), note.into());
    for (_, property) in members["properties"].as_object_mut().unwrap() {
        property["type"] = json!([property["type"], "null"]);
    }
}

/// Removes all members except the lists: a list merged from several servers has no place for
/// metadata of one server.
fn keep_lists(result: &mut Map<String, Value>) {
    result.retain(|_, value| value.is_array());
}

/// `content` is always present, `null` members are removed, and so is `isError: false`.
fn normalize_call_result(result: &mut Map<String, Value>) {
    if result.get("isError") == Some(&json!(false)) {
        result.shift_remove("isError");
    }
    result.retain(|_, value| !value.is_null());
    result.entry("content").or_insert_with(|| json!([]));
}

/// Removes members that 2026-07-28 requires or allows in every response.
fn strip_generation_members(result: &mut Map<String, Value>) {
    for name in ["resultType", "ttlMs", "cacheScope"] {
        result.shift_remove(name);
    }
    if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) {
        let had = meta.shift_remove("io.modelcontextprotocol/serverInfo").is_some();
        if had && meta.is_empty() {
            result.shift_remove("_meta");
        }
    }
}

/// Removes the creation time that one of the servers puts into a resource.
fn strip_timestamps(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(at) = text.find(" created at ") {
                text.truncate(at);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip_timestamps),
        Value::Object(members) => members.values_mut().for_each(strip_timestamps),
        _ => {}
    }
}
