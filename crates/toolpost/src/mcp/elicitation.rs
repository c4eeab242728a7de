//! Server requests during a call (elicitation, sampling, roots), handled by the settings or
//! forwarded to the client.

use serde_json::Value;
use serde_json::value::RawValue;

use super::rpc::RpcError;
use super::settings::{Elicitation, McpSettings, Roots, Sampling};
use crate::handler::{ClientChannel, RespondToServer, ServerRequest, ServerRequestError};
use crate::json::RawObject;

/// Methods during which a server may send requests.
pub(super) const METHODS_WITH_SERVER_REQUESTS: [&str; 3] =
    ["tools/call", "prompts/get", "resources/read"];

/// Kind of a server request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerRequestKind {
    /// User input (`elicitation/create`).
    Elicitation,
    /// A model completion (`sampling/createMessage`).
    Sampling,
    /// The roots of the client (`roots/list`).
    Roots,
}

impl ServerRequestKind {
    const ALL: [Self; 3] = [Self::Elicitation, Self::Sampling, Self::Roots];

    pub(super) fn from_method(method: &str) -> Option<Self> {
        match method {
            "elicitation/create" => Some(Self::Elicitation),
            "sampling/createMessage" => Some(Self::Sampling),
            "roots/list" => Some(Self::Roots),
            _ => None,
        }
    }

    /// Returns the name of the client capability.
    pub(super) fn capability(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }

    /// Whether the settings forward requests of this kind to the calling client.
    pub(super) fn is_forwarded(self, settings: &McpSettings) -> bool {
        match self {
            Self::Elicitation => settings.elicitation == Elicitation::Client,
            Self::Sampling => settings.sampling == Sampling::Client,
            Self::Roots => settings.roots == Roots::Client,
        }
    }

    /// Returns the capability to declare when the settings handle requests or no client is known.
    fn declared_capability(self) -> &'static str {
        match self {
            // URL mode depends on the calling client, so it is declared only during a call.
            Self::Elicitation => r#"{"form":{}}"#,
            Self::Sampling | Self::Roots => "{}",
        }
    }

    /// Whether the settings provide the response.
    fn has_static_response(self, settings: &McpSettings) -> bool {
        match self {
            Self::Elicitation => {
                !matches!(settings.elicitation, Elicitation::Reject | Elicitation::Client)
            }
            Self::Sampling => false,
            Self::Roots => matches!(&settings.roots, Roots::Static(roots) if !roots.is_empty()),
        }
    }
}

/// Client capabilities declared to a server.
#[derive(Debug, Clone)]
pub(super) struct DeclaredCapabilities {
    /// Kinds of requests that are forwarded to the calling client.
    forwarded: Vec<ServerRequestKind>,
    /// JSON members of the capabilities that the settings handle, without braces.
    static_members: String,
}

impl DeclaredCapabilities {
    pub(super) fn new(settings: &McpSettings) -> Self {
        let kinds = ServerRequestKind::ALL.into_iter();
        let handled = kinds.clone().filter(|kind| kind.has_static_response(settings));
        Self {
            static_members: handled
                .map(|kind| json_member(kind, kind.declared_capability()))
                .collect(),
            forwarded: kinds.filter(|kind| kind.is_forwarded(settings)).collect(),
        }
    }

    /// Returns all capabilities that a call can have. Many servers hide tools from clients that
    /// lack a capability.
    pub(super) fn maximal(&self) -> String {
        let forwarded_members =
            self.forwarded.iter().map(|kind| json_member(*kind, kind.declared_capability()));
        json_object(&self.static_members, &forwarded_members.collect::<String>())
    }

    /// Returns the capabilities of a call with this client channel.
    pub(super) fn for_call(&self, client_channel: Option<&ClientChannel>) -> String {
        let capabilities = client_channel.map(client_capabilities).unwrap_or_default();
        let forwarded_members = self.forwarded.iter().filter_map(|kind| {
            Some(json_member(*kind, capability_value(&capabilities, *kind)?.get()))
        });
        json_object(&self.static_members, &forwarded_members.collect::<String>())
    }
}

/// Formats a JSON member with a trailing comma.
fn json_member(kind: ServerRequestKind, value: &str) -> String {
    format!("\"{}\":{value},", kind.capability())
}

fn json_object(static_members: &str, forwarded_members: &str) -> String {
    let members = [static_members, forwarded_members].concat();
    format!("{{{}}}", members.trim_end_matches(','))
}

/// Returns the capabilities that a client declares.
fn client_capabilities(client_channel: &ClientChannel) -> RawObject<'_> {
    let declared = client_channel.client_capabilities();
    declared.and_then(|declared| RawObject::parse(declared.get()).ok()).unwrap_or_default()
}

fn capability_value<'a>(
    capabilities: &RawObject<'a>,
    kind: ServerRequestKind,
) -> Option<&'a RawValue> {
    capabilities.get(kind.capability()).filter(|value| value.get().starts_with('{'))
}

