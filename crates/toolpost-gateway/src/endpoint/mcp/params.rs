//! What a request says beside its method.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolpost::trace_metadata;

use super::json_rpc::{JsonRpcError, JsonRpcId};
use super::settings::McpEndpointSettings;

/// The longest `baggage` that goes with a call, as the W3C has it.
const MAX_BAGGAGE_BYTES: usize = 8_192;

/// The members of `params` that this endpoint looks at.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RequestParams {
    pub(super) name: Option<String>,
    pub(super) uri: Option<String>,
    pub(super) cursor: Option<String>,
    pub(super) level: Option<String>,
    pub(super) arguments: Option<Box<RawValue>>,
    /// What a source wanted to know when it was asked the same before.
    #[serde(rename = "inputResponses")]
    pub(super) input_responses: Option<Box<RawValue>>,
    /// What it gave the client to bring back.
    #[serde(rename = "requestState")]
    pub(super) request_state: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    pub(super) meta: Option<RequestMeta>,
    /// The trace that the headers of the request name; what stands in the request itself comes first.
    #[serde(skip)]
    pub(super) header_trace: Option<Map<String, Value>>,
}

/// The members of `_meta` that this endpoint looks at.
#[derive(Debug, Default, Deserialize)]
pub(super) struct RequestMeta {
    #[serde(rename = "progressToken")]
    pub(super) progress_token: Option<Box<RawValue>>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    pub(super) version: Option<String>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(super) capabilities: Option<Box<RawValue>>,
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    pub(super) log_level: Option<String>,
    traceparent: Option<String>,
    tracestate: Option<String>,
    baggage: Option<String>,
}

impl RequestParams {
    pub(super) fn parse(raw: Option<&RawValue>) -> Result<Self, JsonRpcError> {
        let Some(raw) = raw else { return Ok(Self::default()) };
        let params: Self = serde_json::from_str(raw.get()).map_err(|error| {
            JsonRpcError::invalid_params(format!("`params` cannot be read: {error}"))
        })?;
        // It is repeated with every report, and so must be short.
        let token = params.meta.as_ref().and_then(|meta| meta.progress_token.as_deref());
        if token.is_some_and(|token| JsonRpcId::from_raw(token).is_none()) {
            let message = "`_meta.progressToken` must be a string or a number of at most 256 bytes";
            return Err(JsonRpcError::invalid_params(message));
        }
        Ok(params)
    }

    /// The version that the request itself names; only those from 2026-07-28 on do.
    pub(super) fn version(&self) -> Option<&str> {
        self.meta.as_ref()?.version.as_deref()
    }

    /// The level of the log that a request of 2026-07-28 asks for.
    pub(super) fn log_level(&self) -> Option<&str> {
        self.meta.as_ref()?.log_level.as_deref()
    }

    /// What goes with the call: the trace that it is part of.
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

/// What a client wants to hear of, from 2026-07-28 on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SubscriptionFilter {
    pub(super) tools_list_changed: bool,
    pub(super) prompts_list_changed: bool,
    pub(super) resources_list_changed: bool,
    /// The subscribed resources.
    pub(super) resource_subscriptions: Vec<String>,
}

impl SubscriptionFilter {
    /// What a client of before hears.
    pub(super) const ALL: Self = Self {
        tools_list_changed: true,
        prompts_list_changed: true,
        resources_list_changed: true,
        resource_subscriptions: Vec::new(),
    };

    /// The filter in the params of `subscriptions/listen`.
    pub(super) fn parse(
        raw: Option<&RawValue>,
        settings: &McpEndpointSettings,
    ) -> Result<Self, JsonRpcError> {
        #[derive(Deserialize)]
        struct ListenParams {
            notifications: SubscriptionFilter,
        }
        let text = raw.map_or("{}", RawValue::get);
        let listen: ListenParams = serde_json::from_str(text).map_err(|error| {
            JsonRpcError::invalid_params(format!("`params` cannot be read: {error}"))
        })?;
        let max = settings.max_resource_subscriptions_per_client;
        if listen.notifications.resource_subscriptions.len() > max {
            let message = format!("`resourceSubscriptions` has at most {max} addresses");
            return Err(JsonRpcError::invalid_params(message));
        }
        Ok(listen.notifications)
    }

    /// The kinds that are sent, which is what the client is told.
    pub(super) fn acknowledged(&self) -> Map<String, Value> {
        let kinds = [
            ("toolsListChanged", self.tools_list_changed),
            ("promptsListChanged", self.prompts_list_changed),
            ("resourcesListChanged", self.resources_list_changed),
        ];
        let kinds = kinds.into_iter().filter(|(_, is_requested)| *is_requested);
        let mut honored: Map<_, _> =
            kinds.map(|(name, _)| (name.to_owned(), true.into())).collect();
        if !self.resource_subscriptions.is_empty() {
            let subscribed = self.resource_subscriptions.as_slice().into();
            honored.insert("resourceSubscriptions".to_owned(), subscribed);
        }
        honored
    }
}

/// Which request a client does not want any more, and why.
pub(super) fn parse_canceled(raw: Option<&RawValue>) -> Option<(JsonRpcId, String)> {
    #[derive(Deserialize)]
    struct CanceledParams<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
        reason: Option<String>,
    }
    let canceled: CanceledParams<'_> = serde_json::from_str(raw?.get()).ok()?;
    let reason = canceled.reason.unwrap_or_else(|| "canceled by the client".to_owned());
    Some((JsonRpcId::from_raw(canceled.id)?, reason.chars().take(500).collect()))
}
