//! HTTP services of sources, their credentials, and their validation.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use toolpost::openapi::{
    Credential, Credentials, DocumentLocation, Namespaces, OAuth2Client, OpenApiSettings,
};
use toolpost::protocol::Secret;
use url::Url;

use super::document::Section;
use super::mcp_entry::check_header;
use crate::shorthand::{ShortOrLong, Shorthand};
use crate::units::{DurationText, Size};

/// An HTTP service with an OpenAPI document.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "OpenApi", extend("required" = ["document"]))]
pub(super) struct OpenApiTable {
    /// The document: a URL, or a file relative to the folder of this one; JSON or YAML.
    document: String,
    /// Base URL of the service, instead of the one in the document.
    server: Option<String>,
    /// Values of the variables in the server URL.
    server_variables: BTreeMap<String, String>,
    /// Hosts allowed for requests, redirects and references, in addition to those in the document:
    /// `"api.example"` or `"127.0.0.1:8080"`. An operation on one of them receives the credentials.
    hosts: Vec<String>,
    /// HTTP proxy; taken from the environment if absent. Not used for loopback addresses.
    proxy: Option<String>,
    /// Connect timeout.
    #[serde(with = "DurationText")]
    #[schemars(extend("default" = "10s"))]
    connect_timeout: Option<Duration>,
    /// Maximum response size, after decompression.
    #[serde(with = "Size::<4096>")]
    #[schemars(extend("default" = "64MiB"))]
    response_bytes: Option<u64>,
    /// Maximum number of retries of a call that is safe to repeat.
    #[schemars(extend("default" = 2, "maximum" = MAX_RETRIES))]
    retries: Option<u32>,
    /// Whether an interrupted stream is resumed after its last event.
    reconnect: bool,
    /// Whether the document itself requires `auth.bearer`, `auth.basic` or `auth.headers`.
    private: bool,
    /// Namespaces of the operations of another gateway: prefixed with the name of this source
    /// (`"below"`), or unchanged (`"keep"`).
    namespaces: Namespaces,
    /// Interval at which the document is checked for changes; never if absent.
    #[serde(with = "DurationText")]
    refresh: Option<Duration>,
}

const MAX_RETRIES: u32 = 10;

/// `openapi = "api.yaml"` is the document.
impl Shorthand for OpenApiTable {
    const NAME: &'static str = "OpenApiDocument";
    const EXPECTED: &'static str =
        "a file, an address, or a table such as { document = \"api.yaml\" }";
    type Long = Self;

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self { document: text.to_owned(), ..Self::default() })
    }

    fn from_long(table: Self) -> Result<Self, String> {
        Ok(table)
    }
}

/// Credentials of an HTTP service, used for any security scheme of the matching type or assigned to
/// schemes by name.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table such as { bearer = \"${TOKEN}\" }")]
#[schemars(rename = "Auth")]
pub(super) struct AuthTable {
    /// Bearer token, sent as `Authorization: Bearer …`.
    bearer: Option<ShortOrLong<SecretText>>,
    /// A user name and a password.
    basic: Option<BasicTable>,
    /// API key, sent as the document declares.
    api_key: Option<ShortOrLong<SecretText>>,
    /// A client that gets its tokens from an authorization server.
    oauth2: Option<ClientTable>,
    /// Credentials by the names of the document's security schemes.
    schemes: BTreeMap<String, SchemeTable>,
    /// Headers sent with every request.
    headers: BTreeMap<String, ShortOrLong<SecretText>>,
    /// A certificate with its key in PEM.
    client_certificate: Option<ShortOrLong<SecretText>>,
    /// Whether operations that require missing credentials are called without them.
    anonymous: bool,
}

/// The credential of one security scheme: exactly one of these.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table such as { api_key = \"${KEY}\" }")]
#[schemars(rename = "Scheme")]
struct SchemeTable {
    /// Bearer token.
    bearer: Option<ShortOrLong<SecretText>>,
    /// A user name and a password.
    basic: Option<BasicTable>,
    /// API key.
    api_key: Option<ShortOrLong<SecretText>>,
    /// A client that gets its tokens from an authorization server.
    oauth2: Option<ClientTable>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table such as { username = \"…\", password = \"…\" }")]
