//! From an import to operations that can be called.

use std::any::Any;
use std::collections::HashSet;
use std::slice;
use std::sync::Arc;

use serde_json::Value;
use url::Url;

use super::client::{Client, Hosts};
use super::credential::{Credential, CredentialError, Keyring};
use super::document::Library;
use super::handler::{Route, Service};
use super::import::{Counts, Import, ImportError, Imported, Skipped, import};
use super::inspect::title_and_version;
use super::load::LoadError;
use super::plan::{Plan, Scheme};
use super::request::{ServerSettings, Template, address};
use super::schema::Warning;
use super::settings::OpenApiSettings;
use super::source::{Adjust, SourceHooks};
use crate::error::{CallError, HandlerError};
use crate::handler::Handler;
use crate::operation::{Operation, ResultPolicy};
use crate::schema::{Apart, Excerpt, Root, Schema, SchemaPart};
use crate::spec::{Kind, OperationSpec};

/// What was found in a document.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// What the service is called.
    pub title: String,
    /// Its version.
    pub version: String,
    /// How many operations there are of each kind, how many are missing, and how much is odd.
    pub counts: Counts,
    /// The operations that cannot be called, and why.
    pub skipped: Vec<Skipped>,
    /// What is odd about the document.
    pub warnings: Vec<Warning>,
}

/// Why a service cannot be called at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// The document cannot be had.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// What is at hand cannot be read.
    #[error("the document cannot be read: {0}")]
    Document(String),
    /// It is something else.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A credential of the settings cannot be shown.
    #[error("{0}")]
    Credentials(String),
    /// The proxy or a certificate of the settings cannot be used.
    #[error("no client can be made with these settings: {0}")]
    Client(String),
    /// An operation cannot be put into the registry.
    #[error(transparent)]
    Operation(#[from] crate::operation::OperationError),
}

/// Operations, and what was found on the way to them.
pub(super) struct Offer {
    pub(super) operations: Vec<Operation>,
    pub(super) found: Found,
    /// Whether the document is that of a gateway, whose operations come and go.
    pub(super) is_gateway: bool,
}

/// What every operation of a source shares.
pub(super) fn service(name: &str, settings: OpenApiSettings) -> Result<Service, OpenApiError> {
    let wrong = |error: CredentialError| OpenApiError::Credentials(error.to_string());
    let identity = settings.credentials.identity().map_err(wrong)?;
    let client = Client::new(&settings.client, identity);
    let client = client.map_err(|error| OpenApiError::Client(words(&error)))?;
    let keyring = Keyring::new(settings.credentials.clone(), client.http().clone());
    Ok(Service { name: name.into(), keyring: keyring.map_err(wrong)?, client, settings })
}

/// Makes operations of a document, and lets its hosts be called from now on.
///
/// # Errors
///
/// It is no API document.
pub(super) fn offer(
    service: &Arc<Service>,
    library: &Arc<Library>,
    hooks: &SourceHooks,
) -> Result<Offer, OpenApiError> {
    let namespaces = service.settings.namespaces;
    let imported = import(library, &service.name, namespaces)?;
    let Import { operations, mut skipped, mut warnings } = imported;
    warnings.extend(homeless(&operations, &service.settings.server));
    warnings.extend(strays(service, library, &operations, hooks));
    let hosts = hosts(service, library, operations.iter().map(|imported| &imported.plan));
    let mut offered = Vec::with_capacity(operations.len());
    let mut ids = HashSet::new();
    for imported in operations {
        let (method, path) = (imported.plan.method.to_string(), imported.plan.path.clone());
        match operation(service, &hosts, imported, hooks.adjust.as_ref()) {
            Ok(Some(operation)) if !ids.insert(operation.id().clone()) => {
                let name = &operation.spec().name;
                let reason = format!("another operation is called `{name}`; rename one of the two");
                skipped.push(Skipped::new(&method, &path, reason));
            }
            Ok(Some(operation)) => offered.push(operation),
            Ok(None) => {}
            Err(reason) => skipped.push(Skipped::new(&method, &path, reason)),
        }
    }
    service.client.allow(hosts);
    let kinds = offered.iter().map(|operation: &Operation| operation.spec().kind);
    let counts = Counts::new(kinds, skipped.len(), warnings.len());
    let (title, version) = title_and_version(library);
    let is_gateway = library.node(library.root()).get("x-toolpost").is_some();
    let found = Found { title, version, counts, skipped, warnings };
    Ok(Offer { operations: offered, found, is_gateway })
}

