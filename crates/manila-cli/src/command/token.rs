//! `token`: a secret for somebody, shown once.

use anyhow::Context;
use manila::Identity;
use manila_gateway::auth::Token;
use manila_gateway::config::{Existing, write_identity};

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
    let mut identity = Identity::new(options.name).with_scopes(options.scopes);
    for (resource, actions) in options.resources {
        identity = identity.with_resource(resource, actions);
    }
    let existing = if options.replace { Existing::Replace } else { Existing::Refuse };
    let token = Token::generate().context("the system has no randomness to give")?;
    write_identity(&options.config, &identity, token.hash(), existing)?;
    output::print_line(token.reveal())?;
    let (name, file) = (&identity.id, options.config.display());
    output::remark(&format!(
        "This is the token of `{name}`, shown once; only its SHA-256 is stored in {file}."
    ));
    Ok(())
}
