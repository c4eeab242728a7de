//! Builds callable operations from an import.

use std::any::Any;
use std::collections::HashSet;
use std::slice;
use std::sync::Arc;

use serde_json::Value;
use url::{Origin, Url};

use super::client::{AllowedHosts, HttpClient};
use super::credential::{Credential, CredentialError, CredentialStore, OperationCredentials};
use super::document::DocumentSet;
use super::handler::{OperationRoute, ServiceContext};
use super::import::{
    ImportError, ImportResult, ImportedOperation, OperationCounts, SkippedOperation, import,
};
use super::inspect::title_and_version;
use super::load::LoadError;
use super::plan::{OperationPlan, SecurityScheme, ServerTemplate};
use super::request::{RequestTemplate, ServerSettings, server_url};
use super::schema::DocumentWarning;
use super::settings::OpenApiSettings;
use crate::error::{CallError, HandlerError};
use crate::handler::Handler;
use crate::http::innermost_cause;
use crate::operation::Operation;
use crate::schema::{PropertyNames, Schema, SchemaPart, SharedDefs, SplitRoot, SplitSchema};
use crate::source::SourceHooks;
use crate::spec::{OperationKind, OperationSpec};

/// Summary of an imported service.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServiceInfo {
    /// Title of the service.
    pub title: String,
    /// Version of the service.
    pub version: String,
    /// Number of operations of each kind, of skipped operations and of warnings.
    pub counts: OperationCounts,
    /// Operations that were not imported, with the reasons.
    pub skipped: Vec<SkippedOperation>,
    /// Problems in the document that do not prevent the import.
    pub warnings: Vec<DocumentWarning>,
}

/// Error returned when the operations of a service cannot be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The document cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The given document text cannot be parsed.
    #[error("the document cannot be read: {0}")]
    Document(String),
    /// The document cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A configured credential is invalid.
    #[error("{0}")]
    Credentials(String),
    /// The configured proxy or a configured certificate is invalid.
    #[error("cannot create the HTTP client: {0}")]
    Client(String),
    /// An operation cannot be registered.
    #[error(transparent)]
    Operation(#[from] crate::operation::OperationError),
}

impl From<CredentialError> for OpenApiError {
    fn from(error: CredentialError) -> Self {
        Self::Credentials(error.to_string())
    }
}

/// The operations of a document and its summary.
pub(super) struct BuiltOperations {
    pub(super) operations: Vec<Operation>,
    pub(super) info: ServiceInfo,
    /// Whether the document describes a Toolpost gateway, whose operations change over time.
    pub(super) is_gateway: bool,
}

/// Creates the context that all operations of a source share.
pub(super) fn build_service(
    name: &str,
    settings: OpenApiSettings,
) -> Result<ServiceContext, OpenApiError> {
    let client = HttpClient::new(&settings.client, settings.credentials.client_identity()?);
    let client = client.map_err(|error| OpenApiError::Client(innermost_cause(&error)))?;
    Ok(ServiceContext {
        name: name.into(),
        credential_store: CredentialStore::new(
            settings.credentials.clone(),
            client.http().clone(),
            settings.client.tls.clone(),
        )?,
        client,
        settings,
    })
}

/// Builds the operations of a document and replaces the allowed hosts of the source.
pub(super) fn build_operations(
    service: &Arc<ServiceContext>,
    documents: &Arc<DocumentSet>,
    hooks: &SourceHooks,
) -> Result<BuiltOperations, OpenApiError> {
    let namespaces = service.settings.namespaces;
    let imported = import(documents, &service.name, namespaces)?;
    let ImportResult { operations, mut skipped, mut warnings, default_servers } = imported;
    let own_servers = OwnServers::new(&service.settings, &default_servers);
    warnings.extend(server_warnings(&operations, &service.settings.server));
    warnings.extend(unmatched_config(service, documents, &operations, hooks));
    let hosts = allowed_hosts(service, documents, operations.iter().map(|imported| &imported.plan));
    let mut built = Vec::with_capacity(operations.len());
    let mut ids = HashSet::new();
    for imported in operations {
        let (method, path) = (imported.plan.method.to_string(), imported.plan.path.clone());
        match build_operation(service, &hosts, &own_servers, imported, hooks) {
            Ok(Some(operation)) if !ids.insert(operation.id().clone()) => {
                let name = &operation.spec().name;
                let reason = format!("another operation has the name `{name}`; rename one of them");
                skipped.push(SkippedOperation::new(&method, &path, reason));
            }
            Ok(Some(operation)) => built.push(operation),
            Ok(None) => {}
            Err(reason) => skipped.push(SkippedOperation::new(&method, &path, reason)),
        }
    }
    service.client.set_allowed_hosts(hosts);
    let kinds = built.iter().map(|operation: &Operation| operation.spec().kind);
    let counts = OperationCounts::new(kinds, skipped.len(), warnings.len());
    let (title, version) = title_and_version(documents);
    let is_gateway = documents.root().get("x-toolpost").is_some();
    let info = ServiceInfo { title, version, counts, skipped, warnings };
    Ok(BuiltOperations { operations: built, info, is_gateway })
}

