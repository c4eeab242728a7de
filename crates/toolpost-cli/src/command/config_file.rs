//! `init` and `remove`: write the configuration file.

use std::path::Path;

use serde_json::json;
use toolpost_gateway::config::{
    ClientFile, Config, EditError, create_with_mcp_servers, relative_path, remove_source,
    write_template,
};

use crate::arguments::{InitOptions, NamedEntry};
use crate::error::CommandError;
use crate::output;

const MCP_JSON: &str = ClientFile::FILE_NAME;

pub(crate) fn init(options: &InitOptions) -> Result<(), CommandError> {
    let file = &options.file.config;
    let found = file.with_file_name(MCP_JSON).exists().then(|| MCP_JSON.into());
    let clients = options.from.as_deref().map(|from| relative_path(file, from)).or(found);
    if let Some(from) = &options.from {
        // A file named with `--from` must contain servers.
        ClientFile::load(from)?;
    }
    let client_path = clients.as_ref().map(|clients| clients.display().to_string());
    write_template(file, client_path.as_deref())?;
    let file = file.display().to_string();
    let written = json!({"file": file, "written": true, "mcpServers": client_path});
    output::print_value(&written, || format!("Wrote {file} with default settings."))?;
    if let Some(clients) = client_path {
        output::notice(&format!(
            "The servers in {clients} are included as sources (`mcp_servers`)."
        ));
    }
    output::notice(
        "Add a source with `toolpost add mcp NAME -- COMMAND`; start the gateway with `toolpost serve`.",
    );
    Ok(())
}

pub(crate) fn remove(source: &NamedEntry) -> Result<(), CommandError> {
    remove_source(&source.file.config, &source.name)?;
    print_removed(source, "removed")
}

pub(super) fn print_removed(entry: &NamedEntry, verb: &str) -> Result<(), CommandError> {
    let (name, file) = (&entry.name, entry.file.config.display().to_string());
    let removed = json!({"name": name, verb: true, "file": file});
    output::print_value(&removed, || format!("Removed `{name}` from {file}."))?;
    output::notice(output::RELOAD_NOTICE);
    Ok(())
}

/// Creates a new `toolpost.toml` that includes the servers of an existing `.mcp.json`, which is read
/// by default only as long as there is no `toolpost.toml` next to it, and prints a notice. If that
/// is not possible, the notice contains the reason. `names` are the sources about to be written.
pub(super) fn include_mcp_json(config: &Path, names: &[String]) -> Result<(), EditError> {
    let other = config.with_file_name(MCP_JSON);
    if config.exists() || !config.ends_with(Config::FILE_NAME) || !other.exists() {
        return Ok(());
    }
    let is_usable =
        |read: &ClientFile| read.servers.iter().all(|server| server.problems.is_empty());
    let read = ClientFile::load(&other).ok().filter(is_usable);
    let Some(read) = read else {
        output::notice(&format!("{MCP_JSON} has errors, so it is not included. {INCLUDE_HINT}"));
        return Ok(());
    };
    let (twice, others): (Vec<_>, Vec<_>) =
        read.servers.into_iter().map(|server| server.name).partition(|name| names.contains(name));
    match (&twice[..], &others[..]) {
        (_, []) => {}
        ([], _) => {
            create_with_mcp_servers(config, MCP_JSON)?;
            output::notice(&format!("The servers in {MCP_JSON} remain sources (`mcp_servers`)."));
        }
        (twice, others) => output::notice(&format!(
            "{MCP_JSON} also defines `{}`, so it is not included. Omitted servers: {}. {INCLUDE_HINT}",
            twice.join("`, `"),
            others.join(", "),
        )),
    }
    Ok(())
}

const INCLUDE_HINT: &str =
    "To include it, set `mcp_servers = [\".mcp.json\"]` at the top of toolpost.toml.";
