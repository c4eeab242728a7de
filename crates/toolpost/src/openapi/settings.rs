//! What is settled about a source before its document is read.

use std::fmt;
use std::time::Duration;

use url::Url;

use super::credential::Credentials;
use super::document::redact_url;
use super::load::{DocumentLocation, LoadSettings};
use super::request::ServerSettings;

/// A service with a document, and how it is dealt with.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct OpenApiSettings {
    /// Where its document is.
    pub document: DocumentLocation,
    /// How far its document may lead. Whoever names no client there has it read by the one that calls
    /// the service.
    pub load: LoadSettings,
    /// Where it is called, if not where its document says.
    pub server: ServerSettings,
    /// What is shown to it, and to nobody else.
    pub credentials: Credentials,
    /// Where the operations of another gateway stand, whose document says in which namespaces they are.
    pub namespaces: Namespaces,
    /// The hosts that may be called beside those that the document names: `api.example.com`,
    /// `*.example.com`, `10.0.0.5`, each with a port or without.
    pub hosts: Vec<String>,
    /// How its requests are sent.
    pub client: ClientSettings,
    /// How long is waited before a document that cannot be read is read again: at first, and at most.
    pub reload_backoff: (Duration, Duration),
    /// Whether the document itself is given only to those who show what needs no document to say how: a
    /// bearer token, a user and a password, or headers. They go to where the document is.
    pub document_requires_auth: bool,
    /// How often is looked whether the document has changed; never, if absent.
    pub refresh: Option<Duration>,
}

impl OpenApiSettings {
    /// The defaults for a document at this place.
    pub fn new(document: DocumentLocation) -> Self {
        Self {
            document,
            load: LoadSettings::default(),
            server: ServerSettings::default(),
            credentials: Credentials::default(),
            namespaces: Namespaces::default(),
            hosts: Vec::new(),
            client: ClientSettings::default(),
            reload_backoff: (Duration::from_millis(500), Duration::from_secs(60)),
            document_requires_auth: false,
            refresh: None,
        }
    }
}

/// Without credentials and the queries of addresses, which may hold secrets.
impl fmt::Debug for OpenApiSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let document = self.document.url().map(|address| redact_url(&address));
        let document = document.unwrap_or_default();
        f.debug_struct("OpenApiSettings").field("document", &document).finish_non_exhaustive()
    }
}

/// Where the operations of another gateway stand here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Namespaces {
    /// All of them in the namespace of the source, as those of another hub: `demo.add` is
    /// `name.demo.add`.
    #[default]
    Below,
    /// Where they stand there: `demo.add` is `demo.add`. What is registered here already stays as it
    /// is, and so does its id.
    Keep,
}

/// How long, how large and how often, for the requests of one source.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientSettings {
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long a call may take with all its attempts; a stream, until it begins.
    pub timeout: Duration,
    /// How long a stream may be silent; for ever, if absent.
    pub idle_timeout: Option<Duration>,
    /// The largest body that is taken, in bytes, after it was unpacked. Of a stream, the largest event.
    pub response_bytes: usize,
    /// The largest head of an answer that is taken, in bytes.
    pub header_bytes: usize,
    /// How often and when a request is sent again.
    pub retry: RetrySettings,
    /// When a host is left alone.
    pub breaker: BreakerSettings,
    /// Whether a stream that ends is asked for again from where it ended.
    pub reconnect: bool,
    /// Through whom requests go; if absent, through those that the environment names.
    pub proxy: Option<Url>,
    /// Authorities that are trusted beside those of the system, in PEM.
    pub ca_certificates: Option<String>,
}

/// Without the proxy, whose address may hold a password.
impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSettings")
            .field("timeout", &self.timeout)
            .field("response_bytes", &self.response_bytes)
            .field("retry", &self.retry)
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(60),
            idle_timeout: None,
            response_bytes: 64 * 1024 * 1024,
            header_bytes: 64 * 1024,
            retry: RetrySettings::default(),
            breaker: BreakerSettings::default(),
            reconnect: false,
            proxy: None,
            ca_certificates: None,
        }
    }
}

/// How often and when a request is sent again, where that is safe.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RetrySettings {
    /// How often at most; 0 sends everything once.
    pub retries: u32,
    /// The longest pause before the first repetition; it doubles each time.
    pub base_delay: Duration,
    /// The longest pause before any.
    pub max_delay: Duration,
    /// The longest `Retry-After` that is waited for; whoever asks for more is not asked again.
    pub max_retry_after: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            retries: 2,
            base_delay: Duration::from_millis(200),
            max_delay: Duration::from_secs(10),
            max_retry_after: Duration::from_secs(30),
        }
    }
}

/// When a host is left alone.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BreakerSettings {
    /// After so many failures in a row; 0 never.
    pub failures: u32,
    /// For so long; then one request tries.
    pub open_for: Duration,
    /// Whether an answer with a status from 500 on is a failure too.
    pub server_errors: bool,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(10), server_errors: false }
    }
}
