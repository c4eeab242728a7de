//! Validation of an HTTP service.

use std::collections::BTreeMap;
use std::path::Path;

use axum::http::{HeaderName, HeaderValue};
use toolpost::openapi::{
    Credential, Credentials, DocumentLocation, Namespaces, OAuth2Client, OpenApiSettings,
};
use toolpost::protocol::Secret;
use url::Url;

use super::super::document::TomlDocument;
use super::super::file::{
    AuthText, BasicText, ClientText, NamespacesText, OpenApiTable, SchemeText, SecretText,
};
use super::super::source::{Adjustments, SourceKind};

/// The HTTP service of a source and its credentials.
pub(super) struct ServiceText {
    pub(super) text: OpenApiTable,
    pub(super) auth: Option<AuthText>,
}

/// Reports problems with keys relative to the table of the source.
struct SourceReporter<'a, 'd> {
    document: &'a TomlDocument<'d>,
    name: &'a str,
}

impl SourceReporter<'_, '_> {
    fn report(&self, path: &[&str], message: &str) {
        let source_path = ["source", self.name];
        // `openapi` may be a string instead of a table; then the problem is reported at that key.
        let path = match path {
            ["openapi", ..] if !self.document.contains(&[&source_path, path].concat()) => {
                &path[..1]
            }
            path => path,
        };
        self.document.report(&[&source_path, path].concat(), message);
    }

    fn report_missing(&self, path: &[&str], message: String) {
        let key_path = [&["source", self.name], path].concat();
        self.document.report_missing(self.name, &key_path, message);
    }

    fn folder(&self) -> &Path {
        self.document.folder()
    }
}

pub(super) fn kind(
    document: &TomlDocument<'_>,
    name: &str,
    service: ServiceText,
    adjustments: &Adjustments,
) -> Option<SourceKind> {
    let report = SourceReporter { document, name };
    let ServiceText { text, auth } = service;
    let location = location(&text.document, &report);
    let server = text.server.as_deref().map(|server| address(server, "server", &report));
    let proxy = text.proxy.as_deref().map(|proxy| address(proxy, "proxy", &report));
    let credentials = auth.map(|auth| credentials(auth, &report)).unwrap_or_default();
    for host in text.hosts.iter().filter(|host| host.is_empty() || host.contains(['/', ' '])) {
        let message = format!("`{host}` is no host; write it as api.example or 10.0.0.5:8080");
        report.report(&["openapi", "hosts"], &message);
    }
    if text.retries.is_some_and(|retries| retries > MAX_RETRIES) {
        report.report(&["openapi", "retries"], &format!("at most {MAX_RETRIES}"));
    }
    let mut settings = OpenApiSettings::new(location?);
    settings.server.url = server.flatten();
    settings.server.variables = text.server_variables;
    settings.client.proxy = proxy.flatten();
    settings.credentials = credentials;
    settings.load.hosts.clone_from(&text.hosts);
    settings.hosts = text.hosts;
    settings.client.reconnect = text.reconnect;
    settings.document_requires_auth = text.private;
    settings.namespaces = match text.namespaces {
        None | Some(NamespacesText::Below) => Namespaces::Below,
        Some(NamespacesText::Keep) => Namespaces::Keep,
    };
    settings.refresh = text.refresh.map(|every| every.0);
    let client = &mut settings.client;
    client.timeout = adjustments.timeout.unwrap_or(client.timeout);
    client.connect_timeout = text.connect_timeout.map_or(client.connect_timeout, |time| time.0);
    client.response_bytes = text.response_bytes.map_or(client.response_bytes, |bytes| bytes.0);
    client.retry.retries = text.retries.unwrap_or(client.retry.retries);
    Some(SourceKind::OpenApi(Box::new(settings)))
}

/// Maximum configurable number of retries.
const MAX_RETRIES: u32 = 10;

/// Parses a document location: a URL, or a file relative to the directory of the configuration.
fn location(text: &str, report: &SourceReporter<'_, '_>) -> Option<DocumentLocation> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return address(text, "document", report).map(DocumentLocation::Url);
    }
    if text.is_empty() || text.contains("://") {
        let message = "a document is a file, or an address https://HOST/…";
        report.report(&["openapi", "document"], message);
        return None;
    }
    Some(DocumentLocation::File(report.folder().join(text)))
}

fn address(text: &str, key: &str, report: &SourceReporter<'_, '_>) -> Option<Url> {
    let url = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty())
    });
    let Some(url) = url else {
        report.report(&["openapi", key], "an address is https://HOST/… or http://HOST/…");
        return None;
    };
    // The URL is the only place for proxy credentials.
    if key != "proxy" && (!url.username().is_empty() || url.password().is_some()) {
        report.report(&["openapi", key], "an address has no user and password; use `auth`");
        return None;
    }
    Some(url)
}

