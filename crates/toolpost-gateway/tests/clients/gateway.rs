//! The gateway that MCP clients are tried against, on standard input and output, in the dialect that
//! is its only argument.
#![allow(dead_code, unused_imports, reason = "what must come of calls is for the tests")]

mod world;

use std::sync::Arc;

use tokio::io::{stdin, stdout};
use toolpost::Identity;
use toolpost::view::Listed;
use toolpost_gateway::McpView;

use world::World;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dialect = std::env::args().nth(1).ok_or("no dialect")?.parse()?;
    let world = World::start().await;
    let mut view = McpView::default();
    (view.tools, view.dialect) = (Some(Listed::All), Some(dialect));
    let identity = Arc::new(Identity::new("local"));
    let forever = std::future::pending();
    world.gateway.serve_mcp(stdin(), stdout(), identity, view, forever).await;
    world.close().await;
    Ok(())
}
