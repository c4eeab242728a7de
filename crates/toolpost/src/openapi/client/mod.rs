//! HTTP client of a source: allowed hosts, timeouts, size limits, retries and redirects.

mod allowed_hosts;
mod circuit_breaker;
mod error;
mod loopback;
mod proxy;
mod redirect;
mod resolver;
mod retry;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use reqwest::header::HeaderMap;
use reqwest::{Identity, Method, Response};
use tokio::time::Instant;
use url::Url;

use self::circuit_breaker::CircuitBreakers;
use self::loopback::LoopbackClients;
use self::redirect::RedirectError;
use self::retry::AttemptOutcome;
use super::media_type::{MediaKind, content_type};
use super::peer_gateway;
use super::plan::ServiceProtocol;
use super::request::PreparedRequest;
use super::settings::ClientSettings;
use crate::circuit_breaker::{BreakerState, HealthSignal};
use crate::http;

pub(crate) use allowed_hosts::{AllowedHosts, format_host_port};
pub(crate) use error::HttpError;
pub(crate) use proxy::with_proxies;

/// Maximum number of bytes that are read from the body of an error response.
const MAX_ERROR_BODY: usize = 1024 * 1024;
/// How long an idle connection stays in the pool.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The HTTP client of one source, with its connections, allowed hosts and circuit breakers.
#[derive(Debug)]
pub(crate) struct HttpClient {
    http: reqwest::Client,
    /// `None` if a proxy is configured.
    loopback: Option<LoopbackClients>,
    /// Allowed hosts. They are replaced when the document changes.
    hosts: Arc<ArcSwap<AllowedHosts>>,
    breakers: CircuitBreakers,
    settings: ClientSettings,
}

/// Options of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendOptions {
    /// Whether the request is idempotent, so that it can be retried after it was sent.
    pub(crate) is_idempotent: bool,
    /// Time at which the request times out. For a stream, it applies until the response starts.
    pub(crate) deadline: Instant,
    /// Whether the response may be a stream.
    pub(crate) is_stream: bool,
    pub(crate) protocol: ServiceProtocol,
}

/// A response from a service.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ResponseBody,
}

/// The body of a response.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    Complete(Vec<u8>),
    /// A body that is still being received. Dropping it closes the connection.
    Streaming(Response),
}

impl HttpClient {
    /// Creates a client without allowed hosts. `identity` is its client certificate.
    pub(crate) fn new(
        settings: &ClientSettings,
        identity: Option<Identity>,
    ) -> reqwest::Result<Self> {
        let hosts = Arc::<ArcSwap<AllowedHosts>>::default();
        // Redirects are followed by `send_with_redirects`, which checks the target.
        let builder = http::client_builder()
            .referer(false)
            .dns_resolver(resolver::FilteringResolver(Arc::clone(&hosts)))
            .connect_timeout(settings.connect_timeout)
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http2_max_header_list_size(u32::try_from(settings.header_bytes).unwrap_or(u32::MAX))
            .http2_adaptive_window(true);
        let builder = with_proxies(builder, settings.proxy.as_ref())?;
        let builder = settings.tls.configure(builder)?;
        let builder = match identity {
            Some(identity) => builder.identity(identity),
            None => builder,
        };
        let is_direct = settings.proxy.is_none();
        Ok(Self {
            http: builder.build()?,
            loopback: is_direct.then(|| LoopbackClients::new(settings.connect_timeout)),
            hosts,
            breakers: CircuitBreakers::new(settings.breaker.clone()),
            settings: settings.clone(),
        })
    }

    /// Returns the underlying HTTP client, without host checks, retries and redirects.
    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Replaces the allowed hosts.
    pub(crate) fn set_allowed_hosts(&self, hosts: AllowedHosts) {
        self.hosts.store(Arc::new(hosts));
    }

    /// Returns the worst circuit breaker state of all hosts.
    pub(crate) fn breaker_state(&self) -> BreakerState {
        self.breakers.state()
    }

    /// Returns the deadline of a request: the configured timeout, or the shorter remaining time.
    pub(crate) fn deadline(&self, remaining: Option<Duration>) -> Instant {
        let limit = self.settings.timeout.min(remaining.unwrap_or(Duration::MAX));
        Instant::now() + limit
    }

    /// Sends a request and reads the response, whatever its status. Retries if a retry is safe and
    /// may succeed.
    ///
    /// # Cancellation
    ///
    /// Dropping the future closes the connection of the request.
    pub(crate) async fn send(
        &self,
        request: &PreparedRequest,
        options: SendOptions,
    ) -> Result<HttpResponse, HttpError> {
        let began = Instant::now();
        let sending = self.send_with_retries(request, options);
        let sent = tokio::time::timeout_at(options.deadline, sending).await;
        sent.unwrap_or_else(|_| Err(self.timeout_error(&request.url, began.elapsed())))
    }

    fn timeout_error(&self, url: &Url, limit: Duration) -> HttpError {
        // A timeout shorter than the configured one is not a failure of the host.
        let is_of_host = limit >= self.settings.timeout;
        if let (true, Ok(Some(permit))) = (is_of_host, self.breakers.admit(url)) {
            permit.record(HealthSignal::Failure);
        }
        HttpError::Timeout { host: format_host_port(url), limit }
    }

