//! Somebody of every kind, and an operation of every kind from every kind of source.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolpost::hub::SpokeSession;
use toolpost::{
    AccessControl, Change, Handler, HandlerError, Identity, Kind, OperationSpec, Output, Schema,
};
use toolpost_gateway::auth::{Authenticator, Token, TokenHash};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Setup, admin, builtin};

use super::super::jwt::{Issuer, Signer};
use super::super::spokes::spoke;
use super::super::{Running, client};

/// What an operation asks for.
#[derive(Clone, Copy)]
pub(super) enum Need {
    Nothing,
    All(&'static [&'static str]),
    Any(&'static [&'static str]),
    /// To read this document, which the input names.
    Document(&'static str),
}

pub(super) struct Operation {
    pub(super) id: &'static str,
    pub(super) kind: Kind,
    pub(super) need: Need,
    /// What becomes of the call of somebody who may.
    pub(super) outcome: &'static str,
    input: &'static str,
}

impl Operation {
    pub(super) fn input(&self) -> Value {
        serde_json::from_str(self.input).unwrap()
    }

    pub(super) fn is_tool(&self) -> bool {
        !self.id.starts_with("gateway.")
    }

    const fn changes(mut self) -> Self {
        self.kind = Kind::Mutation;
        self
    }

    const fn streams(mut self) -> Self {
        self.kind = Kind::Subscription;
        self
    }

    const fn ends(mut self, outcome: &'static str) -> Self {
        self.outcome = outcome;
        self
    }

    /// Nobody decides, and the time for it is short.
    const fn waits(self) -> Self {
        self.ends("TIMEOUT")
    }
}

const fn op(id: &'static str, need: Need, input: &'static str) -> Operation {
    Operation { id, kind: Kind::Query, need, outcome: "ok", input }
}

const ADD: &str = r#"{"a": 2, "b": 3}"#;
const SLOW: &str = r#"{"ms": 1}"#;
const NOBODYS: &str = r#"{"id": "nobody"}"#;
const READ: Need = Need::All(&[admin::scope::READ]);
const APPROVE: Need = Need::All(&[admin::scope::APPROVE]);
const ADMIN: Need = Need::All(&[admin::scope::ADMIN]);

