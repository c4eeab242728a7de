//! One request, and its answer whatever carried it.

use std::sync::Arc;

use axum::http::HeaderMap;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost::view::{CacheHints, CacheScope, Era, Listing, Toolbox};
use toolpost::{Authority, Catalog, Identity, Operation, Respondent};

use super::boxes::is_tool;
use super::following::Following;
use super::inquiry::Questions;
use super::level::{Asked, Level};
use super::message::{self, Fault, Id};
use super::outlet::Outlet;
use super::params::Params;
use super::passing::Passing;
use super::settings::McpView;
use super::text::Text;
use crate::app::Gateway;

/// The versions that are spoken, the newest first.
pub(super) const VERSIONS: [&str; 5] =
    ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The newest version that begins with a handshake.
const LATEST_LEGACY: &str = VERSIONS[1];

/// What models are told unless the operator says something else.
const INSTRUCTIONS: &str = "The tools are operations of several sources; the part of a name before \
    `__` is its source. If there are tools named `hub__search`, `hub__schema` and `hub__call`, more \
    operations can be found and called through them than are listed.";

/// Who asks, and what he sees.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    pub(super) gateway: Gateway,
    /// Where he came in, for the journal.
    pub(super) door: &'static str,
    pub(super) identity: Arc<Identity>,
    pub(super) view: McpView,
    pub(super) era: Era,
    /// What a client of before wants to hear.
    pub(super) level: Arc<Asked>,
    /// What a client of before follows, if it can be told.
    pub(super) following: Option<Arc<Following>>,
    /// How a client of before is asked, if it can be.
    pub(super) questions: Option<Arc<Questions>>,
}

/// A request that is understood as far as its envelope goes.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) asker: Asker,
    pub(super) id: Id,
    pub(super) method: String,
    pub(super) params: Params,
    /// The params as they came, for those who pass them on.
    pub(super) raw: Option<Box<RawValue>>,
    /// Whether a name that is wrong may be compared with all others.
    pub(super) hints: bool,
    /// The headers that must agree with the arguments.
    pub(super) headers: Option<HeaderMap>,
}

/// A whole message for the client.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) message: Text,
    /// The code, if it is an error of the protocol.
    pub(super) fault: Option<i64>,
    /// False if the client does not want to hear it any more.
    pub(super) is_wanted: bool,
}

impl Ask {
    pub(super) async fn answer(mut self, outlet: Outlet) -> Answer {
        let mut out = Text::from(message::begin_result(&self.id));
        let answered = self.write(&mut out, &outlet).await;
        let is_wanted = outlet.ended();
        match answered {
            Ok(()) => {
                out.end().push(b'}');
                Answer { message: out, fault: None, is_wanted }
            }
            Err(fault) => {
                let message = fault.write(Some(&self.id)).into();
                Answer { message, fault: (!fault.is_foreign).then_some(fault.code), is_wanted }
            }
        }
    }

    async fn write(&mut self, out: &mut Text, outlet: &Outlet) -> Result<(), Fault> {
        let asker = &self.asker;
        if self.method == "tools/list" {
            asker.await_sources().await;
            return self.list(out);
        }
        let out = out.end();
        match (self.method.as_str(), asker.era) {
            ("tools/call", _) => self.call(out, outlet).await,
            ("server/discover", Era::Modern) => write(out, &asker.discovered()),
            ("ping", Era::Legacy) => write(out, &json!({})),
            ("logging/setLevel", Era::Legacy) => {
                self.set_level()?;
                write(out, &json!({}))
            }
            (method @ ("resources/subscribe" | "resources/unsubscribe"), Era::Legacy) => {
                tokio::select! {
                    followed = self.follow(method) => followed?,
                    () = outlet.cancelled() => return Err(cancelled()),
                }
                write(out, &json!({}))
            }
            _ => tokio::select! {
                passed = self.pass(out, outlet) => passed,
                // Dropping it cancels what its source was asked.
                () = outlet.cancelled() => Err(cancelled()),
            },
        }
    }

    fn set_level(&self) -> Result<(), Fault> {
        let level = self.params.level.as_deref().and_then(Level::of);
        let words = || format!("`params.level` must be one of {}", Level::names());
        self.asker.level.set(level.ok_or_else(|| Fault::invalid_params(words()))?);
        Ok(())
    }