fn headers(
    raw: BTreeMap<String, SecretText>,
    report: &SourceReporter<'_, '_>,
) -> BTreeMap<String, Secret> {
    let mut headers = BTreeMap::new();
    for (name, value) in raw {
        let key_path = ["auth", "headers", &name];
        let Some(value) = resolve_secret(value, &key_path, report) else { continue };
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            report.report(&key_path, "this is not the name of a header");
        } else if HeaderValue::from_str(value.reveal()).is_err() {
            let message = "this cannot be the value of a header; it holds a line break or the like";
            report.report(&key_path, message);
        } else {
            headers.insert(name, value);
        }
    }
    headers
}

fn credentials(raw: AuthText, report: &SourceReporter<'_, '_>) -> Credentials {
    let mut credentials = Credentials::default();
    let AuthText { bearer, basic, api_key, oauth2, schemes, headers: more, .. } = raw;
    let all = SchemeText { bearer, basic, api_key, oauth2 };
    credentials.generic = scheme_credentials(all, &["auth"], report);
    for (name, raw) in schemes {
        let key_path = ["auth", "schemes", &name];
        let count = raw.count();
        let credential = scheme_credentials(raw, &key_path, report).pop();
        if count == 1 {
            credentials.schemes.extend(credential.map(|credential| (name, credential)));
            continue;
        }
        let remedy = if count == 0 { "add one" } else { "remove the others" };
        let kinds = "`bearer`, `basic`, `api_key` and `oauth2`";
        report.report(&key_path, &format!("a scheme has exactly one of {kinds}; {remedy}"));
    }
    credentials.headers = headers(more, report);
    credentials.client_certificate = raw
        .client_certificate
        .and_then(|text| resolve_secret(text, &["auth", "client_certificate"], report));
    credentials.anonymous = raw.anonymous;
    credentials
}

fn scheme_credentials(
    raw: SchemeText,
    key_path: &[&str],
    report: &SourceReporter<'_, '_>,
) -> Vec<Credential> {
    let at = |key| [key_path, &[key]].concat();
    let bearer = raw.bearer.and_then(|text| resolve_secret(text, &at("bearer"), report));
    let key = raw.api_key.and_then(|text| resolve_secret(text, &at("api_key"), report));
    let basic = raw.basic.and_then(|text| basic_credential(text, &at("basic"), report));
    let client = raw.oauth2.and_then(|text| oauth_credential(text, &at("oauth2"), report));
    [bearer.map(Credential::Bearer), basic, key.map(Credential::ApiKey), client]
        .into_iter()
        .flatten()
        .collect()
}

fn basic_credential(
    raw: BasicText,
    key_path: &[&str],
    report: &SourceReporter<'_, '_>,
) -> Option<Credential> {
    if raw.username.contains(':') {
        report.report(&[key_path, &["username"]].concat(), "a name has no `:` here");
    }
    let password = resolve_secret(raw.password, &[key_path, &["password"]].concat(), report)?;
    Some(Credential::Basic { user: raw.username, password })
}

fn oauth_credential(
    raw: ClientText,
    key_path: &[&str],
    report: &SourceReporter<'_, '_>,
) -> Option<Credential> {
    let secret =
        resolve_secret(raw.client_secret, &[key_path, &["client_secret"]].concat(), report)?;
    let mut client = OAuth2Client::new(raw.client_id, secret);
    client.scopes = raw.scopes;
    client.parameters = raw.parameters;
    if let Some(text) = &raw.token_url {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if url.is_none() {
            let message = "an address is https://HOST/… or http://HOST/…";
            report.report(&[key_path, &["token_url"]].concat(), message);
        }
        client.token_url = url;
    }
    Some(Credential::OAuth2(client))
}

/// Returns the secret. A file is read in the same way as `${file:…}`; if it is missing, only this
/// source is affected.
fn resolve_secret(
    raw: SecretText,
    key_path: &[&str],
    report: &SourceReporter<'_, '_>,
) -> Option<Secret> {
    let text = match raw {
        SecretText::Text(text) => text,
        SecretText::File(file) if file.is_empty() => {
            report.report(key_path, "this names no file; write one");
            return None;
        }
        SecretText::File(file) => match report.document.expander.read_secret_file(&file) {
            Ok(text) => text,
            Err(error) => {
                report.report_missing(key_path, error.to_string());
                return None;
            }
        },
    };
    if text.is_empty() {
        report.report(key_path, "an empty text is no secret; write one, or remove this");
        return None;
    }
    Some(Secret::new(text))
}
