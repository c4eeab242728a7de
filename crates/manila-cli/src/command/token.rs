//! `token`: a secret for somebody, shown once.

use anyhow::Context;
use manila::Identity;
use manila_gateway::auth::Token;
use manila_gateway::config::{Existing, overview, write_identity};
use serde_json::json;

use super::neighbour;
use crate::arguments::{TokenCommand, TokenOptions};
use crate::failure::Failure;
use crate::output;

pub(crate) fn token(command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::New(options) => new(options),
    }
}

/// The token is the only thing on standard output, so that a script can take it.
fn new(options: TokenOptions) -> Result<(), Failure> {
    let mut identity = Identity::new(options.name)
        .with_scopes(options.scopes)
        .with_capabilities(options.capabilities);
    for (resource, actions) in options.resources {
        identity = identity.with_resource(resource, actions);
    }
    let existing = if options.replace { Existing::Replace } else { Existing::Refuse };
    let token = Token::generate().context("the system has no randomness to give")?;
    neighbour::keep(&options.config, &[])?;
    write_identity(&options.config, &identity, token.hash(), existing)?;
    let (name, file) = (&identity.id, options.config.display());
    if options.json {
        let file = file.to_string();
        output::print_plain(&json!({"name": name, "token": token.reveal(), "file": file}))?;
    } else {
        output::print_line(token.reveal())?;
    }
    output::remark(&format!(
        "This is the token of `{name}`, shown once; only its SHA-256 is stored in {file}."
    ));
    let open = overview(&options.config)?.open;
    if !open.is_empty() {
        output::remark(&about_open(&open));
    }
    Ok(())
}

/// What was open to this machine while nobody was known is open to every token now.
fn about_open(sources: &[String]) -> String {
    let names = sources.join("`, `");
    let (them, each) = match sources {
        [name] => ("is", name.as_str()),
        _ => ("are", "NAME"),
    };
    format!(
        "`{names}` {them} open to every token: `access = \"open\"`. \
         Without that line the scope `source:{each}` is needed."
    )
}
