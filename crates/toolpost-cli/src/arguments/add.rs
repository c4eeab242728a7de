//! `add` and `remove`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use toolpost::protocol::Secret;
use toolpost_gateway::config::{IfExists, parse_duration};

use super::ConfigFile;

#[derive(Debug, Subcommand)]
pub(crate) enum AddCommand {
    /// Add an MCP server: its tools become operations
    Mcp(Box<AddMcpOptions>),
    /// Add an HTTP service with an OpenAPI document: its operations become ours
    Openapi(Box<AddOpenApiOptions>),
}

#[derive(Debug, Args)]
#[command(after_help = "\
The server is started or called first, what it offers is shown, and then the source is written. Of
${VAR} only the name is written, never the value.
  toolpost add mcp files -- npx -y @modelcontextprotocol/server-filesystem /data
  toolpost add mcp github --env GITHUB_TOKEN -- github-mcp-server stdio
  toolpost add mcp tracker --url https://mcp.example/mcp --bearer '${TRACKER_TOKEN}'
  toolpost add mcp --from ~/.cursor/mcp.json      every server of another client, or those named")]
pub(crate) struct AddMcpOptions {
    /// The name of the source and the namespace of its operations; with --from, which servers
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["url", "from"])]
    pub(crate) command: Vec<String>,
    /// What the program finds in its environment; KEY alone takes it from ours each time
    #[arg(long, value_name = "KEY[=VALUE]", requires = "command")]
    pub(crate) env: Vec<Secret>,
    /// The folder that the program runs in
    #[arg(long, value_name = "FOLDER", requires = "command")]
    pub(crate) cwd: Option<PathBuf>,
    /// The endpoint of a server that speaks streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with = "from")]
    pub(crate) url: Option<Secret>,
    /// What is sent with every request; can be given several times
    #[arg(long = "header", value_name = "NAME: VALUE", requires = "url")]
    pub(crate) headers: Vec<Secret>,
    /// A token for every request; '${VAR}' keeps it out of the file
    #[arg(long, value_name = "TOKEN", requires = "url")]
    pub(crate) bearer: Option<Secret>,
    /// The id of a client that is registered at the authorization server
    #[arg(long, value_name = "ID", requires = "url")]
    pub(crate) client_id: Option<String>,
    /// The secret of that client
    #[arg(long, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<Secret>,
    /// The address of a document that describes this client
    #[arg(long, value_name = "URL", requires = "url")]
    pub(crate) client_metadata_url: Option<String>,
    /// What is asked for at the authorization server; can be given several times
    #[arg(long = "scope", value_name = "SCOPE", requires = "url")]
    pub(crate) scopes: Vec<String>,
    /// Copy the servers of another client: mcpServers, servers or context_servers
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) write: WriteOptions,
    /// How long the server may take to answer
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The document is read first, what it would become is shown, and then the source is written. Of ${VAR}
only the name is written, never the value.
  toolpost add openapi pets petstore.yaml --server http://127.0.0.1:8080
  toolpost add openapi github github.json --bearer '${GITHUB_TOKEN}' --include 'issues/*'
  toolpost add openapi shop https://shop.example/openapi.json --api-key '${SHOP_KEY}'
  toolpost add openapi east https://east.example/openapi.json --private --bearer '${EAST_TOKEN}'")]
pub(crate) struct AddOpenApiOptions {
    /// The name of the source and the namespace of its operations
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) document: DocumentOptions,
    /// Where the service is, instead of where the document says
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// A token for every request; '${VAR}' keeps it out of the file
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["basic", "api_key"])]
    pub(crate) bearer: Option<Secret>,
    /// A name and a password for every request
    #[arg(long, value_name = "NAME:PASSWORD", conflicts_with = "api_key")]
    pub(crate) basic: Option<Secret>,
    /// A key, which is sent where the document says
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<Secret>,
    /// What is sent with every request; can be given several times
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<Secret>,
    /// Show the token and the headers where the document is, too, as another gateway asks for it
    #[arg(long)]
    pub(crate) private: bool,
    #[command(flatten)]
    pub(crate) write: WriteOptions,
}

/// A document, and which of its operations are meant.
#[derive(Debug, Args)]
pub(crate) struct DocumentOptions {
    /// The document: OpenAPI 3.0, 3.1, 3.2 or Swagger 2.0, as JSON or YAML
    #[arg(value_name = "FILE|URL")]
    pub(crate) document: String,
    /// Only operations whose name fits; `*` stands for anything; can be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// None of the operations whose name fits
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Another name for one operation
    #[arg(long, value_name = "OLD=NEW")]
    pub(crate) rename: Vec<String>,
    /// What every name begins with
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// A host that the document may refer to beside its own
    #[arg(long = "host", value_name = "HOST")]
    pub(crate) hosts: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is called and nothing is written. --json prints {operations, skipped, warnings}, each operation
as it would be listed.
  toolpost import petstore.yaml
  toolpost import https://api.example/openapi.json --include 'user*' --json")]
pub(crate) struct ImportOptions {
    #[command(flatten)]
    pub(crate) document: DocumentOptions,
    /// The namespace that the operations are shown under
    #[arg(long, value_name = "NAME", default_value = "api")]
    pub(crate) name: String,
}

/// How a source is written to the configuration.
#[derive(Debug, Args)]
pub(crate) struct WriteOptions {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Replace the source of that name; settings that are not given stay
    #[arg(long)]
    pub(crate) replace: bool,
    /// Write it without reading the server's tools or the document
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

/// The command line that was meant.
pub(crate) fn separator_hint(name: &str, command: &[String]) -> String {
    let quoted =
        |argument: &String| match argument.contains(|c: char| c.is_whitespace() || c == '$') {
            true => format!("'{argument}'"),
            false => argument.clone(),
        };
    let command: Vec<String> = command.iter().map(quoted).collect();
    format!(
        "the program stands behind `--`: write `toolpost add mcp {name} -- {}`",
        command.join(" ")
    )
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
                expected.map(|line| format!("the program stands behind `--`: write `{line}`"));
            assert_eq!(hint, expected, "{typed}");
        }
    }
}
