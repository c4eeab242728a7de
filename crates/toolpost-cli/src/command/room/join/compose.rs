//! Builds the message to send from a parsed line.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::parse::{ParsedLine, RoomToolCall};
use super::room_view::{GATEWAY_PARTICIPANT, RoomView, str_or_empty};

/// Protocol version of the messages.
const PROTOCOL: &str = "mew/v0.4";

/// An outgoing message. The gateway adds the sender and the time.
#[derive(Debug, Serialize)]
pub(super) struct ComposedMessage {
    protocol: &'static str,
    pub(super) id: String,
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    to: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    correlation_id: Vec<String>,
    payload: Box<RawValue>,
}

impl ComposedMessage {
    fn new(id: String, kind: &'static str, payload: &Value) -> Self {
        let payload = serde_json::value::to_raw_value(payload).expect("a value has a JSON form");
        Self { protocol: PROTOCOL, id, kind, to: Vec::new(), correlation_id: Vec::new(), payload }
    }

    fn to(mut self, participant: impl IntoIterator<Item = String>) -> Self {
        self.to.extend(participant);
        self
    }

    fn correlate(mut self, id: &str) -> Self {
        self.correlation_id.push(id.to_owned());
        self
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts have a JSON form")
    }
}

/// Returns the message for a line, or `None` for a line that sends nothing.
///
/// # Errors
///
/// The line names a proposal that is unknown or ambiguous.
pub(super) fn compose(
    line: ParsedLine,
    view: &RoomView,
    id: String,
) -> Result<Option<ComposedMessage>, String> {
    Ok(Some(match line {
        ParsedLine::Chat { to, text } => {
            ComposedMessage::new(id, "chat", &json!({"text": text})).to(to)
        }
        ParsedLine::Call(tool_call) => tool_request("mcp/request", tool_call, view, id),
        ParsedLine::Propose(tool_call) => tool_request("mcp/proposal", tool_call, view, id),
        ParsedLine::Approve { id: proposal } => approve_proposal(&proposal, view, id)?,
        ParsedLine::Reject { id: proposal, reason } => {
            let reason = reason.unwrap_or_else(|| "disagree".to_owned());
            close_proposal("mcp/reject", &proposal, &reason, view, id)
        }
        ParsedLine::Withdraw { id: proposal, reason } => {
            let reason = reason.unwrap_or_else(|| "no_longer_needed".to_owned());
            close_proposal("mcp/withdraw", &proposal, &reason, view, id)
        }
        ParsedLine::Tools { participant } => {
            list_tools(participant.unwrap_or_else(|| GATEWAY_PARTICIPANT.to_owned()), None, id)
        }
        ParsedLine::Grant { participant, capability } => {
            change_capability("capability/grant", participant, &capability, id)
        }
        ParsedLine::Revoke { participant, capability } => {
            change_capability("capability/revoke", participant, &capability, id)
        }
        ParsedLine::Invite { participant, capabilities } => {
            let payload =
                json!({"participant_id": participant, "initial_capabilities": capabilities});
            ComposedMessage::new(id, "space/invite", &payload)
        }
        ParsedLine::Kick { participant, reason } => {
            let mut payload = json!({"participant_id": participant});
            if let Some(reason) = reason {
                payload["reason"] = reason.into();
            }
            ComposedMessage::new(id, "space/kick", &payload)
        }
        ParsedLine::Participants
        | ParsedLine::History { .. }
        | ParsedLine::Help
        | ParsedLine::Quit => return Ok(None),
    }))
}

/// Returns the participant and the cursor for the next page, if the message is a paginated
/// `tools/list` response to this client.
pub(super) fn next_page<'a>(
    message: &'a Value,
    own_id: Option<&str>,
) -> Option<(&'a str, &'a str)> {
    let (context, result) = (&message["context_of"], &message["payload"]["result"]);
    let is_ours = context["method"] == "tools/list" && context["from"].as_str() == own_id;
    let cursor = result["nextCursor"].as_str().filter(|_| is_ours)?;
    Some((str_or_empty(&message["from"]), cursor))
}

pub(super) fn list_tools(participant: String, cursor: Option<&str>, id: String) -> ComposedMessage {
    let mut payload = json!({"method": "tools/list"});
    if let Some(cursor) = cursor {
        payload["params"] = json!({"cursor": cursor});
    }
    ComposedMessage::new(id, "mcp/request", &payload).to([participant])
}

fn tool_request(
    kind: &'static str,
    tool_call: RoomToolCall,
    view: &RoomView,
    id: String,
) -> ComposedMessage {
    let participant =
        tool_call.target.unwrap_or_else(|| view.provider_of(&tool_call.name).to_owned());
    let params = json!({"name": tool_call.name, "arguments": tool_call.arguments});
    ComposedMessage::new(id, kind, &json!({"method": "tools/call", "params": params}))
        .to([participant])
}

