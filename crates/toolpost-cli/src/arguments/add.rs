//! `add` and `remove`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use toolpost::protocol::Secret;
use toolpost_gateway::config::{IfExists, parse_duration};

use super::ConfigFile;

#[derive(Debug, Subcommand)]
pub(crate) enum AddCommand {
    /// Add an MCP server, whose tools become operations
    Mcp(Box<AddMcpOptions>),
    /// Add an HTTP service that has an OpenAPI document
    Openapi(Box<AddOpenApiOptions>),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Connects to the server, shows its tools and writes the source to the configuration. ${VAR} is written
as is; its value is read from the environment when the source starts.

  toolpost add mcp files -- npx -y @modelcontextprotocol/server-filesystem /data
  toolpost add mcp github --env GITHUB_TOKEN -- github-mcp-server stdio
  toolpost add mcp tracker --url https://mcp.example/mcp --bearer '${TRACKER_TOKEN}'
  toolpost add mcp --from ~/.cursor/mcp.json      # the servers of another client")]
pub(crate) struct AddMcpOptions {
    /// Name of the source and namespace of its operations; with --from, the servers to add [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Program of the server and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["url", "from"])]
    pub(crate) command: Vec<String>,
    /// Environment variable of the program; KEY alone uses the gateway's variable (repeatable)
    #[arg(long, value_name = "KEY[=VALUE]", requires = "command")]
    pub(crate) env: Vec<Secret>,
    /// Working directory of the program
    #[arg(long, value_name = "FOLDER", requires = "command")]
    pub(crate) cwd: Option<PathBuf>,
    /// URL of the server (streamable HTTP or HTTP+SSE)
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    pub(crate) url: Option<Secret>,
    /// Header sent with every request (repeatable)
    #[arg(long = "header", value_name = "NAME: VALUE", requires = "url")]
    pub(crate) headers: Vec<Secret>,
    /// Bearer token sent with every request; use '${VAR}' to keep it out of the file
    #[arg(long, value_name = "TOKEN", requires = "url")]
    pub(crate) bearer: Option<Secret>,
    /// OAuth client id registered with the authorization server
    #[arg(long, value_name = "ID", requires = "url")]
    pub(crate) client_id: Option<String>,
    /// OAuth client secret
    #[arg(long, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<Secret>,
    /// URL of the OAuth client metadata document
    #[arg(long, value_name = "URL", requires = "url")]
    pub(crate) client_metadata_url: Option<String>,
    /// OAuth scope to request (repeatable)
    #[arg(long = "scope", value_name = "SCOPE", requires = "url")]
    pub(crate) scopes: Vec<String>,
    /// Configuration file of another MCP client, with `mcpServers`, `servers` or `context_servers`
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) write: WriteOptions,
    /// Maximum time for the server to start and list its tools
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Reads the document, shows its operations and writes the source to the configuration. ${VAR} is written
as is; its value is read from the environment when the source starts.

  toolpost add openapi pets petstore.yaml --server http://127.0.0.1:8080
  toolpost add openapi github github.json --bearer '${GITHUB_TOKEN}' --include 'issues/*'
  toolpost add openapi shop https://shop.example/openapi.json --api-key '${SHOP_KEY}'
  toolpost add openapi east https://east.example/openapi.json --private --bearer '${EAST_TOKEN}'")]
pub(crate) struct AddOpenApiOptions {
    /// Name of the source and namespace of its operations
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) document: DocumentOptions,
    /// Base URL of the service, instead of the one in the document
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Bearer token sent with every request; use '${VAR}' to keep it out of the file
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["basic", "api_key"])]
    pub(crate) bearer: Option<Secret>,
    /// Username and password sent with every request
    #[arg(long, value_name = "USER:PASSWORD", conflicts_with = "api_key")]
    pub(crate) basic: Option<Secret>,
    /// API key, sent as the document declares
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<Secret>,
    /// Header sent with every request (repeatable)
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<Secret>,
    /// Also send the token and the headers when fetching the document, for example to another gateway
    #[arg(long)]
    pub(crate) private: bool,
    #[command(flatten)]
    pub(crate) write: WriteOptions,
}

/// A document and the selection of its operations.
#[derive(Debug, Args)]
pub(crate) struct DocumentOptions {
    /// Document: OpenAPI 3.0, 3.1, 3.2 or Swagger 2.0, as JSON or YAML
    #[arg(value_name = "FILE|URL")]
    pub(crate) document: String,
    /// Include only operations whose name matches; `*` matches anything (repeatable)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Exclude operations whose name matches (repeatable)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Rename an operation (repeatable)
    #[arg(long, value_name = "OLD=NEW")]
    pub(crate) rename: Vec<String>,
    /// Prefix for all names
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// Additional host that the document may refer to (repeatable)
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Neither calls the service nor writes the configuration. --json prints {operations, skipped, warnings}.

  toolpost import petstore.yaml
  toolpost import https://api.example/openapi.json --include 'user*' --json")]
pub(crate) struct ImportOptions {
    #[command(flatten)]
    pub(crate) document: DocumentOptions,
    /// Namespace of the operations
    #[arg(long, value_name = "NAME", default_value = "api")]
    pub(crate) name: String,
}

/// How a source is written to the configuration.
#[derive(Debug, Args)]
pub(crate) struct WriteOptions {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Replace an existing source and keep the settings that are not given
    #[arg(long)]
    pub(crate) replace: bool,
    /// Write the source without connecting to it
    #[arg(long)]
    pub(crate) no_connect: bool,
}

impl WriteOptions {
    pub(crate) fn if_exists(&self) -> IfExists {
        if self.replace { IfExists::Replace } else { IfExists::Fail }
    }
}

/// The corrected form of `toolpost add mcp NAME COMMAND -o…`, whose `-o` is not an option of `add`.
pub(crate) fn missing_separator_hint(typed: impl Iterator<Item = String>) -> Option<String> {
    let arguments: Vec<String> = typed.skip(1).collect();
    let rest = arguments.strip_prefix(&["add".to_owned(), "mcp".to_owned()])?;
    let is_server = |argument: &String| !argument.starts_with('-');
    match rest {
        [name, command @ ..] if is_server(name) && command.first().is_some_and(is_server) => {
            let is_other =
                |argument: &String| matches!(argument.as_str(), "--" | "--url" | "--from");
            (!command.iter().any(is_other)).then(|| separator_hint(name, command))
        }
        _ => None,
    }
}

/// The corrected command line.
pub(crate) fn separator_hint(name: &str, command: &[String]) -> String {
    let quoted =
        |argument: &String| match argument.contains(|c: char| c.is_whitespace() || c == '$') {
            true => format!("'{argument}'"),
            false => argument.clone(),
        };
    let command: Vec<String> = command.iter().map(quoted).collect();
    format!("the program must follow `--`; use `toolpost add mcp {name} -- {}`", command.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_separator_hint_suggests_command_line() {
        for (typed, expected) in [
            ("toolpost add mcp foo npx -y x", Some("toolpost add mcp foo -- npx -y x")),
            ("toolpost add mcp foo -y x", None),
            ("toolpost add mcp foo", None),
            ("toolpost add mcp foo npx -y -- x", None),
            ("toolpost add mcp foo bar --hush --from x", None),
            ("toolpost list mcp foo npx -y", None),
            ("toolpost add", None),
        ] {
            let hint = missing_separator_hint(typed.split(' ').map(str::to_owned));
            let expected =
                expected.map(|line| format!("the program must follow `--`; use `{line}`"));
            assert_eq!(hint, expected, "{typed}");
        }
    }
}
