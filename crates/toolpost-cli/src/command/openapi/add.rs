//! `add openapi`: reads an OpenAPI document and adds the service to the configuration as a source.

use serde_json::{Value, json};
use toolpost::openapi::{DocumentLocation, Inspection, LoadSettings};
use toolpost_gateway::config::{
    Access, ConfigOverview, ConfigTable, EditError, IfExists, OpenApiEntry, overview,
    preserve_openapi_entry, relative_path, write_source,
};

use super::super::add::{parse_header, secret};
use super::super::mcp_json;
use super::{InspectOptions, parse_rename, read_document, report};
use crate::arguments::AddOpenApiOptions;
use crate::error::CommandError;
use crate::output;

pub(crate) async fn add_openapi(options: &AddOpenApiOptions) -> Result<(), CommandError> {
    let config_overview = overview(&options.config)?;
    check_name(options, &config_overview)?;
    let entry = preserve_openapi_entry(&options.config, &options.name, build_entry(options)?)?;
    let inspection =
        if options.no_connect { None } else { Some(inspect_document(options, &entry).await?) };
    // Without authentication the gateway serves only loopback, and every caller has access.
    let has_identities = config_overview.requires_auth();
    let access = (!has_identities).then_some(Access::Open);
    let existing = if options.replace { IfExists::Replace } else { IfExists::Fail };
    mcp_json::include_in_config(&options.config, std::slice::from_ref(&options.name))?;
    let written = write_source(&options.config, &options.name, &entry, access.as_ref(), existing)?;
    let access = written.unwrap_or_else(|| Access::default_for(&options.name, has_identities));
    secret::warn_literal_service_secrets(&options.config, &options.name, &entry);
    if options.replace && !entry.has_credentials() {
        output::notice("`auth` of before stays if the document and the server are the same.");
    }
    if output::wants_json(options.json) {
        output::print_json_line(&to_json(options, &access, inspection.as_ref()))?;
    } else {
        print(options, &output::describe_access(&access, has_identities), inspection.as_ref())?;
    }
    output::notice(output::RELOAD_NOTICE);
    Ok(())
}

/// Reads the document in the same way as the gateway.
async fn inspect_document(
    options: &AddOpenApiOptions,
    entry: &OpenApiEntry,
) -> Result<Inspection, CommandError> {
    if entry.private && entry.basic.is_some() {
        let message = "a document is looked at with --bearer or --header; --no-connect writes the source \
                    without a look";
        return Err(CommandError::Usage(message.to_owned()));
    }
    let mut loading = LoadSettings::default();
    if entry.private {
        loading.headers = entry.document_headers(&options.config, &options.name)?;
    }
    // A server URL with variables is not used here; the gateway resolves it.
    let server = entry.server.as_deref().filter(|server| !server.contains("${"));
    let inspection =
        read_document(&options.document, &options.name, InspectOptions { server, loading }).await?;
    if inspection.report.operations.is_empty() {
        let what = options.document.document.as_str();
        let message = format!("`{what}` has no operation that can be called; nothing was written");
        return Err(CommandError::Usage(message));
    }
    Ok(inspection)
}

fn to_json(options: &AddOpenApiOptions, access: &Access, inspection: Option<&Inspection>) -> Value {
    let mut summary = json!({
        "name": options.name,
        "written": true,
        "file": options.config.display().to_string(),
        "access": output::access_json(access),
    });
    if let Some(Inspection { report: found, .. }) = inspection {
        summary["operations"] = found.operations.len().into();
        summary["counts"] = json!(found.counts());
        summary["skipped"] = json!(found.skipped);
        summary["warnings"] = json!(found.warnings);
        summary["tokens"] = report::token_cost(&found.operations).into();
    }
    summary
}

fn print(
    options: &AddOpenApiOptions,
    access_text: &str,
    inspection: Option<&Inspection>,
) -> std::io::Result<()> {
    if let Some(inspection) = inspection {
        report::print_text(inspection)?;
    }
    let (name, file) = (&options.name, options.config.display());
    output::print_line(&format!("Written to {file} as [source.{name}], {access_text}."))?;
    if let Some(first) = inspection.and_then(|inspection| inspection.report.operations.first()) {
        let first = &first.name;
        output::print_line(&output::sanitize(&format!("Try: toolpost schema {name}.{first}")))?;
    }
    Ok(())
}

/// Checks the source name before the document is read: a new name must be unused, and a name to
/// replace must exist.
fn check_name(
    options: &AddOpenApiOptions,
    config_overview: &ConfigOverview,
) -> Result<(), CommandError> {
    let (name, file) = (options.name.clone(), options.config.clone());
    match (config_overview.sources.contains(&name), options.replace) {
        (true, false) => {
            Err(EditError::AlreadyExists { part: ConfigTable::Source, name, file }.into())
        }
        (false, true) => Err(EditError::NotFound { name, file }.into()),
        _ => Ok(()),
    }
}

/// Returns the document location for the configuration. Paths are relative to the configuration
/// file, not to the working directory.
fn document_reference(options: &AddOpenApiOptions) -> Result<String, CommandError> {
    let typed = &options.document.document;
    let DocumentLocation::File(path) = DocumentLocation::from_path_or_url(typed) else {
        return Ok(typed.clone());
    };
    let path = relative_path(&options.config, &path);
    path.into_os_string().into_string().map_err(|path| {
        let path = path.to_string_lossy();
        CommandError::Usage(format!("`{path}` is not UTF-8, so that it cannot be written down"))
    })
}

fn build_entry(options: &AddOpenApiOptions) -> Result<OpenApiEntry, CommandError> {
    let document = &options.document;
    let mut entry = OpenApiEntry::new(document_reference(options)?);
    entry.server.clone_from(&options.server);
    entry.hosts.clone_from(&document.hosts);
    entry.private = options.private;
    entry.include.clone_from(&document.include);
    entry.exclude.clone_from(&document.exclude);
    entry.prefix.clone_from(&document.prefix);
    entry.rename = document
        .rename
        .iter()
        .map(|pair| parse_rename(pair))
        .collect::<Result<_, CommandError>>()?;
    for typed in &options.headers {
        let (name, value) = parse_header(&typed.0)?;
        entry.headers.insert(name, value);
    }
    entry.bearer = options.bearer.as_ref().map(|token| token.0.clone());
    entry.api_key = options.api_key.as_ref().map(|key| key.0.clone());
    if let Some(basic) = &options.basic {
        let (name, password) = basic.0.split_once(':').ok_or_else(|| {
            CommandError::Usage(
                "a name and a password are written as --basic NAME:PASSWORD".to_owned(),
            )
        })?;
        entry.basic = Some((name.to_owned(), password.to_owned()));
    }
    Ok(entry)
}
