//! A `.mcp.json` that was read as long as there was no `toolpost.toml` beside it.

use std::path::Path;

use toolpost_gateway::config::{ClientFile, Config, EditError, begin_with_clients};

use crate::output;

const NAME: &str = ClientFile::FILE_NAME;

/// Begins a new `toolpost.toml` with the servers of the other file, so that none disappears; says so,
/// or why that cannot be. `names` are the sources that are about to be written.
pub(super) fn keep(config: &Path, names: &[String]) -> Result<(), EditError> {
    let other = config.with_file_name(NAME);
    if config.exists() || !config.ends_with(Config::FILE_NAME) || !other.exists() {
        return Ok(());
    }
    let Ok(read) = ClientFile::load(&other) else {
        output::remark(&format!("{NAME} is not read any more, and has errors. {REMEDY}"));
        return Ok(());
    };
    let (twice, others): (Vec<_>, Vec<_>) =
        read.servers.into_iter().map(|server| server.name).partition(|name| names.contains(name));
    match (&twice[..], &others[..]) {
        (_, []) => {}
        ([], _) => {
            begin_with_clients(config, NAME)?;
            output::remark(&format!("The servers of {NAME} stay: `mcp_servers` names it."));
        }
        (twice, others) => output::remark(&format!(
            "{NAME} is not read any more, since `{}` would be there twice; left out: {}. {REMEDY}",
            twice.join("`, `"),
            others.join(", "),
        )),
    }
    Ok(())
}

const REMEDY: &str = "`mcp_servers = [\".mcp.json\"]` at the top of toolpost.toml brings it back.";
