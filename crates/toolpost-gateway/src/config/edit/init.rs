//! Template of a new configuration file.

use std::path::Path;

use toml_edit::Value;

use super::{EditError, rewrite};

/// Content of a new file. Lines that start with `# ` are explanations; the other lines that start
/// with `#` are settings to uncomment.
const TEMPLATE: &str = r#"# Configuration of a Toolpost gateway. A running gateway reloads it when it changes.
#
#   toolpost serve --check      validate this file and print a summary
#   toolpost schema config      print all keys with descriptions and defaults, as a JSON Schema
#   toolpost add, toolpost remove, toolpost token new      edit this file and keep its comments
#
# In every string, ${VAR} is an environment variable and ${file:PATH} the content of a file.

# Whether the demo operations, demo.*, are registered.
#
#demo = false

# Sources of operations. The name of a source is the namespace of its operations.
#
#[source.files]
#mcp = { command = "npx", args = ["-y", "@modelcontextprotocol/server-filesystem", "/data"] }
#
#[source.tracker]
#mcp = { url = "https://mcp.example/mcp", bearer = "${TRACKER_TOKEN}" }
#access = { scopes = ["tracker"] }
#
#[source.pets]
#openapi = "pets.yaml"
#include = ["list*"]
#timeout = "10s"

# Identities, created with `toolpost token new NAME`. Without any, every local program has access.
#
#[identity.ci]
#token_hash = "0c4c257804e3d7fd02cc24504d29bf110a643ec9f308d17afe7f1ba0dddd0d47"
#scopes = ["tracker"]

# Tools for MCP clients.
#
#[mcp]
#dialect = "data"
#tools = "auto"
#compact_above = 60

# Calls that need approval by another identity (`toolpost approvals`, `toolpost approve`).
#
#[approval]
#operations = ["tracker.delete*"]

# Audit log of calls; the mode is "sync", "batch" or "off".
#
#[journal]
#mode = "batch"
#retain_for = "30d"

# Limits of callers, sources and connections.
#
#[limits]
#caller_calls = 1000
"#;

/// Creates a configuration file with default settings. If `clients` names a client file, its
/// servers are included through `mcp_servers`.
///
/// # Errors
///
/// The file exists already, or an I/O error occurs.
pub fn write_template(file: &Path, clients: Option<&str>) -> Result<(), EditError> {
    let exists = || EditError::Invalid(format!("{} already exists", file.display()));
    if file.symlink_metadata().is_ok() {
        return Err(exists());
    }
    rewrite(file, |text| if text.is_empty() { Ok(template(clients)) } else { Err(exists()) })
}

fn template(clients: Option<&str>) -> String {
    let Some(clients) = clients else { return TEMPLATE.to_owned() };
    let (head, rest) = TEMPLATE.split_once("\n\n").unwrap_or((TEMPLATE, ""));
    let client_path = Value::from(clients);
    format!(
        "{head}\n\n# The MCP servers of another client.\nmcp_servers = [{client_path}]\n\n{rest}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn parse(text: &str) -> Config {
        let environment = |name: &str| (name == "TRACKER_TOKEN").then(|| "x".to_owned());
        Config::parse("toolpost.toml".as_ref(), text, &environment).unwrap()
    }

    #[test]
    fn template_is_default_and_its_examples_are_valid() {
        let config = parse(TEMPLATE);
        assert!(config.identities.is_empty() && config.sources.is_empty());
        assert_eq!(config.mcp, Config::default().mcp);
        assert!(!config.without_demo);
        let proposed = TEMPLATE.lines().filter_map(|line| {
            line.strip_prefix('#').filter(|rest| !rest.is_empty() && !rest.starts_with(' '))
        });
        let config = parse(&proposed.collect::<Vec<_>>().join("\n"));
        let names: Vec<_> = config.sources.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["files", "pets", "tracker"]);
        assert_eq!(config.identities.len(), 1);
        assert!(config.without_demo);
    }

    #[test]
    fn template_puts_mcp_servers_before_tables() {
        let text = template(Some("o\"dd.json"));
        let document: toml_edit::DocumentMut = text.parse().unwrap();
        assert_eq!(document["mcp_servers"][0].as_str(), Some("o\"dd.json"));
    }
}
