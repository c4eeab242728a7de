//! What is known of a room by what was heard in it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// How many names of tools and proposals are remembered.
const MOST: usize = 10_000;

/// Who the operations of the gateway are.
pub(super) const TOOLPOST: &str = "toolpost";

/// What is known of a room.
#[derive(Debug, Default)]
pub(super) struct Scene {
    /// Who we are here, once the gateway has said it.
    pub(super) me: Option<String>,
    pub(super) others: BTreeSet<String>,
    /// Who offers each tool.
    tools: BTreeMap<String, String>,
    /// What waits for somebody's word.
    proposals: BTreeMap<String, Proposal>,
    /// Our own messages that have neither come back nor been refused.
    unheard: BTreeSet<String>,
    /// Our own requests that nobody has answered.
    unanswered: BTreeSet<String>,
    /// Whether something of ours was refused or failed.
    pub(super) has_failed: bool,
}

/// Something that somebody proposed, as he wrote it: whoever agrees agrees to this to the letter.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Proposal {
    pub(super) id: String,
    pub(super) from: String,
    #[serde(default)]
    pub(super) to: Vec<String>,
    pub(super) payload: Box<RawValue>,
}

/// What a welcome may tell of what was said before.
#[derive(Deserialize)]
struct Welcome<'a> {
    #[serde(borrow)]
    payload: Before<'a>,
}

#[derive(Deserialize)]
struct Before<'a> {
    #[serde(borrow, default)]
    history: Vec<&'a RawValue>,
}

impl Scene {
    /// Takes up what a message says about the room, given as it came and as it was read.
    pub(super) fn hear(&mut self, written: &str, message: &Value) {
        match text(&message["kind"]) {
            "system/welcome" => self.welcome(written, &message["payload"]),
            "system/presence" => self.presence(&message["payload"]),
            "system/error" => self.refused(correlation(message)),
            "mcp/proposal" => self.proposed(written),
            "mcp/response" | "space/invite-ack" => self.answered(message),
            "mcp/request" | "mcp/reject" | "mcp/withdraw" => self.forget_proposal(message),
            _ => {}
        }
        if message["from"].as_str() == self.me.as_deref() {
            self.unheard.remove(text(&message["id"]));
        }
    }

    /// Notes that we have sent something.
    pub(super) fn sent(&mut self, id: &str, kind: &str) {
        if matches!(kind, "mcp/request" | "space/invite") {
            self.unanswered.insert(id.to_owned());
        }
        self.unheard.insert(id.to_owned());
    }

    /// Whether everything that we said was heard or refused.
    pub(super) fn is_heard(&self) -> bool {
        self.unheard.is_empty()
    }

    /// Whether everything that we said was heard, and all that we asked answered.
    pub(super) fn is_settled(&self) -> bool {
        self.unheard.is_empty() && self.unanswered.is_empty()
    }

    /// How many of our requests wait for an answer.
    pub(super) fn open_requests(&self) -> usize {
        self.unanswered.len()
    }

    /// Whom a tool is asked of; the gateway where nobody is known to offer it.
    pub(super) fn offers(&self, tool: &str) -> &str {
        self.tools.get(tool).map_or(TOOLPOST, String::as_str)
    }

    /// A proposal by its id or the beginning of it, if that is the beginning of one only.
    pub(super) fn proposal(&self, id: &str) -> Result<&Proposal, String> {
        if let Some(found) = self.proposals.get(id) {
            return Ok(found);
        }
        let mut fitting = self.proposals.range(id.to_owned()..);
        let mut next = || fitting.next().filter(|(known, _)| known.starts_with(id));
        match (next(), next()) {
            (Some((_, found)), None) => Ok(found),
            (Some(_), Some(_)) => Err(format!("several proposals begin with `{id}`")),
            (None, _) => Err(format!("no proposal `{id}` waits here")),
        }
    }

    /// The names that a word at this place may be.
    pub(super) fn names(&self, of: Names) -> Vec<&str> {
        match of {
            Names::Everybody => {
                let gateway = (!self.others.contains(TOOLPOST)).then_some(TOOLPOST);
                self.others.iter().map(String::as_str).chain(gateway).collect()
            }
            Names::Tools => self.tools.keys().map(String::as_str).collect(),
            Names::Proposals => self.proposals.keys().map(String::as_str).collect(),
        }
    }

    fn welcome(&mut self, written: &str, payload: &Value) {
        self.me = payload["you"]["id"].as_str().map(ToOwned::to_owned);
        let others = each(&payload["participants"]);
        self.others = others.map(|one| text(&one["id"]).to_owned()).collect();
        let Ok(welcome) = serde_json::from_str::<Welcome<'_>>(written) else { return };
        for (raw, message) in welcome.payload.history.iter().zip(each(&payload["history"])) {
            // What the gateway said was of that moment.
            if !text(&message["kind"]).starts_with("system/") {
                self.hear(raw.get(), message);
            }
        }
    }

    fn presence(&mut self, payload: &Value) {
        let id = text(&payload["participant"]["id"]);
        match text(&payload["event"]) {
            "join" => drop(self.others.insert(id.to_owned())),
            "leave" => drop(self.others.remove(id)),
            _ => {}
        }
    }

    fn proposed(&mut self, written: &str) {
        let proposal = serde_json::from_str::<Proposal>(written).ok();
        if let Some(proposal) = proposal.filter(|_| self.proposals.len() < MOST) {
            self.proposals.insert(proposal.id.clone(), proposal);
        }
    }

