//! Startup banner of `serve`: operations, endpoints, data folder and access.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use serde_json::{Value, json};
use toolpost::Registry;
use toolpost_gateway::DataDir;
use toolpost_gateway::auth;
use toolpost_gateway::config::{Access, ClientFile, Config, SourceConfig, SourceKind};

use crate::output::{self, pluralize};

pub(super) fn print(
    registry: &Registry,
    file: Option<&Path>,
    config: &Config,
    address: SocketAddr,
    data: &DataDir,
) -> std::io::Result<()> {
    let local = local_address(address);
    let parts = [
        endpoints(config, address, local),
        operations(registry, config),
        sources(file, config),
        data_folder(data),
        auth(config, local),
    ];
    output::print_text(&parts.concat())
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

pub(super) fn print_check(
    file: Option<&Path>,
    config: &Config,
    warnings: &[String],
) -> std::io::Result<()> {
    if output::json_requested() {
        return output::print_json_line(&check_json(file, config, warnings));
    }
    output::print_text(check_text(file, config).trim_end())?;
    warnings.iter().for_each(|warning| output::warning(warning));
    Ok(())
}

fn check_json(file: Option<&Path>, config: &Config, warnings: &[String]) -> Value {
    let identities = config.identities.iter().map(|entry| &entry.identity);
    let identities =
        identities.map(|identity| json!({"name": identity.id, "scopes": identity.scopes}));
    let sources = config.sources.iter().map(|source| {
        let mut summary = json!({"name": source.name, "about": source.kind.describe()});
        if let Some(access) = source.adjustments.effective_access() {
            summary["access"] = output::access_json(access);
        }
        summary
    });
    json!({
        "file": file.map(|file| file.display().to_string()),
        "identities": identities.collect::<Vec<_>>(),
        "sources": sources.collect::<Vec<_>>(),
        "notes": config.notes,
        "warnings": warnings,
    })
}

fn check_text(file: Option<&Path>, config: &Config) -> String {
    let Some(file) = file else {
        return "No toolpost.toml in the current folder; using the defaults: loopback only, no \
                authentication."
            .to_owned();
    };
    let mut text = format!(
        "{} is valid: {}, {}.\n",
        file.display(),
        pluralize(config.identities.len(), "identity", "identities"),
        pluralize(config.sources.len(), "source", "sources"),
    );
    for entry in &config.identities {
        let (name, scopes) = (&entry.identity.id, entry.identity.scopes.join(", "));
        let scopes = if scopes.is_empty() { "no scopes" } else { &scopes };
        let _ = writeln!(text, "  identity {name}: {scopes}");
    }
    text.extend(config.sources.iter().map(describe_source));
    text.extend(config.notes.iter().map(|note| format!("  {note}\n")));
    text
}

fn describe_source(source: &SourceConfig) -> String {
    let access = match (&source.kind, source.adjustments.effective_access()) {
        (SourceKind::Mcp(_) | SourceKind::OpenApi(_), Some(Access::Open)) => {
            "; open to all callers".to_owned()
        }
        (SourceKind::Mcp(_) | SourceKind::OpenApi(_), Some(Access::Scopes(scopes))) => {
            format!("; requires the scope {}", scopes.join(", "))
        }
        _ => String::new(),
    };
    format!("  source {}: {}{access}\n", source.name, source.kind.describe())
}

fn sources(file: Option<&Path>, config: &Config) -> String {
    if config.sources.is_empty() {
        return String::new();
    }
    let mut text = "\nStarting sources:\n".to_owned();
    text.extend(config.sources.iter().map(describe_source));
    if file == Some(Path::new(ClientFile::FILE_NAME)) {
        text.push_str(
            "  read from .mcp.json, because there is no toolpost.toml in the current folder\n",
        );
    }
    text.extend(config.notes.iter().map(|note| format!("  {note}\n")));
    text
}

/// Returns the schemes of HTTP and WebSocket addresses.
fn schemes(config: &Config) -> (&'static str, &'static str) {
    if config.has_tls() { ("https", "wss") } else { ("http", "ws") }
}

fn endpoints(config: &Config, address: SocketAddr, local: SocketAddr) -> String {
    let (http, ws) = schemes(config);
    format!(
        "\
Toolpost {version} on {http}://{address}

  POST /api/{{namespace}}/{{name}}   call an operation; subscriptions stream server-sent events
  WebSocket /hub                 call protocol, for spokes and --url {ws}://…
  MCP  /mcp                      operations as MCP tools, for all protocol versions
  WebSocket /ws                  rooms: {http}://{local}/rooms
  GET  /openapi.json             OpenAPI 3.1 document of the HTTP API
  GET  /docs                     interactive documentation: {http}://{local}/docs
  GET  /health                   liveness
  GET  /ready                    readiness
  GET  /metrics                  Prometheus metrics

",
        version = env!("CARGO_PKG_VERSION")
    )
}

/// Lists the operations open to every caller and the number of others.
fn operations(registry: &Registry, config: &Config) -> String {
    let (catalog, local) = (registry.catalog(), auth::local());
    let all = catalog.list().iter().map(|operation| (operation.id().as_str(), operation.spec()));
    let open: Vec<_> =
        all.filter(|(_, spec)| spec.access_control.is_callable_by(Some(&local))).collect();
    let (count, others) = (open.len(), catalog.len() - open.len());
    let mut text = match config.requires_auth() {
        true => format!("{count} operations for every token; {others} more require scopes:\n"),
        false => format!("{count} operations without a token; {others} more require one:\n"),
    };
    let width = open.iter().map(|(id, _)| id.len()).max().unwrap_or(0);
    for (id, spec) in open {
        let _ = writeln!(text, "  {id:width$}  {:12}  {}", spec.kind.as_str(), spec.description);
    }
    text
}

/// Names the data folder and the path of the operator's token, but never the token itself.
fn data_folder(data: &DataDir) -> String {
    let (folder, token) = (data.path().display(), data.operator_token_path());
    format!("\nData folder: {folder}\nOperator token: {}\n", token.display())
}

fn auth(config: &Config, address: SocketAddr) -> String {
    let (auth_summary, header) = if config.requires_auth() {
        let known = pluralize(config.identities.len(), "identity", "identities");
        let signed = config.auth.as_ref().map(|auth| format!(", and JWTs of {}", auth.issuer));
        let signed = signed.unwrap_or_default();
        (
            format!("Calls require a token of {known}{signed}."),
            " --oauth2-bearer \"$TOOLPOST_TOKEN\"",
        )
    } else {
        ("No authentication: any local program can make calls without a token.".to_owned(), "")
    };
    let call = match config.without_demo {
        true => format!("/openapi.json{header}"),
        false => format!("/api/demo/add{header} --json '{{\"a\": 2, \"b\": 3}}'"),
    };
    let (http, _) = schemes(config);
    format!("\n{auth_summary} Try:\n  curl {http}://{address}{call}\n")
}
