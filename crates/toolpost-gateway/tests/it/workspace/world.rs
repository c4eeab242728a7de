//! A gateway with rooms, people and operations, and a folder in which it keeps what it must.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolpost::{
    AccessControl, CallContext, CallError, Change, HandlerError, Operation, OperationBuilder,
    Progress, Registry,
};
use toolpost_gateway::auth::TokenHash;
use toolpost_gateway::config::Config;
use toolpost_gateway::room::{RoomSettings, WorkspaceSettings};
use toolpost_gateway::{Setup, builtin};

use super::super::{Running, client};
use super::client::{Client, Family, Joining, Refused};

/// Everybody who has a token, `tpt_` and his name: what he may in general, and in rooms, in either
/// notation.
const PEOPLE: &[(&str, &[&str], &[&str])] = &[
    ("agent", &[], &["mcp/proposal:*", "chat"]),
    (
        "human",
        &["bank"],
        &[r#"{"kind":"mcp/request"}"#, r#"{"kind":"mcp/reject"}"#, r#"{"kind":"chat"}"#],
    ),
    ("files", &[], &["mcp/response:*", "chat"]),
    // Nothing is said about them, so that what is usual in a room holds.
    ("late", &[], &[]),
    ("later", &[], &[]),
    // Everything.
    ("ada", &["bank"], &["*"]),
    ("bob", &["bank"], &[r#"{"kind":"*"}"#]),
    ("carl", &[], &["*"]),
    // Very little.
    ("guest", &[], &["chat"]),
    ("talker", &[], &["chat", r#"{"kind":"capability/*"}"#, "mcp/request:tools/call:read_*"]),
    ("host", &[], &["chat", "space/*"]),
    // Calls operations: of one the scope is lacking, of the other the capability.
    ("clerk", &["bank"], &["mcp/request:tools/list", "mcp/request:tools/call:demo__*", "chat"]),
    ("poor", &[], &["mcp/request", "chat"]),
    ("decider", &["toolpost:approve"], &["mcp/request"]),
    ("weak", &["toolpost:approve"], &["chat"]),
    ("auditor", &["toolpost:read"], &["chat"]),
];

pub(super) struct World {
    pub(super) running: Running,
    pub(super) slow: Arc<Slow>,
    administered: toolpost_gateway::Running,
    http: reqwest::Client,
    data: PathBuf,
    settings: WorkspaceSettings,
}

/// What the slow operation is told, and tells.
#[derive(Debug)]
pub(super) struct Slow {
    /// How many calls may end.
    pub(super) may_end: Semaphore,
    /// How many were canceled.
    pub(super) cancelled: Semaphore,
}

impl World {
    pub(super) async fn start() -> Self {
        Self::with(rooms([])).await
    }

    pub(super) async fn with(settings: WorkspaceSettings) -> Self {
        static WORLDS: AtomicUsize = AtomicUsize::new(0);
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let name = format!("toolpost-workspace-{}-{number}", std::process::id());
        Self::serve(std::env::temp_dir().join(name), settings).await
    }

    async fn serve(data: PathBuf, settings: WorkspaceSettings) -> Self {
        let text: String = PEOPLE.iter().map(described).collect();
        let text = format!("[limits]\nconnections = 4096\nintroduction = \"60s\"\n{text}");
        let mut config = Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap();
        config.workspace = settings.clone();
        let slow = Arc::new(Slow { may_end: Semaphore::new(0), cancelled: Semaphore::new(0) });
        let registry = registry(&slow);
        let setup = Setup::new(registry, config);
        let administered = setup.journal(&data).unwrap().start();
        let running = Running::serve(administered.gateway().clone(), "127.0.0.1:0").await;
        Self { running, slow, administered, http: client(), data, settings }
    }

    pub(super) async fn join(&self, family: Family, who: &str, room: &str) -> Client {
        self.enter(Joining::new(family, who, room)).await.unwrap()
    }

    pub(super) async fn enter(&self, joining: Joining) -> Result<Client, Refused> {
        joining.enter(self.running.address).await
    }

    /// Reads over HTTP: the status, and the body.
    pub(super) async fn get(&self, who: &str, path: &str) -> (u16, Value) {
        let request = self.http.get(self.running.url(path)).bearer_auth(format!("tpt_{who}"));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// As it is written.
    pub(super) async fn get_text(&self, who: &str, path: &str) -> String {
        let request = self.http.get(self.running.url(path)).bearer_auth(format!("tpt_{who}"));
        request.send().await.unwrap().text().await.unwrap()
    }

    pub(super) async fn get_as_nobody(&self, path: &str) -> u16 {
        self.http.get(self.running.url(path)).send().await.unwrap().status().as_u16()
    }

    /// Calls an operation over HTTP: the status, and the body.
    pub(super) async fn call(&self, who: &str, operation: &str, input: &Value) -> (u16, Value) {
        let path = format!("/api/{}", operation.replace('.', "/"));
        let request = self.http.post(self.running.url(&path)).json(input);
        let response = request.bearer_auth(format!("tpt_{who}")).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// What was said in a room, newest first.
    pub(super) async fn history(&self, room: &str) -> Vec<Value> {
        let path = format!("/v0.1/topics/{room}/history?limit=1000");
        let (status, mut body) = self.get("ada", &path).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(body["messages"], body["history"]);
        serde_json::from_value(body["messages"].take()).unwrap()
    }

    /// Ends the gateway and starts another one on what it left.
    pub(super) async fn restart(self) -> Self {
        assert!(self.running.stop().await.in_time);
        self.administered.close(Duration::from_secs(5)).await;
        Self::serve(self.data, self.settings).await
    }

    pub(super) async fn stop(self) {
        assert!(self.running.stop().await.in_time);
        self.administered.close(Duration::from_secs(5)).await;
        let _ = std::fs::remove_dir_all(self.data);
    }
}

/// A workspace in which these rooms are other than usual.
pub(super) fn rooms<const N: usize>(
    named: [(&str, fn(&mut RoomSettings)); N],
) -> WorkspaceSettings {
    let mut settings = WorkspaceSettings::default();
    for (name, change) in named {
        let mut room = RoomSettings::default();
        change(&mut room);
        settings.rooms.insert(name.to_owned(), room);
    }
    settings
}

fn described((name, scopes, capabilities): &(&str, &[&str], &[&str])) -> String {
    let hash = TokenHash::of(&format!("tpt_{name}"));
    let (scopes, capabilities) = (json!(scopes), json!(capabilities));
    format!(
        "[identity.{name}]\ntoken_hash = \"{hash}\"\nscopes = {scopes}\ncapabilities = {capabilities}\n"
    )
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// The built-in operations, one that needs a scope, one that somebody has to agree to, and one that is
/// slow.
fn registry(slow: &Arc<Slow>) -> Registry {
    let mut access = AccessControl::default();
    access.required_scopes.push("bank".to_owned());
    let own = [
        Operation::mutation("bank.pay", pay).access(access),
        Operation::mutation("bank.lend", pay).needs_approval(),
        count(slow),
    ];
    let registry = builtin::registry();
    registry.apply(own.map(|builder| Change::Register(builder.build().unwrap()))).unwrap();
    registry
}

async fn pay(context: CallContext, _: Nothing) -> Result<Value, HandlerError> {
    let who = context.identity().map(|identity| identity.id.clone());
    Ok(json!({"paid_by": who}))
}

/// Tells how far it is, and ends when it may or is not wanted any more.
fn count(slow: &Arc<Slow>) -> OperationBuilder {
    let slow = Arc::clone(slow);
    Operation::mutation("bank.count", move |context: CallContext, _: Nothing| {
        let slow = Arc::clone(&slow);
        async move {
            context.report(Progress::new(1.0).of(2.0));
            tokio::select! {
                permit = slow.may_end.acquire() => {
                    permit.unwrap().forget();
                    Ok::<_, HandlerError>(json!({"counted": 2}))
                }
                () = context.cancelled() => {
                    slow.cancelled.add_permits(1);
                    Err(CallError::aborted("it was canceled").into())
                }
            }
        }
    })
}