/// Checks whether the client supports the request; the error is the reason why not.
pub(super) fn check_supported(
    client_channel: Option<&ClientChannel>,
    kind: ServerRequestKind,
    params: Option<&RawValue>,
) -> Result<(), String> {
    let name = kind.capability();
    let Some(client_channel) = client_channel else {
        return Err(format!("the caller does not accept `{name}` requests"));
    };
    let capabilities = client_capabilities(client_channel);
    let Some(capability_value) = capability_value(&capabilities, kind) else {
        return Err(format!("the calling client does not declare `{name}`"));
    };
    if kind == ServerRequestKind::Elicitation
        && parse_or_null(params)["mode"] == "url"
        && parse_or_null(Some(capability_value))["url"].is_null()
    {
        return Err("the calling client does not declare `elicitation.url`".to_owned());
    }
    Ok(())
}

/// Parses a value; `null` if there is none or it is invalid.
pub(super) fn parse_or_null(raw: Option<&RawValue>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// Forwards a request to a connected client.
pub(super) async fn forward(
    client: &dyn RespondToServer,
    method: &str,
    params: Option<&RawValue>,
) -> Result<Box<RawValue>, RpcError> {
    let server_request = ServerRequest::new(method, params.map(ToOwned::to_owned));
    client.request(server_request).await.map_err(|error| match error {
        ServerRequestError::Rejected(raw_error) => serde_json::from_str(raw_error.get())
            .unwrap_or_else(|_| {
                RpcError::new(RpcError::INTERNAL, "the client rejected the request")
            }),
        ServerRequestError::Unreachable(reason) => RpcError::new(RpcError::INTERNAL, reason),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::super::settings::{McpTransport, Root, StdioSettings};
    use super::*;
    use crate::handler::MultiRoundTrip;

    fn client_channel(capabilities: &Value) -> ClientChannel {
        let capabilities = RawValue::from_string(capabilities.to_string()).unwrap();
        ClientChannel::MultiRoundTrip(Arc::new(MultiRoundTrip::new(Some(capabilities), None, None)))
    }

    #[test]
    fn declared_capabilities_follow_settings_and_client() {
        let all = json!({"elicitation": {"url": {}}, "sampling": {"tools": {}}, "roots": {},
            "tasks": {}});
        let listed = || Roots::Static(vec![Root::new("file:///x")]);
        let nothing = || Roots::Static(Vec::new());
        let rows = [
            (Elicitation::Reject, Sampling::Reject, nothing(), json!({}), json!({}), json!({})),
            (
                Elicitation::Defaults,
                Sampling::Reject,
                listed(),
                json!({"elicitation": {"form": {}}, "roots": {}}),
                json!({"elicitation": {"form": {}}, "roots": {}}),
                json!({"elicitation": {"form": {}}, "roots": {}}),
            ),
            (
                Elicitation::Client,
                Sampling::Reject,
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
        for (elicitation, sampling, roots, at_most, without_client, with_all) in rows {
            let row = format!("{elicitation:?} {sampling:?} {roots:?}");
            (settings.elicitation, settings.sampling, settings.roots) =
                (elicitation, sampling, roots);
            let declared = DeclaredCapabilities::new(&settings);
            let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
            assert_eq!(read(declared.maximal()), at_most, "{row}");
            assert_eq!(read(declared.for_call(None)), without_client, "{row}");
            assert_eq!(
                read(declared.for_call(Some(&client_channel(&json!({}))))),
                without_client,
                "{row}"
            );
            assert_eq!(
                read(declared.for_call(Some(&client_channel(&json!([]))))),
                without_client,
                "{row}"
            );
            assert_eq!(read(declared.for_call(Some(&client_channel(&all)))), with_all, "{row}");
        }
    }

    #[test]
    fn server_request_requires_declared_client_capability() {
        let (form, url) = (json!({"elicitation": {}}), json!({"elicitation": {"url": {}}}));
        let plain = json!({"message": "who?"});
        let address = json!({"mode": "url"});
        for (abilities, kind, params, expected) in [
            (Some(&form), ServerRequestKind::Elicitation, &plain, Ok(())),
            (Some(&form), ServerRequestKind::Elicitation, &address, Err("`elicitation.url`")),
            (Some(&url), ServerRequestKind::Elicitation, &address, Ok(())),
            (Some(&form), ServerRequestKind::Sampling, &plain, Err("does not declare `sampling`")),
            (None, ServerRequestKind::Roots, &plain, Err("the caller does not accept")),
        ] {
            let channel = abilities.map(client_channel);
            let params = RawValue::from_string(params.to_string()).unwrap();
            let checked = check_supported(channel.as_ref(), kind, Some(&params));
            match expected {
                Ok(()) => assert_eq!(checked, Ok(())),
                Err(expected_message) => {
                    assert!(checked.unwrap_err().contains(expected_message), "{expected_message}");
                }
            }
        }
    }
}
