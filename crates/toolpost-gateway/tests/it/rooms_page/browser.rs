//! The rooms page in Chromium: `page.mjs` operates it like a user, alongside agents and tools.

use serde_json::{Value, json};
use toolpost::{HandlerError, Identity, Operation};
use toolpost_gateway::auth::{Authenticator, TokenHash};
use toolpost_gateway::{Gateway, admin, builtin};

use crate::TestGateway;
use crate::browser::run_page_script;

/// Identities with their room capabilities; the token is `tpt_NAME`.
fn identities() -> impl Iterator<Item = (TokenHash, Identity)> {
    // The page cannot check this capability; the gateway rejects the message.
    let narrow = r#"{"kind":"mcp/request","payload":{"params":{"arguments":{"a":"/^x/"}}}}"#;
    let all = [
        ("ada", vec!["*"]),
        ("agent", vec![]),
        ("files", vec!["mcp/response", "chat"]),
        ("bob", vec!["chat", "mcp/proposal", narrow]),
    ];
    let known = all.map(|(name, may)| {
        let scopes = if name == "ada" { vec![admin::scope::APPROVE] } else { vec![] };
        let identity = Identity::new(name).with_capabilities(may).with_scopes(scopes);
        (TokenHash::of(&format!("tpt_{name}")), identity)
    });
    known.into_iter()
}

/// A gateway with identities and an operation that needs approval.
async fn gateway_with_tokens() -> TestGateway {
    let pay = Operation::mutation("bank.pay", async |input: Value| {
        Ok::<_, HandlerError>(json!({"paid": input["amount"]}))
    });
    let pay = pay.needs_approval().build().unwrap();
    let registry = builtin::registry();
    registry.register(pay).unwrap();
    let builder =
        Gateway::builder(registry).authenticator(Authenticator::with_tokens(identities()));
    TestGateway::serve(builder, "127.0.0.1:0").await
}

#[tokio::test(flavor = "multi_thread")]
async fn rooms_page_works_in_chromium() {
    let (open, closed) = (TestGateway::start().await, gateway_with_tokens().await);
    run_page_script("rooms_page/page.mjs", json!({"open": open.url(""), "closed": closed.url("")}))
        .await;
    for gateway in [open, closed] {
        assert!(gateway.stop().await.in_time);
    }
}
