//! Settings of an OpenAPI source.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::credential::Credentials;
use super::load::{DocumentLocation, LoadSettings};
use super::request::ServerSettings;
use crate::tls::ClientTls;

/// Settings of an OpenAPI source.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct OpenApiSettings {
    /// Location of the document.
    pub document: DocumentLocation,
    /// Limits for loading the document.
    pub load: LoadSettings,
    /// Overrides for the servers of the document.
    pub server: ServerSettings,
    /// Credentials for the service.
    pub credentials: Credentials,
    /// How operations are named if the service is another gateway.
    pub namespaces: Namespaces,
    /// Additional allowed hosts: `api.example.com`, `*.example.com` or `10.0.0.5:8080`.
    pub hosts: Vec<String>,
    /// Settings of the HTTP client.
    pub client: ClientSettings,
    /// Initial and maximum delay before a failed load of the document is retried.
    pub reload_backoff: (Duration, Duration),
    /// Whether loading the document requires credentials. Only credentials that do not depend on a
    /// declared scheme are sent: a bearer token, a user and password, or headers. They are sent
    /// only to the origin of the document.
    pub document_requires_auth: bool,
    /// Interval at which the document is checked for changes. If `None`, every 30 seconds for a
    /// gateway, otherwise never.
    pub refresh: Option<Duration>,
}

impl OpenApiSettings {
    /// Creates default settings for a document.
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

// Omits credentials and URL queries, which may contain secrets.
debug_fields!(settings: OpenApiSettings, document = settings.document.display_name());

/// Namespaces of the operations of another gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum Namespaces {
    /// All operations are in the namespace of the source, as for another hub: `demo.add` becomes
    /// `name.demo.add`.
    #[default]
    Below,
    /// Operations keep their ids: `demo.add` stays `demo.add`. An operation that is registered
    /// already is not replaced.
    Keep,
}

/// Timeouts, size limits and retries for requests to a service.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientSettings {
    /// Timeout for establishing a connection.
    pub connect_timeout: Duration,
    /// Timeout for a call including retries. For a stream, until the response starts.
    pub timeout: Duration,
    /// Maximum time to wait for the next value of a stream. If `None`, there is no limit.
    pub idle_timeout: Option<Duration>,
    /// Maximum size of a decompressed response body, or of one event of a stream, in bytes.
    pub response_bytes: usize,
    /// Maximum size of the response headers in bytes.
    pub header_bytes: usize,
    /// Retry settings.
    pub retry: RetrySettings,
    /// Circuit breaker settings.
    pub breaker: BreakerSettings,
    /// Whether a stream that ends is reopened after its last event.
    pub reconnect: bool,
    /// Proxy for all requests. If `None`, the proxies from the environment are used.
    pub proxy: Option<Url>,
    /// Trusted certificates, and whether credentials are sent without encryption.
    pub tls: ClientTls,
}

// Omits the proxy, whose URL may contain a password.
debug_fields!(settings: ClientSettings, timeout = settings.timeout, response_bytes = settings.response_bytes, retry = settings.retry, breaker = settings.breaker);

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
            tls: ClientTls::default(),
        }
    }
}

/// Retry settings. Only requests that are safe to repeat are retried.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RetrySettings {
    /// Maximum number of retries. 0 disables retries.
    pub retries: u32,
    /// Maximum delay before the first retry. It doubles each time; the actual delay is random.
    pub base_delay: Duration,
    /// Maximum delay before any retry.
    pub max_delay: Duration,
    /// Maximum `Retry-After` to wait for. A request with a longer one is not retried.
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

/// Circuit breaker settings.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BreakerSettings {
    /// Number of consecutive failures that open the breaker. 0 disables it.
    pub failures: u32,
    /// How long the breaker stays open before one request is sent as a probe.
    pub open_for: Duration,
    /// Whether a 5xx response counts as a failure.
    pub server_errors: bool,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, open_for: Duration::from_secs(10), server_errors: false }
    }
}
