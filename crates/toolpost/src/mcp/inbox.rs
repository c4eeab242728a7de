//! What a server says and asks on its own: changes of its lists, log lines, questions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::follow::Watches;
use super::inquiry::Topic;
use super::rpc::RpcError;
use super::settings::{Elicitation, McpSettings, Root, Roots};
use super::switch::short;
use crate::handler::LogLine;
use crate::schema::Schema;

/// The end of a connection at which the server's own words arrive.
#[derive(Debug, Clone)]
pub(super) struct Inbox {
    source: Arc<str>,
    settings: Arc<McpSettings>,
    /// Told when the server has said that it will tell about changes, or that it will not.
    pub(super) listening: Arc<Notify>,
    /// Told when the list of tools has changed.
    pub(super) tools_changed: Arc<Notify>,
    /// Told when one of the other lists has changed; which is said by the two below.
    pub(super) offer_changed: Arc<Notify>,
    pub(super) prompts_changed: Arc<AtomicBool>,
    pub(super) resources_changed: Arc<AtomicBool>,
    /// The resources that somebody follows.
    pub(super) watches: Arc<Watches>,
}

impl Inbox {
    pub(super) fn new(source: Arc<str>, settings: Arc<McpSettings>) -> Self {
        Self {
            source,
            settings,
            listening: Arc::default(),
            tools_changed: Arc::default(),
            offer_changed: Arc::default(),
            prompts_changed: Arc::default(),
            resources_changed: Arc::default(),
            watches: Arc::default(),
        }
    }

    /// The inbox, for those who follow resources.
    pub(super) fn with_watches(self, watches: &Arc<Watches>) -> Self {
        Self { watches: Arc::clone(watches), ..self }
    }

    /// The source that this is the inbox of.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// A notification that is not about one request.
    pub(super) fn notified(&self, method: &str) {
        match method {
            "notifications/tools/list_changed" => self.tools_changed.notify_one(),
            "notifications/subscriptions/acknowledged" => self.listening.notify_one(),
            "notifications/prompts/list_changed" => self.offer_changed(&self.prompts_changed),
            "notifications/resources/list_changed" => self.offer_changed(&self.resources_changed),
            _ => tracing::debug!(source = %self.source, method, "notification"),
        }
    }

    /// A resource has changed.
    pub(super) fn updated(&self, params: &RawValue) {
        #[derive(serde::Deserialize)]
        struct Updated {
            uri: String,
        }
        if let Ok(updated) = serde_json::from_str::<Updated>(params.get()) {
            self.watches.updated(&updated.uri);
        }
    }

    fn offer_changed(&self, which: &AtomicBool) {
        which.store(true, Ordering::Relaxed);
        self.offer_changed.notify_one();
    }

    /// Writes down what the server says, and gives it back.
    pub(super) fn log(&self, params: &RawValue) -> Option<LogLine> {
        let line: LogLine = serde_json::from_str(params.get()).ok()?;
        let logger = short(line.logger.as_deref().unwrap_or_default());
        let source = &*self.source;
        let said = match &line.data {
            Value::Null => String::new(),
            Value::String(text) => short(text),
            other => short(&other.to_string()),
        };
        match line.level.as_str() {
            "debug" => tracing::debug!(target: LOG_TARGET, source, logger, said),
            "info" | "notice" | "" => tracing::info!(target: LOG_TARGET, source, logger, said),
            "warning" => tracing::warn!(target: LOG_TARGET, source, logger, said),
            _ => tracing::error!(target: LOG_TARGET, source, logger, said),
        }
        Some(line)
    }

    /// Whether the settings leave it to the client that called to answer.
    pub(super) fn leaves_to_the_client(&self, topic: Topic) -> bool {
        topic.is_for_the_client(&self.settings)
    }

    /// What a request of the server gets that the client would answer, if it could be asked.
    pub(super) fn not_asked(&self, method: &str, params: Option<&RawValue>, why: &str) -> RpcError {
        let message = message_of(params);
        let source = &*self.source;
        tracing::info!(source, method, question = message, why, "asked for input");
        refused(match Topic::of(method) {
            Some(Topic::Elicitation) => {
                format!("the server asks a person: \"{message}\", and {why}")
            }
            _ => format!("the server asks for `{}`, and {why}", short(method)),
        })
    }

