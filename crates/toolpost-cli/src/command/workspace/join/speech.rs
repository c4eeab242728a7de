//! From what is typed to what is sent.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::scene::{Scene, TOOLPOST, text};
use super::typed::{Asking, Typed};

/// What we speak.
const PROTOCOL: &str = "mew/v0.4";

/// A message of ours; the gateway says who it is from and when.
#[derive(Debug, Serialize)]
pub(super) struct Speech {
    protocol: &'static str,
    pub(super) id: String,
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    to: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    correlation_id: Vec<String>,
    payload: Box<RawValue>,
}

impl Speech {
    fn new(id: String, kind: &'static str, payload: &Value) -> Self {
        let payload = serde_json::value::to_raw_value(payload).expect("a value has a JSON form");
        Self { protocol: PROTOCOL, id, kind, to: Vec::new(), correlation_id: Vec::new(), payload }
    }

    fn to(mut self, who: impl IntoIterator<Item = String>) -> Self {
        self.to.extend(who);
        self
    }

    fn about(mut self, id: &str) -> Self {
        self.correlation_id.push(id.to_owned());
        self
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).expect("texts have a JSON form")
    }
}

/// The message that a line stands for, if it is one.
///
/// # Errors
///
/// Nothing is known about what it names.
pub(super) fn of(typed: Typed, scene: &Scene, id: String) -> Result<Option<Speech>, String> {
    Ok(Some(match typed {
        Typed::Chat { to, text } => Speech::new(id, "chat", &json!({"text": text})).to(to),
        Typed::Call(asking) => ask("mcp/request", asking, scene, id),
        Typed::Propose(asking) => ask("mcp/proposal", asking, scene, id),
        Typed::Approve { id: proposal } => approve(&proposal, scene, id)?,
        Typed::Reject { id: proposal, reason } => {
            let reason = reason.unwrap_or_else(|| "disagree".to_owned());
            end("mcp/reject", &proposal, &reason, scene, id)
        }
        Typed::Withdraw { id: proposal, reason } => {
            let reason = reason.unwrap_or_else(|| "no_longer_needed".to_owned());
            end("mcp/withdraw", &proposal, &reason, scene, id)
        }
        Typed::Tools { who } => list_tools(who.unwrap_or_else(|| TOOLPOST.to_owned()), None, id),
        Typed::Grant { who, capability } => change("capability/grant", who, &capability, id),
        Typed::Revoke { who, capability } => change("capability/revoke", who, &capability, id),
        Typed::Invite { who, capabilities } => {
            let payload = json!({"participant_id": who, "initial_capabilities": capabilities});
            Speech::new(id, "space/invite", &payload)
        }
        Typed::Kick { who, reason } => {
            let mut payload = json!({"participant_id": who});
            if let Some(reason) = reason {
                payload["reason"] = reason.into();
            }
            Speech::new(id, "space/kick", &payload)
        }
        Typed::Who | Typed::History { .. } | Typed::Help | Typed::Quit => return Ok(None),
    }))
}

/// Whom to ask for the next page, where an answer to us says that there is one.
pub(super) fn next_page<'a>(message: &'a Value, me: Option<&str>) -> Option<(&'a str, &'a str)> {
    let (context, result) = (&message["context_of"], &message["payload"]["result"]);
    let is_ours = context["method"] == "tools/list" && context["from"].as_str() == me;
    let cursor = result["nextCursor"].as_str().filter(|_| is_ours)?;
    Some((text(&message["from"]), cursor))
}

pub(super) fn list_tools(who: String, cursor: Option<&str>, id: String) -> Speech {
    let mut payload = json!({"method": "tools/list"});
    if let Some(cursor) = cursor {
        payload["params"] = json!({"cursor": cursor});
    }
    Speech::new(id, "mcp/request", &payload).to([who])
}

fn ask(kind: &'static str, asking: Asking, scene: &Scene, id: String) -> Speech {
    let who = asking.who.unwrap_or_else(|| scene.offers(&asking.name).to_owned());
    let params = json!({"name": asking.name, "arguments": asking.arguments});
    Speech::new(id, kind, &json!({"method": "tools/call", "params": params})).to([who])
}

/// The request that was proposed, to the letter.
fn approve(proposal: &str, scene: &Scene, id: String) -> Result<Speech, String> {
    let proposal = scene.proposal(proposal)?;
    let speech = Speech::new(id, "mcp/request", &Value::Null).about(&proposal.id);
    Ok(Speech { payload: proposal.payload.clone(), ..speech.to(proposal.to.clone()) })
}

/// A proposal that we have not heard of may still be one.
fn end(kind: &'static str, proposal: &str, reason: &str, scene: &Scene, id: String) -> Speech {
    let speech = Speech::new(id, kind, &json!({"reason": reason}));
    match scene.proposal(proposal) {
        Ok(known) if kind == "mcp/reject" => speech.about(&known.id).to([known.from.clone()]),
        Ok(known) => speech.about(&known.id),
        Err(_) => speech.about(proposal),
    }
}

fn change(kind: &'static str, who: String, capability: &Value, id: String) -> Speech {
    let payload = json!({"recipient": who, "capabilities": [capability]});
    Speech::new(id, kind, &payload).to([who])
}

#[cfg(test)]
mod tests {
    use super::super::typed;
    use super::*;

    #[test]
    fn what_is_typed_becomes_a_message() {
        let mut scene = Scene::default();
        for written in [
            r#"{"kind":"mcp/proposal","id":"P-1","from":"bob","to":["fs"],"payload":{"method":"x","n":123456789012345678901}}"#,
            r#"{"kind":"mcp/response","from":"fs","payload":{"result":{"tools":[{"name":"read"}]}}}"#,
        ] {
            scene.hear(written, &serde_json::from_str(written).unwrap());
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
            let typed = typed::read(line).unwrap().unwrap();
            let speech = of(typed, &scene, "1".to_owned()).unwrap().unwrap();
            let expected = format!(r#"{{"protocol":"mew/v0.4","id":"1",{expected}"#);
            assert_eq!(speech.text(), expected, "{line}");
        }
        let unknown = of(Typed::Approve { id: "Q".to_owned() }, &scene, "1".to_owned());
        assert!(unknown.unwrap_err().contains("`Q`"));
        assert!(of(Typed::Help, &scene, "1".to_owned()).unwrap().is_none());
    }

    #[test]
    fn a_long_list_is_asked_for_to_its_end() {
        let page = |from: &str, cursor: Value| {
            json!({"from": "fs", "kind": "mcp/response",
            "context_of": {"method": "tools/list", "from": from},
            "payload": {"result": {"tools": [], "nextCursor": cursor}}})
        };
        let mine = page("me", json!("c"));
        assert_eq!(next_page(&mine, Some("me")), Some(("fs", "c")));
        let asked = list_tools("fs".to_owned(), Some("c"), "2".to_owned()).text();
        assert!(asked.ends_with(
            r#""to":["fs"],"payload":{"method":"tools/list","params":{"cursor":"c"}}}"#
        ));
        assert!(next_page(&page("bob", json!("c")), Some("me")).is_none());
        assert!(next_page(&page("me", Value::Null), Some("me")).is_none());
    }
}
