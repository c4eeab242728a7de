//! `init`: a configuration to begin with.

use serde_json::json;
use toolpost_gateway::config::{ClientFile, path_from, write_beginning};

use crate::arguments::InitOptions;
use crate::failure::Failure;
use crate::output;

pub(crate) fn init(options: &InitOptions) -> Result<(), Failure> {
    let file = &options.config;
    let neighbor = file.with_file_name(ClientFile::FILE_NAME);
    let found = neighbor.exists().then(|| ClientFile::FILE_NAME.into());
    let clients = options.from.as_deref().map(|from| path_from(file, from)).or(found);
    if let Some(from) = &options.from {
        // Whoever names a file wants its servers; one without any is a mistake.
        ClientFile::load_each(from)?;
    }
    let named = clients.as_ref().map(|clients| clients.display().to_string());
    write_beginning(file, named.as_deref())?;
    if output::is_plain(options.format.json) {
        let file = file.display().to_string();
        output::print_plain(&json!({"file": file, "written": true, "mcpServers": named}))?;
    } else {
        let file = file.display();
        output::print_line(&format!("{file} is there, with everything at its default."))?;
    }
    if let Some(clients) = named {
        output::remark(&format!("The servers of {clients} are sources: `mcp_servers` names it."));
    }
    output::remark("`toolpost add mcp NAME -- command` adds a source, `toolpost serve` starts it.");
    Ok(())
}