#[schemars(rename = "Basic")]
struct BasicTable {
    /// The user name.
    username: String,
    /// The password.
    password: ShortOrLong<SecretText>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { client_id = \"…\", client_secret = \"…\" }"
)]
#[schemars(rename = "OAuth2Client")]
struct ClientTable {
    /// The id of the client.
    client_id: String,
    /// Its secret.
    client_secret: ShortOrLong<SecretText>,
    /// The scopes to request; those of the document, if empty.
    #[serde(default)]
    scopes: Vec<String>,
    /// Token endpoint, instead of the one in the document.
    token_url: Option<String>,
    /// Additional parameters for the authorization server, such as `audience`.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

/// A secret: text, preferably as `"${VAR}"`, or `{ file = "…" }`.
enum SecretText {
    Text(String),
    File(String),
}

impl Shorthand for SecretText {
    const NAME: &'static str = "Secret";
    const EXPECTED: &'static str = "a string such as \"${VAR}\", or { file = \"…\" }";
    type Long = SecretFile;

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self::Text(text.to_owned()))
    }

    fn from_long(secret: SecretFile) -> Result<Self, String> {
        Ok(Self::File(secret.file))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct SecretFile {
    /// The file that contains it, relative to the folder of this one.
    file: String,
}

impl OpenApiTable {
    /// Validates the service; `None` if the document is invalid. `at` is the table of the source.
    pub(super) fn into_settings(
        self,
        auth: Option<AuthTable>,
        at: &Section<'_, '_>,
    ) -> Option<OpenApiSettings> {
        let service = ServiceSection(at);
        let location = service.location(&self.document);
        let address = |key, text: Option<String>| text.and_then(|text| service.address(key, &text));
        let (server, proxy) = (address("server", self.server), address("proxy", self.proxy));
        if self.hosts.iter().any(|host| host.is_empty() || host.contains(['/', ' '])) {
            let message = "invalid host; use a form such as api.example or 10.0.0.5:8080";
            service.report("hosts", message);
        }
        if self.retries.is_some_and(|retries| retries > MAX_RETRIES) {
            service.report("retries", format!("must be at most {MAX_RETRIES}"));
        }
        let credentials = auth.map(|auth| auth.into_credentials(at)).unwrap_or_default();
        let mut settings = OpenApiSettings::new(location?);
        settings.server.url = server;
        settings.server.variables = self.server_variables;
        settings.credentials = credentials;
        settings.load.hosts.clone_from(&self.hosts);
        settings.hosts = self.hosts;
        settings.document_requires_auth = self.private;
        settings.namespaces = self.namespaces;
        settings.refresh = self.refresh;
        let client = &mut settings.client;
        client.proxy = proxy;
        client.reconnect = self.reconnect;
        client.connect_timeout = self.connect_timeout.unwrap_or(client.connect_timeout);
        let bytes = self.response_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        client.response_bytes = bytes.unwrap_or(client.response_bytes);
        client.retry.retries = self.retries.unwrap_or(client.retry.retries);
        Some(settings)
    }
}

const ADDRESS_EXPECTED: &str = "invalid URL; use https://HOST/… or http://HOST/…";

/// The key `openapi` of a source, a table or a string.
struct ServiceSection<'a, 's, 'd>(&'a Section<'s, 'd>);

impl ServiceSection<'_, '_, '_> {
    fn report(&self, key: &str, message: impl Into<String>) {
        let path = ["openapi", key];
        let depth = if self.0.contains(&path) { 2 } else { 1 };
        self.0.report(&path[..depth], message);
    }

    /// Parses a document location: a URL, or a file relative to the folder of the configuration.
    fn location(&self, text: &str) -> Option<DocumentLocation> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return self.address("document", text).map(DocumentLocation::Url);
        }
        if text.is_empty() || text.contains("://") {
            self.report("document", "invalid document; use a file or https://HOST/…");
            return None;
        }
        Some(DocumentLocation::File(self.0.document.folder().join(text)))
    }

    fn address(&self, key: &str, text: &str) -> Option<Url> {
        let Some(url) = super::parse_http_url(text) else {
            self.report(key, ADDRESS_EXPECTED);
            return None;
        };
        // The URL is the only place for proxy credentials.
        if key != "proxy" && (!url.username().is_empty() || url.password().is_some()) {
            self.report(key, "a URL must not contain a user or password; use `auth`");
            return None;
        }
        Some(url)
    }
}

