//! The gateway under test on standard input and output. Its only argument is the dialect.
#![allow(dead_code, unused_imports, reason = "the expected results are used only by the tests")]

mod fixture;

use std::sync::Arc;

use tokio::io::{stdin, stdout};
use toolpost::Identity;
use toolpost::view::ListMode;
use toolpost_gateway::McpView;

use fixture::Fixture;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dialect = std::env::args().nth(1).ok_or("no dialect")?.parse()?;
    let fixture = Fixture::start().await;
    let mut view = McpView::default();
    (view.tools, view.dialect) = (Some(ListMode::All), Some(dialect));
    let identity = Arc::new(Identity::new("local"));
    let forever = std::future::pending();
    fixture.gateway.serve_mcp(stdin(), stdout(), identity, view, forever).await;
    fixture.close().await;
    Ok(())
}
