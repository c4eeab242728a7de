//! Embeds Toolpost in a program: a function, an HTTP service and an MCP server as operations, called
//! in this process and served by a gateway.
//!
//! Run it with `cargo run -p toolpost-gateway --example embed [ADDRESS [DATA_FOLDER]]`.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use serde_json::json;
use toolpost::{HandlerError, Identity, Operation, Toolpost};
use toolpost_gateway::Gateway;

async fn hello(name: String) -> Result<String, HandlerError> {
    Ok(format!("Hello, {name}!"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7411".to_owned());
    let data = arguments.next().unwrap_or_else(|| "toolpost-data".to_owned());

    let toolpost = Toolpost::builder()
        .operation(Operation::query("hello.greet", hello))
        .openapi("pets", "examples/pets.yaml")
        .mcp_stdio("everything", "npx", ["-y", "@modelcontextprotocol/server-everything"])
        .build()
        .await?; // owns its sources; dropping it closes them

    let trusted = toolpost.call_trusted("hello.greet", json!("Ada")).await?;
    println!("{}", trusted.data);
    let caller = toolpost.caller(Identity::new("ada")); // its access is checked
    println!("{}", caller.call("everything.echo", json!({"message": "hi"})).await?.data);

    let shutdown = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    Gateway::builder(toolpost).journal(data).listen(address).serve(shutdown).await?;
    Ok(())
}
