//! Configured sources and the adjustments to their operations.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use toolpost::mcp::{McpSettings, McpTransport};
use toolpost::openapi::OpenApiSettings;
use toolpost::{AccessControl, ClientTls, OperationSpec, ResultPolicy};

use super::fingerprint::FileFingerprint;
use super::node::did_you_mean;
use super::problem::ConfigProblem;
use crate::approval;
use crate::auth::Token;
use crate::glob::Glob;
use crate::shorthand::ShortOrLong;
use crate::units::PositiveDuration;

/// Configuration of a source of operations.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SourceConfig {
    /// Name of the source, and namespace of its operations.
    pub name: String,
    /// The kind of the source and its settings.
    pub kind: SourceKind,
    /// Overrides of what the source declares about its operations.
    pub adjustments: Adjustments,
    /// Fingerprint of the OpenAPI document, if it is a file, from when the configuration was read.
    pub document: Option<FileFingerprint>,
}

/// The difference between two configurations of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceChange {
    /// Nothing.
    Unchanged,
    /// Only the adjustments differ; the connection is the same.
    Adjustments,
    /// The connection settings or the OpenAPI document changed.
    Connection,
}

impl SourceConfig {
    pub(super) fn new(name: String, kind: SourceKind) -> Self {
        Self { name, kind, adjustments: Adjustments::default(), document: None }
    }

    /// Compares with a source of the same name. Secrets are compared but never printed.
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

/// The kind of a source, with its settings.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum SourceKind {
    /// An MCP server, whose tools become operations.
    Mcp(Box<McpSettings>),
    /// An HTTP service with an OpenAPI document.
    OpenApi(Box<OpenApiSettings>),
    /// A process that connects to this gateway and registers its operations.
    Spoke {
        /// The only identity that can register under this name.
        identity: String,
    },
    /// Another hub, whose operations are imported.
    Hub {
        /// `ws://…` or `wss://…`.
        url: String,
        /// The token of this gateway at the other hub.
        token: Option<Token>,
        /// Trusted certificates.
        tls: ClientTls,
    },
    /// A source that refers to a missing variable or secret file. It is not started; other sources
    /// are not affected.
    Incomplete {
        /// The kind it would have.
        kind: &'static str,
        /// The missing variables and files.
        missing: Vec<ConfigProblem>,
    },
}

impl SourceKind {
    /// Returns the kind, as the key in the file.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Mcp(_) => "mcp",
            Self::OpenApi(_) => "openapi",
            Self::Spoke { .. } => "spoke",
            Self::Hub { .. } => "hub",
            Self::Incomplete { kind, .. } => kind,
        }
    }

    /// Whether both have the same connection settings. The call timeout is ignored, although it is
    /// part of the client settings.
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

    /// Describes the source: the program or the host, never an argument, a query or a token.
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
            Self::Spoke { identity } => format!("spoke of {identity}"),
            Self::Hub { .. } => "remote hub".to_owned(),
            Self::Incomplete { missing: problems, .. } => {
                let problems: Vec<_> =
                    problems.iter().map(|problem| problem.message.as_str()).collect();
                format!("not started: {}", problems.join("; "))
            }
        }
    }
}

/// Prints only the description, since arguments and URLs may contain secrets.
impl fmt::Debug for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceKind({})", self.describe())
    }
}

/// Access to the operations of a source.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "ShortOrLong<Self>")]
#[non_exhaustive]
pub enum Access {
    /// Every caller that the endpoint admits.
    Open,
    /// Callers with all of these scopes; at least one scope.
    Scopes(Vec<String>),
}

/// Which operations of a source need approval.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "ShortOrLong<Self>")]
#[non_exhaustive]
pub enum ApprovalRule {
    /// All operations, or none.
    Always(bool),
    /// Operations whose name matches one of these patterns.
    Patterns(Vec<Glob>),
}

/// Overrides for one operation, which take precedence over those of its source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { access = \"open\" }")]
#[schemars(rename = "Operation")]
#[non_exhaustive]
pub struct OperationAdjustments {
    /// Who may call it: `"open"`, or `{ scopes = […] }`, all of which are required.
    pub access: Option<Access>,
    /// Whether each call needs approval.
    pub approval: Option<bool>,
    /// Timeout of each call, in addition to that of the source.
    #[serde(with = "PositiveDuration")]
    pub timeout: Option<Duration>,
    /// Whether calls to the operation run one at a time.
    pub exclusive: Option<bool>,
}

/// The operator's overrides of what a source declares about its operations.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Adjustments {
    /// Replaces the source's own access control entirely.
    pub access: Option<Access>,
    /// Default access for sources without their own access control, such as MCP servers.
    pub default_access: Option<Access>,
    /// Which operations need approval, in addition to those that the source declares.
    pub approval: Option<ApprovalRule>,
    /// Overrides for single operations, by the source's own names.
    pub operations: BTreeMap<String, OperationAdjustments>,
    /// Timeout of each call. The caller's deadline applies if it is shorter.
    pub timeout: Option<Duration>,
    /// How results are normalized and validated.
    pub policy: ResultPolicy,
    /// Replaces what the source declares about concurrent calls.
    pub exclusive: Option<bool>,
    /// Patterns of the operation names to include.
    pub include: Vec<Glob>,
    /// Names to exclude from those that `include` matches.
    pub exclude: Vec<Glob>,
    /// New names of individual operations, by their original names.
    pub rename: BTreeMap<String, String>,
    /// Prefix of every operation name.
    pub prefix: String,
}

/// Includes every operation unchanged.
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
    /// Allows every caller to call every operation, for a caller that can read the configuration
    /// anyway.
    pub fn open_access(&mut self) {
        self.access = Some(Access::Open);
        for single in self.operations.values_mut() {
            single.access = None;
        }
    }

    /// Returns the configured access, or the default one.
    pub fn effective_access(&self) -> Option<&Access> {
        self.access.as_ref().or(self.default_access.as_ref())
    }

    /// Returns the settings that match none of the operations in `names`.
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
                let effect = if key == "approval" { ", so it requires no approval" } else { "" };
                format!("`{key}`: `{text}` matches no operation{effect}")
            })
            .chain(self.unknown_operations(names))
            .collect()
    }

    fn unknown_operations(&self, names: &[&str]) -> impl Iterator<Item = String> {
        let unknown = self.operations.keys().filter(|name| !names.contains(&name.as_str()));
        unknown
            .map(|name| format!("`operation`: no operation `{name}`{}", did_you_mean(name, names)))
    }

    /// Returns the adjusted operation and its result policy; `None` if the operation is excluded.
    /// `include` and `exclude` match the source's own names.
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

    /// Returns the source's own name of an operation, given its adjusted name.
    pub(crate) fn source_name<'a>(&'a self, name: &'a str) -> &'a str {
        let name = name.strip_prefix(self.prefix.as_str()).unwrap_or(name);
        let renamed = self.rename.iter().find(|(_, here)| *here == name);
        renamed.map_or(name, |(own, _)| own)
    }

    /// Whether the operation needs approval. Patterns add to what the source declares; `approval =
    /// false` overrides it.
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
    /// Returns the default access of a source: its scope `source:NAME` if there are identities,
    /// else open.
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
        let expected = ["`include`: `issue/*`", "`exclude`: `add`", "`rename`: `gone`"];
        let expected = expected.map(|start| format!("{start} matches no operation"));
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