    /// What a request of the server gets by the settings.
    pub(super) fn answer(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Value, RpcError> {
        match (method, &self.settings.roots) {
            ("ping", _) => Ok(json!({})),
            ("roots/list", Roots::Listed(roots)) if !roots.is_empty() => Ok(listed(roots)),
            ("elicitation/create", _) => self.elicited(&read(params)),
            ("sampling/createMessage", _) => {
                Err(refused("there is no model behind this client that could be asked"))
            }
            _ => Err(refused(format!("this client does not answer `{}`", short(method)))),
        }
    }

    fn elicited(&self, params: &Value) -> Result<Value, RpcError> {
        let policy = &self.settings.elicitation;
        let message = short(params["message"].as_str().unwrap_or_default());
        let source = &*self.source;
        tracing::info!(source, question = message, policy = policy.word(), "asked for input");
        let given = match policy {
            Elicitation::Refuse | Elicitation::Client => {
                return Err(refused(format!(
                    "the server asks a person: \"{message}\", and nobody may be asked; set \
                     `elicitation` of the source"
                )));
            }
            Elicitation::Decline => return Ok(json!({"action": "decline"})),
            Elicitation::Cancel => return Ok(json!({"action": "cancel"})),
            Elicitation::Defaults => &Map::new(),
            Elicitation::Answer(fields) => fields,
        };
        let content = fill_in(&params["requestedSchema"], given);
        Ok(match content.filter(|_| params["mode"] != "url") {
            Some(content) => json!({"action": "accept", "content": content}),
            None => json!({"action": "decline"}),
        })
    }
}

fn read(params: Option<&RawValue>) -> Value {
    params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default()
}

fn message_of(params: Option<&RawValue>) -> String {
    short(read(params)["message"].as_str().unwrap_or_default())
}

fn listed(roots: &[Root]) -> Value {
    let roots = roots.iter().map(|root| {
        let mut listed = json!({"uri": root.uri});
        if let Some(name) = &root.name {
            listed["name"] = name.as_str().into();
        }
        listed
    });
    json!({"roots": roots.collect::<Vec<_>>()})
}

const LOG_TARGET: &str = "toolpost::mcp::log";

fn refused(message: impl Into<String>) -> RpcError {
    RpcError::new(RpcError::METHOD_NOT_FOUND, message)
}

/// The form with what is given and with the defaults of the rest; `None` if it does not fit then.
fn fill_in(schema: &Value, given: &Map<String, Value>) -> Option<Map<String, Value>> {
    let fields = schema["properties"].as_object()?;
    let answers = fields.iter().filter_map(|(name, field)| {
        let answer = given.get(name).or_else(|| field.get("default"))?;
        Some((name.clone(), answer.clone()))
    });
    let content = Value::Object(answers.collect());
    let fits =
        Schema::new(schema.clone()).is_ok_and(|schema| schema.fits(&content).unwrap_or(false));
    match content {
        Value::Object(content) if fits => Some(content),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::{McpTransport, StdioSettings};
    use super::*;

    fn inbox(elicitation: Elicitation, roots: Vec<Root>) -> Inbox {
        let stdio = StdioSettings::new("x", [""; 0]);
        let mut settings = McpSettings::new(McpTransport::Stdio(stdio));
        (settings.elicitation, settings.roots) = (elicitation, roots.into());
        Inbox::new("x".into(), Arc::new(settings))
    }

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    #[test]
    fn a_question_is_answered_by_the_policy() {
        let form = |required: &[&str]| {
            json!({"message": "who?", "requestedSchema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "default": "Ann"},
                    "age": {"type": "integer"},
                },
                "required": required,
            }})
        };
        let answer = |value: Value| Elicitation::Answer(value.as_object().unwrap().clone());
        let accept = |content: Value| json!({"action": "accept", "content": content});
        let rows = [
            (Elicitation::Decline, form(&[]), json!({"action": "decline"})),
            (Elicitation::Cancel, form(&[]), json!({"action": "cancel"})),
            (Elicitation::Defaults, form(&["name"]), accept(json!({"name": "Ann"}))),
            (Elicitation::Defaults, form(&["age"]), json!({"action": "decline"})),
            (answer(json!({"age": 3})), form(&["age"]), accept(json!({"name": "Ann", "age": 3}))),
            (answer(json!({"age": "x"})), form(&["age"]), json!({"action": "decline"})),
            (answer(json!({"other": 1})), form(&[]), accept(json!({"name": "Ann"}))),
            (Elicitation::Defaults, json!({"mode": "url"}), json!({"action": "decline"})),
            (Elicitation::Defaults, Value::Null, json!({"action": "decline"})),
        ];
        for (policy, params, expected) in rows {
            let row = format!("{policy:?} {params}");
            let answer = inbox(policy, vec![]).answer("elicitation/create", Some(&raw(&params)));
            assert_eq!(answer, Ok(expected), "{row}");
        }
        let refused =
            inbox(Elicitation::Refuse, vec![]).answer("elicitation/create", Some(&raw(&form(&[]))));
        assert!(refused.unwrap_err().message.contains("\"who?\""));
    }

    #[test]
    fn what_a_server_may_ask() {
        let roots = vec![Root::new("file:///a"), Root { name: Some("b".into()), uri: "u".into() }];
        let listed = json!({"roots": [{"uri": "file:///a"}, {"uri": "u", "name": "b"}]});
        for (method, roots, expected) in [
            ("ping", vec![], Some(json!({}))),
            ("roots/list", roots, Some(listed)),
            ("roots/list", vec![], None),
            ("sampling/createMessage", vec![], None),
            ("anything", vec![], None),
        ] {
            let answer = inbox(Elicitation::Refuse, roots).answer(method, None);
            assert_eq!(answer.ok(), expected, "{method}");
        }
    }
}
