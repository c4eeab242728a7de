//! Operations of a program: a query, a subscription, a declared error, and an operation that calls
//! other operations.
//!
//! Run it with `cargo run -p toolpost --example operations`.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use futures::{Stream, StreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolpost::{
    CallContext, DomainError, ErrorDefinition, HandlerError, Operation, Toolpost, build_env,
};

#[derive(Deserialize, JsonSchema)]
struct Order {
    item: String,
    count: u32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Receipt {
    total: u32,
}

/// Returns the price of one of two items; any other item is an error declared by the operation.
async fn price(item: String) -> Result<u32, HandlerError> {
    match item.as_str() {
        "tea" => Ok(3),
        "cake" => Ok(5),
        other => Err(DomainError::new("NOT_SOLD", format!("we do not sell {other}")).into()),
    }
}

/// Calls another operation. The nested call has its own id, inherits the deadline of this call, and
/// ends with it.
async fn buy(context: CallContext, order: Order) -> Result<Receipt, HandlerError> {
    let env = build_env(&context, ["shop"]);
    let price = env.call_trusted_as::<u32>("shop.price", &order.item).await?.data;
    Ok(Receipt { total: price * order.count })
}

fn countdown(from: u32) -> impl Stream<Item = Result<u32, HandlerError>> {
    futures::stream::iter((0..=from).rev().map(Ok))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let toolpost = Toolpost::builder()
        .operation(
            Operation::query("shop.price", price)
                .description("What one of them costs")
                .raises(ErrorDefinition::new("NOT_SOLD", "Not for sale")),
        )
        .operation(Operation::mutation("shop.buy", buy))
        .operation(Operation::subscription("demo.countdown", countdown))
        .build()
        .await?;
    let pipeline = toolpost.pipeline();

    let order = json!({"item": "cake", "count": 2});
    let receipt = pipeline.call_trusted_as::<Receipt>("shop.buy", &order).await?;
    println!("total {} from {}", receipt.data.total, receipt.meta.source());

    let rejected = pipeline.call_trusted("shop.buy", json!({"item": "hats", "count": 1})).await;
    if let Err(error) = rejected {
        println!("{error}");
    }

    let mut values = pipeline.subscribe("demo.countdown", json!(2));
    while let Some(value) = values.next().await {
        println!("{}", value?.data);
    }
    Ok(())
}
