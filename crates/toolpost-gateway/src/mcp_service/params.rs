//! Parameters of requests and notifications.

use std::ops::Not;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolpost::json::error_message;
use toolpost::json_rpc::{RpcError, RpcId};
use toolpost::trace_metadata;

use super::settings::McpEndpointSettings;

/// Maximum length of forwarded `baggage` in bytes, as in the W3C specification.
const MAX_BAGGAGE_BYTES: usize = 8_192;

/// The members of `params` that this endpoint uses.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RequestParams {
    pub(crate) name: Option<String>,
    pub(crate) uri: Option<String>,
    pub(super) cursor: Option<String>,
    pub(super) level: Option<String>,
    pub(super) arguments: Option<Box<RawValue>>,
    /// Responses to the input requests of an earlier attempt.
    #[serde(rename = "inputResponses")]
    pub(super) input_responses: Option<Box<RawValue>>,
    /// Opaque state that the source returned with its input requests.
    #[serde(rename = "requestState")]
    pub(super) request_state: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    pub(crate) meta: Option<RequestMeta>,
    /// Trace context of the HTTP headers. Trace context in `_meta` takes precedence.
    #[serde(skip)]
    pub(crate) header_trace: Option<Map<String, Value>>,
}

/// The members of `_meta` that this endpoint uses.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RequestMeta {
    #[serde(rename = "progressToken")]
    pub(super) progress_token: Option<Box<RawValue>>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    pub(super) version: Option<String>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(crate) capabilities: Option<Box<RawValue>>,
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    pub(super) log_level: Option<String>,
    traceparent: Option<String>,
    tracestate: Option<String>,
    baggage: Option<String>,
    #[serde(rename = "toolpost/idempotencyKey")]
    idempotency_key: Option<Arc<str>>,
}

impl RequestParams {
    pub(crate) fn parse(raw: Option<&RawValue>) -> Result<Self, RpcError> {
        let Some(raw) = raw else { return Ok(Self::default()) };
        let params: Self = serde_json::from_str(raw.get()).map_err(|error| {
            RpcError::invalid_params(format!("`params` cannot be read: {}", error_message(&error)))
        })?;
        // The token is repeated in every progress notification, so its length is limited.
        let token = params.meta.as_ref().and_then(|meta| meta.progress_token.as_deref());
        if token.is_some_and(|token| RpcId::from_raw(token).is_none()) {
            let message = "`_meta.progressToken` must be a string or a number of at most 256 bytes";
            return Err(RpcError::invalid_params(message));
        }
        Ok(params)
    }

    /// Returns the protocol version in `_meta`, which is present from 2026-07-28 on.
    pub(crate) fn version(&self) -> Option<&str> {
        self.meta.as_ref()?.version.as_deref()
    }

    /// Returns the log level in `_meta`, which applies from 2026-07-28 on.
    pub(crate) fn log_level(&self) -> Option<&str> {
        self.meta.as_ref()?.log_level.as_deref()
    }

    /// Sets the idempotency key if there is none.
    pub(super) fn or_idempotency_key(mut self, key: Option<Arc<str>>) -> Self {
        if key.is_some() {
            let meta = self.meta.get_or_insert_default();
            meta.idempotency_key = meta.idempotency_key.take().or(key);
        }
        self
    }

    /// Returns the idempotency key of a tool call.
    pub(super) fn idempotency_key(&self) -> Option<Arc<str>> {
        self.meta.as_ref()?.idempotency_key.clone()
    }

    /// Returns the call metadata: trace context and baggage.
    pub(super) fn metadata(&self) -> Option<Map<String, Value>> {
        let Some(meta) = &self.meta else { return self.header_trace.clone() };
        let trace = trace_metadata(meta.traceparent.as_deref(), meta.tracestate.as_deref());
        let trace = trace.or_else(|| self.header_trace.clone());
        let baggage = meta.baggage.as_deref().filter(|text| text.len() <= MAX_BAGGAGE_BYTES);
        let Some(baggage) = baggage else { return trace };
        let mut metadata = trace.unwrap_or_default();
        metadata.insert("baggage".to_owned(), baggage.into());
        Some(metadata)
    }
}

/// The notifications that a client subscribes to, from 2026-07-28 on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SubscriptionFilter {
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) tools_list_changed: bool,
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) prompts_list_changed: bool,
    #[serde(skip_serializing_if = "Not::not")]
    pub(super) resources_list_changed: bool,
    /// URIs of the subscribed resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resource_subscriptions: Vec<String>,
}

impl SubscriptionFilter {
    /// All list changes: the filter for clients before 2026-07-28.
    pub(crate) const ALL: Self = Self {
        tools_list_changed: true,
        prompts_list_changed: true,
        resources_list_changed: true,
        resource_subscriptions: Vec::new(),
    };

    /// Parses the filter in the params of `subscriptions/listen`.
    pub(crate) fn parse(
        raw: Option<&RawValue>,
        settings: &McpEndpointSettings,
    ) -> Result<Self, RpcError> {
        #[derive(Deserialize)]
        struct ListenParams {
            notifications: SubscriptionFilter,
        }
        let text = raw.map_or("{}", RawValue::get);
        let listen: ListenParams = serde_json::from_str(text).map_err(|error| {
            RpcError::invalid_params(format!("`params` cannot be read: {}", error_message(&error)))
        })?;
        let max = settings.max_resource_subscriptions_per_client;
        if listen.notifications.resource_subscriptions.len() > max {
            let message = format!("`resourceSubscriptions` has at most {max} addresses");
            return Err(RpcError::invalid_params(message));
        }
        Ok(listen.notifications)
    }
}

/// Parses the id of a canceled request and the reason.
pub(crate) fn parse_canceled(raw: Option<&RawValue>) -> Option<(RpcId, String)> {
    #[derive(Deserialize)]
    struct CanceledParams<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
        reason: Option<String>,
    }
    let canceled: CanceledParams<'_> = serde_json::from_str(raw?.get()).ok()?;
    let reason = canceled.reason.unwrap_or_else(|| "canceled by the client".to_owned());
    Some((RpcId::from_raw(canceled.id)?, reason.chars().take(500).collect()))
}