/// Mostly queries, which every method of HTTP reaches.
pub(super) const OPERATIONS: &[Operation] = &[
    op("demo.add", Need::Nothing, ADD),
    op("hub.list", Need::Nothing, "{}"),
    op("t.open", Need::Nothing, "{}"),
    op("t.all", Need::All(&["a", "b"]), "{}"),
    op("t.one", Need::All(&["a"]), "{}"),
    op("t.any", Need::Any(&["a", "x"]), "{}"),
    op("t.document", Need::Document("1"), r#"{"id": "1"}"#),
    op("t.document", Need::Document("2"), r#"{"id": "2"}"#),
    op("t.waits", Need::All(&["a"]), "{}").waits(),
    op("t.waits_for_all", Need::Nothing, "{}").waits(),
    op("t.change", Need::All(&["a"]), "{}").changes(),
    op("t.change_open", Need::Nothing, "{}").changes(),
    op("t.stream", Need::All(&["a"]), "{}").streams(),
    op("t.stream_open", Need::Nothing, "{}").streams(),
    // All that is about the gateway itself.
    op("gateway.sources", READ, "{}"),
    op("gateway.logs", READ, "{}").streams(),
    op("gateway.journal", READ, r#"{"limit": 1}"#),
    op("gateway.verify", READ, "{}"),
    op("gateway.replay", ADMIN, NOBODYS).changes().ends("VALIDATION_ERROR"),
    op("gateway.approvals", Need::Any(&[admin::scope::READ, admin::scope::APPROVE]), "{}"),
    op("gateway.approve", APPROVE, NOBODYS).changes().ends("NOT_WAITING"),
    op("gateway.reject", APPROVE, NOBODYS).changes().ends("NOT_WAITING"),
    op("gateway.reload", ADMIN, "{}").changes(),
    // From a process that connects, another hub, an HTTP service and an MCP server: each has one that
    // asks for what its source asks for, and one that is said to be different.
    op("box.t.near", Need::All(&["a"]), "{}"),
    op("box.t.open", Need::Nothing, "{}"),
    op("far.demo.add", Need::All(&["a"]), ADD),
    op("far.demo.slow", Need::Nothing, SLOW),
    op("api.demo.add", Need::All(&["a"]), ADD),
    op("api.demo.slow", Need::Nothing, SLOW),
    op("tools.demo__add", Need::All(&["a"]), ADD),
    op("tools.demo__slow", Need::Nothing, SLOW),
    op("tools.demo__fail", Need::All(&["b"]), "{}").waits(),
];

/// Somebody, as the oracle knows him.
pub(super) struct Who {
    pub(super) name: &'static str,
    pub(super) token: Option<String>,
    pub(super) scopes: Vec<&'static str>,
    pub(super) documents: Vec<&'static str>,
    pub(super) identity: Arc<Identity>,
}

impl Who {
    fn new(
        name: &'static str,
        token: Option<&str>,
        scopes: &[&'static str],
        documents: &[&'static str],
    ) -> Self {
        let mut identity = Identity::new(name.replace(' ', "-")).with_scopes(scopes.to_vec());
        for document in documents {
            identity = identity.with_resource(format!("document:{document}"), ["read"]);
        }
        Self {
            name,
            token: token.map(str::to_owned),
            scopes: scopes.to_vec(),
            documents: documents.to_vec(),
            identity: Arc::new(identity),
        }
    }
}

pub(super) struct World {
    pub(super) running: Running,
    pub(super) callers: Vec<Who>,
    pub(super) is_open: bool,
    /// One for all, because it costs more than what is asked.
    pub(super) http: reqwest::Client,
    administered: toolpost_gateway::Running,
    data: PathBuf,
    far: Running,
    _box: SpokeSession,
    _issuer: Issuer,
}

const OPERATOR: [&str; 3] = [admin::scope::READ, admin::scope::APPROVE, admin::scope::ADMIN];

impl World {
    pub(super) async fn closed() -> Self {
        let signer = Signer::new("one");
        let issuer = Issuer::start(&[&signer]).await;
        let mut claims = issuer.claims();
        claims["scope"] = "a x".into();
        let jwt = signer.sign(&claims);
        let callers = vec![
            Who::new("anonymous", None, &[], &[]),
            Who::new("nobody special", Some("tpt_none"), &[], &[]),
            Who::new("some", Some("tpt_some"), &["a"], &[]),
            Who::new("both", Some("tpt_both"), &["b", "a"], &[]),
            Who::new("a reader", Some("tpt_reader"), &["x"], &["1"]),
            Who::new("a librarian", Some("tpt_librarian"), &[], &["*"]),
            Who::new("operator", Some("tpt_operator"), &OPERATOR, &[]),
            Who::new("an auditor", Some("tpt_auditor"), &[admin::scope::READ], &[]),
            Who::new("a decider", Some("tpt_decider"), &[admin::scope::APPROVE], &[]),
            Who::new("signed", Some(&jwt), &["a", "x"], &[]),
        ];
        Self::start(callers, false, issuer).await
    }

    pub(super) async fn open() -> Self {
        let issuer = Issuer::start(&[]).await;
        let callers = vec![
            Who::new("local", None, &[], &[]),
            Who::new("operator", Some("tpt_operator"), &OPERATOR, &[]),
        ];
        Self::start(callers, true, issuer).await
    }

    async fn start(callers: Vec<Who>, is_open: bool, issuer: Issuer) -> Self {
        let far = Running::start().await;
        let token = Token::generate().unwrap();
        let mut config = config(&far, &token, &callers, is_open);
        config.approval.expires = Duration::from_millis(5);
        let mut authenticator = match is_open {
            // A spoke has to be somebody.
            true => Authenticator::open().also(token.hash(), Identity::new("box")),
            false => config.authenticator().trusting(issuer.settings()),
        };
        let operator = TokenHash::of("tpt_operator");
        authenticator = authenticator.also(operator, admin::operator());
        let registry = builtin::registry();
        registry.apply(local().into_iter().map(Change::Register)).unwrap();
        let data = data(is_open);
        let setup = Setup::new(registry, config).operator(operator);
        let administered = setup.journal(&data).unwrap().start();
        let gateway = administered.gateway().clone();
        gateway.authenticator().replace(&authenticator);
        let running = Running::serve(gateway, "127.0.0.1:0").await;
        let offered =
            ["t.near", "t.open"].map(|id| made(id, Kind::Query, AccessControl::default()));
        let spoke = spoke(&running, Some(&token), "box", offered).await;
        let (http, _box, _issuer) = (client(), spoke, issuer);
        let world =
            Self { running, callers, is_open, http, administered, data, far, _box, _issuer };
        world.settled().await;
        world
    }

    async fn settled(&self) {
        let registry = self.running.gateway.pipeline().registry();
        let mut changes = registry.changes();
        let missing = || OPERATIONS.iter().find(|one| registry.catalog().get(one.id).is_none());
        while let Some(operation) = missing() {
            let changed = tokio::time::timeout(Duration::from_secs(30), changes.changed()).await;
            assert!(changed.is_ok(), "{} does not come", operation.id);
        }
    }

    pub(super) async fn stop(self) {
        self.running.stop().await;
        self.administered.close(Duration::from_secs(5)).await;
        self.far.stop().await;
        let _ = std::fs::remove_dir_all(self.data);
    }
}

/// A folder of this world alone.
fn data(is_open: bool) -> PathBuf {
    static WORLDS: AtomicUsize = AtomicUsize::new(0);
    let number = WORLDS.fetch_add(1, Ordering::Relaxed);
    let name = format!("toolpost-access-{}-{is_open}-{number}", std::process::id());
    std::env::temp_dir().join(name)
}

/// What the operator of this gateway says about its sources.
fn config(far: &Running, token: &Token, callers: &[Who], is_open: bool) -> Config {
    let mut text = format!("[identity.box]\ntoken_hash = \"{}\"\n", token.hash());
    for who in callers.iter().filter(|who| !is_open && who.name != "operator") {
        let Some(token) = who.token.as_deref().filter(|token| token.starts_with("tpt_")) else {
            continue;
        };
        let (id, hash) = (&who.identity.id, TokenHash::of(token));
        let scopes = json!(who.scopes);
        text += &format!("[identity.{id}]\ntoken_hash = \"{hash}\"\nscopes = {scopes}\n");
        for document in &who.documents {
            text += &format!("resources = {{ \"document:{document}\" = [\"read\"] }}\n");
        }
    }
    let address = far.address;
    let kinds = [
        ("box", "spoke = { identity = \"box\" }".to_owned(), "t.open"),
        ("far", format!("hub = {{ url = \"ws://{address}/hub\" }}"), "demo.slow"),
        ("api", format!("openapi = \"http://{address}/openapi.json\""), "demo.slow"),
        ("tools", format!("mcp = {{ url = \"http://{address}/mcp?tools=all\" }}"), "demo__slow"),
    ];
    for (name, kind, open) in kinds {
        text += &format!("[source.{name}]\n{kind}\naccess = {{ scopes = [\"a\"] }}\n");
        text += &format!("[source.{name}.operation.\"{open}\"]\naccess = \"open\"\n");
    }
    text += "[source.tools.operation.demo__fail]\naccess = { scopes = [\"b\"] }\napproval = true\n";
    Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap()
}

fn made(id: &str, kind: Kind, access: AccessControl) -> toolpost::Operation {
    let mut spec = OperationSpec::new(&id.parse().unwrap(), kind);
    spec.access_control = access;
    let schema = json!({"type": "object", "properties": {"id": {"type": "string"}}});
    spec.input_schema = Schema::new(schema).unwrap();
    spec.approval = id.contains("waits");
    let handler = match kind {
        Kind::Subscription => {
            Handler::stream_fn(|_, _| futures::stream::once(std::future::ready(done())))
        }
        _ => Handler::once_fn(async |_, _| done()),
    };
    toolpost::Operation::from_spec(spec).handler(handler).build().unwrap()
}

fn done() -> Result<Output, HandlerError> {
    Ok(Output::dynamic(json!({"done": true})))
}

/// The operations of `t`, by the same table that the oracle reads.
fn local() -> Vec<toolpost::Operation> {
    let own = OPERATIONS.iter().filter(|one| one.id.starts_with("t."));
    let mut all: Vec<toolpost::Operation> = Vec::new();
    for operation in own {
        let owned = |scopes: &[&str]| scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let mut access = AccessControl::default();
        match operation.need {
            Need::Nothing => {}
            Need::All(scopes) => access.required_scopes = owned(scopes),
            Need::Any(scopes) => access.required_scopes_any = owned(scopes),
            Need::Document(_) => {
                access.resource_type = Some("document".to_owned());
                access.resource_action = Some("read".to_owned());
                access.resource_field = Some("/id".to_owned());
            }
        }
        if all.iter().all(|known| known.id().as_str() != operation.id) {
            all.push(made(operation.id, operation.kind, access));
        }
    }
    all
}
