//! Configuration entries built from command-line arguments or from another client's file.

use std::path::Path;

use toolpost_gateway::config::{ClientFile, McpEntry};

use crate::arguments::{AddMcpOptions, separator_hint};
use crate::error::CommandError;
use crate::output;

/// A server to be added as a source.
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
        [] => return Err(usage("a name is missing: toolpost add mcp NAME -- COMMAND…")),
        [name, command @ ..] if !is_reached => return Err(usage(&separator_hint(name, command))),
        _ => return Err(usage("a source has one name: toolpost add mcp NAME -- COMMAND…")),
    };
    let entry = entry_from_options(options)?;
    Ok(vec![ServerCandidate { name: name.clone(), entry, rejection: None }])
}

fn usage(message: &str) -> CommandError {
    CommandError::Usage(message.to_owned())
}

fn entry_from_options(options: &AddMcpOptions) -> Result<McpEntry, CommandError> {
    let mut entry = McpEntry::default();
    let mut command_line = options.command.iter().cloned();
    entry.command = command_line.next();
    entry.args = command_line.collect();
    entry.url = options.url.as_ref().map(|url| url.0.clone());
    if entry.command.is_none() && entry.url.is_none() {
        return Err(usage("say how it is reached: -- COMMAND…, --url URL or --from FILE"));
    }
    for variable in &options.env {
        let (name, value) = match variable.0.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (variable.0.as_str(), format!("${{{}}}", variable.0)),
        };
        entry.env.insert(name.to_owned(), value);
    }
    entry.cwd = options.cwd.as_deref().map(absolute_path);
    for typed in &options.headers {
        let (name, value) = parse_header(&typed.0)?;
        entry.headers.insert(name, value);
    }
    entry.bearer = options.bearer.as_ref().map(|token| token.0.clone());
    entry.client_id.clone_from(&options.client_id);
    entry.client_secret = options.client_secret.as_ref().map(|secret| secret.0.clone());
    entry.client_metadata_url.clone_from(&options.client_metadata_url);
    entry.scopes.clone_from(&options.scopes);
    Ok(entry)
}

/// Parses a header given as `NAME: VALUE`.
pub(in super::super) fn parse_header(text: &str) -> Result<(String, String), CommandError> {
    let pair = text.split_once(':');
    let (name, value) =
        pair.ok_or_else(|| usage("a header is written as --header 'NAME: VALUE'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Reads the servers in another client's file: all of them, or only those in `names`.
fn candidates_from_file(
    file: &Path,
    names: &[String],
) -> Result<Vec<ServerCandidate>, CommandError> {
    let read = ClientFile::load_lenient(file)?;
    print_notes(file, names, &read.notes);
    let usable = read.servers.iter().map(|server| (&server.client_name, &server.name));
    let error = read.rejected.iter().map(|server| (&server.client_name, &server.name));
    let known: Vec<_> = usable.chain(error).collect();
    let fits =
        |requested: &String| known.iter().any(|(typed, name)| [typed, name].contains(&&requested));
    if let Some(unknown) = names.iter().find(|name| !fits(name)) {
        let known: Vec<&str> = known.iter().map(|(typed, _)| typed.as_str()).collect();
        let known = if known.is_empty() { "it has none".to_owned() } else { known.join(", ") };
        let file = file.display();
        return Err(CommandError::Usage(format!(
            "there is no `{unknown}` in {file}; there are: {known}"
        )));
    }
    let is_requested = |typed: &String, name: &String| {
        names.is_empty() || names.contains(typed) || names.contains(name)
    };
    let folder = file.parent().unwrap_or(Path::new(""));
    let usable =
        read.servers.into_iter().filter(|server| is_requested(&server.client_name, &server.name));
    let usable = usable.map(|server| {
        let entry = with_absolute_cwd(server.entry, folder);
        ServerCandidate { name: server.name, entry, rejection: None }
    });
    let error =
        read.rejected.into_iter().filter(|server| is_requested(&server.client_name, &server.name));
    let error = error.map(|server| {
        let reasons: Vec<String> = server.problems.iter().map(ToString::to_string).collect();
        let (name, entry) = (server.name, McpEntry::default());
        ServerCandidate { name, entry, rejection: Some(reasons.join("; ")) }
    });
    let requested: Vec<_> = usable.chain(error).collect();
    if requested.is_empty() {
        return Err(CommandError::Usage(format!("{} has no server to add", file.display())));
    }
    Ok(requested)
}

/// Prints the notes about the selected servers.
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
