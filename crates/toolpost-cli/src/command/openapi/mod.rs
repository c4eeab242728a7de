//! `import` and `add openapi`: read an OpenAPI document and show its operations; `add openapi` also
//! adds it to the configuration as a source.

mod add;
mod report;

use std::collections::HashSet;

use toolpost::OperationSpec;
use toolpost::openapi::{
    DocumentLocation, DocumentWarning, Inspection, LoadError, LoadSettings, OpenApiError,
    ServerSettings, inspect,
};
use toolpost_gateway::config::{Adjustments, Glob};

use super::mcp_connect::spinner;
use crate::arguments::{DocumentOptions, ImportOptions};
use crate::error::CommandError;
use crate::output;

pub(crate) use add::add_openapi;

pub(crate) async fn import(options: &ImportOptions) -> Result<(), CommandError> {
    let read =
        read_document(&options.document, &options.name, None, LoadSettings::default()).await?;
    match output::is_json() {
        true => output::print_json_line(&read.report)?,
        false => report::print_text(&read)?,
    }
    Ok(())
}

/// Reads the document and applies the filters and renames. `server` overrides the URL in the
/// document.
async fn read_document(
    options: &DocumentOptions,
    name: &str,
    server: Option<&str>,
    mut settings: LoadSettings,
) -> Result<Inspection, CommandError> {
    let adjustments = adjustments(options)?;
    let location = DocumentLocation::from_path_or_url(&options.document);
    settings.hosts.clone_from(&options.hosts);
    let reading = spinner(format!("reading {}", location.display_name()));
    let is_remote = matches!(location, DocumentLocation::Url(_));
    let server = server.map(parse_server).transpose()?.unwrap_or_default();
    let read = inspect(location, &settings, &server, name).await;
    drop(reading);
    let mut read = read.map_err(|error| match error {
        OpenApiError::Load(LoadError::Unreachable { .. }) if is_remote => {
            CommandError::Unreachable(error.to_string())
        }
        error => CommandError::usage(error),
    })?;
    let specs = std::mem::take(&mut read.report.operations);
    let count = specs.len();
    let names: Vec<&str> = specs.iter().map(|spec| &*spec.name).collect();
    let strays = adjustments.unmatched_settings(&names).into_iter();
    read.report.warnings.extend(strays.map(|message| DocumentWarning::new("", message)));
    let retained =
        specs.into_iter().filter_map(|spec| adjustments.apply(spec)).map(|(spec, _)| spec);
    read.report.operations = retained.collect();
    if count > 0 && read.report.operations.is_empty() {
        let message = format!("none of the {count} operations matches --include and --exclude");
        return Err(CommandError::Usage(message));
    }
    let mut names = HashSet::new();
    match read.report.operations.iter().find(|spec| !names.insert(&spec.name)) {
        Some(OperationSpec { name, .. }) => Err(CommandError::Usage(format!(
            "two operations have the name `{name}`; rename one with --rename"
        ))),
        None => Ok(read),
    }
}

/// Parses the URL of a service. User and password are not allowed in it.
fn parse_server(text: &str) -> Result<ServerSettings, CommandError> {
    match DocumentLocation::from_path_or_url(text) {
        DocumentLocation::Url(url) if url.username().is_empty() && url.password().is_none() => {
            Ok(ServerSettings { url: Some(url), ..ServerSettings::default() })
        }
        DocumentLocation::Url(_) => Err(CommandError::usage(
            "--server must not contain a user or password; use --basic, --bearer or --api-key",
        )),
        _ => Err(CommandError::usage("invalid --server; use https://HOST/… or http://HOST/…")),
    }
}

fn adjustments(options: &DocumentOptions) -> Result<Adjustments, CommandError> {
    let mut adjustments = Adjustments::default();
    if !options.include.is_empty() {
        adjustments.include = options.include.iter().map(Glob::new).collect();
    }
    adjustments.exclude = options.exclude.iter().map(Glob::new).collect();
    adjustments.prefix = options.prefix.clone().unwrap_or_default();
    adjustments.rename =
        options.rename.iter().map(|pair| parse_rename(pair)).collect::<Result<_, _>>()?;
    Ok(adjustments)
}

fn parse_rename(pair: &str) -> Result<(String, String), CommandError> {
    match pair.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => {
            Ok((old.to_owned(), new.to_owned()))
        }
        _ => Err(CommandError::usage("invalid rename; use --rename OLD=NEW")),
    }
}
