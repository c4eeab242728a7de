//! Startup banner of `serve`: operations, endpoints, data folder and access.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use toolpost::{Identity, Operation, Registry};
use toolpost_gateway::DataDir;
use toolpost_gateway::auth::LOCAL;
use toolpost_gateway::config::{Access, ClientFile, Config, SourceConfig, SourceKind};

use serde_json::{Value, json};

use crate::output;

pub(super) fn print(
    registry: &Registry,
    file: Option<&Path>,
    config: &Config,
    address: SocketAddr,
    data: &DataDir,
) -> std::io::Result<()> {
    print_endpoints(address)?;
    print_operations(registry, config)?;
    print_sources(file, config)?;
    print_data(data)?;
    print_auth(config, local_address(address))
}

/// Returns the address at which this machine reaches the gateway. An unspecified address is
/// replaced by loopback.
fn local_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// A valid configuration and its lint warnings.
pub(super) struct CheckReport<'a> {
    pub(super) file: Option<&'a Path>,
    pub(super) config: &'a Config,
    pub(super) warnings: Vec<String>,
}

impl CheckReport<'_> {
    pub(super) fn print(&self, is_json: bool) -> std::io::Result<()> {
        if is_json {
            return output::print_json_line(&self.to_json());
        }
        match self.file {
            Some(file) => print_check(file, self.config)?,
            None => {
                output::print_line(
                    "No toolpost.toml here: the embedded default, open on loopback.",
                )?;
            }
        }
        self.warnings.iter().for_each(|lint_warning| output::warning(lint_warning));
        Ok(())
    }

    /// Returns the summary of the configuration as JSON.
    fn to_json(&self) -> Value {
        let identities = self.config.identities.iter().map(|entry| &entry.identity);
        let identities =
            identities.map(|identity| json!({"name": identity.id, "scopes": identity.scopes}));
        let sources = self.config.sources.iter().map(|source| {
            let mut summary = json!({"name": source.name, "about": source.kind.describe()});
            if let Some(access) = source.adjustments.effective_access() {
                summary["access"] = output::access_json(access);
            }
            summary
        });
        json!({
            "file": self.file.map(|file| file.display().to_string()),
            "identities": identities.collect::<Vec<_>>(),
            "sources": sources.collect::<Vec<_>>(),
            "notes": self.config.notes,
            "warnings": self.warnings,
        })
    }
}

fn print_check(file: &Path, config: &Config) -> std::io::Result<()> {
    output::print_line(&format!(
        "{} is fine: {}, {}.",
        file.display(),
        pluralize(config.identities.len(), "identity", "identities"),
        pluralize(config.sources.len(), "source", "sources"),
    ))?;
    for entry in &config.identities {
        let (name, scopes) = (&entry.identity.id, entry.identity.scopes.join(", "));
        let scopes = if scopes.is_empty() { "no scopes" } else { &scopes };
        output::print_line(&output::sanitize(&format!("  identity {name}: {scopes}")))?;
    }
    for source in &config.sources {
        output::print_line(&output::sanitize(&describe_source(source)))?;
    }
    for note in &config.notes {
        output::print_line(&output::sanitize(&format!("  {note}")))?;
    }
    Ok(())
}

fn describe_source(source: &SourceConfig) -> String {
    let access = match (&source.kind, source.adjustments.effective_access()) {
        (SourceKind::Mcp(_) | SourceKind::OpenApi(_), Some(Access::Open)) => {
            "; open to every caller".to_owned()
        }
        (SourceKind::Mcp(_) | SourceKind::OpenApi(_), Some(Access::Scopes(scopes))) => {
            format!("; requires the scope {}", scopes.join(", "))
        }
        _ => String::new(),
    };
    format!("  source {}: {}{access}", source.name, source.kind.describe())
}

