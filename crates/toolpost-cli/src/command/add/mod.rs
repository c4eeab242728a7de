//! `add mcp`: connects to an MCP server, lists its tools and adds it to the configuration as a
//! source.

mod candidate;
mod report;
pub(super) mod secret;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use toolpost::Registry;
use toolpost::mcp::{McpSettings, McpSource, McpTransport, ServerInfo};
use toolpost_gateway::McpEnv;
use toolpost_gateway::config::{
    Access, ConfigError, ConfigOverview, ConfigTable, EditError, IfExists, overview,
    preserve_mcp_entry, settings_after_replace, write_source,
};

use super::mcp_connect::{AuthorizationMode, Spinner, mcp_env, wait_until_ready as wait};
use super::mcp_json;
use super::signal::StopRequests;
use crate::arguments::AddMcpOptions;
use crate::error::CommandError;
use crate::output;
use candidate::ServerCandidate;
pub(super) use candidate::parse_header;
use report::ServerReport;

/// Time limit for authorizing in a browser.
const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(300);

/// Time limit for server processes to exit.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) async fn add_mcp(options: &AddMcpOptions) -> Result<(), CommandError> {
    let mut candidates = candidate::read_candidates(options)?;
    let config_overview = overview(&options.config)?;
    check_names(options, &candidates, &config_overview)?;
    if options.replace {
        for server in candidates.iter_mut().filter(|server| server.rejection.is_none()) {
            let given = std::mem::take(&mut server.entry);
            server.entry = preserve_mcp_entry(&options.config, &server.name, given)?;
        }
    }
    let servers = probe_candidates(options, candidates).await?;
    // Without authentication the gateway serves only loopback, and every caller has access.
    let has_identities = config_overview.requires_auth();
    let access = (!has_identities).then_some(Access::Open);
    let existing = if options.replace { IfExists::Replace } else { IfExists::Fail };
    let mut reports = Vec::new();
    let taken = servers.iter().filter(|(_, found)| !matches!(found, Probe::Failed(_)));
    let names: Vec<String> = taken.map(|(server, _)| server.name.clone()).collect();
    if !names.is_empty() {
        mcp_json::include_in_config(&options.config, &names)?;
    }
    for (server, found) in servers {
        let (file, name) = (&*options.config, &server.name);
        let mut written = None;
        if !matches!(found, Probe::Failed(_)) {
            written = write_source(file, name, &server.entry, access.as_ref(), existing)?;
            secret::warn_literal_secrets(file, &server);
        }
        let access = written.unwrap_or_else(|| Access::default_for(name, has_identities));
        reports.push(ServerReport { server, probe: found, access, has_identities, file });
    }
    report::print(&reports, options)?;
    if !names.is_empty() {
        output::notice(output::RELOAD_NOTICE);
    }
    match &reports[..] {
        [ServerReport { server, probe: Probe::Failed(reason), .. }] => {
            let message = format!("`{}` cannot be used: {reason}\n  {NOT_WRITTEN}", server.name);
            let failure = no_server_failure(&reports, message);
            let is_already_printed = options.json || options.from.is_some();
            Err(if is_already_printed {
                CommandError::JsonAlreadyPrinted(failure.into())
            } else {
                failure
            })
        }
        // At least one server was added. The failures were already printed.
        all if all.iter().any(|report| !matches!(report.probe, Probe::Failed(_))) => Ok(()),
        all => {
            let message =
                format!("none of the {} servers can be used; nothing was written", all.len());
            // The failures were already printed.
            Err(CommandError::JsonAlreadyPrinted(no_server_failure(&reports, message).into()))
        }
    }
}

