//! An MCP server as a source of operations: connects, lists the tools and reloads them on changes.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::error::RequestError;
use super::import;
use super::method::method_of;
use super::oauth::{Authorizer, CredentialStore};
use super::protocol_version::ProtocolGeneration;
use super::session::{ClientSession, ToolList};
use super::settings::McpSettings;
use super::source_handle::SourceHandle;
use super::subscriptions;
use crate::error::CallError;
use crate::operation::{Operation, SourceKind};
use crate::source::{Source, SourceContext, SourceInfo};

/// Maximum delay between two reloads of a list that changes constantly.
const MAX_RELOAD_INTERVAL: Duration = Duration::from_secs(30);
/// Delay before a failed reload is retried.
const RELOAD_RETRY_DELAY: Duration = Duration::from_secs(5);
/// How long to wait for further list changes, which often arrive in bursts.
const DEBOUNCE: Duration = Duration::from_millis(50);

/// OAuth hooks, provided by the program that starts a source.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct OAuthHooks {
    /// Stores OAuth credentials. If `None`, they are kept in memory.
    pub credentials: Option<Arc<dyn CredentialStore>>,
    /// Runs the user authorization flow. If `None`, only stored tokens are used.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

debug_fields!(_hooks: OAuthHooks);

/// Registers the tools of an MCP server as operations.
#[derive(Debug)]
pub struct McpSource {
    name: String,
    settings: Arc<McpSettings>,
    oauth: OAuthHooks,
    /// State shared with the handlers, once the source runs.
    handle: Option<Arc<SourceHandle>>,
    /// Protocol generation of the server, once known.
    generation: Option<ProtocolGeneration>,
}

impl McpSource {
    /// Creates a source whose operations are in the namespace `name`.
    pub fn new(name: &str, settings: McpSettings) -> Self {
        let (name, settings) = (name.to_owned(), Arc::new(settings));
        Self { name, settings, oauth: OAuthHooks::default(), handle: None, generation: None }
    }

    /// Sets the OAuth hooks.
    #[must_use]
    pub fn oauth(mut self, hooks: OAuthHooks) -> Self {
        self.oauth = hooks;
        self
    }

    /// Connects, serves until the server disconnects, and returns the reason.
    async fn serve(
        &mut self,
        handle: &Arc<SourceHandle>,
        context: &mut SourceContext,
    ) -> Result<String, RequestError> {
        let session = Box::pin(ClientSession::connect(
            handle,
            &self.oauth,
            context.tasks(),
            &mut self.generation,
        ));
        let session = Arc::new(session.await?);
        let listening = session.subscribe_list_changes().await;
        let listed = session.list_tools().await.map_err(|failure| {
            session.transport.stop();
            session.transport.explain(failure)
        })?;
        publish(handle, &session, listed, context).await;
        let reason = run_session(handle, &session, listening, context).await;
        session.transport.drain();
        handle.take_session();
        Ok(reason)
    }
}

impl Source for McpSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Mcp
    }

    fn backoff(&self) -> (Duration, Duration) {
        self.settings.restart
    }

    async fn run(&mut self, context: &mut SourceContext) -> String {
        let settings = &self.settings;
        let handle =
            self.handle.get_or_insert_with(|| Arc::new(SourceHandle::new(context, settings)));
        let handle = Arc::clone(handle);
        let served = self.serve(&handle, context).await;
        let reason = served.unwrap_or_else(|failure| failure.to_string());
        handle.set_down_reason(&reason);
        reason
    }

    async fn drain(&mut self) {
        if let Some(handle) = &self.handle {
            handle.calls.close();
            handle.calls.wait().await;
        }
    }

    fn close(&mut self) {
        let Some(handle) = &self.handle else { return };
        if let Some(session) = handle.close() {
            session.transport.stop();
        }
        handle.subscriptions.close(&CallError::unavailable("the source was closed"));
    }
}

/// Handles list changes until the server disconnects, and returns the reason.
async fn run_session(
    handle: &Arc<SourceHandle>,
    session: &Arc<ClientSession>,
    mut listening: BoxFuture<'static, ()>,
    context: &mut SourceContext,
) -> String {
    let maintaining = subscriptions::maintain(Arc::clone(handle), Arc::clone(session));
    let _maintain_task = AbortOnDropHandle::new(context.tasks().spawn(maintaining));
    let mut closed = std::pin::pin!(session.transport.closed());
    loop {
        // Limits the rate at which lists are reloaded or republished.
        let pause = tokio::select! {
            reason = &mut closed => return reason,
            () = &mut listening => continue,
            parts = session.lists_changed() => {
                context.republish(|operation| {
                    let method = method_of(operation.spec());
                    method.is_some_and(|method| parts.iter().any(|part| method.starts_with(part)))
                });
                DEBOUNCE * 5
            }
            () = context.hooks_changed() => {
                if let Some(info) = context.info() {
                    let tools = info.tools.clone();
                    let listed = ToolList { tools, warnings: Vec::new() };
                    publish(handle, session, listed, context).await;
                }
                continue;
            }
            () = session.tools_changed().notified() => {
                let reading = Instant::now();
                let listed = tokio::select! {
                    reason = &mut closed => return reason,
                    listed = reload_tools(session) => listed,
                };
                match listed {
                    Some(listed) if is_changed(&listed, context) => {
                        publish(handle, session, listed, context).await;
                    }
                    _ => {}
                }
                (reading.elapsed() * 5).min(MAX_RELOAD_INTERVAL)
            }
        };
        tokio::select! {
            reason = &mut closed => return reason,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn is_changed(listed: &ToolList, context: &SourceContext) -> bool {
    context.info().is_none_or(|info| info.tools != listed.tools)
}

/// Lists the tools again. A failure is retried later.
async fn reload_tools(session: &ClientSession) -> Option<ToolList> {
    tokio::time::sleep(DEBOUNCE).await;
    let failure = match session.list_tools().await {
        Ok(listed) => return Some(listed),
        Err(failure) => failure.to_string(),
    };
    tracing::warn!(source = session.source(), failure, "failed to reload the tool list");
    tokio::time::sleep(RELOAD_RETRY_DELAY).await;
    session.tools_changed().notify_one();
    None
}

/// Publishes the listed tools. Parsing many schemas is slow, so it runs on a blocking thread.
async fn publish(
    handle: &Arc<SourceHandle>,
    session: &Arc<ClientSession>,
    listed: ToolList,
    context: &mut SourceContext,
) {
    let hooks = context.hooks().get();
    let (importing, reading) = (Arc::clone(handle), Arc::clone(session));
    let importing = tokio::task::spawn_blocking(move || {
        (import::import(&importing, &reading, &listed, &hooks), listed)
    });
    let Ok((import, listed)) = importing.await else { return };
    for warning in &import.warnings {
        tracing::warn!(source = &*handle.name, warning, "source import warning");
    }
    let server = &session.server;
    let info = SourceInfo {
        title: server.name.clone(),
        version: server.version.clone(),
        protocol: server.protocol.version.clone(),
        instructions: server.instructions.clone(),
        tools: listed.tools,
        resources: server.has_capability("resources"),
        prompts: server.has_capability("prompts"),
        warnings: import.warnings,
        ..SourceInfo::default()
    };
    handle.set_session(Arc::clone(session));
    let is_same = |before: &Operation, now: &Operation| {
        before.spec() == now.spec() && before.policy() == now.policy()
    };
    context.publish(import.operations, info, is_same).await;
}
