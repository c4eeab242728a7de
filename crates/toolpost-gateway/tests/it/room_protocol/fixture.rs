//! A gateway with rooms, identities, operations and a data folder.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolpost::{
    AccessControl, CallContext, CallError, Change, HandlerError, Operation, OperationBuilder,
    Progress, Registry, Schema,
};
use toolpost_gateway::auth::TokenHash;
use toolpost_gateway::config::Config;
use toolpost_gateway::room::{RoomName, RoomSettings, RoomsSettings};
use toolpost_gateway::{Gateway, builtin};

use super::super::{TestGateway, client};
use super::client::{Client, Family, JoinError, JoinOptions};

/// Identities with their scopes and room capabilities in either notation; the token is `tpt_NAME`.
const IDENTITIES: &[(&str, &[&str], &[&str])] = &[
    ("agent", &[], &["mcp/proposal:*", "chat"]),
    (
        "human",
        &["bank"],
        &[r#"{"kind":"mcp/request"}"#, r#"{"kind":"mcp/reject"}"#, r#"{"kind":"chat"}"#],
    ),
    ("files", &[], &["mcp/response:*", "chat"]),
    // No capabilities of their own, so the room defaults apply.
    ("late", &[], &[]),
    ("later", &[], &[]),
    // Everything.
    ("ada", &["bank"], &["*"]),
    ("bob", &["bank"], &[r#"{"kind":"*"}"#]),
    ("carl", &[], &["*"]),
    // Calls, grants and invites, each limited to some addressees.
    (
        "limited",
        &[],
        &[
            "chat",
            r#"{"kind":"mcp/request:tools/call:*","to":["files","tool-*"]}"#,
            r#"{"kind":["capability/*","space/*"],"to":"guest"}"#,
        ],
    ),
    // Very little.
    ("guest", &[], &["chat"]),
    ("talker", &[], &["chat", r#"{"kind":"capability/*"}"#, "mcp/request:tools/call:read_*"]),
    ("host", &[], &["chat", "space/*"]),
    // Both call operations: `clerk` lacks the capability for `bank.pay`, `poor` lacks the scope.
    ("clerk", &["bank"], &["mcp/request:tools/list", "mcp/request:tools/call:demo__*", "chat"]),
    ("poor", &[], &["mcp/request", "chat"]),
    ("decider", &["toolpost:approve"], &["mcp/request", "mcp/proposal:*"]),
    ("weak", &["toolpost:approve"], &["chat"]),
    // Can approve and invite.
    ("sponsor", &["toolpost:approve"], &["*"]),
    ("auditor", &["toolpost:read"], &["chat"]),
];

pub(super) struct RoomFixture {
    pub(super) server: TestGateway,
    pub(super) slow_operation: Arc<SlowOperation>,
    http: reqwest::Client,
    data: PathBuf,
    settings: RoomsSettings,
}

/// Controls and observes the blocking operation.
#[derive(Debug)]
pub(super) struct SlowOperation {
    /// One permit for each call that can finish.
    pub(super) finish_permits: Semaphore,
    /// One permit for each canceled call.
    pub(super) cancellations: Semaphore,
}

impl RoomFixture {
    pub(super) async fn start() -> Self {
        Self::with(rooms_settings([])).await
    }

    pub(super) async fn with(settings: RoomsSettings) -> Self {
        static NEXT_FIXTURE: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT_FIXTURE.fetch_add(1, Ordering::Relaxed);
        let name = format!("toolpost-rooms-{}-{number}", std::process::id());
        Self::serve(std::env::temp_dir().join(name), settings).await
    }

    async fn serve(data: PathBuf, settings: RoomsSettings) -> Self {
        let text: String = IDENTITIES.iter().map(identity_config).collect();
        let limits = "connections = 4096\ncaller_connections = 2048\nauth_timeout = \"60s\"";
        let text = format!("[limits]\n{limits}\n{text}");
        let mut config = Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap();
        config.rooms = settings.clone();
        let slow_operation = Arc::new(SlowOperation {
            finish_permits: Semaphore::new(0),
            cancellations: Semaphore::new(0),
        });
        let registry = registry(&slow_operation);
        let builder = Gateway::builder(registry).config(config).journal(&data);
        let server = TestGateway::serve(builder, "127.0.0.1:0").await;
        Self { server, slow_operation, http: client(), data, settings }
    }

    pub(super) async fn join(&self, family: Family, caller: &str, room: &str) -> Client {
        self.join_with(JoinOptions::new(family, caller, room)).await.unwrap()
    }

    pub(super) async fn join_with(&self, options: JoinOptions) -> Result<Client, JoinError> {
        options.join(self.server.address).await
    }

    /// Sends a GET request and returns the status and the JSON body.
    pub(super) async fn get(&self, caller: &str, path: &str) -> (u16, Value) {
        let request = self.http.get(self.server.url(path)).bearer_auth(format!("tpt_{caller}"));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Sends a GET request and returns the body as text.
    pub(super) async fn get_text(&self, caller: &str, path: &str) -> String {
        let request = self.http.get(self.server.url(path)).bearer_auth(format!("tpt_{caller}"));
        request.send().await.unwrap().text().await.unwrap()
    }

    pub(super) async fn get_anonymous(&self, path: &str) -> u16 {
        self.http.get(self.server.url(path)).send().await.unwrap().status().as_u16()
    }

    /// Calls an operation over HTTP and returns the status and the body.
    pub(super) async fn call(&self, caller: &str, operation: &str, input: &Value) -> (u16, Value) {
        let path = format!("/api/{}", operation.replace('.', "/"));
        let request = self.http.post(self.server.url(&path)).json(input);
        let response = request.bearer_auth(format!("tpt_{caller}")).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Returns the history of a room, newest first.
    pub(super) async fn history(&self, room: &str) -> Vec<Value> {
        let path = format!("/v0.1/topics/{room}/history?limit=1000");
        let (status, mut body) = self.get("ada", &path).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(body["messages"], body["history"]);
        serde_json::from_value(body["messages"].take()).unwrap()
    }

    /// Stops the gateway and starts another one on the same data folder.
    pub(super) async fn restart(self) -> Self {
        assert!(self.server.stop().await.in_time);
        Self::serve(self.data, self.settings).await
    }

    pub(super) async fn stop(self) {
        assert!(self.server.stop().await.in_time);
        let _ = std::fs::remove_dir_all(self.data);
    }
}

/// Returns settings in which these rooms differ from the defaults.
pub(super) fn rooms_settings<const N: usize>(
    room_changes: [(&str, fn(&mut RoomSettings)); N],
) -> RoomsSettings {
    let mut settings = RoomsSettings::default();
    for (name, change) in room_changes {
        let mut room = RoomSettings::default();
        change(&mut room);
        settings.rooms.insert(RoomName::parse(name).unwrap(), room);
    }
    settings
}

fn identity_config((name, scopes, capabilities): &(&str, &[&str], &[&str])) -> String {
    let hash = TokenHash::of(&format!("tpt_{name}"));
    let (scopes, capabilities) = (json!(scopes), json!(capabilities));
    format!(
        "[identity.{name}]\ntoken_hash = \"{hash}\"\nscopes = {scopes}\ncapabilities = {capabilities}\n"
    )
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct NoInput {}

/// The built-in operations, one that needs a scope, one that needs approval, one with a secret in its
/// input, and one that blocks.
fn registry(slow_operation: &Arc<SlowOperation>) -> Registry {
    let mut access = AccessControl::default();
    access.required_scopes.push("bank".to_owned());
    let secret_input =
        json!({"type": "object", "properties": {"pin": {"type": "string", "writeOnly": true}}});
    let own = [
        Operation::mutation("bank.pay", report_payer).access(access),
        Operation::mutation("bank.lend", report_payer).needs_approval(),
        Operation::mutation("bank.unlock", async |_: Value| Ok::<_, HandlerError>(json!({})))
            .schemas(Schema::new(secret_input).unwrap(), Schema::unknown()),
        count_operation(slow_operation),
        prompt_list_operation(),
    ];
    let registry = builtin::registry();
    registry.apply(own.map(|builder| Change::Register(builder.build().unwrap()))).unwrap();
    registry
}

/// The prompts of an MCP server.
fn prompt_list_operation() -> OperationBuilder {
    let meta = json!({"toolpost/method": "prompts/list"});
    let list = async |_: Value| Ok::<_, HandlerError>(json!({"prompts": [{"name": "greet"}]}));
    Operation::query("notes.prompts/list", list).meta(meta.as_object().unwrap().clone())
}

async fn report_payer(context: CallContext, _: NoInput) -> Result<Value, HandlerError> {
    let caller = context.identity().map(|identity| identity.id.clone());
    Ok(json!({"paid_by": caller}))
}

/// Reports progress, then waits until it is released or canceled.
fn count_operation(slow_operation: &Arc<SlowOperation>) -> OperationBuilder {
    let slow_operation = Arc::clone(slow_operation);
    Operation::mutation("bank.count", move |context: CallContext, _: NoInput| {
        let slow_operation = Arc::clone(&slow_operation);
        async move {
            context.report(Progress::new(1.0).with_total(2.0));
            tokio::select! {
                permit = slow_operation.finish_permits.acquire() => {
                    permit.unwrap().forget();
                    Ok::<_, HandlerError>(json!({"counted": 2}))
                }
                () = context.canceled() => {
                    slow_operation.cancellations.add_permits(1);
                    Err(CallError::aborted("it was canceled").into())
                }
            }
        }
    })
}