impl AuthTable {
    fn into_credentials(self, at: &Section<'_, '_>) -> Credentials {
        let mut credentials = Credentials::default();
        let Self { bearer, basic, api_key, oauth2, .. } = self;
        let generic = SchemeTable { bearer, basic, api_key, oauth2 };
        credentials.generic = generic.into_credentials(&["auth"], at);
        for (name, scheme) in self.schemes {
            let path = ["auth", "schemes", &name];
            let given = scheme.count();
            let credential = scheme.into_credentials(&path, at).pop();
            if given == 1 {
                credentials.schemes.extend(credential.map(|credential| (name, credential)));
                continue;
            }
            let remedy = if given == 0 { "add one" } else { "remove the others" };
            let kinds = "`bearer`, `basic`, `api_key` and `oauth2`";
            at.report(&path, format!("expected exactly one of {kinds}; {remedy}"));
        }
        for (name, value) in self.headers {
            let path = ["auth", "headers", &name];
            let Some(value) = value.0.resolve(&path, at) else { continue };
            match check_header(&name, value.reveal()) {
                Err(message) => at.report(&path, message),
                Ok(()) => drop(credentials.headers.insert(name, value)),
            }
        }
        let certificate = self.client_certificate;
        credentials.client_certificate =
            certificate.and_then(|secret| secret.0.resolve(&["auth", "client_certificate"], at));
        credentials.anonymous = self.anonymous;
        credentials
    }
}

impl SchemeTable {
    fn count(&self) -> usize {
        let Self { bearer, basic, api_key, oauth2 } = self;
        let is_set = [bearer.is_some(), basic.is_some(), api_key.is_some(), oauth2.is_some()];
        is_set.into_iter().filter(|is_set| *is_set).count()
    }

    fn into_credentials(self, path: &[&str], at: &Section<'_, '_>) -> Vec<Credential> {
        let secret = |secret: Option<ShortOrLong<SecretText>>, key| {
            secret.and_then(|secret| secret.0.resolve(&[path, &[key]].concat(), at))
        };
        let basic = self.basic.and_then(|basic| {
            if basic.username.contains(':') {
                at.report(
                    &[path, &["basic", "username"]].concat(),
                    "a username must not contain `:`",
                );
            }
            let password =
                basic.password.0.resolve(&[path, &["basic", "password"]].concat(), at)?;
            Some(Credential::Basic { user: basic.username, password })
        });
        let client = self.oauth2.and_then(|client| client.into_credential(path, at));
        let bearer = secret(self.bearer, "bearer").map(Credential::Bearer);
        let key = secret(self.api_key, "api_key").map(Credential::ApiKey);
        [bearer, basic, key, client].into_iter().flatten().collect()
    }
}

impl ClientTable {
    fn into_credential(self, path: &[&str], at: &Section<'_, '_>) -> Option<Credential> {
        let path_of = |key| [path, &["oauth2", key]].concat();
        let secret = self.client_secret.0.resolve(&path_of("client_secret"), at)?;
        let mut client = OAuth2Client::new(self.client_id, secret);
        client.scopes = self.scopes;
        client.parameters = self.parameters;
        if let Some(text) = &self.token_url {
            client.token_url = super::parse_http_url(text);
            if client.token_url.is_none() {
                at.report(&path_of("token_url"), ADDRESS_EXPECTED);
            }
        }
        Some(Credential::OAuth2(client))
    }
}

impl SecretText {
    /// Returns the secret. A file is read in the same way as `${file:…}`; if it is missing, only
    /// this source is affected.
    fn resolve(self, path: &[&str], at: &Section<'_, '_>) -> Option<Secret> {
        let text = match self {
            Self::Text(text) => text,
            Self::File(file) if file.is_empty() => {
                at.report(path, "empty file name");
                return None;
            }
            Self::File(file) => at.read_secret_file(&file, path)?,
        };
        if text.is_empty() {
            at.report(path, "empty secret; set it or remove the key");
            return None;
        }
        Some(Secret::new(text))
    }
}
