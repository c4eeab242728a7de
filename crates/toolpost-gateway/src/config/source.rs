//! Where operations come from, and what is adjusted on their way in.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use toolpost::mcp::{McpSettings, McpTransport};
use toolpost::openapi::OpenApiSettings;
use toolpost::{AccessControl, OperationSpec, ResultPolicy};

use super::fingerprint::FileFingerprint;
use super::glob::Glob;
use super::problem::ConfigProblem;
use crate::approval;
use crate::auth::Token;

/// A source of operations.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SourceConfig {
    /// The namespace of its operations.
    pub name: String,
    /// What it is.
    pub kind: SourceKind,
    /// What is different here from what it says about itself.
    pub adjustments: Adjustments,
    /// The document of an HTTP service, if it is a file, as it was when the configuration was read.
    pub document: Option<FileFingerprint>,
}

/// How much of a source is another one than before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceChange {
    /// Nothing.
    Unchanged,
    /// What is adjusted on the way in, and nothing about how it is reached.
    Adjustments,
    /// How it is reached.
    Connection,
}

impl SourceConfig {
    pub(super) fn incomplete(
        name: String,
        source_kind: String,
        problems: Vec<ConfigProblem>,
    ) -> Self {
        let kind = SourceKind::Incomplete { kind: source_kind, missing: problems };
        Self { name, kind, adjustments: Adjustments::default(), document: None }
    }

    /// What is different from a source of the same name. Secrets are compared and never told.
    pub fn change_from(&self, before: &Self) -> SourceChange {
        if self == before {
            return SourceChange::Unchanged;
        }
        if self.document == before.document && self.kind.is_same_connection(&before.kind) {
            return SourceChange::Adjustments;
        }
        SourceChange::Connection
    }
}

/// What a source is.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum SourceKind {
    /// The tools of an MCP server.
    Mcp(Box<McpSettings>),
    /// An HTTP service with an OpenAPI document.
    OpenApi(Box<OpenApiSettings>),
    /// A process that connects to this gateway and registers its operations.
    Spoke {
        /// The one identity that may use this name.
        identity: String,
    },
    /// The operations of another hub.
    Hub {
        /// `ws://…`.
        url: String,
        /// What the other hub knows this gateway by.
        token: Option<Token>,
    },
    /// One that refers to a variable or a secret file that is not there. Nothing of it is started, and
    /// others can do without it.
    Incomplete {
        /// What it would be, in one word.
        kind: String,
        /// What it refers to and is not there.
        missing: Vec<ConfigProblem>,
    },
}

impl SourceKind {
    /// What it is in one word, as the key of the file that says so.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Mcp(_) => "mcp",
            Self::OpenApi(_) => "openapi",
            Self::Spoke { .. } => "spoke",
            Self::Hub { .. } => "hub",
            Self::Incomplete { kind: source_kind, .. } => source_kind,
        }
    }

    /// Whether both are the same far end, reached in the same way. How long a call may take is not
    /// about that, although the settings of clients hold it.
    fn is_same_connection(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Mcp(one), Self::Mcp(other)) => {
                let mut one = one.as_ref().clone();
                one.timeout = other.timeout;
                one == **other
            }
            (Self::OpenApi(one), Self::OpenApi(other)) => {
                let mut one = one.as_ref().clone();
                one.client.timeout = other.client.timeout;
                one == **other
            }
            (one, other) => one == other,
        }
    }

    /// What it is, for people: the program or the host, and never an argument, a query or a token.
    pub fn describe(&self) -> String {
        match self {
            Self::Mcp(settings) => match &settings.transport {
                McpTransport::Stdio(stdio) => format!("MCP server `{}`", stdio.command),
                McpTransport::Http(http) => {
                    format!("MCP server at {}", http.url.origin().ascii_serialization())
                }
                _ => "MCP server".to_owned(),
            },
            Self::OpenApi(settings) => {
                format!("HTTP service by {}", settings.document.display_name())
            }
            Self::Spoke { identity } => format!("a spoke, connected by {identity}"),
            Self::Hub { .. } => "another hub".to_owned(),
            Self::Incomplete { missing: problems, .. } => {
                let problems: Vec<_> =
                    problems.iter().map(|problem| problem.message.as_str()).collect();
                format!("left out: {}", problems.join("; "))
            }
        }
    }
}

