//! Messages rendered for a terminal: time, sender, content.
//!
//! All content comes from other participants and is sanitized before it is printed.

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use super::room_view::{correlation, elements, has_failed, str_or_empty};
use crate::output::{self, colored, styled};

/// Maximum number of characters shown of a result, arguments or a payload.
const MAX_PAYLOAD_CHARS: usize = 1_000;
/// Maximum number of bytes shown of a chat message.
const MAX_CHAT_BYTES: usize = 20_000;
const MAX_NAMES: usize = 100;

const SENDER_COLORS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Green,
    AnsiColor::Yellow,
    AnsiColor::Blue,
    AnsiColor::Magenta,
    AnsiColor::BrightCyan,
];

/// Renders a message; `None` if there is nothing to show.
pub(super) fn message(message: &Value) -> Option<String> {
    let payload = &message["payload"];
    let name = |member: &str| name_text(&payload[member]);
    let content = match str_or_empty(&message["kind"]) {
        "chat" => chat(message),
        "mcp/request" => request(message),
        "mcp/notification" => dim(&format!("… {}", request_text(payload))),
        "mcp/response" => response(message),
        "mcp/proposal" => proposal(message),
        "mcp/reject" => proposal_closed(message, "rejects"),
        "mcp/withdraw" => proposal_closed(message, "withdraws"),
        "system/welcome" | "chat/acknowledge" | "capability/grant-ack" => return None,
        kind @ ("system/presence" | "system/error" | "system/proposal") => {
            return Some(format!("{} {}", clock(message), system_text(kind, payload)?));
        }
        "capability/grant" => capability_change(payload, "grants"),
        "capability/revoke" => capability_change(payload, "revokes"),
        "space/invite" => format!("invites {}", name("participant_id")),
        "space/invite-ack" => invitation(payload),
        "space/kick" => format!("removes {}{}", name("participant_id"), reason_suffix(payload)),
        kind if kind.starts_with("reasoning/") => reasoning(kind, payload),
        kind => dim(&format!("{} {}", one_line(kind), json(payload))),
    };
    Some(format!("{} {}  {content}", clock(message), sender(&message["from"])))
}

pub(super) fn frame(stream: &str, data: &str) -> String {
    dim(&format!("{} │ {}", one_line(stream), shorten(data)))
}

pub(super) fn welcome(room: &str, payload: &Value) -> String {
    let own_name = styled(Style::new().bold(), &name_text(&payload["you"]["id"]));
    let others = join(&payload["participants"], |participant| name_text(&participant["id"]));
    let with = if others.is_empty() { "" } else { " with " };
    format!("You are {own_name} in {room}{with}{others}. /help lists the commands.")
}

pub(super) fn capabilities_changed(payload: &Value) -> String {
    let capabilities = join(&payload["you"]["capabilities"], text_or_json);
    dim(&format!("your capabilities are now: {capabilities}"))
}

fn chat(message: &Value) -> String {
    let text = str_or_empty(&message["payload"]["text"]);
    let end = text.floor_char_boundary(MAX_CHAT_BYTES);
    let more = if end < text.len() { "…" } else { "" };
    let rendered = format!("{}{more}", output::sanitize(&text[..end]));
    // Continuation lines are indented, so that they cannot imitate another sender's message.
    let rendered = rendered.trim_end().replace('\n', "\n         ");
    match recipients(message) {
        Some(to) => format!("{} {rendered}", dim(&to)),
        None => rendered,
    }
}

fn request(message: &Value) -> String {
    let to = recipients(message).map(|to| dim(&format!("  {to}"))).unwrap_or_default();
    let of = correlation(message).map(|id| dim(&format!("  for {}", one_line(id))));
    format!("→ {}{to}{}", request_text(&message["payload"]), of.unwrap_or_default())
}

fn proposal(message: &Value) -> String {
    let id = name_text(&message["id"]);
    let highlight = |text: &str| styled(colored(AnsiColor::Yellow).bold(), text);
    let (sign, approve) = (highlight("?"), highlight(&format!("/approve {id}")));
    format!("{sign} {}  {approve} or /reject {id}", request_text(&message["payload"]))
}

