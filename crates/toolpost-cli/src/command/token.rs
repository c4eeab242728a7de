//! `token`: create, list and revoke access tokens. A token is shown only once.

use anyhow::Context;
use serde_json::{Value, json};
use toolpost::Identity;
use toolpost_gateway::auth::Token;
use toolpost_gateway::config::{Config, IfExists, overview, remove_identity, write_identity};

use super::config_file::{include_mcp_json, print_removed};
use crate::arguments::{ConfigFile, TokenCommand, TokenNewOptions};
use crate::error::CommandError;
use crate::output;

pub(crate) fn token(command: TokenCommand) -> Result<(), CommandError> {
    match command {
        TokenCommand::New(options) => new(options),
        TokenCommand::List(file) => list(&file),
        TokenCommand::Revoke(identity) => {
            remove_identity(&identity.file.config, &identity.name)?;
            print_removed(&identity, "revoked")
        }
    }
}

/// Lists the identities and their permissions, without tokens or hashes.
fn list(file: &ConfigFile) -> Result<(), CommandError> {
    let config = Config::load(&file.config)?;
    let known = config.identities.iter().map(|known| &known.identity);
    let all: Vec<Value> = known.clone().map(to_json).collect();
    Ok(output::print_value(&all, || match known.map(describe).collect::<Vec<_>>() {
        lines if lines.is_empty() => {
            "No tokens; create one with `toolpost token new NAME`.".to_owned()
        }
        lines => lines.join("\n"),
    })?)
}

fn to_json(identity: &Identity) -> Value {
    let Identity { id, scopes, resources, capabilities, .. } = identity;
    json!({"name": id, "scopes": scopes, "resources": resources, "capabilities": capabilities})
}

/// Formats an identity: `ci: github:read; repo:toolpost=read,write`.
fn describe(identity: &Identity) -> String {
    let scopes = identity.scopes.join(", ");
    let scopes = if scopes.is_empty() { "no scopes" } else { &scopes };
    let resources = identity.resources.iter();
    let resources: String =
        resources.map(|(name, actions)| format!("; {name}={}", actions.join(","))).collect();
    format!("{}: {scopes}{resources}", identity.id)
}

/// Creates a token. Standard output contains only the token, for use in scripts.
fn new(options: TokenNewOptions) -> Result<(), CommandError> {
    let mut identity = Identity::new(options.identity.name)
        .with_scopes(options.scopes)
        .with_capabilities(options.capabilities);
    for (resource, actions) in options.resources {
        identity = identity.with_resource(resource, actions);
    }
    let existing = if options.replace { IfExists::Replace } else { IfExists::Fail };
    let token = Token::generate().context("the system random number generator failed")?;
    let config = &options.identity.file.config;
    include_mcp_json(config, &[])?;
    write_identity(config, &identity, token.hash(), existing)?;
    let (name, file) = (&identity.id, config.display().to_string());
    if output::json_requested() {
        output::print_json_line(&json!({"name": name, "token": token.reveal(), "file": file}))?;
    } else {
        output::print_line(token.reveal())?;
    }
    output::notice(&format!("Token of `{name}`, shown once; {file} stores only its SHA-256."));
    let open = overview(config)?.open_sources;
    if !open.is_empty() {
        let open = open.join(", ");
        output::notice(&format!("Sources callable with any token (`access = \"open\"`): {open}"));
    }
    Ok(())
}