/// Arguments and addresses may hold secrets, so there is no more in it than in its description.
impl fmt::Debug for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceKind({})", self.describe())
    }
}

/// Who may call what a source offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Everybody who came through the endpoint.
    Open,
    /// Whoever holds all of these; at least one.
    Scopes(Vec<String>),
}

/// Which operations of a source need somebody's word.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalRule {
    /// All of them, or none.
    Always(bool),
    /// Those whose name fits one of these patterns.
    Patterns(Vec<Glob>),
}

/// What is different about one operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OperationAdjustments {
    /// Replaces who may call it, whatever the source and its adjustments say.
    pub access: Option<Access>,
    /// Whether somebody has to agree to each call.
    pub approval: Option<bool>,
    /// Bounds each call, beside what bounds those of its source.
    pub timeout: Option<Duration>,
    /// Whether its calls run one after another.
    pub exclusive: Option<bool>,
}

/// What the operator wants to be different from what a source says about its operations.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Adjustments {
    /// Replaces the source's own access control, whole.
    pub access: Option<Access>,
    /// Stands for the source's own access control where it has none, as an MCP server.
    pub default_access: Option<Access>,
    /// Which operations need somebody's word, beside those of which the source says so itself.
    pub approval: Option<ApprovalRule>,
    /// What is different about single operations, by the source's own names.
    pub operations: BTreeMap<String, OperationAdjustments>,
    /// Bounds each call; the shorter of it and the caller's deadline wins.
    pub timeout: Option<Duration>,
    /// How its results are treated.
    pub policy: ResultPolicy,
    /// Replaces what the source says about calls at the same time.
    pub exclusive: Option<bool>,
    /// Names that are let in.
    pub include: Vec<Glob>,
    /// Names that are kept out, although they were let in.
    pub exclude: Vec<Glob>,
    /// Other names for single operations, by their own.
    pub rename: BTreeMap<String, String>,
    /// What every name begins with here.
    pub prefix: String,
}

/// Everything is let in as it is.
impl Default for Adjustments {
    fn default() -> Self {
        Self {
            access: None,
            default_access: None,
            approval: None,
            operations: BTreeMap::new(),
            timeout: None,
            policy: ResultPolicy::default(),
            exclusive: None,
            include: vec![Glob::new("*")],
            exclude: Vec::new(),
            rename: BTreeMap::new(),
            prefix: String::new(),
        }
    }
}

impl Adjustments {
    /// Lets everybody call everything, as whoever can read the configuration may.
    pub fn open_access(&mut self) {
        self.access = Some(Access::Open);
        for single in self.operations.values_mut() {
            single.access = None;
        }
    }

    /// Who may call, if the source itself does not say.
    pub fn effective_access(&self) -> Option<&Access> {
        self.access.as_ref().or(self.default_access.as_ref())
    }

    /// What is said about operations that are not there, given the names of all that are.
    pub fn unmatched_settings(&self, names: &[&str]) -> Vec<String> {
        let approval_globs = match &self.approval {
            Some(ApprovalRule::Patterns(globs)) => globs.as_slice(),
            _ => &[],
        };
        let globs =
            [("include", &*self.include), ("exclude", &self.exclude), ("approval", approval_globs)];
        let globs =
            globs.into_iter().flat_map(|(key, globs)| globs.iter().map(move |glob| (key, glob)));
        let unfit = globs.filter(|(_, glob)| {
            glob.as_str() != "*" && !names.iter().any(|name| glob.matches(name))
        });
        let renamed = self.rename.keys().filter(|old| !names.contains(&old.as_str()));
        let renamed = renamed.map(|old| ("rename", old.as_str()));
        unfit
            .map(|(key, glob)| (key, glob.as_str()))
            .chain(renamed)
            .map(|(key, text)| {
                format!(
                    "`{key}` has `{text}`, which fits no operation{}",
                    unmatched_consequence(key)
                )
            })
            .chain(self.unknown_operations(names))
            .collect()
    }

