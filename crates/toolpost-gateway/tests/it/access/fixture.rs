//! Callers of every kind, and operations of every kind from every kind of source.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolpost::hub::SpokeHandle;
use toolpost::{
    AccessControl, Change, Handler, HandlerError, HandlerOutput, Identity, OperationKind,
    OperationSpec, Schema,
};
use toolpost_gateway::auth::{Authenticator, Token, TokenHash};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, admin, builtin};

use super::super::jwt::{Issuer, Signer};
use super::super::spokes::spoke;
use super::super::{TestGateway, client};

/// The access that an operation requires.
#[derive(Clone, Copy)]
pub(super) enum Requirement {
    Open,
    All(&'static [&'static str]),
    Any(&'static [&'static str]),
    /// Read permission for this document, which the input names.
    Document(&'static str),
}

pub(super) struct Operation {
    pub(super) id: &'static str,
    pub(super) kind: OperationKind,
    pub(super) requirement: Requirement,
    /// The outcome of a call with access.
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

    /// Demo operations are not listed as tools, because there are sources.
    pub(super) fn is_listed_tool(&self) -> bool {
        self.is_tool() && !self.id.starts_with("demo.")
    }

    const fn mutation(mut self) -> Self {
        self.kind = OperationKind::Mutation;
        self
    }

    const fn subscription(mut self) -> Self {
        self.kind = OperationKind::Subscription;
        self
    }

    const fn ends_with(mut self, outcome: &'static str) -> Self {
        self.outcome = outcome;
        self
    }

    /// The call is pending approval and expires after a short time.
    const fn times_out(self) -> Self {
        self.ends_with("TIMEOUT")
    }
}

const fn op(id: &'static str, need: Requirement, input: &'static str) -> Operation {
    Operation { id, kind: OperationKind::Query, requirement: need, outcome: "ok", input }
}

const ADD: &str = r#"{"a": 2, "b": 3}"#;
const SLOW: &str = r#"{"ms": 1}"#;
const UNKNOWN_ID: &str = r#"{"id": "unknown"}"#;
const READ: Requirement = Requirement::All(&[admin::scope::READ]);
const APPROVE: Requirement = Requirement::All(&[admin::scope::APPROVE]);
const ADMIN: Requirement = Requirement::All(&[admin::scope::ADMIN]);

