//! An HTTP service, from what was typed to what can be called.

use std::collections::BTreeMap;
use std::path::Path;

use axum::http::{HeaderName, HeaderValue};
use toolpost::openapi::{
    Credential, Credentials, Location, Namespaces, OAuth2Client, OpenApiSettings,
};
use toolpost::protocol::Secret;
use url::Url;

use super::super::document::Document;
use super::super::file::{
    AuthText, BasicText, ClientText, NamespacesText, OpenApiTable, SchemeText, SecretText,
};
use super::super::source::{Adjustments, SourceKind};

/// The service of a source, and what it is shown.
pub(super) struct Service {
    pub(super) text: OpenApiTable,
    pub(super) auth: Option<AuthText>,
}

/// Where things are wrong: below the table of the source.
struct Report<'a, 'd> {
    document: &'a Document<'d>,
    name: &'a str,
}

impl Report<'_, '_> {
    fn say(&self, path: &[&str], message: &str) {
        let place = ["source", self.name];
        // The document of a service may be all that is said of it.
        let path = match path {
            ["openapi", ..] if !self.document.has(&[&place, path].concat()) => &path[..1],
            path => path,
        };
        self.document.report(&[&place, path].concat(), message);
    }

    fn miss(&self, path: &[&str], message: String) {
        let place = [&["source", self.name], path].concat();
        self.document.report_absence(self.name, &place, message);
    }

    fn folder(&self) -> &Path {
        self.document.folder()
    }
}

pub(super) fn kind(
    document: &Document<'_>,
    name: &str,
    service: Service,
    adjustments: &Adjustments,
) -> Option<SourceKind> {
    let report = Report { document, name };
    let Service { text, auth } = service;
    let location = location(&text.document, &report);
    let server = text.server.as_deref().map(|server| address(server, "server", &report));
    let proxy = text.proxy.as_deref().map(|proxy| address(proxy, "proxy", &report));
    let credentials = auth.map(|auth| credentials(auth, &report)).unwrap_or_default();
    for host in text.hosts.iter().filter(|host| host.is_empty() || host.contains(['/', ' '])) {
        let message = format!("`{host}` is no host; write it as api.example or 10.0.0.5:8080");
        report.say(&["openapi", "hosts"], &message);
    }
    if text.retries.is_some_and(|retries| retries > MOST_RETRIES) {
        report.say(&["openapi", "retries"], &format!("at most {MOST_RETRIES}"));
    }
    let mut settings = OpenApiSettings::new(location?);
    settings.server.address = server.flatten();
    settings.server.variables = text.server_variables;
    settings.client.proxy = proxy.flatten();
    settings.credentials = credentials;
    settings.load.hosts.clone_from(&text.hosts);
    settings.hosts = text.hosts;
    settings.client.reconnect = text.reconnect;
    settings.is_private = text.private;
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

/// More than that is no patience, but an attack.
const MOST_RETRIES: u32 = 10;

/// A file from the folder of the configuration, unless it begins as an address does.
fn location(text: &str, report: &Report<'_, '_>) -> Option<Location> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return address(text, "document", report).map(Location::Url);
    }
    if text.is_empty() || text.contains("://") {
        let message = "a document is a file, or an address https://HOST/…";
        report.say(&["openapi", "document"], message);
        return None;
    }
    Some(Location::File(report.folder().join(text)))
}

fn address(text: &str, key: &str, report: &Report<'_, '_>) -> Option<Url> {
    let url = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some_and(|host| !host.is_empty())
    });
    let Some(url) = url else {
        report.say(&["openapi", key], "an address is https://HOST/… or http://HOST/…");
        return None;
    };
    // A proxy has no other place for them.
    if key != "proxy" && (!url.username().is_empty() || url.password().is_some()) {
        report.say(&["openapi", key], "an address has no user and password; use `auth`");
        return None;
    }
    Some(url)
}