/// Returns a usage error if every server was rejected, and an unreachable error otherwise.
fn no_server_failure(reports: &[ServerReport<'_>], message: String) -> CommandError {
    if reports.iter().all(|report| report.server.rejection.is_some()) {
        return CommandError::Usage(message);
    }
    CommandError::Unreachable(message)
}

const NOT_WRITTEN: &str = "nothing was written; --no-connect writes it as it is";

/// Result of probing a server.
enum Probe {
    Connected(Arc<ServerInfo>),
    /// Disabled with `--no-connect`.
    Skipped,
    Failed(String),
}

/// Checks the source names before any server is started: a new name must be unused, and a name to
/// replace must exist.
fn check_names(
    options: &AddMcpOptions,
    candidates: &[ServerCandidate],
    config_overview: &ConfigOverview,
) -> Result<(), CommandError> {
    for server in candidates.iter().filter(|server| server.rejection.is_none()) {
        let (name, file) = (server.name.clone(), options.config.clone());
        match (config_overview.sources.contains(&name), options.replace) {
            (true, false) => {
                return Err(
                    EditError::AlreadyExists { part: ConfigTable::Source, name, file }.into()
                );
            }
            (false, true) => return Err(EditError::NotFound { name, file }.into()),
            _ => {}
        }
    }
    Ok(())
}

async fn probe_candidates(
    options: &AddMcpOptions,
    candidates: Vec<ServerCandidate>,
) -> Result<Vec<(ServerCandidate, Probe)>, CommandError> {
    let mut servers = Vec::new();
    let (mut sound, mut settings) = (Vec::new(), Vec::new());
    for mut server in candidates {
        if let Some(reason) = server.rejection.clone() {
            servers.push((server, Probe::Failed(reason)));
            continue;
        }
        match probe_settings(options, &server) {
            Ok(found) => {
                settings.extend(found);
                sound.push(server);
            }
            Err(error) if options.from.is_some() => {
                let reason = error.to_string().replace('\n', "; ");
                server.rejection = Some(reason.clone());
                servers.push((server, Probe::Failed(reason)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let probes = if options.no_connect {
        sound.iter().map(|_| Probe::Skipped).collect()
    } else {
        probe(options, &sound, settings).await?
    };
    servers.splice(0..0, sound.into_iter().zip(probes));
    Ok(servers)
}

/// Returns the settings for probing a server, or `None` with `--no-connect`.
fn probe_settings(
    options: &AddMcpOptions,
    server: &ServerCandidate,
) -> Result<Option<McpSettings>, ConfigError> {
    if options.no_connect {
        return check_without_probe(options, server).map(|()| None);
    }
    effective_settings(options, server).map(Some)
}

/// Returns the settings of the source as they are after it is written.
fn effective_settings(
    options: &AddMcpOptions,
    server: &ServerCandidate,
) -> Result<McpSettings, ConfigError> {
    let (file, name) = (&options.config, &server.name);
    if options.replace {
        settings_after_replace(file, name, &server.entry)
    } else {
        server.entry.settings(file, name)
    }
}

/// Checks a server without connecting to it. An unset variable is only a warning, because it can be
/// set later.
fn check_without_probe(
    options: &AddMcpOptions,
    server: &ServerCandidate,
) -> Result<(), ConfigError> {
    let unset = server.entry.unset_variables(&options.config);
    if unset.is_empty() {
        effective_settings(options, server)?;
        return Ok(());
    }
    let (name, unset) = (&server.name, unset.join(", "));
    output::warning(&format!("`{name}` needs {unset}, which is not set here"));
    Ok(())
}

/// Starts the servers concurrently, reads what they offer, and stops them.
async fn probe(
    options: &AddMcpOptions,
    candidates: &[ServerCandidate],
    settings: Vec<McpSettings>,
) -> Result<Vec<Probe>, CommandError> {
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let mut requests = StopRequests::new()?;
    let env = mcp_env(AuthorizationMode::Interactive).await;
    let names: Vec<&str> = candidates.iter().map(|server| server.name.as_str()).collect();
    let spinner = Spinner::new(format!("waiting for {} to list its tools", names.join(", ")));
    let mut started = Vec::new();
    for (server, mut settings) in candidates.iter().zip(settings) {
        settings.start_timeout = options.timeout.unwrap_or(settings.start_timeout);
        let wait_timeout = options.timeout.unwrap_or_else(|| probe_timeout(&settings));
        started.push((start(&env, &server.name, settings), wait_timeout));
    }
    let waiting =
        join_all(started.iter().map(|(server, wait_timeout)| wait(server, *wait_timeout)));
    let probes = tokio::select! {
        probes = waiting => Some(probes),
        () = requests.next() => None,
    };
    drop(spinner);
    let closing = join_all(started.into_iter().map(|(server, _)| server.close()));
    tokio::select! {
        _ = tokio::time::timeout(CLOSE_TIMEOUT, closing) => {}
        () = requests.next() => std::process::exit(130),
    }
    let Some(probes) = probes else { std::process::exit(130) };
    Ok(probes
        .into_iter()
        .map(|result| result.map_or_else(Probe::Failed, Probe::Connected))
        .collect())
}

/// Starts a server with its own registry, because its tools are listed but not called.
fn start(env: &McpEnv, name: &str, settings: McpSettings) -> McpSource {
    env.start_server(&Registry::new(), name, settings)
}

fn probe_timeout(settings: &McpSettings) -> Duration {
    match &settings.transport {
        McpTransport::Http(http) if http.bearer.is_none() => {
            settings.start_timeout.max(SIGN_IN_TIMEOUT)
        }
        _ => settings.start_timeout,
    }
}
