//! `add openapi`: reads an OpenAPI document and adds the service to the configuration as a source.

use serde_json::{Value, json};
use toolpost::openapi::{DocumentLocation, Inspection, LoadSettings};
use toolpost_gateway::config::{
    Access, OpenApiEntry, SourceEntry, preserve_openapi_entry, relative_path,
};

use super::super::add::{TargetConfig, parse_headers, reveal, secret};
use super::super::config_file::include_mcp_json;
use super::{parse_rename, read_document, report};
use crate::arguments::AddOpenApiOptions;
use crate::error::CommandError;
use crate::output;

pub(crate) async fn add_openapi(options: &AddOpenApiOptions) -> Result<(), CommandError> {
    let name = &options.name;
    let config = TargetConfig::open(&options.write)?;
    config.check_name(name)?;
    let entry = preserve_openapi_entry(config.file, name, build_entry(options)?)?;
    let inspection = match options.write.no_connect {
        true => None,
        false => Some(inspect_document(options, &entry).await?),
    };
    include_mcp_json(config.file, std::slice::from_ref(name))?;
    let access = config.write(name, SourceEntry::OpenApi(&entry))?;
    secret::warn_literal_service_secrets(config.file, name, &entry);
    if options.write.replace && !entry.has_credentials() {
        output::notice("The previous `auth` is kept if the document and the server are unchanged.");
    }
    if output::is_json() {
        output::print_json_line(&to_json(options, &access, inspection.as_ref()))?;
    } else {
        if let Some(inspection) = &inspection {
            report::print_text(inspection)?;
        }
        let first = inspection.as_ref().and_then(|found| found.report.operations.first());
        config.print_written(name, &access, first.map(|spec| spec.name.as_str()))?;
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
        return Err(CommandError::usage(
            "--private sends only --bearer and --header with the document request; use one of them, \
             or --no-connect",
        ));
    }
    let mut loading = LoadSettings::default();
    if entry.private {
        loading.headers = entry.document_headers(&options.write.file.config, &options.name)?;
    }
    // A server URL with variables is not used here; the gateway resolves it.
    let server = entry.server.as_deref().filter(|server| !server.contains("${"));
    let inspection = read_document(&options.document, &options.name, server, loading).await?;
    if inspection.report.operations.is_empty() {
        let what = options.document.document.as_str();
        let message =
            format!("no operation of `{what}` can be imported; the configuration is unchanged");
        return Err(CommandError::Usage(message));
    }
    Ok(inspection)
}

fn to_json(options: &AddOpenApiOptions, access: &Access, inspection: Option<&Inspection>) -> Value {
    let mut summary = json!({
        "name": options.name,
        "written": true,
        "file": options.write.file.config.display().to_string(),
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

/// Returns the document location for the configuration. Paths are relative to the configuration
/// file, not to the working directory.
fn document_reference(options: &AddOpenApiOptions) -> Result<String, CommandError> {
    let typed = &options.document.document;
    let DocumentLocation::File(path) = DocumentLocation::from_path_or_url(typed) else {
        return Ok(typed.clone());
    };
    let path = relative_path(&options.write.file.config, &path);
    path.into_os_string().into_string().map_err(|path| {
        let path = path.to_string_lossy();
        CommandError::Usage(format!("the path `{path}` is not valid UTF-8"))
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
    entry.rename =
        document.rename.iter().map(|pair| parse_rename(pair)).collect::<Result<_, _>>()?;
    entry.headers = parse_headers(&options.headers)?;
    entry.bearer = reveal(options.bearer.as_ref());
    entry.api_key = reveal(options.api_key.as_ref());
    if let Some(basic) = &options.basic {
        let (name, password) = basic
            .reveal()
            .split_once(':')
            .ok_or_else(|| CommandError::usage("invalid credentials; use --basic USER:PASSWORD"))?;
        entry.basic = Some((name.to_owned(), password.to_owned()));
    }
    Ok(entry)
}
