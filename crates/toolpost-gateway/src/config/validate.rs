//! Validation of the parsed file: names are well-formed and references resolve.

mod approval;
mod auth;
mod http;
mod limits;
mod mcp;
mod openapi;
mod room;
mod telemetry;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use axum::http::Uri;
use toolpost::hub::RESERVED_NAMES;
use toolpost::{Identity, OperationId, ResultPolicy};

use super::document::TomlDocument;
use super::file::{
    AccessText, ConfigFile, HubText, IdentityText, JournalText, McpText, OperationText, SourceText,
};
use super::source::{Access, Adjustments, OperationAdjustments, SourceConfig, SourceKind};
use super::{Config, IdentityConfig};
use crate::admin::OPERATOR;
use crate::auth::{LOCAL, Token, TokenHash, is_resource_id};
use crate::glob::Glob;
use crate::journal;

pub(super) use mcp::{ReportFn, settings as mcp_settings};

pub(super) fn validate(document: &TomlDocument<'_>, file: ConfigFile) -> Config {
    let identities = identities(document, file.identity);
    let overrides = limits::source_limit_overrides(&file.source);
    let mut sources: Vec<SourceConfig> =
        file.source.into_iter().filter_map(|entry| source(document, entry)).collect();
    let rooms = room::rooms(document, file.room, file.limits.rooms.get());
    let limits = limits::limits(document, file.limits, overrides, &mut sources);
    let telemetry = telemetry::telemetry(document, file.telemetry);
    let mcp = file.mcp.settings();
    let approval = approval::settings(document, &file.approval);
    let names = identities.iter().map(|known| known.identity.id.clone());
    let auth = file.auth.map(|text| auth::settings(document, text, names));
    let journal = journal(document, file.journal);
    let cors = http::cors(document, file.http);
    Config {
        approval,
        auth,
        cors,
        identities,
        journal,
        limits,
        mcp,
        sources,
        telemetry,
        without_demo: !file.demo,
        rooms,
        ..Config::default()
    }
}

fn journal(document: &TomlDocument<'_>, text: JournalText) -> journal::JournalSettings {
    if text.retain_for().is_some_and(|time| time.is_zero()) {
        let message = "nothing would be kept; write mode = \"off\" if that is meant";
        document.report(&["journal", "retain_for"], message);
    }
    text.settings(document.folder())
}

fn identities(
    document: &TomlDocument<'_>,
    entries: BTreeMap<String, IdentityText>,
) -> Vec<IdentityConfig> {
    let mut owners: BTreeMap<TokenHash, String> = BTreeMap::new();
    let mut identities = Vec::new();
    for (name, text) in entries {
        if let Err(message) = check_identity_name(&name) {
            document.report(&["identity", &name], message);
        }
        for resource in text.resources.keys() {
            if !is_resource_id(resource) {
                document.report(&["identity", &name, "resources", resource], RESOURCE_FORMAT);
            }
        }
        if !text.scopes.iter().all(|scope| is_scope(scope)) {
            document.report(&["identity", &name, "scopes"], SCOPE_FORMAT);
        }
        room::capabilities(document, &["identity", &name, "capabilities"], &text.capabilities);
        let key_path = ["identity", &name, "token_hash"];
        let token_hash = match text.token_hash.parse::<TokenHash>() {
            Ok(hash) => hash,
            Err(error) => {
                document.report(&key_path, error.to_string());
                continue;
            }
        };
        match owners.entry(token_hash) {
            Entry::Vacant(free) => drop(free.insert(name.clone())),
            Entry::Occupied(owner) => {
                let owner = owner.get();
                let message = format!(
                    "`{owner}` has the same token; `toolpost token new {name} --replace` makes another"
                );
                document.report(&key_path, message);
            }
        }
        let mut identity = Identity::new(name).with_scopes(text.scopes);
        identity.resources = text.resources;
        identity.capabilities = text.capabilities.into_iter().map(|text| text.0).collect();
        identities.push(IdentityConfig { identity, token_hash });
    }
    identities
}

/// Description of the resource syntax, for error messages.
pub(super) const RESOURCE_FORMAT: &str =
    "a resource is `type:id`, or `type:*` for every one of a type";