/// An operation with its handler, unless it is left out.
fn operation(
    service: &Arc<Service>,
    hosts: &Hosts,
    imported: Imported,
    adjust: Option<&Adjust>,
) -> Result<Option<Operation>, String> {
    let Imported { spec, plan } = imported;
    let adjusted = match adjust {
        Some(adjust) => adjust(spec),
        None => Some((spec, ResultPolicy::default())),
    };
    let Some((spec, policy)) = adjusted else { return Ok(None) };
    let server = match address(&plan.servers, &service.settings.server) {
        Ok(server) => server,
        // It is there, and whoever calls it learns what is missing.
        Err(error) => {
            let handler = refusing(spec.kind, &error.to_string());
            let operation = Operation::from_spec(spec).handler(handler).policy(policy).build();
            return operation.map(Some).map_err(|error| error.to_string());
        }
    };
    let (spec, plan) = without_filled(service, spec, plan);
    let plan = Arc::new(plan);
    for url in token_urls(&service.settings, &plan) {
        hosts.check(url).map_err(|error| format!("its tokens cannot be fetched: {error}"))?;
    }
    let template = Template::new(Arc::clone(&plan), &server).map_err(|error| error.to_string())?;
    let route = Route::new(service, plan, template, &spec, policy);
    let operation = Operation::from_spec(spec).handler(route.into_handler()).policy(policy);
    operation.build().map(Some).map_err(|error| error.to_string())
}

/// An operation whose credentials fill required parameters, which then need not be given.
fn without_filled(
    service: &Service,
    mut spec: OperationSpec,
    mut plan: Plan,
) -> (OperationSpec, Plan) {
    let Ok(keys) = service.keyring.keys(&plan.security) else { return (spec, plan) };
    let filled = plan.parameters.iter_mut().filter(|one| one.required && keys.fill(one));
    let names: Vec<String> = filled
        .map(|parameter| {
            parameter.required = false;
            parameter.input.clone()
        })
        .collect();
    if !names.is_empty() {
        let input = std::mem::replace(&mut spec.input_schema, Schema::unknown());
        spec.input_schema = Schema::excerpt(Arc::new(Relaxed { input, names }));
    }
    (spec, plan)
}

/// The schema of an input, some of whose members need not be there.
struct Relaxed {
    input: Schema,
    names: Vec<String>,
}

impl Relaxed {
    fn relax(&self, written: &mut Value) {
        if let Some(required) = written.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| !self.names.iter().any(|filled| name == filled));
        }
    }
}

impl SchemaPart for Relaxed {
    fn write(&self) -> Value {
        let mut written = self.input.json().into_owned();
        self.relax(&mut written);
        written
    }
}

impl Excerpt for Relaxed {
    fn document(&self) -> usize {
        self.input.as_excerpt().map_or(0, Excerpt::document)
    }

    fn volume(&self) -> Box<dyn Any> {
        self.input.as_excerpt().map_or_else(|| Box::new(()), Excerpt::volume)
    }

    fn take(&self, volume: &mut dyn Any) -> Apart {
        let Some(input) = self.input.as_excerpt() else { return Apart::default() };
        let mut apart = input.take(volume);
        match &mut apart.root {
            Root::Own(root) => self.relax(root),
            // What others have too stays as it is.
            root => *root = Root::Whole,
        }
        apart
    }
}

