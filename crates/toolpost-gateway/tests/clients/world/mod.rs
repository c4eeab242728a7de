//! A gateway with operations of every odd shape, and what a client must see of each.
//!
//! | file | holds |
//! |---|---|
//! | `odd` | operations that do what their input asks for; their shapes are in `odd.json` |
//! | `upstream` | an MCP server with odd tools, whose results are in `upstream.json` |
//! | `calls` | every call that is made, and what must come of it |

mod calls;
mod odd;
mod upstream;

use std::path::Path;
use std::time::Duration;

use toolpost::mcp::{McpSettings, McpSource, McpTransport, SourceHooks, StdioSettings};
use toolpost::{Pipeline, Registry};
use toolpost_gateway::{Gateway, GatewaySettings};

pub(crate) use calls::{Call, Expect, calls, tools};
pub(crate) use odd::Stands;

/// How long the MCP server may take to be there.
const PATIENCE: Duration = Duration::from_secs(60);

/// The gateway, and the source that ends with its owner.
pub(crate) struct World {
    pub(crate) gateway: Gateway,
    source: McpSource,
}

impl World {
    /// A gateway that has everything.
    pub(crate) async fn start() -> Self {
        let registry = Registry::new();
        for odd in odd::odds() {
            registry.register(odd.operation()).expect("every odd operation has its own id");
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/upstream.py");
        // Nothing but the language itself, since it is started often.
        let server = StdioSettings::new("python3", ["-I", "-S", &*script.to_string_lossy()]);
        let settings = McpSettings::new(McpTransport::Stdio(server));
        let hooks = SourceHooks::default();
        let source = McpSource::start(&registry, upstream::NAME, settings, hooks);
        let found = source.ready(PATIENCE).await.expect("the MCP server starts");
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        let gateway = Gateway::with(Pipeline::new(registry), GatewaySettings::default());
        Self { gateway, source }
    }

    /// Ends the MCP server.
    pub(crate) async fn close(self) {
        self.source.close().await;
    }
}
