//! Room state derived from received messages.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Maximum number of tools, and of proposals, that are remembered.
const MAX_NAMES: usize = 10_000;

/// Participant that provides the gateway's operations.
pub(super) const GATEWAY_PARTICIPANT: &str = "toolpost";

#[derive(Debug, Default)]
pub(super) struct RoomView {
    /// Participant id of this client, once the gateway has sent it.
    pub(super) own_id: Option<String>,
    pub(super) participants: BTreeSet<String>,
    /// Tool names and the participants that provide them.
    pub(super) tools: BTreeMap<String, String>,
    pub(super) proposals: BTreeMap<String, RoomProposal>,
    /// Ids of sent messages that were neither echoed nor rejected.
    pub(super) unacknowledged: BTreeSet<String>,
    /// Ids of sent requests without a response.
    pub(super) pending_requests: BTreeSet<String>,
    /// Whether a sent message was rejected or a request failed.
    pub(super) has_failed: bool,
}

/// A proposal exactly as it was sent. An approval repeats the payload verbatim.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct RoomProposal {
    pub(super) id: String,
    pub(super) from: String,
    #[serde(default)]
    pub(super) to: Vec<String>,
    pub(super) payload: Box<RawValue>,
}

#[derive(Deserialize)]
struct WelcomeMessage<'a> {
    #[serde(borrow)]
    payload: WelcomePayload<'a>,
}

#[derive(Deserialize)]
struct WelcomePayload<'a> {
    #[serde(borrow, default)]
    history: Vec<&'a RawValue>,
}

impl RoomView {
    /// Updates the view from a message, given as raw text and parsed.
    pub(super) fn apply(&mut self, raw_message: &str, message: &Value) {
        match str_or_empty(&message["kind"]) {
            "system/welcome" => self.apply_welcome(raw_message, &message["payload"]),
            "system/presence" => self.apply_presence(&message["payload"]),
            "system/error" => self.apply_error(correlation(message)),
            "mcp/proposal" => self.add_proposal(raw_message),
            "mcp/response" | "space/invite-ack" => self.apply_response(message),
            "mcp/request" | "mcp/reject" | "mcp/withdraw" => self.remove_proposal(message),
            _ => {}
        }
        if message["from"].as_str() == self.own_id.as_deref() {
            self.unacknowledged.remove(str_or_empty(&message["id"]));
        }
    }

    pub(super) fn track_sent(&mut self, id: &str, kind: &str) {
        if matches!(kind, "mcp/request" | "space/invite") {
            self.pending_requests.insert(id.to_owned());
        }
        self.unacknowledged.insert(id.to_owned());
    }

    /// Whether every sent message is acknowledged and every request has a response.
    pub(super) fn is_idle(&self) -> bool {
        self.unacknowledged.is_empty() && self.pending_requests.is_empty()
    }

    /// Returns the participant that provides a tool; the gateway if unknown.
    pub(super) fn provider_of(&self, tool: &str) -> &str {
        self.tools.get(tool).map_or(GATEWAY_PARTICIPANT, String::as_str)
    }

    /// Finds a proposal by its id or by a unique prefix of it.
    pub(super) fn find_proposal(&self, id: &str) -> Result<&RoomProposal, String> {
        if let Some(found) = self.proposals.get(id) {
            return Ok(found);
        }
        let mut candidates = self.proposals.range(id.to_owned()..);
        let mut next = || candidates.next().filter(|(known, _)| known.starts_with(id));
        match (next(), next()) {
            (Some((_, found)), None) => Ok(found),
            (Some(_), Some(_)) => Err(format!("several proposals start with `{id}`")),
            (None, _) => Err(format!("no pending proposal `{id}`")),
        }
    }

    /// Returns the names of the participants, including the gateway.
    pub(super) fn participant_names(&self) -> Vec<&str> {
        let gateway = Some(GATEWAY_PARTICIPANT).filter(|name| !self.participants.contains(*name));
        self.participants.iter().map(String::as_str).chain(gateway).collect()
    }

    fn apply_welcome(&mut self, raw_message: &str, payload: &Value) {
        self.own_id = payload["you"]["id"].as_str().map(ToOwned::to_owned);
        let others = elements(&payload["participants"]);
        self.participants =
            others.map(|participant| str_or_empty(&participant["id"]).to_owned()).collect();
        let Ok(welcome) = serde_json::from_str::<WelcomeMessage<'_>>(raw_message) else { return };
        for (raw, message) in welcome.payload.history.iter().zip(elements(&payload["history"])) {
            // System messages in the history are out of date.
            if !str_or_empty(&message["kind"]).starts_with("system/") {
                self.apply(raw.get(), message);
            }
        }
    }

    fn apply_presence(&mut self, payload: &Value) {
        let id = str_or_empty(&payload["participant"]["id"]);
        match str_or_empty(&payload["event"]) {
            "join" => drop(self.participants.insert(id.to_owned())),
            "leave" => drop(self.participants.remove(id)),
            _ => {}
        }
    }

    fn add_proposal(&mut self, raw_message: &str) {
        let proposal = serde_json::from_str::<RoomProposal>(raw_message).ok();
        if let Some(proposal) = proposal.filter(|_| self.proposals.len() < MAX_NAMES) {
            self.proposals.insert(proposal.id.clone(), proposal);
        }
    }