/// Mostly queries, since these support every HTTP method.
pub(super) const OPERATIONS: &[Operation] = &[
    op("demo.add", Requirement::Open, ADD),
    op("hub.list", Requirement::Open, "{}"),
    op("t.open", Requirement::Open, "{}"),
    op("t.all", Requirement::All(&["a", "b"]), "{}"),
    op("t.one", Requirement::All(&["a"]), "{}"),
    op("t.any", Requirement::Any(&["a", "x"]), "{}"),
    op("t.document", Requirement::Document("1"), r#"{"id": "1"}"#),
    op("t.document", Requirement::Document("2"), r#"{"id": "2"}"#),
    op("t.waits", Requirement::All(&["a"]), "{}").times_out(),
    op("t.waits_for_all", Requirement::Open, "{}").times_out(),
    op("t.change", Requirement::All(&["a"]), "{}").mutation(),
    op("t.change_open", Requirement::Open, "{}").mutation(),
    op("t.stream", Requirement::All(&["a"]), "{}").subscription(),
    op("t.stream_open", Requirement::Open, "{}").subscription(),
    // All administration operations.
    op("gateway.sources", READ, "{}"),
    op("gateway.logs", READ, "{}").subscription(),
    op("gateway.journal", READ, r#"{"limit": 1}"#),
    op("gateway.verify", READ, "{}"),
    op("gateway.replay", ADMIN, UNKNOWN_ID).mutation().ends_with("VALIDATION_ERROR"),
    op("gateway.approvals", Requirement::Any(&[admin::scope::READ, admin::scope::APPROVE]), "{}"),
    op("gateway.approve", APPROVE, UNKNOWN_ID).mutation().ends_with("NOT_PENDING"),
    op("gateway.reject", APPROVE, UNKNOWN_ID).mutation().ends_with("NOT_PENDING"),
    op("gateway.reload", ADMIN, "{}").mutation(),
    // From a spoke, another hub, an HTTP service and an MCP server: each has an operation with the
    // access of its source, and one with its own access.
    op("box.t.near", Requirement::All(&["a"]), "{}"),
    op("box.t.open", Requirement::Open, "{}"),
    op("far.demo.add", Requirement::All(&["a"]), ADD),
    op("far.demo.slow", Requirement::Open, SLOW),
    op("api.demo.add", Requirement::All(&["a"]), ADD),
    op("api.demo.slow", Requirement::Open, SLOW),
    op("tools.demo__add", Requirement::All(&["a"]), ADD),
    op("tools.demo__slow", Requirement::Open, SLOW),
    op("tools.demo__fail", Requirement::All(&["b"]), "{}").times_out(),
];

/// A caller, with the grants that the expected outcome is computed from.
pub(super) struct TestCaller {
    pub(super) name: &'static str,
    pub(super) token: Option<String>,
    pub(super) scopes: Vec<&'static str>,
    pub(super) documents: Vec<&'static str>,
    pub(super) identity: Arc<Identity>,
}

impl TestCaller {
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

pub(super) struct Fixture {
    pub(super) running: TestGateway,
    pub(super) callers: Vec<TestCaller>,
    pub(super) is_open: bool,
    /// Shared by all requests, because creating a client costs more than a request.
    pub(super) http: reqwest::Client,
    data: PathBuf,
    upstream: TestGateway,
    _spoke: SpokeHandle,
    _issuer: Issuer,
}

const OPERATOR: [&str; 3] = [admin::scope::READ, admin::scope::APPROVE, admin::scope::ADMIN];

impl Fixture {
    pub(super) async fn with_auth() -> Self {
        let signer = Signer::new("one");
        let issuer = Issuer::start(&[&signer]).await;
        let mut claims = issuer.claims();
        claims["scope"] = "a x".into();
        let jwt = signer.sign(&claims);
        let callers = vec![
            TestCaller::new("anonymous", None, &[], &[]),
            TestCaller::new("no scopes", Some("tpt_none"), &[], &[]),
            TestCaller::new("some", Some("tpt_some"), &["a"], &[]),
            TestCaller::new("both", Some("tpt_both"), &["b", "a"], &[]),
            TestCaller::new("a reader", Some("tpt_reader"), &["x"], &["1"]),
            TestCaller::new("a librarian", Some("tpt_librarian"), &[], &["*"]),
            TestCaller::new("operator", Some("tpt_operator"), &OPERATOR, &[]),
            TestCaller::new("an auditor", Some("tpt_auditor"), &[admin::scope::READ], &[]),
            TestCaller::new("a decider", Some("tpt_decider"), &[admin::scope::APPROVE], &[]),
            TestCaller::new("signed", Some(&jwt), &["a", "x"], &[]),
        ];
        Self::start(callers, false, issuer).await
    }

    pub(super) async fn without_auth() -> Self {
        let issuer = Issuer::start(&[]).await;
        let callers = vec![
            TestCaller::new("local", None, &[], &[]),
            TestCaller::new("operator", Some("tpt_operator"), &OPERATOR, &[]),
        ];
        Self::start(callers, true, issuer).await
    }

    async fn start(callers: Vec<TestCaller>, is_open: bool, issuer: Issuer) -> Self {
        let upstream_gateway = TestGateway::start().await;
        let token = Token::generate().unwrap();
        let mut config = config(&upstream_gateway, &token, &callers, is_open);
        config.approval.expires = Duration::from_millis(5);
        let mut authenticator = match is_open {
            // A spoke needs an identity.
            true => Authenticator::allow_anonymous().with_token(token.hash(), Identity::new("box")),
            false => config.authenticator().with_jwt(issuer.settings()),
        };
        let operator = TokenHash::of("tpt_operator");
        authenticator = authenticator.with_token(operator, admin::operator());
        let registry = builtin::registry();
        registry.apply(local().into_iter().map(Change::Register)).unwrap();
        let data = data(is_open);
        let builder =
            Gateway::builder(registry).config(config).authenticator(authenticator).journal(&data);
        let running = TestGateway::serve(builder, "127.0.0.1:0").await;
        let spoke_operations = ["t.near", "t.open"]
            .map(|id| test_operation(id, OperationKind::Query, AccessControl::default()));
        let spoke = spoke(&running, Some(&token), "box", spoke_operations).await;
        let (http, _box, _issuer) = (client(), spoke, issuer);
        let fixture = Self {
            running,
            callers,
            is_open,
            http,
            data,
            upstream: upstream_gateway,
            _spoke: _box,
            _issuer,
        };
        fixture.wait_until_ready().await;
        fixture
    }

    async fn wait_until_ready(&self) {
        let registry = self.running.gateway.pipeline().registry();
        let mut changes = registry.watch_changes();
        let missing = || OPERATIONS.iter().find(|one| registry.catalog().get(one.id).is_none());
        while let Some(operation) = missing() {
            let changed = tokio::time::timeout(Duration::from_secs(30), changes.changed()).await;
            assert!(changed.is_ok(), "{} does not come", operation.id);
        }
    }

    pub(super) async fn stop(self) {
        self.running.stop().await;
        self.upstream.stop().await;
        let _ = std::fs::remove_dir_all(self.data);
    }
}

/// Returns a data folder that is unique to the fixture.
fn data(is_open: bool) -> PathBuf {
    static WORLDS: AtomicUsize = AtomicUsize::new(0);
    let number = WORLDS.fetch_add(1, Ordering::Relaxed);
    let name = format!("toolpost-access-{}-{is_open}-{number}", std::process::id());
    std::env::temp_dir().join(name)
}

/// The configuration of the sources.
fn config(
    upstream_gateway: &TestGateway,
    token: &Token,
    callers: &[TestCaller],
    is_open: bool,
) -> Config {
    let mut text = format!("[identity.box]\ntoken_hash = \"{}\"\n", token.hash());
    for caller in callers.iter().filter(|caller| !is_open && caller.name != "operator") {
        let Some(token) = caller.token.as_deref().filter(|token| token.starts_with("tpt_")) else {
            continue;
        };
        let (id, hash) = (&caller.identity.id, TokenHash::of(token));
        let scopes = json!(caller.scopes);
        text += &format!("[identity.{id}]\ntoken_hash = \"{hash}\"\nscopes = {scopes}\n");
        for document in &caller.documents {
            text += &format!("resources = {{ \"document:{document}\" = [\"read\"] }}\n");
        }
    }
    let address = upstream_gateway.address;
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

fn test_operation(id: &str, kind: OperationKind, access: AccessControl) -> toolpost::Operation {
    let mut spec = OperationSpec::new(&id.parse().unwrap(), kind);
    spec.access_control = access;
    let schema = json!({"type": "object", "properties": {"id": {"type": "string"}}});
    spec.input_schema = Schema::new(schema).unwrap();
    spec.approval = id.contains("waits");
    let handler = match kind {
        OperationKind::Subscription => {
            Handler::stream_fn(|_, _| futures::stream::once(std::future::ready(done())))
        }
        _ => Handler::once_fn(async |_, _| done()),
    };
    toolpost::Operation::from_spec(spec).handler(handler).build().unwrap()
}

fn done() -> Result<HandlerOutput, HandlerError> {
    Ok(HandlerOutput::dynamic(json!({"done": true})))
}

/// Returns the operations of namespace `t`, from the same table as the expected results.
fn local() -> Vec<toolpost::Operation> {
    let own = OPERATIONS.iter().filter(|one| one.id.starts_with("t."));
    let mut all: Vec<toolpost::Operation> = Vec::new();
    for operation in own {
        let owned = |scopes: &[&str]| scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let mut access = AccessControl::default();
        match operation.requirement {
            Requirement::Open => {}
            Requirement::All(scopes) => access.required_scopes = owned(scopes),
            Requirement::Any(scopes) => access.required_scopes_any = owned(scopes),
            Requirement::Document(_) => {
                access.resource_type = Some("document".to_owned());
                access.resource_action = Some("read".to_owned());
                access.resource_field = Some("/id".to_owned());
            }
        }
        if all.iter().all(|known| known.id().as_str() != operation.id) {
            all.push(test_operation(operation.id, operation.kind, access));
        }
    }
    all
}