/// Composes the proposed request with its payload unchanged.
fn approve_proposal(
    proposal: &str,
    view: &RoomView,
    id: String,
) -> Result<ComposedMessage, String> {
    let proposal = view.find_proposal(proposal)?;
    let outgoing = ComposedMessage::new(id, "mcp/request", &Value::Null).correlate(&proposal.id);
    Ok(ComposedMessage { payload: proposal.payload.clone(), ..outgoing.to(proposal.to.clone()) })
}

/// Composes the rejection or withdrawal of a proposal. The proposal may be unknown to this client.
fn close_proposal(
    kind: &'static str,
    proposal: &str,
    reason: &str,
    view: &RoomView,
    id: String,
) -> ComposedMessage {
    let outgoing = ComposedMessage::new(id, kind, &json!({"reason": reason}));
    match view.find_proposal(proposal) {
        Ok(known) if kind == "mcp/reject" => outgoing.correlate(&known.id).to([known.from.clone()]),
        Ok(known) => outgoing.correlate(&known.id),
        Err(_) => outgoing.correlate(proposal),
    }
}

fn change_capability(
    kind: &'static str,
    participant: String,
    capability: &Value,
    id: String,
) -> ComposedMessage {
    let payload = json!({"recipient": participant, "capabilities": [capability]});
    ComposedMessage::new(id, kind, &payload).to([participant])
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn input_lines_compose_expected_messages() {
        let mut view = RoomView::default();
        for written in [
            r#"{"kind":"mcp/proposal","id":"P-1","from":"bob","to":["fs"],"payload":{"method":"x","n":123456789012345678901}}"#,
            r#"{"kind":"mcp/response","from":"fs","payload":{"result":{"tools":[{"name":"read"}]}}}"#,
        ] {
            view.apply(written, &serde_json::from_str(written).unwrap());
        }
        for (line, expected) in [
            ("hello", r#""kind":"chat","payload":{"text":"hello"}}"#),
            ("/to bob hi", r#""kind":"chat","to":["bob"],"payload":{"text":"hi"}}"#),
            (
                "/call add a=1",
                r#""kind":"mcp/request","to":["toolpost"],"payload":{"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}}"#,
            ),
            (
                "/call read",
                r#""kind":"mcp/request","to":["fs"],"payload":{"method":"tools/call","params":{"name":"read","arguments":{}}}}"#,
            ),
            (
                "/propose @bob read",
                r#""kind":"mcp/proposal","to":["bob"],"payload":{"method":"tools/call","params":{"name":"read","arguments":{}}}}"#,
            ),
            (
                "/approve P",
                r#""kind":"mcp/request","to":["fs"],"correlation_id":["P-1"],"payload":{"method":"x","n":123456789012345678901}}"#,
            ),
            (
                "/reject P-1 no",
                r#""kind":"mcp/reject","to":["bob"],"correlation_id":["P-1"],"payload":{"reason":"no"}}"#,
            ),
            (
                "/withdraw Q",
                r#""kind":"mcp/withdraw","correlation_id":["Q"],"payload":{"reason":"no_longer_needed"}}"#,
            ),
            (
                "/tools",
                r#""kind":"mcp/request","to":["toolpost"],"payload":{"method":"tools/list"}}"#,
            ),
            (
                "/grant bob chat",
                r#""kind":"capability/grant","to":["bob"],"payload":{"recipient":"bob","capabilities":["chat"]}}"#,
            ),
            (
                "/invite eve",
                r#""kind":"space/invite","payload":{"participant_id":"eve","initial_capabilities":[]}}"#,
            ),
            (
                "/kick eve noise",
                r#""kind":"space/kick","payload":{"participant_id":"eve","reason":"noise"}}"#,
            ),
        ] {
            let typed = parse::parse_line(line).unwrap().unwrap();
            let outgoing = compose(typed, &view, "1".to_owned()).unwrap().unwrap();
            let expected = format!(r#"{{"protocol":"mew/v0.4","id":"1",{expected}"#);
            assert_eq!(outgoing.to_json(), expected, "{line}");
        }
        let unknown = compose(ParsedLine::Approve { id: "Q".to_owned() }, &view, "1".to_owned());
        assert!(unknown.unwrap_err().contains("`Q`"));
        assert!(compose(ParsedLine::Help, &view, "1".to_owned()).unwrap().is_none());
    }

    #[test]
    fn tool_list_requests_next_page_by_cursor() {
        let page = |from: &str, cursor: Value| {
            json!({"from": "fs", "kind": "mcp/response",
            "context_of": {"method": "tools/list", "from": from},
            "payload": {"result": {"tools": [], "nextCursor": cursor}}})
        };
        let mine = page("me", json!("c"));
        assert_eq!(next_page(&mine, Some("me")), Some(("fs", "c")));
        let request = list_tools("fs".to_owned(), Some("c"), "2".to_owned()).to_json();
        assert!(request.ends_with(
            r#""to":["fs"],"payload":{"method":"tools/list","params":{"cursor":"c"}}}"#
        ));
        assert!(next_page(&page("bob", json!("c")), Some("me")).is_none());
        assert!(next_page(&page("me", Value::Null), Some("me")).is_none());
    }
}
