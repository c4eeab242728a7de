//! Somebody of every kind, and an operation of every kind from every kind of source.

use std::sync::Arc;
use std::time::Duration;

use manila::hub::SpokeSession;
use manila::{
    AccessControl, Change, Handler, Identity, Kind, OperationSpec, Output, Pipeline, Schema,
};
use manila_gateway::approval::{self, ApprovalSettings, Approvals};
use manila_gateway::auth::{Token, TokenHash};
use manila_gateway::config::Config;
use manila_gateway::{Gateway, GatewaySettings, Sources, admin, builtin};
use serde_json::{Value, json};

use super::super::Running;
use super::super::jwt::{Issuer, Signer};
use super::super::spokes::spoke;

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
    pub(super) need: Need,
    pub(super) waits: bool,
    input: &'static str,
}

impl Operation {
    pub(super) fn input(&self) -> Value {
        serde_json::from_str(self.input).unwrap()
    }

    pub(super) fn is_tool(&self) -> bool {
        !self.id.starts_with("gateway.")
    }
}

const fn op(id: &'static str, need: Need, input: &'static str) -> Operation {
    Operation { id, need, waits: false, input }
}

const ADD: &str = r#"{"a": 2, "b": 3}"#;
const SLOW: &str = r#"{"ms": 1}"#;

/// All of them are queries, so that every method of HTTP reaches them.
pub(super) const OPERATIONS: &[Operation] = &[
    op("demo.add", Need::Nothing, ADD),
    op("hub.list", Need::Nothing, "{}"),
    op("t.open", Need::Nothing, "{}"),
    op("t.all", Need::All(&["a", "b"]), "{}"),
    op("t.one", Need::All(&["a"]), "{}"),
    op("t.any", Need::Any(&["a", "x"]), "{}"),
    op("t.document", Need::Document("1"), r#"{"id": "1"}"#),
    op("t.document", Need::Document("2"), r#"{"id": "2"}"#),
    Operation { id: "t.waits", need: Need::All(&["a"]), waits: true, input: "{}" },
    Operation { id: "t.waits_for_all", need: Need::Nothing, waits: true, input: "{}" },
    op("gateway.approvals", Need::All(&["manila:approve"]), "{}"),
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
    Operation { id: "tools.demo__fail", need: Need::All(&["b"]), waits: true, input: "{}" },
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
    sources: Sources,
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
            Who::new("nobody special", Some("mnl_none"), &[], &[]),
            Who::new("some", Some("mnl_some"), &["a"], &[]),
            Who::new("both", Some("mnl_both"), &["b", "a"], &[]),
            Who::new("a reader", Some("mnl_reader"), &["x"], &["1"]),
            Who::new("a librarian", Some("mnl_librarian"), &[], &["*"]),
            Who::new("operator", Some("mnl_operator"), &OPERATOR, &[]),
            Who::new("signed", Some(&jwt), &["a", "x"], &[]),
        ];
        Self::start(callers, false, issuer).await
    }

    pub(super) async fn open() -> Self {
        let issuer = Issuer::start(&[]).await;
        let callers = vec![
            Who::new("local", None, &[], &[]),
            Who::new("operator", Some("mnl_operator"), &OPERATOR, &[]),
        ];
        Self::start(callers, true, issuer).await
    }

    async fn start(callers: Vec<Who>, is_open: bool, issuer: Issuer) -> Self {
        let far = Running::start().await;
        let token = Token::generate().unwrap();
        let config = config(&far, &token, &callers, is_open);
        let mut settings = ApprovalSettings::default();
        settings.expires = Duration::from_millis(5);
        let approvals = Approvals::new(settings);
        let registry = builtin::registry();
        let own = approval::operations(&approvals).into_iter().chain(local());
        registry.apply(own.map(Change::Register)).unwrap();
        let pipeline = Pipeline::builder(registry).approval(approvals).build();
        let mut authenticator = config.authenticator();
        if !is_open {
            authenticator = authenticator.trusting(issuer.settings());
        }
        let operator = TokenHash::of("mnl_operator");
        let authenticator = match is_open {
            // A spoke has to be somebody.
            true => {
                manila_gateway::auth::Authenticator::open().also(token.hash(), Identity::new("box"))
            }
            false => authenticator,
        };
        let authenticator = authenticator.also(operator, admin::operator());
        let gateway = Gateway::with(pipeline, GatewaySettings::default());
        let running =
            Running::serve(gateway.with_authenticator(authenticator), "127.0.0.1:0").await;
        let sources = Sources::start(&running.gateway, &config);
        let offered = ["t.near", "t.open"].map(|id| query(id, AccessControl::default()));
        let spoke = spoke(&running, Some(&token), "box", offered).await;
        let world = Self { running, callers, is_open, sources, far, _box: spoke, _issuer: issuer };
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
        self.sources.close(Duration::from_secs(5)).await;
        self.far.stop().await;
    }
}

/// What the operator of this gateway says about its sources.
fn config(far: &Running, token: &Token, callers: &[Who], is_open: bool) -> Config {
    let mut text = format!("[identity.box]\ntoken_hash = \"{}\"\n", token.hash());
    for who in callers.iter().filter(|who| !is_open && who.name != "operator") {
        let Some(token) = who.token.as_deref().filter(|token| token.starts_with("mnl_")) else {
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
    Config::parse("manila.toml".as_ref(), &text, &|_| None).unwrap()
}

fn query(id: &str, access: AccessControl) -> manila::Operation {
    let mut spec = OperationSpec::new(&id.parse().unwrap(), Kind::Query);
    spec.access_control = access;
    let schema = json!({"type": "object", "properties": {"id": {"type": "string"}}});
    spec.input_schema = Schema::new(schema).unwrap();
    spec.approval = id.contains("waits");
    let answer = Handler::once_fn(async |_, _| Ok(Output::dynamic(json!({"done": true}))));
    manila::Operation::from_spec(spec).handler(answer).build().unwrap()
}

/// The operations of `t`, by the same table that the oracle reads.
fn local() -> Vec<manila::Operation> {
    let own = OPERATIONS.iter().filter(|one| one.id.starts_with("t."));
    let mut made: Vec<manila::Operation> = Vec::new();
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
        if made.iter().all(|known| known.id().as_str() != operation.id) {
            made.push(query(operation.id, access));
        }
    }
    made
}