    fn unknown_operations(&self, names: &[&str]) -> impl Iterator<Item = String> {
        let unknown = self.operations.keys().filter(|name| !names.contains(&name.as_str()));
        unknown.map(|name| {
            let meant = toolpost::suggest_name(name, names.iter().copied());
            let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            format!("`operation` has `{name}`, which is no operation{meant}")
        })
    }

    /// The operation as it is offered here, and how its results are treated; `None` if it is not
    /// offered. What is let in is said by the source's own names.
    pub fn apply(&self, mut spec: OperationSpec) -> Option<(OperationSpec, ResultPolicy)> {
        let fits = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&spec.name));
        if !fits(&self.include) || fits(&self.exclude) {
            return None;
        }
        let single = self.operations.get(&spec.name);
        let access = single.and_then(|single| single.access.as_ref());
        if let Some(access) = access.or(self.effective_access()) {
            spec.access_control = access.to_access_control();
        }
        spec.approval = match single.and_then(|single| single.approval) {
            Some(is_required) => is_required,
            None => self.requires_approval(&spec),
        };
        let exclusive = single.and_then(|single| single.exclusive).or(self.exclusive);
        spec.exclusive = exclusive.unwrap_or(spec.exclusive);
        let mut policy = self.policy;
        policy.timeout = single.and_then(|single| single.timeout);
        if let Some(name) = self.rename.get(&spec.name) {
            spec.name.clone_from(name);
        }
        spec.name.insert_str(0, &self.prefix);
        Some((spec, policy))
    }

    /// What the source itself calls an operation that these adjustments gave its name here.
    pub(crate) fn source_name<'a>(&'a self, name: &'a str) -> &'a str {
        let name = name.strip_prefix(self.prefix.as_str()).unwrap_or(name);
        let renamed = self.rename.iter().find(|(_, here)| *here == name);
        renamed.map_or(name, |(own, _)| own)
    }

    /// Whether somebody has to agree: what the source says is taken back only by a plain `false`.
    fn requires_approval(&self, spec: &OperationSpec) -> bool {
        match &self.approval {
            None => spec.approval,
            Some(ApprovalRule::Always(always)) => *always && !approval::is_list_operation(spec),
            Some(ApprovalRule::Patterns(globs)) => {
                spec.approval || globs.iter().any(|glob| glob.matches(&spec.name))
            }
        }
    }
}

impl Access {
    /// Who may call the tools of an MCP server where nobody said it: whoever holds the scope of the
    /// source; everybody, where nobody is known.
    pub fn default_for(source: &str, has_identities: bool) -> Self {
        if has_identities { Self::Scopes(vec![format!("source:{source}")]) } else { Self::Open }
    }

    pub(crate) fn to_access_control(&self) -> AccessControl {
        let mut control = AccessControl::default();
        if let Self::Scopes(scopes) = self {
            control.required_scopes.clone_from(scopes);
        }
        control
    }
}

/// What it costs that a pattern fits nothing, where that is not to be seen.
fn unmatched_consequence(key: &str) -> &'static str {
    if key == "approval" { ": nothing waits because of it" } else { "" }
}

#[cfg(test)]
mod tests {
    use toolpost::{Extras, OperationKind, OutputPolicy};

    use super::*;

    fn spec(name: &str) -> OperationSpec {
        let id = toolpost::OperationId::new("github", name).unwrap();
        let mut spec = OperationSpec::new(&id, OperationKind::Query);
        spec.access_control.required_scopes = vec!["own".to_owned()];
        spec.access_control.resource_type = Some("repo".to_owned());
        spec.exclusive = true;
        spec
    }

