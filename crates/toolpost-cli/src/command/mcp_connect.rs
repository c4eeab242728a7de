//! MCP servers that a command starts itself, and waits for.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use toolpost::mcp::{
    CredentialStore, FileStore, LoopbackAuthorizer, McpSource, McpSourceStatus, ServerInfo,
};
use toolpost_gateway::{DataDir, McpEnv};

use crate::output;

/// Who can be asked to agree when a server wants authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthorizationMode {
    /// The person at the keyboard, in a browser.
    Interactive,
    /// Nobody; what was agreed before still holds.
    NonInteractive,
}

/// What every server that this process starts is given.
pub(super) async fn mcp_env(mode: AuthorizationMode) -> McpEnv {
    let mut environment = McpEnv::default();
    // Without a watcher a server still ends with us, unless we are killed.
    if let Ok(ourselves) = std::env::current_exe() {
        environment.watcher = vec![ourselves.into(), "watch-child".into()];
    }
    environment.credentials =
        credentials_path().map(|file| Arc::new(FileStore::new(file)) as Arc<dyn CredentialStore>);
    if mode == AuthorizationMode::Interactive {
        match LoopbackAuthorizer::bind(0, |address| open_in_browser(address.as_str())).await {
            Ok(loopback) => environment.authorizer = Some(Arc::new(loopback)),
            Err(error) => tracing::warn!(%error, "interactive authorization is not available"),
        }
    }
    environment
}

/// Waits until the server has listed its tools. A server that is down at first is not waited for:
/// whoever types a command wants to know.
///
/// # Errors
///
/// Why it is not there.
pub(super) async fn wait_until_ready(
    server: &McpSource,
    timeout: Duration,
) -> Result<Arc<ServerInfo>, String> {
    let mut status = server.status();
    let down = async {
        loop {
            if let McpSourceStatus::Down { reason, .. } = &*status.borrow_and_update() {
                return reason.clone();
            }
            if status.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        biased;
        found = server.ready(timeout) => found.map_err(|error| error.message().to_owned()),
        reason = down => Err(reason),
    }
}

/// Something that turns on a terminal while somebody is waited for. Dropping it takes it away.
pub(super) struct Spinner(ProgressBar);

impl Spinner {
    pub(super) fn new(message: String) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_message(message);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Where what authorization servers gave is kept, for this person on this machine.
fn credentials_path() -> Option<PathBuf> {
    Some(DataDir::user_default().ok()?.join("credentials.json"))
}

/// Tells where to agree, and opens it where somebody can see it.
fn open_in_browser(address: &str) {
    output::notice(&format!("To allow this, open {address}"));
    if !std::io::stderr().is_terminal() {
        return;
    }
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    // The address has been told; a machine without a browser is no failure.
    let _ = Command::new(program)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
}