    fn remove_proposal(&mut self, message: &Value) {
        for id in elements(&message["correlation_id"]).filter_map(Value::as_str) {
            self.proposals.remove(id);
        }
    }

    fn apply_response(&mut self, message: &Value) {
        self.remove_proposal(message);
        let payload = &message["payload"];
        for id in elements(&message["correlation_id"]).filter_map(Value::as_str) {
            let is_ours = self.pending_requests.remove(id);
            self.has_failed |= is_ours && has_failed(payload);
        }
        let from = str_or_empty(&message["from"]);
        for tool in elements(&payload["result"]["tools"]).filter_map(|tool| tool["name"].as_str()) {
            if self.tools.len() < MAX_NAMES {
                self.tools.insert(tool.to_owned(), from.to_owned());
            }
        }
    }

    fn apply_error(&mut self, id: Option<&str>) {
        let Some(id) = id else { return };
        self.has_failed |= self.unacknowledged.remove(id) | self.pending_requests.remove(id);
    }
}

/// Whether a response is an error or a failed tool result.
pub(super) fn has_failed(payload: &Value) -> bool {
    payload.get("error").is_some_and(|error| !error.is_null())
        || payload["result"]["isError"] == true
}

/// Returns the id of the message that this one refers to.
pub(super) fn correlation(message: &Value) -> Option<&str> {
    elements(&message["correlation_id"]).next()?.as_str()
}

/// Returns the string, or an empty one if the value is not a string.
pub(super) fn str_or_empty(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the elements of an array; none if the value is not an array.
pub(super) fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply_message(view: &mut RoomView, message: &Value) {
        view.apply(&message.to_string(), message);
    }

    fn joined_view() -> RoomView {
        let mut view = RoomView::default();
        apply_message(
            &mut view,
            &json!({"kind": "system/welcome", "payload": {
                "you": {"id": "me", "capabilities": []},
                "participants": [{"id": "bob"}, {"id": "toolpost"}],
                "history": [
                    {"kind": "mcp/proposal", "id": "P-old", "from": "bob", "payload": {}},
                    {"kind": "system/error", "correlation_id": ["x"]},
                ],
            }}),
        );
        view
    }

    #[test]
    fn room_view_tracks_participants_and_tools() {
        let mut view = joined_view();
        assert_eq!(view.own_id.as_deref(), Some("me"));
        assert_eq!(view.participant_names(), ["bob", "toolpost"]);
        assert!(view.proposals.keys().eq(["P-old"]));
        let presence = |event: &str, id: &str| {
            json!({"kind": "system/presence",
            "payload": {"event": event, "participant": {"id": id}}})
        };
        apply_message(&mut view, &presence("join", "eve"));
        apply_message(&mut view, &presence("leave", "bob"));
        assert_eq!(view.participant_names(), ["eve", "toolpost"]);
        apply_message(
            &mut view,
            &json!({"kind": "mcp/response", "from": "files", "correlation_id": ["q"],
            "payload": {"result": {"tools": [{"name": "read"}, {"name": 7}]}}}),
        );
        assert!(view.tools.keys().eq(["read"]));
        assert_eq!((view.provider_of("read"), view.provider_of("other")), ("files", "toolpost"));
    }

    #[test]
    fn proposal_is_pending_until_decided() {
        for end in ["mcp/request", "mcp/response", "mcp/reject", "mcp/withdraw"] {
            let mut view = joined_view();
            apply_message(
                &mut view,
                &json!({"kind": "mcp/proposal", "id": "P-1", "from": "bob", "payload": {}}),
            );
            apply_message(
                &mut view,
                &json!({"kind": "mcp/proposal", "id": "P-2", "from": "bob", "payload": {}}),
            );
            assert_eq!(view.find_proposal("P-1").unwrap().id, "P-1");
            assert_eq!(view.find_proposal("P-o").unwrap().id, "P-old");
            assert!(view.find_proposal("P-").unwrap_err().contains("several"));
            apply_message(&mut view, &json!({"kind": end, "correlation_id": ["P-1"]}));
            assert!(
                view.find_proposal("P-1").unwrap_err().contains("no pending proposal"),
                "{end}"
            );
            assert_eq!(view.find_proposal("P-2").unwrap().id, "P-2");
        }
    }

    #[test]
    fn room_view_is_idle_when_all_requests_are_answered() {
        let response = |payload: Value| {
            json!({"kind": "mcp/response", "from": "toolpost",
            "correlation_id": ["1"], "payload": payload})
        };
        for (last, has_failed) in [
            (response(json!({"result": {}})), false),
            (response(json!({"result": {"isError": true}})), true),
            (response(json!({"error": {"message": "no"}})), true),
            (json!({"kind": "system/error", "correlation_id": ["1"]}), true),
        ] {
            let mut view = joined_view();
            let request = json!({"kind": "mcp/request", "id": "1", "from": "me"});
            view.track_sent("1", "mcp/request");
            view.track_sent("2", "chat");
            assert_eq!((view.is_idle(), view.pending_requests.len()), (false, 1));
            apply_message(&mut view, &json!({"kind": "chat", "id": "2", "from": "me"}));
            apply_message(&mut view, &request);
            assert_eq!((view.unacknowledged.is_empty(), view.is_idle()), (true, false));
            apply_message(&mut view, &last);
            assert_eq!((view.is_idle(), view.has_failed), (true, has_failed), "{last}");
        }
    }
}
