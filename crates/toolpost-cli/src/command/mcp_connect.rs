//! MCP servers that a command starts and waits for.

use std::io::IsTerminal;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use toolpost::mcp::{FileStore, LoopbackAuthorizer};
use toolpost_gateway::{DataDir, McpEnv};

use crate::arguments::WATCH_CHILD;
use crate::output;

/// Whether a user can complete an OAuth authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuthorizationMode {
    /// The user authorizes in a browser.
    Interactive,
    /// No user is present. Stored credentials are still used.
    NonInteractive,
}

/// Creates the environment shared by all MCP servers that this process starts.
pub(super) async fn mcp_env(mode: AuthorizationMode) -> McpEnv {
    let mut environment = McpEnv::default();
    // Without a watcher, servers stop when this process exits, but not when it is killed.
    if let Ok(ourselves) = std::env::current_exe() {
        environment.watcher = vec![ourselves.into(), WATCH_CHILD.into()];
    }
    if let Ok(folder) = DataDir::user_default() {
        let store = FileStore::new(folder.join("credentials.json"));
        environment.oauth.credentials = Some(Arc::new(store));
    }
    if mode == AuthorizationMode::Interactive {
        match LoopbackAuthorizer::bind(0, |address| open_in_browser(address.as_str())).await {
            Ok(loopback) => environment.oauth.authorizer = Some(Arc::new(loopback)),
            Err(error) => tracing::warn!(%error, "interactive authorization is not available"),
        }
    }
    environment
}

pub(super) fn spinner(message: String) -> ProgressBar {
    let bar = progress_bar();
    bar.set_style(progress_style("{spinner} {msg} ({elapsed})"));
    bar.set_message(message);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// A progress bar on the terminal. Dropping it removes it.
pub(super) fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.with_finish(ProgressFinish::AndClear)
}

pub(super) fn progress_style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// Prints the authorization URL and opens it in a browser if standard error is a terminal.
fn open_in_browser(address: &str) {
    output::notice(&format!("To authorize, open {address}"));
    if !std::io::stderr().is_terminal() {
        return;
    }
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    // The URL is already printed, so a missing browser is not an error.
    let _ = Command::new(program)
        .arg(address)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
}
