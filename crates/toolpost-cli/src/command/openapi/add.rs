//! `add openapi`.

use serde_json::{Value, json};
use toolpost::openapi::{Inspection, LoadSettings, Location};
use toolpost_gateway::config::{
    Access, EditError, Existing, OpenApiEntry, Overview, Part, kept_service, overview, path_from,
    write_source,
};

use super::super::add::{header, secret};
use super::super::neighbor;
use super::{Shown, read, renamed, report};
use crate::arguments::AddOpenApiOptions;
use crate::failure::Failure;
use crate::output;

pub(crate) async fn add_openapi(options: &AddOpenApiOptions) -> Result<(), Failure> {
    let known = overview(&options.config)?;
    check_name(options, &known)?;
    let entry = kept_service(&options.config, &options.name, entry(options)?)?;
    let read = if options.no_connect { None } else { Some(look(options, &entry).await?) };
    // On loopback, where nobody is known, everybody may call.
    let has_identities = known.knows_callers();
    let access = (!has_identities).then_some(Access::Open);
    let existing = if options.replace { Existing::Replace } else { Existing::Refuse };
    neighbor::keep(&options.config, std::slice::from_ref(&options.name))?;
    let written = write_source(&options.config, &options.name, &entry, access.as_ref(), existing)?;
    let access = written.unwrap_or_else(|| Access::unsaid(&options.name, has_identities));
    secret::remark_service(&options.config, &options.name, &entry);
    if options.replace && !entry.has_credentials() {
        output::remark("`auth` of before stays if the document and the server are the same.");
    }
    if output::is_plain(options.json) {
        output::print_plain(&to_json(options, &access, read.as_ref()))?;
    } else {
        print(options, &output::who(&access, has_identities), read.as_ref())?;
    }
    output::remark(output::TAKEN_UP);
    Ok(())
}

/// Reads the document, as the gateway will.
async fn look(options: &AddOpenApiOptions, entry: &OpenApiEntry) -> Result<Inspection, Failure> {
    if entry.private && entry.basic.is_some() {
        let said = "a document is looked at with --bearer or --header; --no-connect writes the source \
                    without a look";
        return Err(Failure::Usage(said.to_owned()));
    }
    let mut loading = LoadSettings::default();
    if entry.private {
        loading.headers = entry.shown(&options.config, &options.name)?;
    }
    // An address with variables in it is what the gateway makes of it.
    let server = entry.server.as_deref().filter(|server| !server.contains("${"));
    let read = read(&options.document, &options.name, Shown { server, loading }).await?;
    if read.report.operations.is_empty() {
        let what = options.document.document.as_str();
        let said = format!("`{what}` has no operation that can be called; nothing was written");
        return Err(Failure::Usage(said));
    }
    Ok(read)
}

fn to_json(options: &AddOpenApiOptions, access: &Access, read: Option<&Inspection>) -> Value {
    let mut told = json!({
        "name": options.name,
        "written": true,
        "file": options.config.display().to_string(),
        "access": output::access_json(access),
    });
    if let Some(Inspection { report: found, .. }) = read {
        told["operations"] = found.operations.len().into();
        told["counts"] = json!(found.counts());
        told["skipped"] = json!(found.skipped);
        told["warnings"] = json!(found.warnings);
        told["tokens"] = report::cost(&found.operations).into();
    }
    told
}

fn print(options: &AddOpenApiOptions, who: &str, read: Option<&Inspection>) -> std::io::Result<()> {
    if let Some(read) = read {
        report::print_for_people(read)?;
    }
    let (name, file) = (&options.name, options.config.display());
    output::print_line(&format!("Written to {file} as [source.{name}], {who}."))?;
    if let Some(first) = read.and_then(|read| read.report.operations.first()) {
        let first = &first.name;
        output::print_line(&output::harmless(&format!("Try: toolpost schema {name}.{first}")))?;
    }
    Ok(())
}

/// Before anything is read: a name that is taken, or is not there to be replaced.
fn check_name(options: &AddOpenApiOptions, known: &Overview) -> Result<(), Failure> {
    let (name, file) = (options.name.clone(), options.config.clone());
    match (known.sources.contains(&name), options.replace) {
        (true, false) => Err(EditError::Exists { part: Part::Source, name, file }.into()),
        (false, true) => Err(EditError::Absent { name, file }.into()),
        _ => Ok(()),
    }
}

/// The document as the configuration finds it, from wherever this command is run.
fn written(options: &AddOpenApiOptions) -> Result<String, Failure> {
    let typed = &options.document.document;
    let Location::File(path) = Location::of(typed) else { return Ok(typed.clone()) };
    let path = path_from(&options.config, &path);
    path.into_os_string().into_string().map_err(|path| {
        let path = path.to_string_lossy();
        Failure::Usage(format!("`{path}` is not UTF-8, so that it cannot be written down"))
    })
}

fn entry(options: &AddOpenApiOptions) -> Result<OpenApiEntry, Failure> {
    let document = &options.document;
    let mut entry = OpenApiEntry::new(written(options)?);
    entry.server.clone_from(&options.server);
    entry.hosts.clone_from(&document.hosts);
    entry.private = options.private;
    entry.include.clone_from(&document.include);
    entry.exclude.clone_from(&document.exclude);
    entry.prefix.clone_from(&document.prefix);
    entry.rename =
        document.rename.iter().map(|pair| renamed(pair)).collect::<Result<_, Failure>>()?;
    for typed in &options.headers {
        let (name, value) = header(&typed.0)?;
        entry.headers.insert(name, value);
    }
    entry.bearer = options.bearer.as_ref().map(|token| token.0.clone());
    entry.api_key = options.api_key.as_ref().map(|key| key.0.clone());
    if let Some(basic) = &options.basic {
        let (name, password) = basic.0.split_once(':').ok_or_else(|| {
            Failure::Usage("a name and a password are written as --basic NAME:PASSWORD".to_owned())
        })?;
        entry.basic = Some((name.to_owned(), password.to_owned()));
    }
    Ok(entry)
}
