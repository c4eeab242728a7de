//! Builder methods for MCP servers.

use super::{BuildError, ToolpostBuilder};
use crate::mcp::{HttpSettings, McpSettings, McpSource, McpTransport, StdioSettings};
use crate::source::{RunningSource, SourceHooks};

impl ToolpostBuilder {
    /// Adds an MCP server that runs as a child process. Its operations are in the namespace `name`.
    ///
    /// The process is terminated when the [`Toolpost`](super::Toolpost) is dropped. If this program
    /// is killed with SIGKILL, only the standard input of the process is closed. To terminate the
    /// process and all its descendants in that case too, call
    /// [`watch_child`](crate::mcp::watch_child) in `main`, and pass an [`McpSource`] with
    /// [`StdioSettings::watcher`] to [`ToolpostBuilder::source`].
    pub fn mcp_stdio(
        self,
        name: &str,
        command: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let stdio = StdioSettings::new(command, args);
        self.source(McpSource::new(name, McpSettings::new(McpTransport::Stdio(stdio))))
    }

    /// Adds an MCP server over streamable HTTP. Its operations are in the namespace `name`.
    pub fn mcp_http(self, name: &str, url: &str) -> Self {
        let (name, url) = (name.to_owned(), url.parse());
        self.start_with(move |registry| {
            let url = url.map_err(|error: url::ParseError| BuildError::Settings {
                name: name.clone(),
                reason: error.to_string(),
            })?;
            let settings = McpSettings::new(McpTransport::Http(HttpSettings::new(url)));
            let source = McpSource::new(&name, settings);
            Ok(RunningSource::start(registry, source, SourceHooks::default()))
        })
    }
}
