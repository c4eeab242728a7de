//! Includes an existing `.mcp.json` in a new `toolpost.toml`, because it is read by default only as
//! long as there is no `toolpost.toml` next to it.

use std::path::Path;

use toolpost_gateway::config::{ClientFile, Config, EditError, create_with_mcp_servers};

use crate::output;

const MCP_JSON: &str = ClientFile::FILE_NAME;

/// Creates a new `toolpost.toml` that includes the servers of an existing `.mcp.json`, and prints a
/// notice. If that is not possible, the notice contains the reason. `names` are the sources about
/// to be written.
pub(super) fn include_in_config(config: &Path, names: &[String]) -> Result<(), EditError> {
    let other = config.with_file_name(MCP_JSON);
    if config.exists() || !config.ends_with(Config::FILE_NAME) || !other.exists() {
        return Ok(());
    }
    let Ok(read) = ClientFile::load(&other) else {
        output::notice(&format!("{MCP_JSON} is not read any more, and has errors. {INCLUDE_HINT}"));
        return Ok(());
    };
    let (twice, others): (Vec<_>, Vec<_>) =
        read.servers.into_iter().map(|server| server.name).partition(|name| names.contains(name));
    match (&twice[..], &others[..]) {
        (_, []) => {}
        ([], _) => {
            create_with_mcp_servers(config, MCP_JSON)?;
            output::notice(&format!("The servers of {MCP_JSON} stay: `mcp_servers` names it."));
        }
        (twice, others) => output::notice(&format!(
            "{MCP_JSON} is not read any more, since `{}` would be there twice; left out: {}. {INCLUDE_HINT}",
            twice.join("`, `"),
            others.join(", "),
        )),
    }
    Ok(())
}

const INCLUDE_HINT: &str =
    "`mcp_servers = [\".mcp.json\"]` at the top of toolpost.toml brings it back.";
