//! What a server may ask while it works, and who answers: the settings, or the client that called.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::rpc::RpcError;
use super::settings::{Elicitation, McpSettings, Roots, Sampling};
use crate::handler::{Question, Respond, Respondent, Unanswered};

/// The requests during which a server may ask.
const ASKING: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

pub(super) fn may_ask(method: &str) -> bool {
    ASKING.contains(&method)
}

/// What a server may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    /// Something from a person.
    Elicitation,
    /// Something from a model.
    Sampling,
    /// The folders of the client.
    Roots,
}

impl Topic {
    const ALL: [Self; 3] = [Self::Elicitation, Self::Sampling, Self::Roots];

    pub(super) fn of(method: &str) -> Option<Self> {
        match method {
            "elicitation/create" => Some(Self::Elicitation),
            "sampling/createMessage" => Some(Self::Sampling),
            "roots/list" => Some(Self::Roots),
            _ => None,
        }
    }

    /// The capability that a client declares.
    pub(super) fn capability(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }

    /// Whether the settings leave it to the client that called.
    pub(super) fn is_for_the_client(self, settings: &McpSettings) -> bool {
        match self {
            Self::Elicitation => settings.elicitation == Elicitation::Client,
            Self::Sampling => settings.sampling == Sampling::Client,
            Self::Roots => settings.roots == Roots::Client,
        }
    }

    /// What is declared where the settings answer, or where it is not known yet who will call.
    fn declared(self) -> &'static str {
        match self {
            // A client that can open addresses for a person can only be promised once it called.
            Self::Elicitation => r#"{"form":{}}"#,
            Self::Sampling | Self::Roots => "{}",
        }
    }

    /// Whether the settings have an answer.
    fn is_settled(self, settings: &McpSettings) -> bool {
        match self {
            Self::Elicitation => {
                !matches!(settings.elicitation, Elicitation::Refuse | Elicitation::Client)
            }
            Self::Sampling => false,
            Self::Roots => matches!(&settings.roots, Roots::Listed(roots) if !roots.is_empty()),
        }
    }
}

/// What a server is told that it may ask.
#[derive(Debug, Clone)]
pub(super) struct Declared {
    /// The topics that the client that called answers.
    for_the_client: Vec<Topic>,
    /// The members of what the settings answer, without braces.
    settled: String,
}

impl Declared {
    pub(super) fn new(settings: &McpSettings) -> Self {
        let settled = Topic::ALL.into_iter().filter(|topic| topic.is_settled(settings));
        let for_the_client = Topic::ALL.into_iter();
        Self {
            settled: settled.map(|topic| member(topic, topic.declared())).collect(),
            for_the_client: for_the_client
                .filter(|topic| topic.is_for_the_client(settings))
                .collect(),
        }
    }

    /// Whatever may be asked in some call: many a server hides the tools that ask from those who
    /// could never answer.
    pub(super) fn at_most(&self) -> String {
        let asked = self.for_the_client.iter().map(|topic| member(*topic, topic.declared()));
        braced(&self.settled, &asked.collect::<String>())
    }

    /// What may be asked in a call that this one is behind.
    pub(super) fn during(&self, respondent: Option<&Respondent>) -> String {
        let abilities = respondent.and_then(Respondent::abilities).map(Abilities::read);
        let abilities = abilities.unwrap_or_default();
        let asked = self.for_the_client.iter().filter_map(|topic| {
            let ability = abilities.get(*topic)?;
            Some(member(*topic, ability.get()))
        });
        braced(&self.settled, &asked.collect::<String>())
    }
}

/// A member, and the comma before the next one.
fn member(topic: Topic, value: &str) -> String {
    format!("\"{}\":{value},", topic.capability())
}

fn braced(settled: &str, asked: &str) -> String {
    let members = [settled, asked].concat();
    format!("{{{}}}", members.trim_end_matches(','))
}

/// What a client says that it can be asked.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Abilities<'a> {
    #[serde(borrow)]
    elicitation: Option<&'a RawValue>,
    #[serde(borrow)]
    sampling: Option<&'a RawValue>,
    #[serde(borrow)]
    roots: Option<&'a RawValue>,
}

impl<'a> Abilities<'a> {
    fn read(raw: &'a RawValue) -> Self {
        serde_json::from_str(raw.get()).unwrap_or_default()
    }

    fn get(&self, topic: Topic) -> Option<&'a RawValue> {
        let ability = match topic {
            Topic::Elicitation => self.elicitation,
            Topic::Sampling => self.sampling,
            Topic::Roots => self.roots,
        };
        ability.filter(|ability| ability.get().starts_with('{'))
    }
}

/// Whether this one can be asked that; the words say why not.
pub(super) fn check(
    respondent: Option<&Respondent>,
    topic: Topic,
    params: Option<&RawValue>,
) -> Result<(), String> {
    let name = topic.capability();
    let Some(respondent) = respondent else {
        return Err(format!("whoever called cannot be asked for `{name}`"));
    };
    let abilities = respondent.abilities().map(Abilities::read).unwrap_or_default();
    let Some(ability) = abilities.get(topic) else {
        return Err(format!("the client that called does not declare `{name}`"));
    };
    if topic == Topic::Elicitation && is_address(params) && !has_member(ability, "url") {
        return Err("the client that called does not declare `elicitation.url`".to_owned());
    }
    Ok(())
}