    fn forget_proposal(&mut self, message: &Value) {
        for id in each(&message["correlation_id"]).filter_map(Value::as_str) {
            self.proposals.remove(id);
        }
    }

    fn answered(&mut self, message: &Value) {
        self.forget_proposal(message);
        let payload = &message["payload"];
        for id in each(&message["correlation_id"]).filter_map(Value::as_str) {
            let is_ours = self.unanswered.remove(id);
            self.has_failed |= is_ours && has_failed(payload);
        }
        let from = text(&message["from"]);
        for tool in each(&payload["result"]["tools"]).filter_map(|tool| tool["name"].as_str()) {
            if self.tools.len() < MOST {
                self.tools.insert(tool.to_owned(), from.to_owned());
            }
        }
    }

    fn refused(&mut self, id: Option<&str>) {
        let Some(id) = id else { return };
        self.has_failed |= self.unheard.remove(id) | self.unanswered.remove(id);
    }
}

/// What a name is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    Everybody,
    Tools,
    Proposals,
}

/// Whether an answer tells of a failure.
pub(super) fn has_failed(payload: &Value) -> bool {
    payload.get("error").is_some_and(|error| !error.is_null())
        || payload["result"]["isError"] == true
}

/// The message that this one is about.
pub(super) fn correlation(message: &Value) -> Option<&str> {
    each(&message["correlation_id"]).next()?.as_str()
}

/// A text, or nothing.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The entries of a list, or none.
pub(super) fn each(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hear(scene: &mut Scene, message: &Value) {
        scene.hear(&message.to_string(), message);
    }

    fn welcomed() -> Scene {
        let mut scene = Scene::default();
        hear(
            &mut scene,
            &json!({"kind": "system/welcome", "payload": {
                "you": {"id": "me", "capabilities": []},
                "participants": [{"id": "bob"}, {"id": "toolpost"}],
                "history": [
                    {"kind": "mcp/proposal", "id": "P-old", "from": "bob", "payload": {}},
                    {"kind": "system/error", "correlation_id": ["x"]},
                ],
            }}),
        );
        scene
    }

    #[test]
    fn names_are_learnt_from_what_is_heard() {
        let mut scene = welcomed();
        assert_eq!(scene.me.as_deref(), Some("me"));
        assert_eq!(scene.names(Names::Everybody), ["bob", "toolpost"]);
        assert_eq!(scene.names(Names::Proposals), ["P-old"]);
        let presence = |event: &str, id: &str| {
            json!({"kind": "system/presence",
            "payload": {"event": event, "participant": {"id": id}}})
        };
        hear(&mut scene, &presence("join", "eve"));
        hear(&mut scene, &presence("leave", "bob"));
        assert_eq!(scene.names(Names::Everybody), ["eve", "toolpost"]);
        hear(
            &mut scene,
            &json!({"kind": "mcp/response", "from": "files", "correlation_id": ["q"],
            "payload": {"result": {"tools": [{"name": "read"}, {"name": 7}]}}}),
        );
        assert_eq!(scene.names(Names::Tools), ["read"]);
        assert_eq!((scene.offers("read"), scene.offers("other")), ("files", "toolpost"));
    }

    #[test]
    fn a_proposal_waits_until_something_is_about_it() {
        for end in ["mcp/request", "mcp/response", "mcp/reject", "mcp/withdraw"] {
            let mut scene = welcomed();
            hear(
                &mut scene,
                &json!({"kind": "mcp/proposal", "id": "P-1", "from": "bob", "payload": {}}),
            );
            hear(
                &mut scene,
                &json!({"kind": "mcp/proposal", "id": "P-2", "from": "bob", "payload": {}}),
            );
            assert_eq!(scene.proposal("P-1").unwrap().id, "P-1");
            assert_eq!(scene.proposal("P-o").unwrap().id, "P-old");
            assert!(scene.proposal("P-").unwrap_err().contains("several"));
            hear(&mut scene, &json!({"kind": end, "correlation_id": ["P-1"]}));
            assert!(scene.proposal("P-1").unwrap_err().contains("no proposal"), "{end}");
            assert_eq!(scene.proposal("P-2").unwrap().id, "P-2");
        }
    }

    #[test]
    fn it_is_settled_when_all_was_heard_and_answered() {
        let answer = |payload: Value| {
            json!({"kind": "mcp/response", "from": "toolpost",
            "correlation_id": ["1"], "payload": payload})
        };
        for (last, has_failed) in [
            (answer(json!({"result": {}})), false),
            (answer(json!({"result": {"isError": true}})), true),
            (answer(json!({"error": {"message": "no"}})), true),
            (json!({"kind": "system/error", "correlation_id": ["1"]}), true),
        ] {
            let mut scene = welcomed();
            let request = json!({"kind": "mcp/request", "id": "1", "from": "me"});
            scene.sent("1", "mcp/request");
            scene.sent("2", "chat");
            assert_eq!((scene.is_settled(), scene.open_requests()), (false, 1));
            hear(&mut scene, &json!({"kind": "chat", "id": "2", "from": "me"}));
            hear(&mut scene, &request);
            assert_eq!((scene.is_heard(), scene.is_settled()), (true, false));
            hear(&mut scene, &last);
            assert_eq!((scene.is_settled(), scene.has_failed), (true, has_failed), "{last}");
        }
    }
}
