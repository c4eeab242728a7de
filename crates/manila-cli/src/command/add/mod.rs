//! `add mcp`: a server is asked what it offers, and becomes a source of the configuration.

mod found;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use manila::Registry;
use manila::mcp::{Found, McpSettings, McpSource, McpTransport};
use manila_gateway::McpParts;
use manila_gateway::config::{Access, EditError, Existing, Overview, Part, overview, write_source};

use super::connect::{Asking, Spinner, found as wait, parts};
use super::signal::StopRequests;
use crate::arguments::AddMcpOptions;
use crate::failure::Failure;
use crate::output;
use found::Report;
use wanted::Wanted;

/// How long a person may take to agree in a browser.
const SIGN_IN: Duration = Duration::from_secs(300);

/// How long the processes of servers have to end.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) async fn add_mcp(options: &AddMcpOptions) -> Result<(), Failure> {
    let wanted = wanted::read(options)?;
    let known = overview(&options.config)?;
    check_names(options, &wanted, &known)?;
    let servers = looked_at(options, wanted).await?;
    // On loopback, where nobody is known, everybody may call.
    let access = known.identities.is_empty().then_some(Access::Open);
    let existing = if options.replace { Existing::Replace } else { Existing::Refuse };
    let mut reports = Vec::new();
    for (server, found) in servers {
        if !matches!(found, Look::Failed(_)) {
            write_source(&options.config, &server.name, &server.entry, access.as_ref(), existing)?;
            remark_token(options, &server);
        }
        reports.push(Report { server, found, access: access.clone(), file: &options.config });
    }
    found::print(&reports, options)?;
    let failed = reports.iter().filter(|report| matches!(report.found, Look::Failed(_))).count();
    match (failed, &reports[..]) {
        (0, _) => Ok(()),
        (_, [Report { server, found: Look::Failed(reason), .. }]) => Err(Failure::Unreachable(
            format!("`{}` cannot be used: {reason}\n  {NOT_WRITTEN}", server.name),
        )),
        (failed, all) => Err(Failure::Unreachable(format!(
            "{failed} of {} servers cannot be used and were not written",
            all.len()
        ))),
    }
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
    for server in wanted {
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

/// A token that was typed stands in a file now, which is not always what was meant.
fn remark_token(options: &AddMcpOptions, server: &Wanted) {
    if server.entry.bearer.as_ref().is_some_and(|token| !token.contains("${")) {
        let (name, file) = (&server.name, options.config.display());
        output::remark(&format!(
            "The token of `{name}` is kept in {file} as it is; '${{VAR}}' keeps it out."
        ));
    }
}

async fn looked_at(
    options: &AddMcpOptions,
    wanted: Vec<Wanted>,
) -> Result<Vec<(Wanted, Look)>, Failure> {
    if options.no_connect {
        for server in &wanted {
            check_unseen(options, server)?;
        }
        return Ok(wanted.into_iter().map(|server| (server, Look::Skipped)).collect());
    }
    let mut settings = Vec::new();
    for server in &wanted {
        settings.push(server.entry.settings(&options.config, &server.name)?);
    }
    let looks = look(options, &wanted, settings).await?;
    Ok(wanted.into_iter().zip(looks).collect())
}

/// Without a look, a variable may be set later; everything else is checked now.
fn check_unseen(options: &AddMcpOptions, server: &Wanted) -> Result<(), Failure> {
    let unset = server.entry.unset_variables();
    if unset.is_empty() {
        server.entry.settings(&options.config, &server.name)?;
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
