//! `init`: writes an initial configuration.

use serde_json::json;
use toolpost_gateway::config::{ClientFile, relative_path, write_template};

use crate::arguments::InitOptions;
use crate::error::CommandError;
use crate::output;

pub(crate) fn init(options: &InitOptions) -> Result<(), CommandError> {
    let file = &options.config;
    let client_file = file.with_file_name(ClientFile::FILE_NAME);
    let found = client_file.exists().then(|| ClientFile::FILE_NAME.into());
    let clients = options.from.as_deref().map(|from| relative_path(file, from)).or(found);
    if let Some(from) = &options.from {
        // A file named with `--from` must contain servers.
        ClientFile::load_lenient(from)?;
    }
    let client_path = clients.as_ref().map(|clients| clients.display().to_string());
    write_template(file, client_path.as_deref())?;
    if output::wants_json(options.format.json) {
        let file = file.display().to_string();
        output::print_json_line(
            &json!({"file": file, "written": true, "mcpServers": client_path}),
        )?;
    } else {
        let file = file.display();
        output::print_line(&format!("{file} is there, with everything at its default."))?;
    }
    if let Some(clients) = client_path {
        output::notice(&format!("The servers of {clients} are sources: `mcp_servers` names it."));
    }
    output::notice("`toolpost add mcp NAME -- command` adds a source, `toolpost serve` starts it.");
    Ok(())
}