fn is_address(params: Option<&RawValue>) -> bool {
    let params: Option<Value> = params.and_then(|params| serde_json::from_str(params.get()).ok());
    params.is_some_and(|params| params["mode"] == "url")
}

fn has_member(object: &RawValue, name: &str) -> bool {
    let object: Option<Value> = serde_json::from_str(object.get()).ok();
    object.is_some_and(|object| object.get(name).is_some_and(|member| !member.is_null()))
}

/// Asks somebody who is there.
pub(super) async fn ask(
    present: &dyn Respond,
    method: &str,
    params: Option<&RawValue>,
) -> Result<Box<RawValue>, RpcError> {
    let question = Question::new(method, params.map(ToOwned::to_owned));
    present.ask(question).await.map_err(|unanswered| match unanswered {
        Unanswered::Refused(said) => serde_json::from_str(said.get())
            .unwrap_or_else(|_| RpcError::new(RpcError::INTERNAL, "the client refused")),
        Unanswered::Unreachable(words) => RpcError::new(RpcError::INTERNAL, words),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::settings::{McpTransport, Root, StdioSettings};
    use super::*;
    use crate::handler::Returning;

    fn somebody(abilities: &Value) -> Respondent {
        let abilities = RawValue::from_string(abilities.to_string()).unwrap();
        Respondent::Returning(Arc::new(Returning::new(Some(abilities), None, None)))
    }

    #[test]
    fn a_server_is_told_what_the_settings_and_the_client_answer() {
        let all = json!({"elicitation": {"url": {}}, "sampling": {"tools": {}}, "roots": {},
            "tasks": {}});
        let listed = || Roots::Listed(vec![Root::new("file:///x")]);
        let nothing = || Roots::Listed(Vec::new());
        let rows = [
            (Elicitation::Refuse, Sampling::Refuse, nothing(), json!({}), json!({}), json!({})),
            (
                Elicitation::Defaults,
                Sampling::Refuse,
                listed(),
                json!({"elicitation": {"form": {}}, "roots": {}}),
                json!({"elicitation": {"form": {}}, "roots": {}}),
                json!({"elicitation": {"form": {}}, "roots": {}}),
            ),
            (
                Elicitation::Client,
                Sampling::Refuse,
                listed(),
                json!({"elicitation": {"form": {}}, "roots": {}}),
                json!({"roots": {}}),
                json!({"elicitation": {"url": {}}, "roots": {}}),
            ),
            (
                Elicitation::Client,
                Sampling::Client,
                Roots::Client,
                json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}}),
                json!({}),
                json!({"elicitation": {"url": {}}, "sampling": {"tools": {}}, "roots": {}}),
            ),
        ];
        let stdio = StdioSettings::new("x", [""; 0]);
        let mut settings = McpSettings::new(McpTransport::Stdio(stdio));
        for (elicitation, sampling, roots, at_most, alone, with_all) in rows {
            let row = format!("{elicitation:?} {sampling:?} {roots:?}");
            (settings.elicitation, settings.sampling, settings.roots) =
                (elicitation, sampling, roots);
            let declared = Declared::new(&settings);
            let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
            assert_eq!(read(declared.at_most()), at_most, "{row}");
            assert_eq!(read(declared.during(None)), alone, "{row}");
            assert_eq!(read(declared.during(Some(&somebody(&json!({}))))), alone, "{row}");
            assert_eq!(read(declared.during(Some(&somebody(&json!([]))))), alone, "{row}");
            assert_eq!(read(declared.during(Some(&somebody(&all)))), with_all, "{row}");
        }
    }

    #[test]
    fn only_what_a_client_declares_is_asked_of_it() {
        let (form, url) = (json!({"elicitation": {}}), json!({"elicitation": {"url": {}}}));
        let plain = json!({"message": "who?"});
        let address = json!({"mode": "url"});
        for (abilities, topic, params, expected) in [
            (Some(&form), Topic::Elicitation, &plain, Ok(())),
            (Some(&form), Topic::Elicitation, &address, Err("`elicitation.url`")),
            (Some(&url), Topic::Elicitation, &address, Ok(())),
            (Some(&form), Topic::Sampling, &plain, Err("does not declare `sampling`")),
            (None, Topic::Roots, &plain, Err("whoever called")),
        ] {
            let somebody = abilities.map(somebody);
            let params = RawValue::from_string(params.to_string()).unwrap();
            let checked = check(somebody.as_ref(), topic, Some(&params));
            match expected {
                Ok(()) => assert_eq!(checked, Ok(())),
                Err(words) => assert!(checked.unwrap_err().contains(words), "{words}"),
            }
        }
    }
}