    /// Begins or ends to follow a resource.
    async fn follow(&self, method: &str) -> Result<(), Fault> {
        let Some(following) = &self.asker.following else {
            let words = "what is followed is kept in a session, and this request belongs to none";
            return Err(Fault::new(Fault::INVALID_REQUEST, words));
        };
        let uri = self.params.uri.as_deref();
        let uri = uri.ok_or_else(|| Fault::invalid_params("`uri` must be a text"))?;
        match method {
            "resources/subscribe" => following.follow(&self.asker, uri).await,
            _ => {
                following.leave(&self.asker, uri);
                Ok(())
            }
        }
    }

    /// The least important lines that the client wants to hear about this request.
    pub(super) fn level(&self) -> Option<Level> {
        match self.asker.era {
            Era::Modern => Level::of(self.params.log_level()?),
            _ => Some(self.asker.level.get()),
        }
    }

    fn list(&self, out: &mut Text) -> Result<(), Fault> {
        let listing = self.asker.listing();
        let cursor = self.params.cursor.as_deref();
        let page =
            listing.page(cursor).map_err(|error| Fault::invalid_params(error.to_string()))?;
        page.write_head(out.end());
        out.share(page.tools());
        page.write_tail(out.end(), Some(self.asker.hints()));
        Ok(())
    }

    /// Resources and prompts are their sources'.
    async fn pass(&mut self, out: &mut Vec<u8>, outlet: &Outlet) -> Result<(), Fault> {
        let respondent = self.respondent(outlet);
        let asker = &self.asker;
        if self.method.ends_with("/list") {
            asker.await_sources().await;
        }
        let caller = Authority::outside(Some(Arc::clone(&asker.identity)));
        let metadata = self.params.metadata();
        let passing = asker.passing(&caller, respondent.as_ref());
        let passing = Passing { metadata: metadata.as_ref(), ..passing };
        match passing.answer(&self.method, self.raw.as_deref()).await {
            Some(Ok(result)) => {
                out.extend_from_slice(&result);
                Ok(())
            }
            Some(Err(fault)) => Err(fault.about(respondent.as_ref())),
            None => Err(Fault::unknown_method(&self.method)),
        }
    }
}

fn cancelled() -> Fault {
    Fault::new(Fault::CANCELLED, "it was canceled")
}

fn write(out: &mut Vec<u8>, result: &Value) -> Result<(), Fault> {
    serde_json::to_writer(out, result).expect("a value is JSON");
    Ok(())
}

