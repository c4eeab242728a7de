//! `add mcp`: connects to an MCP server, lists its tools and adds it to the configuration as a
//! source.

mod candidate;
mod report;
pub(super) mod secret;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use toolpost::mcp::{McpSettings, McpTransport};
use toolpost::{Registry, SourceInfo};
use toolpost_gateway::config::{
    Access, ConfigError, EditError, SourceEntry, check_source, mcp_settings, overview,
    preserve_mcp_entry, write_source,
};

use super::config_file::include_mcp_json;
use super::mcp_connect::{AuthorizationMode, mcp_env, spinner};
use super::signal::Signals;
use crate::arguments::{AddMcpOptions, WriteOptions};
use crate::error::CommandError;
use crate::output;
use candidate::ServerCandidate;
pub(super) use candidate::{parse_headers, reveal};
use report::ServerReport;

const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(300);

const CLOSE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a source may take to report why its server cannot be used, after its own time limits.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The configuration file that a source is written to.
pub(super) struct TargetConfig<'a> {
    options: &'a WriteOptions,
    pub(super) file: &'a Path,
    pub(super) has_identities: bool,
}

impl<'a> TargetConfig<'a> {
    pub(super) fn open(options: &'a WriteOptions) -> Result<Self, CommandError> {
        let file = &*options.file.config;
        Ok(Self { options, file, has_identities: overview(file)?.requires_auth() })
    }

    pub(super) fn check_name(&self, name: &str) -> Result<(), EditError> {
        check_source(self.file, name, self.options.if_exists())
    }

    pub(super) fn write(&self, name: &str, entry: SourceEntry<'_>) -> Result<Access, EditError> {
        // Without authentication the gateway serves only loopback, and every caller has access.
        let access = (!self.has_identities).then_some(Access::Open);
        let existing = self.options.if_exists();
        let written = write_source(self.file, name, entry, access.as_ref(), existing)?;
        Ok(written.unwrap_or_else(|| Access::default_for(name, self.has_identities)))
    }

    /// Describes a written source, with a command that shows one of its operations.
    pub(super) fn print_written(
        &self,
        name: &str,
        access: &Access,
        operation: Option<&str>,
    ) -> std::io::Result<()> {
        let access = output::describe_access(access, self.has_identities);
        let file = self.file.display();
        output::print_line(&format!("Wrote [source.{name}] to {file}; {access}."))?;
        match operation {
            Some(operation) => {
                output::print_text(&format!("Try: toolpost schema {name}.{operation}"))
            }
            None => Ok(()),
        }
    }
}

pub(crate) async fn add_mcp(options: &AddMcpOptions) -> Result<(), CommandError> {
    let mut candidates = candidate::read_candidates(options)?;
    let config = TargetConfig::open(&options.write)?;
    for server in candidates.iter_mut().filter(|server| server.rejection.is_none()) {
        config.check_name(&server.name)?;
        if options.write.replace {
            let given = std::mem::take(&mut server.entry);
            server.entry = preserve_mcp_entry(config.file, &server.name, given)?;
        }
    }
    let servers = probe_candidates(options, candidates).await?;
    let usable = servers.iter().filter(|(_, probe)| !matches!(probe, Probe::Failed(_)));
    let names: Vec<String> = usable.map(|(server, _)| server.name.clone()).collect();
    if !names.is_empty() {
        include_mcp_json(config.file, &names)?;
    }
    let mut reports = Vec::new();
    for (server, probe) in servers {
        let access = match probe {
            Probe::Failed(_) => None,
            _ => Some(config.write(&server.name, SourceEntry::Mcp(&server.entry))?),
        };
        if access.is_some() {
            secret::warn_literal_server_secrets(config.file, &server.name, &server.entry);
        }
        reports.push(ServerReport { server, probe, access });
    }
    report::print(&reports, options, &config)?;
    if !names.is_empty() {
        output::notice(output::RELOAD_NOTICE);
    }
    if reports.iter().any(|report| report.access.is_some()) {
        // The failures of other servers were already printed.
        return Ok(());
    }
    let (message, is_already_printed) = match &reports[..] {
        [ServerReport { server, probe: Probe::Failed(reason), .. }] => (
            format!("cannot use `{}`: {reason}\n  {NOT_WRITTEN}", server.name),
            output::json_requested() || options.from.is_some(),
        ),
        all => (
            format!(
                "none of the {} servers can be used; the configuration is unchanged",
                all.len()
            ),
            true,
        ),
    };
    let is_usage_error = reports.iter().all(|report| report.server.rejection.is_some());
    let failure = match is_usage_error {
        true => CommandError::Usage(message),
        false => CommandError::Unreachable(message),
    };
    Err(match is_already_printed {
        true => CommandError::JsonAlreadyPrinted(failure.into()),
        false => failure,
    })
}

