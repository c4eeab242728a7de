//! Handles messages that a server initiates: list changes, log messages and requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::dispatcher::truncate_for_log;
use super::elicitation::{ServerRequestKind, parse_or_null};
use super::rpc::RpcError;
use super::settings::{Elicitation, McpSettings, Root, Roots};
use super::subscriptions::ResourceSubscriptions;
use crate::handler::LogMessage;
use crate::json::JsonObject;
use crate::schema::Schema;

/// Handler of the messages that a server initiates.
#[derive(Debug, Clone)]
pub(super) struct ServerMessageHandler {
    source: Arc<str>,
    settings: Arc<McpSettings>,
    /// Notified when the server acknowledges or rejects `subscriptions/listen`.
    pub(super) listen_acknowledged: Arc<Notify>,
    /// Notified when the tool list has changed.
    pub(super) tools_changed: Arc<Notify>,
    /// Notified when another list has changed; the two flags below state which.
    pub(super) lists_changed: Arc<Notify>,
    pub(super) prompts_changed: Arc<AtomicBool>,
    pub(super) resources_changed: Arc<AtomicBool>,
    /// Resource subscriptions of the source.
    pub(super) subscriptions: Arc<ResourceSubscriptions>,
}

impl ServerMessageHandler {
    pub(super) fn new(source: Arc<str>, settings: Arc<McpSettings>) -> Self {
        Self {
            source,
            settings,
            listen_acknowledged: Arc::default(),
            tools_changed: Arc::default(),
            lists_changed: Arc::default(),
            prompts_changed: Arc::default(),
            resources_changed: Arc::default(),
            subscriptions: Arc::default(),
        }
    }

    /// Sets the resource subscriptions that receive updates.
    pub(super) fn with_subscriptions(self, subscriptions: &Arc<ResourceSubscriptions>) -> Self {
        Self { subscriptions: Arc::clone(subscriptions), ..self }
    }

    /// Returns the name of the source.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Handles a notification that does not belong to a request.
    pub(super) fn handle_notification(&self, method: &str) {
        match method {
            "notifications/tools/list_changed" => self.tools_changed.notify_one(),
            "notifications/subscriptions/acknowledged" => self.listen_acknowledged.notify_one(),
            "notifications/prompts/list_changed" => self.mark_list_changed(&self.prompts_changed),
            "notifications/resources/list_changed" => {
                self.mark_list_changed(&self.resources_changed);
            }
            _ => tracing::debug!(source = %self.source, method, "notification"),
        }
    }

    /// Handles `notifications/resources/updated`.
    pub(super) fn handle_resource_updated(&self, params: &RawValue) {
        #[derive(serde::Deserialize)]
        struct ResourceUpdatedParams {
            uri: String,
        }
        if let Ok(updated) = serde_json::from_str::<ResourceUpdatedParams>(params.get()) {
            self.subscriptions.notify_updated(&updated.uri);
        }
    }

    fn mark_list_changed(&self, which: &AtomicBool) {
        which.store(true, Ordering::Relaxed);
        self.lists_changed.notify_one();
    }

    /// Logs a server log message and returns it.
    pub(super) fn handle_log(&self, params: &RawValue) -> Option<LogMessage> {
        let line: LogMessage = serde_json::from_str(params.get()).ok()?;
        let logger = truncate_for_log(line.logger.as_deref().unwrap_or_default());
        let source = &*self.source;
        let text = match &line.data {
            Value::Null => String::new(),
            Value::String(text) => truncate_for_log(text),
            other => truncate_for_log(&other.to_string()),
        };
        match line.level.as_str() {
            "debug" => tracing::debug!(target: LOG_TARGET, source, logger, text),
            "info" | "notice" | "" => tracing::info!(target: LOG_TARGET, source, logger, text),
            "warning" => tracing::warn!(target: LOG_TARGET, source, logger, text),
            _ => tracing::error!(target: LOG_TARGET, source, logger, text),
        }
        Some(line)
    }

    /// Whether the settings forward this kind of request to the calling client.
    pub(super) fn is_forwarded(&self, kind: ServerRequestKind) -> bool {
        kind.is_forwarded(&self.settings)
    }

    /// Returns the error for a server request that cannot be forwarded to the client.
    pub(super) fn reject_request(
        &self,
        method: &str,
        params: Option<&RawValue>,
        reason: &str,
    ) -> RpcError {
        let params = parse_or_null(params);
        let message = truncate_for_log(params["message"].as_str().unwrap_or_default());
        let source = &*self.source;
        tracing::info!(source, method, question = message, reason, "server requested input");
        method_not_found(match ServerRequestKind::from_method(method) {
            Some(ServerRequestKind::Elicitation) => {
                format!("the server requests user input: \"{message}\", but {reason}")
            }
            _ => format!("the server requests `{}`, but {reason}", truncate_for_log(method)),
        })
    }

