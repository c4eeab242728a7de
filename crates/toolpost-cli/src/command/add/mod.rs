//! `add mcp`: a server is asked what it offers, and becomes a source of the configuration.

mod found;
pub(super) mod secret;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use toolpost::Registry;
use toolpost::mcp::{Found, McpSettings, McpSource, McpTransport};
use toolpost_gateway::McpParts;
use toolpost_gateway::config::{
    Access, ConfigError, EditError, Existing, Overview, Part, kept_entry, overview,
    replaced_settings, write_source,
};

use super::connect::{Asking, Spinner, found as wait, parts};
use super::neighbor;
use super::signal::StopRequests;
use crate::arguments::AddMcpOptions;
use crate::failure::Failure;
use crate::output;
use found::Report;
use wanted::Wanted;
pub(super) use wanted::header;

/// How long a person may take to agree in a browser.
const SIGN_IN: Duration = Duration::from_secs(300);

/// How long the processes of servers have to end.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) async fn add_mcp(options: &AddMcpOptions) -> Result<(), Failure> {
    let mut wanted = wanted::read(options)?;
    let known = overview(&options.config)?;
    check_names(options, &wanted, &known)?;
    if options.replace {
        for server in wanted.iter_mut().filter(|server| server.refused.is_none()) {
            let given = std::mem::take(&mut server.entry);
            server.entry = kept_entry(&options.config, &server.name, given)?;
        }
    }
    let servers = looked_at(options, wanted).await?;
    // On loopback, where nobody is known, everybody may call.
    let has_identities = known.knows_callers();
    let access = (!has_identities).then_some(Access::Open);
    let existing = if options.replace { Existing::Replace } else { Existing::Refuse };
    let mut reports = Vec::new();
    let taken = servers.iter().filter(|(_, found)| !matches!(found, Look::Failed(_)));
    let names: Vec<String> = taken.map(|(server, _)| server.name.clone()).collect();
    if !names.is_empty() {
        neighbor::keep(&options.config, &names)?;
    }
    for (server, found) in servers {
        let (file, name) = (&*options.config, &server.name);
        let mut written = None;
        if !matches!(found, Look::Failed(_)) {
            written = write_source(file, name, &server.entry, access.as_ref(), existing)?;
            secret::remark(file, &server);
        }
        let access = written.unwrap_or_else(|| Access::unsaid(name, has_identities));
        reports.push(Report { server, found, access, has_identities, file });
    }
    found::print(&reports, options)?;
    if !names.is_empty() {
        output::remark(output::TAKEN_UP);
    }
    match &reports[..] {
        [Report { server, found: Look::Failed(reason), .. }] => {
            let said = format!("`{}` cannot be used: {reason}\n  {NOT_WRITTEN}", server.name);
            let failure = nothing_written(&reports, said);
            let is_shown = options.json || options.from.is_some();
            Err(if is_shown { Failure::Shown(failure.into()) } else { failure })
        }
        // Those that were taken are what was wanted; of the others each has been told.
        all if all.iter().any(|report| !matches!(report.found, Look::Failed(_))) => Ok(()),
        all => {
            let said =
                format!("none of the {} servers can be used; nothing was written", all.len());
            // Each of them has been told.
            Err(Failure::Shown(nothing_written(&reports, said).into()))
        }
    }
}