/// What is wrong with operations that have no address, once for each reason.
pub(super) fn homeless(operations: &[Imported], settings: &ServerSettings) -> Vec<Warning> {
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for imported in operations {
        let Err(error) = address(&imported.plan.servers, settings) else { continue };
        let error = error.to_string();
        match reasons.iter_mut().find(|(reason, _)| *reason == error) {
            Some((_, count)) => *count += 1,
            None => reasons.push((error, 1)),
        }
    }
    let warning = |(reason, count): (String, usize)| {
        let what = if count == 1 { "operation" } else { "operations" };
        let message = format!("{count} {what} cannot be called: {reason}");
        Warning { at: "/servers".to_owned(), message }
    };
    reasons.into_iter().map(warning).collect()
}

/// What is configured for something that the document does not have.
fn strays(
    service: &Service,
    library: &Library,
    operations: &[Imported],
    hooks: &SourceHooks,
) -> Vec<Warning> {
    let root = library.node(library.root());
    let declared = root.get("components").and_then(|components| components.get("securitySchemes"));
    let declared = declared.or_else(|| root.get("securityDefinitions"));
    let is_missing = |name: &&String| declared.and_then(|schemes| schemes.get(name)).is_none();
    let missing = service.settings.credentials.schemes.keys().filter(is_missing);
    let mut messages: Vec<String> = missing
        .map(|name| format!("`auth.schemes.{name}` is for a security scheme that is not there"))
        .collect();
    if let Some(review) = &hooks.review {
        let names: Vec<&str> = operations.iter().map(|imported| &*imported.spec.name).collect();
        messages.extend(review(&names));
    }
    for warning in &messages {
        tracing::warn!(source = &*service.name, warning, "the configuration does not fit");
    }
    messages.into_iter().map(|message| Warning { at: String::new(), message }).collect()
}

/// Answers every call with what is missing.
fn refusing(kind: Kind, reason: &str) -> Handler {
    let reason: Arc<str> = reason.into();
    let refusal = move || {
        let error = CallError::unavailable(reason.to_string()).before_sending();
        Err(HandlerError::from(error))
    };
    match kind {
        Kind::Subscription => Handler::stream_fn(move |_, _| futures::stream::iter([refusal()])),
        _ => Handler::once_fn(move |_, _| std::future::ready(refusal())),
    }
}

/// The hosts that a document and its settings name.
fn hosts<'p>(service: &Service, library: &Library, plans: impl Iterator<Item = &'p Plan>) -> Hosts {
    let settings = &service.settings;
    let document = &library.file(library.root()).address;
    let mut hosts = Hosts::new(settings.hosts.iter().map(String::as_str), Some(document));
    let asked = settings.document.address().ok();
    for address in asked.iter().chain(&settings.server.address) {
        hosts.configure(address);
    }
    let mut seen = HashSet::new();
    for plan in plans {
        token_urls(settings, plan).for_each(|url| hosts.document(url));
        if !seen.insert(plan.servers.as_ptr()) {
            continue;
        }
        for server in plan.servers.iter() {
            let mut settings = settings.server.clone();
            settings.address = None;
            let is_configured =
                server.variables.iter().any(|one| settings.variables.contains_key(&one.name));
            match address(slice::from_ref(server), &settings) {
                Ok(address) if is_configured => hosts.configure(&address),
                Ok(address) => hosts.document(&address),
                Err(_) => {}
            }
        }
    }
    hosts
}

/// Where tokens are fetched because the document says so, and nobody else.
fn token_urls<'p>(settings: &OpenApiSettings, plan: &'p Plan) -> impl Iterator<Item = &'p Url> {
    let credentials = &settings.credentials;
    let is_asked = credentials.schemes.values().chain(&credentials.generic).any(
        |credential| matches!(credential, Credential::OAuth2(client) if client.token_url.is_none()),
    );
    let schemes = plan.security.iter().flatten().map(|credential| &*credential.scheme);
    schemes.filter_map(move |scheme| match scheme {
        Scheme::OAuth2 { token_url, .. } if is_asked => token_url.as_ref(),
        _ => None,
    })
}

/// What went wrong at the bottom of it, without the address, which may hold a secret.
fn words(error: &reqwest::Error) -> String {
    let error: &dyn std::error::Error = error;
    let reasons = std::iter::successors(error.source(), |reason| reason.source());
    reasons.last().map_or_else(|| error.to_string(), ToString::to_string)
}
