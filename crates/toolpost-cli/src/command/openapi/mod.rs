//! `import` and `add openapi`: a document is read, what it becomes is shown, and it becomes a source
//! of the configuration if that is wanted.

mod add;
mod report;

use std::collections::HashSet;

use toolpost::OperationSpec;
use toolpost::openapi::{
    Inspection, LoadError, LoadSettings, Location, OpenApiError, ServerSettings, Warning, inspect,
};
use toolpost_gateway::config::{Adjustments, Glob};

use super::connect::Spinner;
use crate::arguments::{DocumentOptions, ImportOptions};
use crate::failure::Failure;

pub(crate) use add::add_openapi;

pub(crate) async fn import(options: &ImportOptions) -> Result<(), Failure> {
    let nothing = Shown::default();
    let read = read(&options.document, &options.name, nothing).await?;
    report::print(&read, options.json)?;
    Ok(())
}

/// What a service is known by beside its document.
#[derive(Default)]
struct Shown<'a> {
    /// Where it is, instead of where the document says.
    server: Option<&'a str>,
    /// How the document is read.
    loading: LoadSettings,
}

/// The document with what is wanted of it.
async fn read(
    options: &DocumentOptions,
    name: &str,
    shown: Shown<'_>,
) -> Result<Inspection, Failure> {
    let adjustments = adjustments(options)?;
    let location = Location::of(&options.document);
    let mut settings = shown.loading;
    settings.hosts.clone_from(&options.hosts);
    let spinner = Spinner::new(format!("reading {}", location.shown()));
    let is_remote = matches!(location, Location::Url(_));
    let server = shown.server.map(server_at).transpose()?.unwrap_or_default();
    let read = inspect(location, &settings, &server, name).await;
    drop(spinner);
    let mut read = read.map_err(|error| match error {
        OpenApiError::Load(LoadError::Unreachable { .. }) if is_remote => {
            Failure::Unreachable(error.to_string())
        }
        error => Failure::Usage(error.to_string()),
    })?;
    let specs = std::mem::take(&mut read.report.operations);
    let count = specs.len();
    let names: Vec<&str> = specs.iter().map(|spec| &*spec.name).collect();
    let strays = adjustments.strays(&names).into_iter();
    read.report.warnings.extend(strays.map(|message| Warning::new("", message)));
    let kept = specs.into_iter().filter_map(|spec| adjustments.apply(spec)).map(|(spec, _)| spec);
    read.report.operations = kept.collect();
    if count > 0 && read.report.operations.is_empty() {
        let said = format!("none of the {count} operations fits --include and --exclude");
        return Err(Failure::Usage(said));
    }
    check_names(&read.report.operations)?;
    Ok(read)
}

/// Two operations cannot have one name.
fn check_names(operations: &[OperationSpec]) -> Result<(), Failure> {
    let mut names = HashSet::new();
    match operations.iter().find(|spec| !names.insert(&spec.name)) {
        Some(twice) => {
            let said =
                format!("two operations would be called `{}`; rename one of them", twice.name);
            Err(Failure::Usage(said))
        }
        None => Ok(()),
    }
}

/// Where a service is, as the configuration takes it.
fn server_at(typed: &str) -> Result<ServerSettings, Failure> {
    match Location::of(typed) {
        Location::Url(url) if url.username().is_empty() && url.password().is_none() => {
            Ok(ServerSettings { address: Some(url), ..ServerSettings::default() })
        }
        Location::Url(_) => {
            let said = "an address has no user and password; use --basic, --bearer or --api-key";
            Err(Failure::Usage(said.to_owned()))
        }
        _ => Err(Failure::Usage("--server is https://HOST/… or http://HOST/…".to_owned())),
    }
}

fn adjustments(options: &DocumentOptions) -> Result<Adjustments, Failure> {
    let mut adjustments = Adjustments::default();
    if !options.include.is_empty() {
        adjustments.include = options.include.iter().map(Glob::new).collect();
    }
    adjustments.exclude = options.exclude.iter().map(Glob::new).collect();
    adjustments.prefix = options.prefix.clone().unwrap_or_default();
    for pair in &options.rename {
        let (old, new) = renamed(pair)?;
        adjustments.rename.insert(old, new);
    }
    Ok(adjustments)
}

fn renamed(pair: &str) -> Result<(String, String), Failure> {
    match pair.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => {
            Ok((old.to_owned(), new.to_owned()))
        }
        _ => Err(Failure::Usage("another name is written as --rename OLD=NEW".to_owned())),
    }
}