/// A server that could not be reached is another failure than one that makes no sense.
fn nothing_written(reports: &[Report<'_>], said: String) -> Failure {
    if reports.iter().all(|report| report.server.refused.is_some()) {
        return Failure::Usage(said);
    }
    Failure::Unreachable(said)
}

const NOT_WRITTEN: &str = "nothing was written; --no-connect writes it as it is";

/// What came of a look at a server.
enum Look {
    Found(Arc<Found>),
    /// Nobody wanted one.
    Skipped,
    Failed(String),
}

/// Before anything is started: a name that is taken, or is not there to be replaced.
fn check_names(
    options: &AddMcpOptions,
    wanted: &[Wanted],
    known: &Overview,
) -> Result<(), Failure> {
    for server in wanted.iter().filter(|server| server.refused.is_none()) {
        let (name, file) = (server.name.clone(), options.config.clone());
        match (known.sources.contains(&name), options.replace) {
            (true, false) => {
                return Err(EditError::Exists { part: Part::Source, name, file }.into());
            }
            (false, true) => return Err(EditError::Absent { name, file }.into()),
            _ => {}
        }
    }
    Ok(())
}

async fn looked_at(
    options: &AddMcpOptions,
    wanted: Vec<Wanted>,
) -> Result<Vec<(Wanted, Look)>, Failure> {
    let mut servers = Vec::new();
    let (mut sound, mut settings) = (Vec::new(), Vec::new());
    for mut server in wanted {
        if let Some(reason) = server.refused.clone() {
            servers.push((server, Look::Failed(reason)));
            continue;
        }
        match checked(options, &server) {
            Ok(found) => {
                settings.extend(found);
                sound.push(server);
            }
            Err(error) if options.from.is_some() => {
                let reason = error.to_string().replace('\n', "; ");
                server.refused = Some(reason.clone());
                servers.push((server, Look::Failed(reason)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let looks = if options.no_connect {
        sound.iter().map(|_| Look::Skipped).collect()
    } else {
        look(options, &sound, settings).await?
    };
    servers.splice(0..0, sound.into_iter().zip(looks));
    Ok(servers)
}

/// What is needed for a look; nothing, if there will be none.
fn checked(options: &AddMcpOptions, server: &Wanted) -> Result<Option<McpSettings>, ConfigError> {
    if options.no_connect {
        return check_unseen(options, server).map(|()| None);
    }
    meant(options, server).map(Some)
}

/// What the source means once it is written.
fn meant(options: &AddMcpOptions, server: &Wanted) -> Result<McpSettings, ConfigError> {
    let (file, name) = (&options.config, &server.name);
    if options.replace {
        replaced_settings(file, name, &server.entry)
    } else {
        server.entry.settings(file, name)
    }
}

/// Without a look, a variable may be set later; everything else is checked now.
fn check_unseen(options: &AddMcpOptions, server: &Wanted) -> Result<(), ConfigError> {
    let unset = server.entry.unset_variables(&options.config);
    if unset.is_empty() {
        meant(options, server)?;
        return Ok(());
    }
    let (name, unset) = (&server.name, unset.join(", "));
    output::warning(&format!("`{name}` needs {unset}, which is not set here"));
    Ok(())
}

/// Starts the servers beside one another, and ends them again.
async fn look(
    options: &AddMcpOptions,
    wanted: &[Wanted],
    settings: Vec<McpSettings>,
) -> Result<Vec<Look>, Failure> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut requests = StopRequests::new()?;
    let parts = parts(Asking::Person).await;
    let names: Vec<&str> = wanted.iter().map(|server| server.name.as_str()).collect();
    let spinner = Spinner::new(format!("waiting for {} to list its tools", names.join(", ")));
    let mut started = Vec::new();
    for (server, mut settings) in wanted.iter().zip(settings) {
        settings.start_timeout = options.timeout.unwrap_or(settings.start_timeout);
        let patience = options.timeout.unwrap_or_else(|| patience(&settings));
        started.push((start(&parts, &server.name, settings), patience));
    }
    let waiting = join_all(started.iter().map(|(server, patience)| wait(server, *patience)));
    let looks = tokio::select! {
        looks = waiting => Some(looks),
        () = requests.next() => None,
    };
    drop(spinner);
    let closing = join_all(started.into_iter().map(|(server, _)| server.close()));
    tokio::select! {
        _ = tokio::time::timeout(PATIENCE, closing) => {}
        () = requests.next() => std::process::exit(130),
    }
    let Some(looks) = looks else { std::process::exit(130) };
    Ok(looks.into_iter().map(|look| look.map_or_else(Look::Failed, Look::Found)).collect())
}

/// Nobody calls its tools now, so they go into a registry of their own.
fn start(parts: &McpParts, name: &str, settings: McpSettings) -> McpSource {
    parts.start_server(&Registry::new(), name, settings)
}

fn patience(settings: &McpSettings) -> Duration {
    match &settings.transport {
        McpTransport::Http(http) if http.bearer.is_none() => settings.start_timeout.max(SIGN_IN),
        _ => settings.start_timeout,
    }
}