    /// Responds to a server request from the settings.
    pub(super) fn handle_request(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Value, RpcError> {
        match (method, &self.settings.roots) {
            ("ping", _) => Ok(json!({})),
            ("roots/list", Roots::Static(roots)) if !roots.is_empty() => Ok(roots_result(roots)),
            ("elicitation/create", _) => self.handle_elicitation(&parse_or_null(params)),
            ("sampling/createMessage", _) => {
                Err(method_not_found("this client does not support sampling"))
            }
            _ => Err(method_not_found(format!(
                "this client does not support `{}`",
                truncate_for_log(method)
            ))),
        }
    }

    fn handle_elicitation(&self, params: &Value) -> Result<Value, RpcError> {
        let policy = &self.settings.elicitation;
        let message = truncate_for_log(params["message"].as_str().unwrap_or_default());
        let source = &*self.source;
        tracing::info!(
            source,
            question = message,
            policy = policy.as_str(),
            "server requested input"
        );
        let given = match policy {
            Elicitation::Reject | Elicitation::Client => {
                return Err(method_not_found(format!(
                    "the server requests user input: \"{message}\", but elicitation is disabled; set \
                     `elicitation` of the source"
                )));
            }
            Elicitation::Decline => return Ok(json!({"action": "decline"})),
            Elicitation::Cancel => return Ok(json!({"action": "cancel"})),
            Elicitation::Defaults => &Map::new(),
            Elicitation::Accept(fields) => fields,
        };
        let content = fill_form(&params["requestedSchema"], given);
        Ok(match content.filter(|_| params["mode"] != "url") {
            Some(content) => json!({"action": "accept", "content": content}),
            None => json!({"action": "decline"}),
        })
    }
}

fn roots_result(roots: &[Root]) -> Value {
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

fn method_not_found(message: impl Into<String>) -> RpcError {
    RpcError::new(RpcError::METHOD_NOT_FOUND, message)
}

/// Fills the form with the values and defaults; `None` if the result is invalid.
fn fill_form(schema: &Value, given: &JsonObject) -> Option<JsonObject> {
    let fields = schema["properties"].as_object()?;
    let responses = fields.iter().filter_map(|(name, field)| {
        let response = given.get(name).or_else(|| field.get("default"))?;
        Some((name.clone(), response.clone()))
    });
    let content = Value::Object(responses.collect());
    let fits =
        Schema::new(schema.clone()).is_ok_and(|schema| schema.is_valid(&content).unwrap_or(false));
    match content {
        Value::Object(content) if fits => Some(content),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::{McpTransport, StdioSettings};
    use super::*;

    fn message_handler(elicitation: Elicitation, roots: Vec<Root>) -> ServerMessageHandler {
        let stdio = StdioSettings::new("x", [""; 0]);
        let mut settings = McpSettings::new(McpTransport::Stdio(stdio));
        (settings.elicitation, settings.roots) = (elicitation, roots.into());
        ServerMessageHandler::new("x".into(), Arc::new(settings))
    }

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    #[test]
    fn elicitation_response_follows_policy() {
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
        let response = |value: Value| Elicitation::Accept(value.as_object().unwrap().clone());
        let accept = |content: Value| json!({"action": "accept", "content": content});
        let rows = [
            (Elicitation::Decline, form(&[]), json!({"action": "decline"})),
            (Elicitation::Cancel, form(&[]), json!({"action": "cancel"})),
            (Elicitation::Defaults, form(&["name"]), accept(json!({"name": "Ann"}))),
            (Elicitation::Defaults, form(&["age"]), json!({"action": "decline"})),
            (response(json!({"age": 3})), form(&["age"]), accept(json!({"name": "Ann", "age": 3}))),
            (response(json!({"age": "x"})), form(&["age"]), json!({"action": "decline"})),
            (response(json!({"other": 1})), form(&[]), accept(json!({"name": "Ann"}))),
            (Elicitation::Defaults, json!({"mode": "url"}), json!({"action": "decline"})),
            (Elicitation::Defaults, Value::Null, json!({"action": "decline"})),
        ];
        for (policy, params, expected) in rows {
            let row = format!("{policy:?} {params}");
            let response = message_handler(policy, vec![])
                .handle_request("elicitation/create", Some(&raw(&params)));
            assert_eq!(response, Ok(expected), "{row}");
        }
        let rejected = message_handler(Elicitation::Reject, vec![])
            .handle_request("elicitation/create", Some(&raw(&form(&[]))));
        assert!(rejected.unwrap_err().message.contains("\"who?\""));
    }

    #[test]
    fn server_request_response_follows_settings() {
        let roots = vec![Root::new("file:///a"), Root { name: Some("b".into()), uri: "u".into() }];
        let listed = json!({"roots": [{"uri": "file:///a"}, {"uri": "u", "name": "b"}]});
        for (method, roots, expected) in [
            ("ping", vec![], Some(json!({}))),
            ("roots/list", roots, Some(listed)),
            ("roots/list", vec![], None),
            ("sampling/createMessage", vec![], None),
            ("anything", vec![], None),
        ] {
            let response = message_handler(Elicitation::Reject, roots).handle_request(method, None);
            assert_eq!(response.ok(), expected, "{method}");
        }
    }
}