impl Asker {
    /// Resources and prompts as this client sees them.
    pub(super) fn passing<'a>(
        &'a self,
        caller: &'a Authority,
        respondent: Option<&'a Respondent>,
    ) -> Passing<'a> {
        Passing {
            pipeline: self.gateway.pipeline(),
            caller,
            source: self.view.source.as_deref(),
            era: self.era,
            respondent,
            metadata: None,
            patience: self.gateway.0.mcp.settings().patience,
            knows_callers: !self.gateway.authenticator().is_open(),
        }
    }

    /// Says whether there is something to see at all. A source that is just starting is waited for a
    /// moment, since whoever asks for it alone asks for nothing else.
    pub(super) async fn find_source(&self) -> Result<(), Fault> {
        let Some(source) = &self.view.source else { return Ok(()) };
        let registry = self.gateway.pipeline().registry();
        let mut changes = registry.changes();
        let patience = self.gateway.0.mcp.settings().patience;
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            changes.mark_unchanged();
            let catalog = registry.catalog();
            if self.sees(&catalog, source) {
                return Ok(());
            }
            if !catalog.expects(source) {
                let shown: String = source.chars().take(100).collect();
                let words = format!("there is no source `{shown}` here");
                return Err(Fault::invalid_params(words));
            }
            match tokio::time::timeout_at(deadline, changes.changed()).await {
                Ok(Ok(())) => {}
                _ => return Ok(()),
            }
        }
    }

    /// Waits for sources that are still to come, while the gateway is young.
    async fn await_sources(&self) {
        let until = self.gateway.0.mcp.started + self.gateway.0.mcp.settings().start_patience;
        let registry = self.gateway.pipeline().registry();
        let mut changes = registry.changes();
        changes.mark_unchanged();
        while registry.catalog().expects_any() {
            match tokio::time::timeout_at(until, changes.changed()).await {
                Ok(Ok(())) => {}
                _ => return,
            }
        }
    }

    fn sees(&self, catalog: &Catalog, source: &str) -> bool {
        let is_seen = |operation: &Arc<Operation>| {
            operation.spec().access_control.admits(Some(&self.identity))
        };
        catalog.namespace(source).iter().any(is_seen)
    }

    pub(super) fn toolbox(&self) -> Arc<Toolbox> {
        let settings = &self.gateway.0.mcp.settings();
        let catalog = self.gateway.pipeline().registry().catalog();
        let dialect = self.view.dialect.unwrap_or(settings.dialect);
        self.gateway.0.mcp.boxes.get(&catalog, dialect, self.view.source.as_ref(), settings)
    }

    pub(super) fn listing(&self) -> Arc<Listing> {
        let listed = self.view.tools.unwrap_or(self.gateway.0.mcp.settings().tools);
        self.toolbox().listing(listed, self.era, |operation| is_tool(operation, &self.identity))
    }

    fn hints(&self) -> CacheHints {
        let ttl = self.gateway.0.mcp.settings().list_ttl.as_millis();
        let is_open = self.gateway.authenticator().is_open();
        CacheHints {
            ttl_ms: u64::try_from(ttl).unwrap_or(u64::MAX),
            scope: if is_open { CacheScope::Public } else { CacheScope::Private },
        }
    }

    /// The result of `server/discover`.
    fn discovered(&self) -> Value {
        let hints = self.hints();
        self.instructed(json!({
            "resultType": "complete",
            "supportedVersions": VERSIONS,
            "capabilities": capabilities(),
            "ttlMs": hints.ttl_ms,
            "cacheScope": hints.scope.as_str(),
            "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
        }))
    }

    /// The answer to `initialize`.
    pub(super) fn welcome(&self, id: &Id, version: &str) -> Vec<u8> {
        let result = json!({
            "protocolVersion": version,
            "capabilities": capabilities(),
            "serverInfo": server_info(),
        });
        let result = self.instructed(result);
        let mut out = message::begin_result(id);
        out.extend_from_slice(result.to_string().as_bytes());
        out.push(b'}');
        out
    }

    /// The result with what models are told: the operator's words, or what holds for all sources.
    fn instructed(&self, mut result: Value) -> Value {
        let settings = self.gateway.0.mcp.settings();
        let own = settings.instructions.as_deref();
        let usual = self.view.source.is_none().then_some(INSTRUCTIONS);
        if let Some(words) = own.or(usual) {
            result["instructions"] = words.into();
        }
        result
    }
}

/// The version that a client and this door agree on when they shake hands.
pub(super) fn agreed(params: Option<&RawValue>) -> &'static str {
    #[derive(serde::Deserialize)]
    struct Hello {
        #[serde(rename = "protocolVersion")]
        version: String,
    }
    let hello = params.and_then(|params| serde_json::from_str::<Hello>(params.get()).ok());
    let is_wanted = |version: &&str| hello.as_ref().is_some_and(|hello| hello.version == *version);
    VERSIONS.into_iter().skip(1).find(is_wanted).unwrap_or(LATEST_LEGACY)
}

fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
        "completions": {},
        "logging": {},
    })
}

fn server_info() -> Value {
    json!({"name": "toolpost", "title": "Toolpost", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_agrees_on_what_needs_one() {
        for (wanted, expected) in [
            (r#"{"protocolVersion":"2024-11-05"}"#, "2024-11-05"),
            (r#"{"protocolVersion":"2025-11-25"}"#, "2025-11-25"),
            (r#"{"protocolVersion":"2026-07-28"}"#, "2025-11-25"),
            (r#"{"protocolVersion":"1999-01-01"}"#, "2025-11-25"),
            (r#"{"protocolVersion":3}"#, "2025-11-25"),
            ("{}", "2025-11-25"),
        ] {
            let params = RawValue::from_string(wanted.to_owned()).unwrap();
            assert_eq!(agreed(Some(&params)), expected, "{wanted}");
        }
        assert_eq!(agreed(None), "2025-11-25");
    }
}