    async fn send_with_retries(
        &self,
        request: &PreparedRequest,
        options: SendOptions,
    ) -> Result<HttpResponse, HttpError> {
        let settings = &self.settings.retry;
        let mut retries_before = 0;
        loop {
            let outcome = self.send_with_redirects(request, options).await;
            let attempt = match &outcome {
                // An error response from another gateway states whether to retry.
                Ok(response)
                    if options.protocol == ServiceProtocol::Toolpost
                        && peer_gateway::is_problem(&response.headers) =>
                {
                    return outcome;
                }
                Ok(response) => {
                    Some(AttemptOutcome::from_response(response.status, &response.headers))
                }
                Err(failure) => failure.attempt_outcome(),
            };
            let Some(attempt) = attempt else { return outcome };
            let remaining = options.deadline.saturating_duration_since(Instant::now());
            let delay = retry::retry_delay(
                settings,
                retries_before,
                attempt,
                options.is_idempotent,
                remaining,
                || getrandom::u32().unwrap_or_default(),
            );
            let Some(delay) = delay else { return outcome };
            let host = format_host_port(&request.url);
            tracing::debug!(host, ?attempt, ?delay, "retrying request");
            tokio::time::sleep(delay).await;
            retries_before += 1;
        }
    }

    /// Sends a request once and follows redirects.
    async fn send_with_redirects(
        &self,
        request: &PreparedRequest,
        options: SendOptions,
    ) -> Result<HttpResponse, HttpError> {
        let hosts = self.hosts.load_full();
        hosts.check(&request.url).map_err(HttpError::Host)?;
        let mut request = Cow::Borrowed(request);
        let mut redirects_before = 0;
        loop {
            let response = self.send_once(&request).await?;
            let (status, headers) = (response.status().as_u16(), response.headers());
            if !redirect::is_redirect(status, headers) {
                return self.read_response(response, &request, options).await;
            }
            let (next, idempotent) = (request.to_mut(), options.is_idempotent);
            redirect::apply_redirect(next, status, headers, &hosts, idempotent, redirects_before)?;
            if options.protocol == ServiceProtocol::Toolpost && next.body.is_none() {
                return Err(RedirectError::BodyDropped.into());
            }
            redirects_before += 1;
        }
    }

    async fn send_once(&self, prepared: &PreparedRequest) -> Result<Response, HttpError> {
        let url = &prepared.url;
        let permit = self.breakers.admit(url).map_err(|retry_after| HttpError::BreakerOpen {
            host: format_host_port(url),
            retry_after,
        })?;
        let loopback = self.loopback.as_ref().and_then(|clients| clients.client_for(url));
        let sent = match loopback {
            Some(client) => loopback::send(client, prepared).await,
            None => self.send_remote(prepared).await,
        };
        if let Some(permit) = permit {
            permit.record(match &sent {
                Ok(response) => self.breakers.signal_of_status(response.status().as_u16()),
                Err(failure) if failure.is_host_failure() => HealthSignal::Failure,
                Err(_) => HealthSignal::Unknown,
            });
        }
        sent
    }

    async fn send_remote(&self, prepared: &PreparedRequest) -> Result<Response, HttpError> {
        let url = &prepared.url;
        let mut request = reqwest::Request::new(prepared.method.clone(), url.clone());
        // Sets all headers at once; a builder would insert them one by one.
        *request.headers_mut() = prepared.headers.clone();
        *request.body_mut() = prepared.body.clone().map(reqwest::Body::from);
        let sent = self.http.execute(request).await;
        sent.map_err(|error| HttpError::from_reqwest(&error, url))
    }

    async fn read_response(
        &self,
        mut response: Response,
        request: &PreparedRequest,
        options: SendOptions,
    ) -> Result<HttpResponse, HttpError> {
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let limit = self.settings.header_bytes;
        let sizes = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
        if sizes.sum::<usize>() > limit {
            return Err(HttpError::HeadersTooLarge { limit });
        }
        let body = if request.method == Method::HEAD || matches!(status, 204 | 205 | 304) {
            ResponseBody::Complete(Vec::new())
        } else if !(200..300).contains(&status) {
            let max = MAX_ERROR_BODY.min(self.settings.response_bytes);
            ResponseBody::Complete(read_prefix(response, max).await)
        } else if options.is_stream
            && MediaKind::from_content_type(content_type(&headers)).is_stream()
        {
            ResponseBody::Streaming(response)
        } else {
            let body = http::read_body(response, self.settings.response_bytes).await;
            ResponseBody::Complete(
                body.map_err(|error| HttpError::from_body(&error, &request.url))?,
            )
        };
        Ok(HttpResponse { status, headers, body })
    }
}

/// Reads up to `max` bytes of a body. Returns what was received if the connection is lost.
async fn read_prefix(mut response: Response, max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = max - body.len();
        body.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if body.len() >= max {
            break;
        }
    }
    body
}