    #[test]
    fn include_and_exclude_filter_operations() {
        let globs = |patterns: &[&str]| patterns.iter().map(|text| Glob::new(*text)).collect();
        for (include, exclude, name, expected) in [
            (&["*"][..], &[][..], "issues/list", true),
            (&["issues/*"], &[], "issues/list", true),
            (&["issues/*"], &[], "repos/list", false),
            (&["issues/*", "repos/*"], &[], "repos/list", true),
            (&["*"], &["*/delete"], "repos/delete", false),
            (&["*"], &["*/delete"], "repos/list", true),
            (&["repos/delete"], &["*/delete"], "repos/delete", false),
            (&[], &[], "repos/list", false),
        ] {
            let (include, exclude) = (globs(include), globs(exclude));
            let adjustments = Adjustments { include, exclude, ..Adjustments::default() };
            let row = format!("{adjustments:?} {name}");
            assert_eq!(adjustments.apply(spec(name)).is_some(), expected, "{row}");
        }
    }

    #[test]
    fn unmatched_settings_are_reported() {
        let globs = |patterns: &[&str]| patterns.iter().map(|text| Glob::new(*text)).collect();
        let rename = BTreeMap::from(["list", "gone"].map(|old| (old.to_owned(), "x".to_owned())));
        let (include, exclude) = (globs(&["*", "li*", "issue/*"]), globs(&["add", "*t"]));
        let adjustments = Adjustments { include, exclude, rename, ..Adjustments::default() };
        let expected = ["`include` has `issue/*`", "`exclude` has `add`", "`rename` has `gone`"];
        let expected = expected.map(|start| format!("{start}, which fits no operation"));
        assert_eq!(adjustments.unmatched_settings(&["list", "issues/list"]), expected);
        assert!(Adjustments::default().unmatched_settings(&[]).is_empty());
    }

    #[test]
    fn renamed_operation_maps_to_source_name() {
        let rename = BTreeMap::from([("list".to_owned(), "all".to_owned())]);
        let adjustments = Adjustments { rename, prefix: "x_".to_owned(), ..Adjustments::default() };
        for own in ["list", "get", "x_get"] {
            let (here, _) = adjustments.apply(spec(own)).unwrap();
            assert_eq!(adjustments.source_name(&here.name), own);
        }
    }

    #[test]
    fn default_access_requires_scope_with_identities() {
        for (has_identities, expected) in
            [(true, Access::Scopes(vec!["source:github".to_owned()])), (false, Access::Open)]
        {
            assert_eq!(Access::default_for("github", has_identities), expected);
        }
    }

    #[test]
    fn adjustments_override_only_set_values() {
        let (own, none) = (spec("x").access_control, AccessControl::default());
        let mut scoped = AccessControl::default();
        scoped.required_scopes = vec!["a".to_owned(), "b".to_owned()];
        let scopes = Access::Scopes(vec!["a".to_owned(), "b".to_owned()]);
        let (open, scopes) = (Some(Access::Open), Some(scopes));
        for (access, fallback, control) in [
            (&None, &None, &own),
            (&open, &None, &none),
            (&scopes, &None, &scoped),
            (&None, &open, &none),
            (&None, &scopes, &scoped),
            (&open, &scopes, &none),
            (&scopes, &open, &scoped),
        ] {
            for (exclusive, expected) in [(None, true), (Some(false), false), (Some(true), true)] {
                let (access, fallback) = (access.clone(), fallback.clone());
                let adjustments = Adjustments {
                    access,
                    default_access: fallback,
                    exclusive,
                    ..Adjustments::default()
                };
                let (spec, _) = adjustments.apply(spec("x")).unwrap();
                assert_eq!((&spec.access_control, spec.exclusive), (control, expected));
            }
        }
        let mut policy = ResultPolicy::default();
        policy.output = OutputPolicy::Enforce;
        policy.extras = Extras::Keep;
        let adjustments = Adjustments { policy, ..Adjustments::default() };
        assert_eq!(adjustments.apply(spec("x")).unwrap().1, policy);
    }
}
