//! Formats capabilities for each protocol family.

use serde_json::{Value, json};

use crate::room::capability::Capabilities;
use crate::room::message::Protocol;

pub(super) fn format_capabilities(protocol: Protocol, capabilities: &Capabilities) -> Vec<Value> {
    match protocol {
        Protocol::Mcpx01 => format_for_mcpx(capabilities),
        Protocol::Mew03 | Protocol::Mew04 => format_for_mew(capabilities),
    }
}

/// Formats capabilities as strings; a pattern without a string form is kept.
pub(crate) fn format_for_mcpx(capabilities: &Capabilities) -> Vec<Value> {
    capabilities
        .values()
        .into_iter()
        .map(|value| to_string_notation(&value).unwrap_or(value))
        .collect()
}

/// Formats capabilities as patterns. `mew` clients check capabilities themselves, and their `*`
/// does not cross `/`. They recognize responders by an explicit `mcp/response` entry.
pub(super) fn format_for_mew(capabilities: &Capabilities) -> Vec<Value> {
    let mut formatted: Vec<Value> = Vec::new();
    // A client with a regular expression that JavaScript does not support cannot send anything.
    let is_portable = |value: &Value| !value.to_string().contains("(?");
    for value in capabilities.values().into_iter().filter(is_portable) {
        let patterns = match &value {
            Value::String(text) => to_patterns(text),
            other => vec![other.clone()],
        };
        formatted.extend(patterns);
    }
    let kinds = |formatted: &[Value], kind: &str| formatted.iter().any(|it| it["kind"] == kind);
    if kinds(&formatted, "*") {
        formatted.extend(["**", "mcp/*"].map(|kind| json!({"kind": kind})));
    }
    let responses = ["mcp/*", "mcp/re*", "mcp/**", "**"];
    if !kinds(&formatted, "mcp/response") && responses.iter().any(|kind| kinds(&formatted, kind)) {
        formatted.push(json!({"kind": "mcp/response"}));
    }
    formatted
}

/// Converts a string capability to patterns: `mcp/request:tools/call:read_*` becomes a pattern on
/// the method and name in the payload.
fn to_patterns(text: &str) -> Vec<Value> {
    let mut parts = text.splitn(3, ':');
    let kind = parts.next().unwrap_or_default();
    let (method, context) = (parts.next().filter(|it| *it != "*"), parts.next());
    let Some(method) = method else {
        return vec![json!({"kind": kind})];
    };
    // The payload of a response has no method, so a pattern cannot require one.
    if kind == "mcp/response" {
        return vec![json!({"kind": kind})];
    }
    let method = match method.strip_suffix('*') {
        Some(begin) if begin.ends_with('/') || begin.is_empty() => format!("{begin}**"),
        _ => method.to_owned(),
    };
    let mut payload = json!({"method": method});
    if let Some(name) = context.filter(|name| *name != "*") {
        let name = decode_context(name);
        match method.as_str() {
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                payload["params"] = json!({"uri": name});
            }
            _ => payload["params"] = json!({"name": name}),
        }
    }
    vec![json!({"kind": kind, "payload": payload})]
}

fn to_string_notation(value: &Value) -> Option<Value> {
    let kind = value.get("kind")?.as_str()?;
    let plain = |text: &str| !text.contains(['!', '?', '[']) && !text.starts_with('/');
    let members = value.as_object()?.keys().filter(|key| *key != "id").count();
    if members == 1 {
        return plain(kind).then(|| kind.into());
    }
    let payload = value.get("payload").filter(|_| members == 2)?.as_object()?;
    let method = payload.get("method")?.as_str().filter(|method| plain(method))?;
    if payload.len() == 1 {
        return Some(format!("{kind}:{method}").into());
    }
    let params = payload.get("params").filter(|_| payload.len() == 2)?.as_object()?;
    let name = params.get("name").or_else(|| params.get("uri")).filter(|_| params.len() == 1)?;
    let name = name.as_str().filter(|name| plain(name))?;
    Some(format!("{kind}:{method}:{}", name.replace("**", "*")).into())
}

fn decode_context(name: &str) -> String {
    name.replace("%2A", "*").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::capability::Capability;

    fn compile_all(values: &Value) -> Capabilities {
        let values = values.as_array().unwrap().iter();
        Capabilities::new(values.map(|value| Capability::compile(value).unwrap()))
    }

    #[test]
    fn capabilities_format_per_protocol_family() {
        let call = json!({"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_*"}}});
        for (held, mew, mcpx) in [
            (json!(["chat"]), json!([{"kind": "chat"}]), json!(["chat"])),
            (
                json!(["*"]),
                json!([{"kind": "*"}, {"kind": "**"}, {"kind": "mcp/*"}, {"kind": "mcp/response"}]),
                json!(["*"]),
            ),
            (
                json!(["mcp/*"]),
                json!([{"kind": "mcp/*"}, {"kind": "mcp/response"}]),
                json!(["mcp/*"]),
            ),
            (
                json!(["mcp/request:tools/call:read_*"]),
                json!([call]),
                json!(["mcp/request:tools/call:read_*"]),
            ),
            (json!([call]), json!([call]), json!(["mcp/request:tools/call:read_*"])),
            (
                json!(["mcp/response:*"]),
                json!([{"kind": "mcp/response"}]),
                json!(["mcp/response:*"]),
            ),
            (
                json!(["mcp/request:tools/*"]),
                json!([{"kind": "mcp/request", "payload": {"method": "tools/**"}}]),
                json!(["mcp/request:tools/*"]),
            ),
            (
                json!([{"kind": "mcp/request", "payload": {"params": {"force": true}}}]),
                json!([{"kind": "mcp/request", "payload": {"params": {"force": true}}}]),
                json!([{"kind": "mcp/request", "payload": {"params": {"force": true}}}]),
            ),
        ] {
            let held = compile_all(&held);
            assert_eq!(Value::from(format_for_mew(&held)), mew);
            assert_eq!(Value::from(format_for_mcpx(&held)), mcpx);
        }
    }
}
