//! What a request says beside its method.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolpost::trace_metadata;

use super::message::{Fault, Id};
use super::settings::McpDoorSettings;

/// The longest `baggage` that goes with a call, as the W3C has it.
const LONGEST_BAGGAGE: usize = 8_192;

/// The members of `params` that this door looks at.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Params {
    pub(super) name: Option<String>,
    pub(super) uri: Option<String>,
    pub(super) cursor: Option<String>,
    pub(super) level: Option<String>,
    pub(super) arguments: Option<Box<RawValue>>,
    /// What a source wanted to know when it was asked the same before.
    #[serde(rename = "inputResponses")]
    pub(super) answers: Option<Box<RawValue>>,
    /// What it gave the client to bring back.
    #[serde(rename = "requestState")]
    pub(super) state: Option<Box<RawValue>>,
    #[serde(rename = "_meta")]
    pub(super) meta: Option<RequestMeta>,
    /// The trace that the headers of the request name; what stands in the request itself comes first.
    #[serde(skip)]
    pub(super) carried: Option<Map<String, Value>>,
}

/// The members of `_meta` that this door looks at.
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

impl Params {
    pub(super) fn read(raw: Option<&RawValue>) -> Result<Self, Fault> {
        let Some(raw) = raw else { return Ok(Self::default()) };
        let params: Self = serde_json::from_str(raw.get())
            .map_err(|error| Fault::invalid_params(format!("`params` cannot be read: {error}")))?;
        // It is repeated with every report, and so must be short.
        let token = params.meta.as_ref().and_then(|meta| meta.progress_token.as_deref());
        if token.is_some_and(|token| Id::of(token).is_none()) {
            let words = "`_meta.progressToken` must be a text or a number of at most 256 bytes";
            return Err(Fault::invalid_params(words));
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
        let Some(meta) = &self.meta else { return self.carried.clone() };
        let trace = trace_metadata(meta.traceparent.as_deref(), meta.tracestate.as_deref());
        let trace = trace.or_else(|| self.carried.clone());
        let baggage = meta.baggage.as_deref().filter(|text| text.len() <= LONGEST_BAGGAGE);
        let Some(baggage) = baggage else { return trace };
        let mut metadata = trace.unwrap_or_default();
        metadata.insert("baggage".to_owned(), baggage.into());
        Some(metadata)
    }
}

/// What a client wants to hear of, from 2026-07-28 on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Filter {
    pub(super) tools_list_changed: bool,
    pub(super) prompts_list_changed: bool,
    pub(super) resources_list_changed: bool,
    /// The resources that are followed.
    pub(super) resource_subscriptions: Vec<String>,
}

impl Filter {
    /// What a client of before hears.
    pub(super) const ALL: Self = Self {
        tools_list_changed: true,
        prompts_list_changed: true,
        resources_list_changed: true,
        resource_subscriptions: Vec::new(),
    };

    /// The filter in the params of `subscriptions/listen`.
    pub(super) fn read(raw: Option<&RawValue>, settings: &McpDoorSettings) -> Result<Self, Fault> {
        #[derive(Deserialize)]
        struct Listen {
            notifications: Filter,
        }
        let text = raw.map_or("{}", RawValue::get);
        let listen: Listen = serde_json::from_str(text)
            .map_err(|error| Fault::invalid_params(format!("`params` cannot be read: {error}")))?;
        let most = settings.followed_by_one;
        if listen.notifications.resource_subscriptions.len() > most {
            let words = format!("`resourceSubscriptions` has at most {most} addresses");
            return Err(Fault::invalid_params(words));
        }
        Ok(listen.notifications)
    }

    /// The kinds that are sent, which is what the client is told.
    pub(super) fn honored(&self) -> Map<String, Value> {
        let kinds = [
            ("toolsListChanged", self.tools_list_changed),
            ("promptsListChanged", self.prompts_list_changed),
            ("resourcesListChanged", self.resources_list_changed),
        ];
        let kinds = kinds.into_iter().filter(|(_, wanted)| *wanted);
        let mut honored: Map<_, _> =
            kinds.map(|(name, _)| (name.to_owned(), true.into())).collect();
        if !self.resource_subscriptions.is_empty() {
            let followed = self.resource_subscriptions.as_slice().into();
            honored.insert("resourceSubscriptions".to_owned(), followed);
        }
        honored
    }
}

/// Which request a client does not want any more, and why.
pub(super) fn cancelled(raw: Option<&RawValue>) -> Option<(Id, String)> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
        reason: Option<String>,
    }
    let cancelled: Cancelled<'_> = serde_json::from_str(raw?.get()).ok()?;
    let reason = cancelled.reason.unwrap_or_else(|| "the client canceled it".to_owned());
    Some((Id::of(cancelled.id)?, reason.chars().take(500).collect()))
}