/// Builds an operation with its handler. Returns `None` if the transform omits the operation.
fn build_operation(
    service: &Arc<ServiceContext>,
    hosts: &AllowedHosts,
    own_servers: &OwnServers,
    imported: ImportedOperation,
    hooks: &SourceHooks,
) -> Result<Option<Operation>, String> {
    let ImportedOperation { spec, plan } = imported;
    let Some((spec, policy)) = hooks.transform(spec) else { return Ok(None) };
    let server = match server_url(&plan.servers, &service.settings.server) {
        Ok(server) => server,
        // Register the operation anyway; each call fails with the reason.
        Err(error) => {
            let handler = unavailable_handler(spec.kind, &error.to_string());
            let operation = Operation::from_spec(spec).handler(handler).policy(policy).build();
            return operation.map(Some).map_err(|error| error.to_string());
        }
    };
    let credentials =
        service.credential_store.for_server(&plan.security, &server, own_servers.contains(&server));
    let (spec, plan) = match &credentials {
        Ok(credentials) => relax_credential_parameters(credentials, spec, plan),
        Err(_) => (spec, plan),
    };
    let plan = Arc::new(plan);
    for url in token_urls(&service.settings, &plan) {
        hosts.check(url).map_err(|error| format!("its tokens cannot be fetched: {error}"))?;
    }
    let template =
        RequestTemplate::new(Arc::clone(&plan), &server).map_err(|error| error.to_string())?;
    let route = OperationRoute::new(service, plan, template, credentials, &spec, policy);
    let operation = Operation::from_spec(spec).handler(route.into_handler()).policy(policy);
    operation.build().map(Some).map_err(|error| error.to_string())
}

/// Makes required parameters optional if the configured credentials provide them.
fn relax_credential_parameters(
    credentials: &OperationCredentials,
    mut spec: OperationSpec,
    mut plan: OperationPlan,
) -> (OperationSpec, OperationPlan) {
    let filled = plan.parameters.iter_mut().filter(|one| one.required && credentials.provides(one));
    let names: Vec<String> = filled
        .map(|parameter| {
            parameter.required = false;
            parameter.input.clone()
        })
        .collect();
    if !names.is_empty() {
        let input = std::mem::replace(&mut spec.input_schema, Schema::unknown());
        spec.input_schema =
            Schema::with_shared_defs(Arc::new(RelaxedInput { input, optional_names: names }));
    }
    (spec, plan)
}

/// An input schema with some required properties made optional.
struct RelaxedInput {
    input: Schema,
    optional_names: Vec<String>,
}

impl RelaxedInput {
    fn relax(&self, schema: &mut Value) {
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| !self.optional_names.iter().any(|filled| name == filled));
        }
    }
}

impl SchemaPart for RelaxedInput {
    fn to_value(&self) -> Value {
        let mut schema = self.input.json().into_owned();
        self.relax(&mut schema);
        schema
    }

    fn property_names(&self) -> PropertyNames {
        let mut names = self.input.property_names();
        let is_optional = |name: &mut String| self.optional_names.contains(name);
        names.optional.extend(names.required.extract_if(.., is_optional));
        names
    }
}

impl SharedDefs for RelaxedInput {
    fn document_id(&self) -> usize {
        self.input.as_shared_defs().map_or(0, SharedDefs::document_id)
    }

    fn new_cache(&self) -> Box<dyn Any> {
        self.input.as_shared_defs().map_or_else(|| Box::new(()), SharedDefs::new_cache)
    }

    fn split(&self, cache: &mut dyn Any) -> SplitSchema {
        let Some(input) = self.input.as_shared_defs() else { return SplitSchema::default() };
        let mut apart = input.split(cache);
        match &mut apart.root {
            SplitRoot::Inline(root) => self.relax(root),
            // A shared definition cannot be changed for one input, so the schema is not split.
            root => *root = SplitRoot::Unsplit,
        }
        apart
    }
}

/// Returns one warning per reason for operations without a server URL.
pub(super) fn server_warnings(
    operations: &[ImportedOperation],
    settings: &ServerSettings,
) -> Vec<DocumentWarning> {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for imported in operations {
        let Err(error) = server_url(&imported.plan.servers, settings) else { continue };
        let error = error.to_string();
        match reasons.iter_mut().find(|(reason, _)| *reason == error) {
            Some((_, count)) => *count += 1,
            None => reasons.push((error, 1)),
        }
    }
    let warning = |(reason, count): (String, usize)| {
        let what = if count == 1 { "operation" } else { "operations" };
        DocumentWarning::new("/servers", format!("{count} {what} cannot be called: {reason}"))
    };
    reasons.into_iter().map(warning).collect()
}

