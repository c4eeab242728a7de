//! Messages to send.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::room_view::{RoomProposal, RoomView, str_or_empty};

/// An outgoing message. The gateway adds the sender and the time.
#[derive(Debug, Serialize)]
pub(super) struct ComposedMessage {
    protocol: &'static str,
    /// Set when the message is sent.
    pub(super) id: String,
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    to: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    correlation_id: Vec<String>,
    payload: Box<RawValue>,
}

impl ComposedMessage {
    pub(super) fn new(kind: &'static str, payload: &Value) -> Self {
        let payload = serde_json::value::to_raw_value(payload).expect("a value has a JSON form");
        let (to, correlation_id) = (Vec::new(), Vec::new());
        Self { protocol: "mew/v0.4", id: String::new(), kind, to, correlation_id, payload }
    }

    pub(super) fn to(mut self, participants: impl IntoIterator<Item = String>) -> Self {
        self.to.extend(participants);
        self
    }

    /// Composes the proposed request with its payload unchanged.
    pub(super) fn approval(proposal: &RoomProposal) -> Self {
        let outgoing = Self::new("mcp/request", &Value::Null).to(proposal.to.clone());
        let (correlation_id, payload) = (vec![proposal.id.clone()], proposal.payload.clone());
        Self { correlation_id, payload, ..outgoing }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts have a JSON form")
    }
}

/// Composes the request for the next page, if the message is a paginated `tools/list` response to
/// this client.
pub(super) fn next_page(message: &Value, own_id: Option<&str>) -> Option<ComposedMessage> {
    let (context, result) = (&message["context_of"], &message["payload"]["result"]);
    let is_ours = context["method"] == "tools/list" && context["from"].as_str() == own_id;
    let cursor = result["nextCursor"].as_str().filter(|_| is_ours)?;
    Some(list_tools(str_or_empty(&message["from"]), Some(cursor)))
}

pub(super) fn list_tools(participant: &str, cursor: Option<&str>) -> ComposedMessage {
    let mut payload = json!({"method": "tools/list"});
    if let Some(cursor) = cursor {
        payload["params"] = json!({"cursor": cursor});
    }
    ComposedMessage::new("mcp/request", &payload).to([participant.to_owned()])
}

/// Composes the rejection or withdrawal of a proposal. The proposal may be unknown to this client.
pub(super) fn close_proposal(
    kind: &'static str,
    proposal: &str,
    reason: &str,
    view: &RoomView,
) -> ComposedMessage {
    let known = view.find_proposal(proposal).ok();
    let id = known.map_or(proposal, |known| &known.id).to_owned();
    let author = known.filter(|_| kind == "mcp/reject").map(|known| known.from.clone());
    let outgoing = ComposedMessage::new(kind, &json!({"reason": reason})).to(author);
    ComposedMessage { correlation_id: vec![id], ..outgoing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_list_requests_next_page_by_cursor() {
        let page = |from: &str, cursor: Value| {
            json!({"from": "fs", "kind": "mcp/response",
            "context_of": {"method": "tools/list", "from": from},
            "payload": {"result": {"tools": [], "nextCursor": cursor}}})
        };
        let request = next_page(&page("me", json!("c")), Some("me")).unwrap().to_json();
        assert!(request.ends_with(
            r#""to":["fs"],"payload":{"method":"tools/list","params":{"cursor":"c"}}}"#
        ));
        assert!(next_page(&page("bob", json!("c")), Some("me")).is_none());
        assert!(next_page(&page("me", Value::Null), Some("me")).is_none());
    }
}
