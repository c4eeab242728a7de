//! Configuration entries built from command-line arguments or from another client's file.

use std::collections::BTreeMap;
use std::path::Path;

use toolpost::protocol::Secret;
use toolpost_gateway::config::{ClientFile, ClientServer, McpEntry, OAuthEntry};

use crate::arguments::{AddMcpOptions, separator_hint};
use crate::error::CommandError;
use crate::output;

#[derive(Debug)]
pub(super) struct ServerCandidate {
    pub(super) name: String,
    pub(super) entry: McpEntry,
    /// Why this server cannot be used, if other servers in the same file can.
    pub(super) rejection: Option<String>,
}

pub(super) fn read_candidates(
    options: &AddMcpOptions,
) -> Result<Vec<ServerCandidate>, CommandError> {
    if let Some(file) = &options.from {
        return candidates_from_file(file, &options.names);
    }
    let is_reached = !options.command.is_empty() || options.url.is_some();
    let name = match &options.names[..] {
        [name] => name,
        [] => {
            return Err(CommandError::usage(
                "missing name; use `toolpost add mcp NAME -- COMMAND…`",
            ));
        }
        [name, command @ ..] if !is_reached => {
            return Err(CommandError::Usage(separator_hint(name, command)));
        }
        _ => {
            return Err(CommandError::usage(
                "too many names; use `toolpost add mcp NAME -- COMMAND…`",
            ));
        }
    };
    let entry = entry_from_options(options)?;
    Ok(vec![ServerCandidate { name: name.clone(), entry, rejection: None }])
}

fn entry_from_options(options: &AddMcpOptions) -> Result<McpEntry, CommandError> {
    let mut entry = McpEntry::default();
    let mut command_line = options.command.iter().cloned();
    entry.command = command_line.next();
    entry.args = command_line.collect();
    entry.url = reveal(options.url.as_ref());
    if entry.command.is_none() && entry.url.is_none() {
        return Err(CommandError::usage(
            "missing server; add -- COMMAND…, --url URL or --from FILE",
        ));
    }
    for variable in &options.env {
        let variable = variable.reveal();
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (variable, format!("${{{variable}}}")),
        };
        entry.env.insert(name.to_owned(), value);
    }
    entry.cwd = options.cwd.as_deref().map(absolute_path);
    entry.headers = parse_headers(&options.headers)?;
    entry.bearer = reveal(options.bearer.as_ref());
    let mut client = OAuthEntry::default();
    client.client_id.clone_from(&options.client_id);
    client.client_secret = reveal(options.client_secret.as_ref());
    client.client_metadata_url.clone_from(&options.client_metadata_url);
    client.scopes.clone_from(&options.scopes);
    entry.oauth = (client != OAuthEntry::default()).then_some(client);
    Ok(entry)
}

pub(in super::super) fn reveal(secret: Option<&Secret>) -> Option<String> {
    secret.map(|secret| secret.reveal().to_owned())
}

pub(in super::super) fn parse_headers(
    given: &[Secret],
) -> Result<BTreeMap<String, String>, CommandError> {
    let parse = |header: &Secret| {
        let (name, value) = header.reveal().split_once(':')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let headers: Option<_> = given.iter().map(parse).collect();
    headers.ok_or_else(|| CommandError::usage("invalid header; use --header 'NAME: VALUE'"))
}

/// Reads the servers in another client's file: all of them, or only those in `names`.
fn candidates_from_file(
    file: &Path,
    names: &[String],
) -> Result<Vec<ServerCandidate>, CommandError> {
    let read = ClientFile::load(file)?;
    print_notes(file, names, &read.notes);
    let folder = file.parent().unwrap_or(Path::new(""));
    let candidate = |server: ClientServer| {
        let reasons: Vec<String> = server.problems.iter().map(ToString::to_string).collect();
        let rejection = (!reasons.is_empty()).then(|| reasons.join("; "));
        let entry = with_absolute_cwd(server.entry, folder);
        (server.client_name, ServerCandidate { name: server.name, entry, rejection })
    };
    let mut known: Vec<(String, ServerCandidate)> =
        read.servers.into_iter().map(candidate).collect();
    let is_named = |(client_name, server): &(String, ServerCandidate), name: &String| {
        [client_name, &server.name].contains(&name)
    };
    let is_known = |name: &&String| known.iter().any(|server| is_named(server, name));
    let file = file.display();
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = known.iter().map(|(client_name, _)| client_name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(CommandError::Usage(format!(
            "no server `{unknown}` in {file}; it has: {known}"
        )));
    }
    known.retain(|server| names.is_empty() || names.iter().any(|name| is_named(server, name)));
    if known.is_empty() {
        return Err(CommandError::Usage(format!("{file} has no servers")));
    }
    Ok(known.into_iter().map(|(_, server)| server).collect())
}

fn print_notes(file: &Path, names: &[String], notes: &[String]) {
    let file = file.display();
    let about = |note: &String, name: &String| note.starts_with(&format!("{file}: `{name}` "));
    for note in notes {
        if names.is_empty() || names.iter().any(|name| about(note, name)) {
            output::notice(note);
        }
    }
}

/// Makes a relative working directory absolute, so that it does not depend on the location of the
/// configuration file.
fn with_absolute_cwd(mut entry: McpEntry, folder: &Path) -> McpEntry {
    if let Some(cwd) = entry.cwd.take_if(|cwd| !cwd.contains("${")) {
        entry.cwd = Some(absolute_path(&folder.join(cwd)));
    }
    entry
}

fn absolute_path(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute.to_string_lossy().into_owned()
}