fn headers(
    typed: BTreeMap<String, SecretText>,
    report: &Report<'_, '_>,
) -> BTreeMap<String, Secret> {
    let mut headers = BTreeMap::new();
    for (name, value) in typed {
        let place = ["auth", "headers", &name];
        let Some(value) = secret(value, &place, report) else { continue };
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            report.say(&place, "this is not the name of a header");
        } else if HeaderValue::from_str(value.reveal()).is_err() {
            let message = "this cannot be the value of a header; it holds a line break or the like";
            report.say(&place, message);
        } else {
            headers.insert(name, value);
        }
    }
    headers
}

fn credentials(typed: AuthText, report: &Report<'_, '_>) -> Credentials {
    let mut credentials = Credentials::default();
    let AuthText { bearer, basic, api_key, oauth2, schemes, headers: more, .. } = typed;
    let all = SchemeText { bearer, basic, api_key, oauth2 };
    credentials.generic = each(all, &["auth"], report);
    for (name, typed) in schemes {
        let place = ["auth", "schemes", &name];
        let count = typed.kinds();
        let credential = each(typed, &place, report).pop();
        if count == 1 {
            credentials.schemes.extend(credential.map(|credential| (name, credential)));
            continue;
        }
        let remedy = if count == 0 { "add one" } else { "remove the others" };
        let kinds = "`bearer`, `basic`, `api_key` and `oauth2`";
        report.say(&place, &format!("a scheme has exactly one of {kinds}; {remedy}"));
    }
    credentials.headers = headers(more, report);
    credentials.client_certificate = typed
        .client_certificate
        .and_then(|text| secret(text, &["auth", "client_certificate"], report));
    credentials.anonymous = typed.anonymous;
    credentials
}

fn each(typed: SchemeText, place: &[&str], report: &Report<'_, '_>) -> Vec<Credential> {
    let at = |key| [place, &[key]].concat();
    let bearer = typed.bearer.and_then(|text| secret(text, &at("bearer"), report));
    let key = typed.api_key.and_then(|text| secret(text, &at("api_key"), report));
    let basic = typed.basic.and_then(|text| login(text, &at("basic"), report));
    let client = typed.oauth2.and_then(|text| client(text, &at("oauth2"), report));
    [bearer.map(Credential::Bearer), basic, key.map(Credential::ApiKey), client]
        .into_iter()
        .flatten()
        .collect()
}

fn login(typed: BasicText, place: &[&str], report: &Report<'_, '_>) -> Option<Credential> {
    if typed.username.contains(':') {
        report.say(&[place, &["username"]].concat(), "a name has no `:` here");
    }
    let password = secret(typed.password, &[place, &["password"]].concat(), report)?;
    Some(Credential::Basic { user: typed.username, password })
}

fn client(typed: ClientText, place: &[&str], report: &Report<'_, '_>) -> Option<Credential> {
    let secret = secret(typed.client_secret, &[place, &["client_secret"]].concat(), report)?;
    let mut client = OAuth2Client::new(typed.client_id, secret);
    client.scopes = typed.scopes;
    client.parameters = typed.parameters;
    if let Some(text) = &typed.token_url {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if url.is_none() {
            let message = "an address is https://HOST/… or http://HOST/…";
            report.say(&[place, &["token_url"]].concat(), message);
        }
        client.token_url = url;
    }
    Some(Credential::OAuth2(client))
}

/// The secret itself. One in a file is read as `${file:…}` is; others can do without a source whose
/// secret is not there.
fn secret(typed: SecretText, place: &[&str], report: &Report<'_, '_>) -> Option<Secret> {
    let text = match typed {
        SecretText::Text(text) => text,
        SecretText::File(file) if file.is_empty() => {
            report.say(place, "this names no file; write one");
            return None;
        }
        SecretText::File(file) => match report.document.values.file(&file) {
            Ok(text) => text,
            Err(error) => {
                report.miss(place, error.to_string());
                return None;
            }
        },
    };
    if text.is_empty() {
        report.say(place, "an empty text is no secret; write one, or remove this");
        return None;
    }
    Some(Secret::new(text))
}