/// Returns warnings about configuration that matches nothing in the document.
fn unmatched_config(
    service: &ServiceContext,
    documents: &DocumentSet,
    operations: &[ImportedOperation],
    hooks: &SourceHooks,
) -> Vec<DocumentWarning> {
    let root = documents.root();
    let declared = root.get("components").and_then(|components| components.get("securitySchemes"));
    let declared = declared.or_else(|| root.get("securityDefinitions"));
    let is_missing = |name: &&String| declared.and_then(|schemes| schemes.get(name)).is_none();
    let missing = service.settings.credentials.schemes.keys().filter(is_missing);
    let unmatched = "is for a security scheme that the document does not declare";
    let mut messages: Vec<String> =
        missing.map(|name| format!("`auth.schemes.{name}` {unmatched}")).collect();
    if let Some(lint) = &hooks.lint {
        let names: Vec<&str> = operations.iter().map(|imported| &*imported.spec.name).collect();
        messages.extend(lint(&names));
    }
    for warning in &messages {
        tracing::warn!(
            source = &*service.name,
            warning,
            "configuration does not match the document"
        );
    }
    messages.into_iter().map(|message| DocumentWarning::new("", message)).collect()
}

/// Returns a handler that fails every call with `reason`.
fn unavailable_handler(kind: OperationKind, reason: &str) -> Handler {
    let reason: Arc<str> = reason.into();
    let unavailable = move || {
        let error = CallError::unavailable(reason.to_string()).not_sent();
        Err(HandlerError::from(error))
    };
    match kind {
        OperationKind::Subscription => {
            Handler::stream_fn(move |_, _| futures::stream::iter([unavailable()]))
        }
        _ => Handler::once_fn(move |_, _| std::future::ready(unavailable())),
    }
}

/// The servers that receive the configured credentials: those of the configuration and those that
/// the document declares for all operations.
struct OwnServers {
    configured: AllowedHosts,
    origins: Vec<Origin>,
}

impl OwnServers {
    fn new(settings: &OpenApiSettings, default_servers: &[ServerTemplate]) -> Self {
        let configured = AllowedHosts::new(settings.hosts.iter().map(String::as_str), None);
        let mut overrides = settings.server.clone();
        let own = overrides.url.take();
        let declared = default_servers.iter();
        let declared =
            declared.filter_map(|server| server_url(slice::from_ref(server), &overrides).ok());
        let document = settings.document.url().ok();
        let all = own.into_iter().chain(document).chain(declared);
        Self { configured, origins: all.map(|url| url.origin()).collect() }
    }

    fn contains(&self, server: &Url) -> bool {
        self.origins.contains(&server.origin()) || self.configured.check(server).is_ok()
    }
}

/// Returns the hosts that the document and the settings allow.
fn allowed_hosts<'p>(
    service: &ServiceContext,
    documents: &DocumentSet,
    plans: impl Iterator<Item = &'p OperationPlan>,
) -> AllowedHosts {
    let settings = &service.settings;
    let document = documents.root().file_url();
    let mut hosts = AllowedHosts::new(settings.hosts.iter().map(String::as_str), Some(document));
    let configured_url = settings.document.url().ok();
    for address in configured_url.iter().chain(&settings.server.url) {
        hosts.allow_configured(address);
    }
    let mut seen = HashSet::new();
    for plan in plans {
        token_urls(settings, plan).for_each(|url| hosts.allow_documented(url));
        if !seen.insert(plan.servers.as_ptr()) {
            continue;
        }
        for server in plan.servers.iter() {
            let mut settings = settings.server.clone();
            settings.url = None;
            let is_configured =
                server.variables.iter().any(|one| settings.variables.contains_key(&one.name));
            match server_url(slice::from_ref(server), &settings) {
                Ok(address) if is_configured => hosts.allow_configured(&address),
                Ok(address) => hosts.allow_documented(&address),
                Err(_) => {}
            }
        }
    }
    hosts
}

/// Returns the token URLs that come from the document because the configuration sets none.
fn token_urls<'p>(
    settings: &OpenApiSettings,
    plan: &'p OperationPlan,
) -> impl Iterator<Item = &'p Url> {
    let credentials = &settings.credentials;
    let needs_token_url = credentials.schemes.values().chain(&credentials.generic).any(
        |credential| matches!(credential, Credential::OAuth2(client) if client.token_url.is_none()),
    );
    let schemes = plan.security.iter().flatten().map(|credential| &*credential.scheme);
    schemes.filter_map(move |scheme| match scheme {
        SecurityScheme::OAuth2 { token_url } if needs_token_url => token_url.as_ref(),
        _ => None,
    })
}