/// Description of the scope syntax, for error messages.
pub(super) const SCOPE_FORMAT: &str = "a scope is one word, without white space";

/// Whether a text is a valid scope. Whitespace is excluded because it separates scopes in lists.
pub(super) fn is_scope(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

/// Checks the name of an identity. The characters are restricted because it appears in logs and
/// messages.
pub(super) fn check_identity_name(name: &str) -> Result<(), String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@');
    if name == LOCAL {
        return Err(format!(
            "`{LOCAL}` is reserved for callers without a token; choose another name"
        ));
    }
    if name == OPERATOR {
        return Err(format!("`{OPERATOR}` is reserved for the operator; choose another name"));
    }
    if (1..=64).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err("the name of an identity is 1 to 64 letters, digits, `-`, `_`, `.` or `@`".to_owned())
}

fn source(document: &TomlDocument<'_>, entry: (String, SourceText)) -> Option<SourceConfig> {
    let (name, text) = entry;
    let key_path = ["source", name.as_str()];
    if let Err(message) = check_source_name(&name) {
        document.report(&key_path, message);
    }
    if document.has_missing_reference(&name) {
        return None;
    }
    let adjustments = adjustments(document, &name, &text);
    if text.openapi.is_none() {
        reject_openapi_only_keys(document, &name, &text);
    }
    let kind = match (text.mcp, text.openapi, text.spoke, text.hub) {
        (Some(mcp), None, None, None) => mcp_kind(document, &name, mcp, &adjustments)?,
        (None, Some(openapi), None, None) => {
            let service = openapi::ServiceText { text: openapi.0, auth: text.auth };
            let kind = openapi::kind(document, &name, service, &adjustments)?;
            if document.has_missing_reference(&name) {
                return None;
            }
            kind
        }
        (None, None, Some(spoke), None) => spoke_kind(document, &name, spoke.identity),
        (None, None, None, Some(hub)) => hub_kind(document, &name, hub),
        (None, None, None, None) => {
            // An invalid kind is already reported.
            if !SOURCE_KINDS.iter().any(|kind| document.contains(&["source", &name, kind])) {
                document.report(&key_path, format!("{ONE_KIND_EXPECTED}; add one"));
            }
            return None;
        }
        _ => {
            document.report(&key_path, format!("{ONE_KIND_EXPECTED}; remove the others"));
            return None;
        }
    };
    Some(SourceConfig { name, kind, adjustments, document: None })
}

/// Reports keys that require `openapi` on a source without it.
fn reject_openapi_only_keys(document: &TomlDocument<'_>, name: &str, text: &SourceText) {
    for (key, is_there) in [
        ("auth", text.auth.is_some()),
        ("rename", !text.rename.is_empty()),
        ("prefix", text.prefix.is_some()),
    ] {
        if is_there && !document.contains(&["source", name, "openapi"]) {
            document.report(&["source", name, key], "this goes with `openapi`; remove it");
        }
    }
}

pub(super) const SOURCE_KINDS: [&str; 4] = ["mcp", "openapi", "spoke", "hub"];
const ONE_KIND_EXPECTED: &str = "a source is exactly one of `mcp`, `openapi`, `spoke` and `hub`";

/// Checks that a source name is a valid namespace and not reserved by the gateway.
pub(super) fn check_source_name(name: &str) -> Result<(), String> {
    OperationId::new(name, "any").map_err(|error| error.to_string())?;
    if RESERVED_NAMES.contains(&name) {
        return Err(format!("`{name}` is a namespace of the gateway itself; choose another name"));
    }
    Ok(())
}

fn mcp_kind(
    document: &TomlDocument<'_>,
    name: &str,
    text: McpText,
    adjustments: &Adjustments,
) -> Option<SourceKind> {
    let mut report = |path: &[&str], message: &str| {
        let key_path = ["source", name, "mcp"];
        // The key is present but misspelled, which is already reported.
        if path.is_empty()
            && ["command", "url"].iter().any(|key| document.has_suggestion(&key_path, key))
        {
            return;
        }
        document.report(&[&key_path, path].concat(), message);
    };
    let mut settings = mcp_settings(text, document.folder(), &mut report)?;
    settings.timeout = adjustments.timeout.unwrap_or(settings.timeout);
    Some(SourceKind::Mcp(Box::new(settings)))
}