/// Prints the sources that are starting and who may call them.
fn print_sources(file: Option<&Path>, config: &Config) -> std::io::Result<()> {
    if config.sources.is_empty() {
        return Ok(());
    }
    output::print_line("\nStarting sources:")?;
    for source in &config.sources {
        output::print_line(&output::sanitize(&describe_source(source)))?;
    }
    let is_other = file == Some(Path::new(ClientFile::FILE_NAME));
    let read =
        is_other.then(|| ".mcp.json is read, since there is no toolpost.toml here".to_owned());
    for note in read.iter().chain(&config.notes) {
        output::print_line(&output::sanitize(&format!("  {note}")))?;
    }
    Ok(())
}

fn pluralize(number: usize, singular: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { singular } else { plural })
}

fn print_endpoints(address: SocketAddr) -> std::io::Result<()> {
    output::print_line(&format!("Toolpost {} on http://{address}\n", env!("CARGO_PKG_VERSION")))?;
    output::print_line(
        "  POST /api/{namespace}/{name}   call an operation; subscriptions stream as server-sent events",
    )?;
    output::print_line(
        "  WebSocket /hub                 the call protocol: spokes connect here, and --url ws://… calls",
    )?;
    output::print_line(
        "  MCP  /mcp                      operations as tools; for clients of every version",
    )?;
    output::print_line(&format!(
        "  WebSocket /ws                  rooms for people, agents and tools: http://{}/rooms",
        local_address(address)
    ))?;
    output::print_line("  GET  /openapi.json             the HTTP API in OpenAPI 3.1")?;
    output::print_line(&format!(
        "  GET  /docs                     interactive documentation: http://{}/docs",
        local_address(address)
    ))?;
    output::print_line("  GET  /health                   liveness")?;
    output::print_line("  GET  /ready                    readiness: whether it accepts new calls")?;
    output::print_line("  GET  /metrics                  metrics for Prometheus\n")
}

/// Prints the operations open to every caller and the number of others.
fn print_operations(registry: &Registry, config: &Config) -> std::io::Result<()> {
    let (catalog, anybody) = (registry.catalog(), Identity::new(LOCAL));
    let is_open = |operation: &&Arc<Operation>| {
        operation.spec().access_control.is_callable_by(Some(&anybody))
    };
    let open: Vec<_> = catalog.list().iter().filter(is_open).collect();
    let others = catalog.len() - open.len();
    output::print_line(&if config.requires_auth() {
        format!("{} operations with any token; {others} more need scopes:", open.len())
    } else {
        format!("{} operations without a token; {others} more need one:", open.len())
    })?;
    let width = open.iter().map(|found| found.id().as_str().len()).max().unwrap_or(0);
    for operation in open {
        let (id, spec) = (operation.id().as_str(), operation.spec());
        let kind = spec.kind.as_str();
        output::print_line(&format!("  {id:width$}  {kind:12}  {}", spec.description))?;
    }
    Ok(())
}

/// Prints the data folder and the path of the operator's token, but never the token itself.
fn print_data(data: &DataDir) -> std::io::Result<()> {
    let (folder, token) = (data.path().display(), data.operator_token_path());
    output::print_line(&output::sanitize(&format!("\nData folder: {folder}")))?;
    let token = format!("The operator's token is in {}", token.display());
    output::print_line(&output::sanitize(&token))
}

fn print_auth(config: &Config, address: SocketAddr) -> std::io::Result<()> {
    let (auth_summary, header) = if config.requires_auth() {
        let known = pluralize(config.identities.len(), "identity has", "identities have");
        let signed = config.auth.as_ref().map(|auth| format!(", and {} signs them", auth.issuer));
        let signed = signed.unwrap_or_default();
        (format!("Requires a token; {known} one{signed}."), " --oauth2-bearer \"$TOOLPOST_TOKEN\"")
    } else {
        ("Open to every program on this machine, without a token.".to_owned(), "")
    };
    output::print_line(&format!("\n{auth_summary} Try:"))?;
    let call = match config.without_demo {
        true => format!("/openapi.json{header}"),
        false => format!("/api/demo/add{header} --json '{{\"a\": 2, \"b\": 3}}'"),
    };
    output::print_line(&format!("  curl http://{address}{call}\n"))
}