const NOT_WRITTEN: &str =
    "the configuration is unchanged; use --no-connect to write the source anyway";

enum Probe {
    Connected(Arc<SourceInfo>),
    /// Disabled with `--no-connect`.
    Skipped,
    Failed(String),
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
    let probes = if options.write.no_connect {
        sound.iter().map(|_| Probe::Skipped).collect()
    } else {
        probe(options, &sound, settings).await?
    };
    servers.splice(0..0, sound.into_iter().zip(probes));
    Ok(servers)
}

/// Returns the settings of the source as they are after it is written. With `--no-connect`, an
/// unset variable is only a warning, because it can be set later.
fn probe_settings(
    options: &AddMcpOptions,
    server: &ServerCandidate,
) -> Result<Option<McpSettings>, ConfigError> {
    let (file, name) = (&options.write.file.config, &server.name);
    let unset = server.entry.unset_variables(file);
    if options.write.no_connect && !unset.is_empty() {
        let unset = unset.join(", ");
        output::warning(&format!("`{name}` requires {unset}, which is not set"));
        return Ok(None);
    }
    mcp_settings(file, name, &server.entry, options.write.if_exists()).map(Some)
}

/// Starts the servers concurrently, lists their tools, resources and prompts, and stops them.
async fn probe(
    options: &AddMcpOptions,
    candidates: &[ServerCandidate],
    settings: Vec<McpSettings>,
) -> Result<Vec<Probe>, CommandError> {
    if candidates.is_empty() {
        return Ok(Vec::new());
    }
    let mut requests = Signals::stop()?;
    let env = mcp_env(AuthorizationMode::Interactive).await;
    let names: Vec<&str> = candidates.iter().map(|server| server.name.as_str()).collect();
    let waiting_notice = spinner(format!("waiting for {} to list its tools", names.join(", ")));
    let mut started = Vec::new();
    for (server, mut settings) in candidates.iter().zip(settings) {
        settings.start_timeout = options.timeout.unwrap_or(settings.start_timeout);
        let wait_timeout = match options.timeout {
            // The handshake and the list of tools have this time each.
            Some(timeout) => timeout * 2,
            None => probe_timeout(&settings),
        };
        // A separate registry for each server: tools are listed but not called.
        let source = env.start_server(&Registry::new(), &server.name, &settings);
        started.push((source, wait_timeout));
    }
    let waiting =
        join_all(started.iter().map(|(server, limit)| server.ready(*limit + REPORT_TIMEOUT)));
    let probes = tokio::select! {
        probes = waiting => Some(probes),
        () = requests.next() => None,
    };
    drop(waiting_notice);
    let closing = join_all(started.into_iter().map(|(server, _)| server.close()));
    tokio::select! {
        _ = tokio::time::timeout(CLOSE_TIMEOUT, closing) => {}
        () = requests.next() => std::process::exit(130),
    }
    let Some(probes) = probes else { std::process::exit(130) };
    Ok(probes
        .into_iter()
        .map(|result| match result {
            Ok(info) => Probe::Connected(info),
            Err(error) => Probe::Failed(error.message().to_owned()),
        })
        .collect())
}

fn probe_timeout(settings: &McpSettings) -> Duration {
    match &settings.transport {
        McpTransport::Http(http) if http.bearer.is_none() => {
            settings.start_timeout.max(SIGN_IN_TIMEOUT)
        }
        _ => settings.start_timeout,
    }
}
