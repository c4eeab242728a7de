//! `import` and `add openapi`: a document is read, what it becomes is shown, and it becomes a source
//! of the configuration if that is wanted.

mod add;
mod report;

use manila::openapi::{Inspection, LoadError, LoadSettings, Location, OpenApiError, inspect};
use manila_gateway::config::{Adjustments, Glob};

use super::connect::Spinner;
use crate::arguments::{DocumentOptions, ImportOptions};
use crate::failure::Failure;

pub(crate) use add::add_openapi;

pub(crate) async fn import(options: &ImportOptions) -> Result<(), Failure> {
    let read = read(&options.document, &options.name).await?;
    report::print(&read, options.json)?;
    Ok(())
}

/// The document with what is wanted of it.
async fn read(options: &DocumentOptions, name: &str) -> Result<Inspection, Failure> {
    let adjustments = adjustments(options)?;
    let location = Location::of(&options.document);
    let mut settings = LoadSettings::default();
    settings.hosts.clone_from(&options.hosts);
    let spinner = Spinner::new(format!("reading {}", location.shown()));
    let is_remote = matches!(location, Location::Url(_));
    let read = inspect(location, &settings, name).await;
    drop(spinner);
    let mut read = read.map_err(|error| match error {
        OpenApiError::Load(LoadError::Unreachable { .. }) if is_remote => {
            Failure::Unreachable(error.to_string())
        }
        error => Failure::Usage(error.to_string()),
    })?;
    let specs = std::mem::take(&mut read.report.operations);
    let kept = specs.into_iter().filter_map(|spec| adjustments.apply(spec)).map(|(spec, _)| spec);
    read.report.operations = kept.collect();
    Ok(read)
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