fn response(message: &Value) -> String {
    let (context, payload) = (&message["context_of"], &message["payload"]);
    let sign = match has_failed(payload) {
        true => red("✗"),
        false => styled(colored(AnsiColor::Green), "✓"),
    };
    let name = if context["name"].is_string() { &context["name"] } else { &context["method"] };
    let requester = match context["from"].as_str() {
        Some(participant) => dim(&format!("  requested by {}", one_line(participant))),
        None => String::new(),
    };
    format!("{sign} {} {}{requester}", name_text(name), result(payload))
}

fn result(payload: &Value) -> String {
    if let Some(error) = payload.get("error").filter(|error| !error.is_null()) {
        return text_or_json(error.get("message").unwrap_or(error));
    }
    let result = &payload["result"];
    if let Some(tools) = result["tools"].as_array() {
        let names = join(&result["tools"], |tool| name_text(&tool["name"]));
        let more = if tools.len() > MAX_NAMES { ", …" } else { "" };
        return format!("{}: {names}{more}", tools.len());
    }
    let texts: Vec<&str> =
        elements(&result["content"]).filter_map(|item| item["text"].as_str()).collect();
    match result.get("structuredContent") {
        _ if !texts.is_empty() => shorten(&texts.join(" ")),
        Some(data) => json(data),
        None => json(result),
    }
}

fn proposal_closed(message: &Value, verb: &str) -> String {
    let proposal = correlation(message).map(one_line).unwrap_or_default();
    format!("{} {verb} {proposal}{}", red("✗"), reason_suffix(&message["payload"]))
}

fn system_text(kind: &str, payload: &Value) -> Option<String> {
    let name = |member: &str| name_text(&payload[member]);
    let participant = name_text(&payload["participant"]["id"]);
    Some(match (kind, str_or_empty(&payload["event"])) {
        ("system/error", _) => {
            red(&format!("{}: {}", name("error"), text_or_json(&payload["message"])))
        }
        ("system/proposal", _) => {
            let [id, state, by] = ["proposal_id", "state", "by"].map(name);
            dim(&format!("your proposal {id} was {state} by {by}"))
        }
        (_, "join") => dim(&format!("{participant} joined")),
        (_, "leave") => dim(&format!("{participant} left")),
        (_, "invited") => dim(&format!("{} invites {participant}", name("invited_by"))),
        _ => return None,
    })
}

fn capability_change(payload: &Value, verb: &str) -> String {
    let listed = join(&payload["capabilities"], text_or_json);
    let what = match payload["grant_id"].as_str() {
        Some(grant) if listed.is_empty() => {
            format!("the capabilities of grant {}", one_line(grant))
        }
        _ => listed,
    };
    format!("{verb} {} {what}{}", name_text(&payload["recipient"]), reason_suffix(payload))
}

/// Renders an invitation. The token is shown, because it is sent only once and the inviter must
/// pass it on.
fn invitation(payload: &Value) -> String {
    let participant = name_text(&payload["participant_id"]);
    match payload["token"].as_str() {
        Some(token) => format!("invited {participant} with token {}", one_line(token)),
        None => {
            format!("{}: {participant}{}", name_text(&payload["status"]), reason_suffix(payload))
        }
    }
}

fn reasoning(kind: &str, payload: &Value) -> String {
    let text = ["message", "reasoning", "input", "reason"];
    let text = text.iter().find_map(|name| payload[name].as_str()).unwrap_or_default();
    let step = kind.rsplit('/').next().unwrap_or_default();
    dim(&format!("… {} {}", one_line(step), shorten(text)))
}

/// Formats a request: `tools/call demo__add {"a":1}`
fn request_text(payload: &Value) -> String {
    let (method, params) = (name_text(&payload["method"]), &payload["params"]);
    let known = params.get("name").or_else(|| params.get("uri"));
    let Some(name) = known.and_then(Value::as_str) else {
        return if params.is_null() { method } else { format!("{method} {}", json(params)) };
    };
    let name = one_line(name);
    match params.get("arguments") {
        Some(arguments) => format!("{method} {name} {}", json(arguments)),
        None => format!("{method} {name}"),
    }
}