fn spoke_kind(document: &TomlDocument<'_>, name: &str, identity: String) -> SourceKind {
    if !document.contains(&["identity", &identity]) {
        // The name is not quoted: it is a value, and `${VAR}` may have expanded to a secret.
        document.report(
            &["source", name, "spoke", "identity"],
            "no [identity.NAME] has this name; `toolpost token new NAME` makes one",
        );
    }
    SourceKind::Spoke { identity }
}

fn hub_kind(document: &TomlDocument<'_>, name: &str, hub: HubText) -> SourceKind {
    if let Err(message) = check_hub_url(&hub.url) {
        document.report(&["source", name, "hub", "url"], message);
    }
    SourceKind::Hub { url: hub.url, token: hub.token.map(Token::from) }
}

fn check_hub_url(url: &str) -> Result<(), &'static str> {
    let uri = url.parse::<Uri>().ok();
    let is_socket = uri.as_ref().is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("ws")) && uri.host().is_some_and(|h| !h.is_empty())
    });
    let authority = uri.as_ref().and_then(Uri::authority);
    if !is_socket {
        return Err("the address of a hub is ws://HOST/…");
    }
    if authority.is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("an address has no user and password; put the token in `token`");
    }
    Ok(())
}

fn adjustments(document: &TomlDocument<'_>, name: &str, text: &SourceText) -> Adjustments {
    let timeout = text.timeout.as_ref().map(|timeout| timeout.0);
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        document.report(&["source", name, "timeout"], "must be greater than zero");
    }
    let access = text.access.as_ref().map(|text| access(document, &["source", name], text));
    let mut policy = ResultPolicy::default();
    (policy.output, policy.extras) = (text.output, text.extras);
    Adjustments {
        access,
        default_access: None,
        approval: text
            .approval
            .as_ref()
            .map(|rule_text| approval::approval_rule(document, name, rule_text)),
        operations: operations(document, name, &text.operation),
        timeout,
        policy,
        exclusive: text.exclusive,
        include: globs(document, [name, "include"], &text.include),
        exclude: globs(document, [name, "exclude"], &text.exclude),
        rename: text.rename.clone(),
        prefix: text.prefix.clone().unwrap_or_default(),
    }
}

fn operations(
    document: &TomlDocument<'_>,
    source: &str,
    entries: &BTreeMap<String, OperationText>,
) -> BTreeMap<String, OperationAdjustments> {
    let checked = entries.iter().map(|(name, text)| {
        let key_path = ["source", source, "operation", name];
        let timeout = text.timeout.as_ref().map(|timeout| timeout.0);
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            let key_path = [&key_path[..], &["timeout"]].concat();
            document.report(&key_path, "must be greater than zero");
        }
        let access = text.access.as_ref().map(|text| access(document, &key_path, text));
        let (approval, exclusive) = (text.approval, text.exclusive);
        (name.clone(), OperationAdjustments { access, approval, timeout, exclusive })
    });
    checked.collect()
}

fn access(document: &TomlDocument<'_>, key_path: &[&str], text: &AccessText) -> Access {
    match text {
        AccessText::Open => Access::Open,
        AccessText::Scopes(scopes) => {
            if scopes.is_empty() {
                let message = "no scope is asked for; write access = \"open\" if that is meant";
                document.report(&[key_path, &["access", "scopes"]].concat(), message);
            }
            if !scopes.iter().all(|scope| is_scope(scope)) {
                document.report(&[key_path, &["access", "scopes"]].concat(), SCOPE_FORMAT);
            }
            Access::Scopes(scopes.clone())
        }
    }
}

fn globs(document: &TomlDocument<'_>, [name, key]: [&str; 2], patterns: &[String]) -> Vec<Glob> {
    if patterns.iter().any(String::is_empty) {
        let message = "an empty pattern fits no operation; `*` fits every one";
        document.report(&["source", name, key], message);
    }
    patterns.iter().map(Glob::new).collect()
}