fn reason_suffix(payload: &Value) -> String {
    match payload["reason"].as_str() {
        Some(reason) if !reason.is_empty() => format!(": {}", shorten(reason)),
        _ => String::new(),
    }
}

fn recipients(message: &Value) -> Option<String> {
    let names: Vec<String> = elements(&message["to"]).take(MAX_NAMES).map(name_text).collect();
    (!names.is_empty()).then(|| format!("@{}", names.join(" @")))
}

fn join(list: &Value, text: impl Fn(&Value) -> String) -> String {
    elements(list).take(MAX_NAMES).map(text).collect::<Vec<_>>().join(", ")
}

fn sender(from: &Value) -> String {
    let name = name_text(from);
    let sum: usize = name.bytes().map(usize::from).sum();
    styled(colored(SENDER_COLORS[sum % SENDER_COLORS.len()]).bold(), &name)
}

/// Formats the time of day in the time zone of the message. Gateways use UTC.
fn clock(message: &Value) -> String {
    let ts = str_or_empty(&message["ts"]);
    let time = ts.get(11..19).filter(|time| time.bytes().all(|b| b.is_ascii_digit() || b == b':'));
    dim(time.unwrap_or("--:--:--"))
}

fn text_or_json(value: &Value) -> String {
    value.as_str().map_or_else(|| json(value), shorten)
}

fn name_text(value: &Value) -> String {
    one_line(str_or_empty(value))
}

/// Sanitizes text from others and truncates it to one line of 200 characters.
fn one_line(text: &str) -> String {
    output::truncate_line(&output::sanitize(text), 200)
}

/// Collapses whitespace in text from others, sanitizes it and truncates it.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().take(MAX_PAYLOAD_CHARS).collect::<Vec<_>>().join(" ");
    output::truncate_line(&output::sanitize(&line), MAX_PAYLOAD_CHARS)
}

fn json(value: &Value) -> String {
    output::truncate_line(&output::sanitize(&value.to_string()), MAX_PAYLOAD_CHARS)
}

fn dim(text: &str) -> String {
    styled(Style::new().dimmed(), text)
}

fn red(text: &str) -> String {
    styled(colored(AnsiColor::Red), text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Renders a message without colors.
    fn rendered(value: &Value) -> Option<String> {
        message(value).map(|line| anstream::adapter::strip_str(&line).to_string())
    }

    #[test]
    fn every_message_kind_is_rendered_on_one_line() {
        let build_message = |kind: &str, more: Value| {
            let mut message =
                json!({"ts": "2026-01-01T12:34:56.789Z", "from": "bob", "kind": kind});
            message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            message
        };
        let add = json!({"method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}});
        let about = json!({"method": "tools/call", "name": "add", "from": "ann"});
        for (kind, more, expected) in [
            ("chat", json!({"payload": {"text": "hi\nyou"}}), "bob  hi\n         you"),
            ("chat", json!({"to": ["ann"], "payload": {"text": "hi"}}), "bob  @ann hi"),
            ("mcp/request", json!({"payload": add}), "bob  → tools/call add {\"a\":1}"),
            (
                "mcp/request",
                json!({"to": ["toolpost"], "correlation_id": ["P"], "payload": {"method": "tools/list"}}),
                "bob  → tools/list  @toolpost  for P",
            ),
            (
                "mcp/proposal",
                json!({"id": "P", "payload": add}),
                "bob  ? tools/call add {\"a\":1}  /approve P or /reject P",
            ),
            (
                "mcp/response",
                json!({"context_of": about, "payload": {"result": {"content": [{"type": "text", "text": "3"}]}}}),
                "bob  ✓ add 3  requested by ann",
            ),
            (
                "mcp/response",
                json!({"context_of": about, "payload": {"result": {"structuredContent": {"sum": 3}}}}),
                "bob  ✓ add {\"sum\":3}  requested by ann",
            ),
            (
                "mcp/response",
                json!({"context_of": about, "payload": {"error": {"code": 1, "message": "no\nway"}}}),
                "bob  ✗ add no way  requested by ann",
            ),
            (
                "mcp/response",
                json!({"context_of": {"method": "tools/list"}, "payload": {"result": {"tools": [{"name": "a"}, {"name": "b"}]}}}),
                "bob  ✓ tools/list 2: a, b",
            ),
            (
                "mcp/reject",
                json!({"correlation_id": ["P"], "payload": {"reason": "unsafe"}}),
                "bob  ✗ rejects P: unsafe",
            ),
            ("mcp/withdraw", json!({"correlation_id": ["P"], "payload": {}}), "bob  ✗ withdraws P"),
            (
                "capability/grant",
                json!({"payload": {"recipient": "eve", "capabilities": ["chat", {"kind": "x"}]}}),
                "bob  grants eve chat, {\"kind\":\"x\"}",
            ),
            (
                "capability/revoke",
                json!({"payload": {"recipient": "eve", "grant_id": "g"}}),
                "bob  revokes eve the capabilities of grant g",
            ),
            (
                "space/kick",
                json!({"payload": {"participant_id": "eve", "reason": "noise"}}),
                "bob  removes eve: noise",
            ),
            (
                "space/invite-ack",
                json!({"payload": {"participant_id": "eve", "token": "tpt_x"}}),
                "bob  invited eve with token tpt_x",
            ),
            (
                "reasoning/thought",
                json!({"payload": {"reasoning": "so  it is"}}),
                "bob  … thought so it is",
            ),
            ("custom/thing", json!({"payload": {"a": 1}}), "bob  custom/thing {\"a\":1}"),
            (
                "system/presence",
                json!({"payload": {"event": "join", "participant": {"id": "eve"}}}),
                "eve joined",
            ),
            (
                "system/error",
                json!({"payload": {"error": "capability_violation", "message": "no"}}),
                "capability_violation: no",
            ),
            (
                "system/proposal",
                json!({"payload": {"proposal_id": "P", "state": "rejected", "by": "ann"}}),
                "your proposal P was rejected by ann",
            ),
        ] {
            let line = rendered(&build_message(kind, more)).unwrap();
            assert_eq!(line, format!("12:34:56 {expected}"), "{kind}");
        }
        for kind in ["system/welcome", "capability/grant-ack"] {
            assert_eq!(rendered(&build_message(kind, json!({}))), None);
        }
    }

    #[test]
    fn rendered_messages_contain_no_control_sequences() {
        let evil = "a\u{1b}]0;x\u{7}\r\u{9b}b";
        for kind in [
            "chat",
            "mcp/request",
            "mcp/response",
            "mcp/proposal",
            "mcp/reject",
            "system/error",
            "system/presence",
            "system/proposal",
            "capability/grant",
            "space/invite",
            "space/invite-ack",
            "space/kick",
            "reasoning/thought",
            "custom",
            evil,
        ] {
            let all = json!({"kind": kind, "ts": evil, "from": evil, "id": evil, "to": [evil], "correlation_id": [evil],
                "context_of": {"method": evil, "name": evil, "from": evil},
                "payload": {"text": evil, "method": evil, "reason": evil, "message": evil, "error": evil,
                    "event": "join", "participant": {"id": evil}, "recipient": evil, "capabilities": [evil, {evil: evil}],
                    "participant_id": evil, "token": evil, "status": evil, "state": evil, "by": evil,
                    "params": {"name": evil, "arguments": {evil: evil}}}});
            let line = rendered(&all).unwrap();
            let is_obeyed = |c: char| c.is_control() && c != '\n';
            assert!(!line.contains(is_obeyed), "{kind}: {line:?}");
            assert!(!message(&all).unwrap().contains("\u{1b}]"), "{kind}");
        }
        let line = frame(evil, evil);
        assert!(!anstream::adapter::strip_str(&line).to_string().contains(char::is_control));
        let long = json!({"kind": "chat", "payload": {"text": "é".repeat(MAX_CHAT_BYTES)}});
        assert!(rendered(&long).unwrap().len() < MAX_CHAT_BYTES + 100);
        let odd = json!({"kind": "chat", "from": 5, "to": "x", "payload": [1]});
        assert!(rendered(&odd).unwrap().starts_with("--:--:--"));
    }
}
