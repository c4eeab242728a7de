//! Requests over the network: where they may go, how long they may take, how large their answers may
//! be, and when they are sent again.

mod allowed_hosts;
mod body;
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
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Identity, Method, Response};
use tokio::time::Instant;
use url::Url;

use self::circuit_breaker::{CircuitBreakers, HostOutcome};
use self::loopback::LoopbackClients;
use self::redirect::RedirectError;
use self::retry::AttemptOutcome;
use super::peer_gateway;
use super::plan::ServiceProtocol;
use super::request::PreparedRequest;
use super::response::MediaKind;
use super::settings::ClientSettings;

pub(crate) use allowed_hosts::AllowedHosts;
pub(crate) use error::HttpError;

/// How much of the body of an answer that is no success is read.
const MAX_ERROR_BODY: usize = 1024 * 1024;
/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The client of one source: its connections, and what it knows of its hosts.
#[derive(Debug)]
pub(crate) struct HttpClient {
    http: reqwest::Client,
    /// Absent where everything goes through a proxy.
    loopback: Option<LoopbackClients>,
    /// Another document may name other hosts.
    hosts: Arc<ArcSwap<AllowedHosts>>,
    breakers: CircuitBreakers,
    settings: ClientSettings,
}

/// What holds for one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendOptions {
    /// Whether doing it twice is the same as doing it once.
    pub(crate) is_idempotent: bool,
    /// When nobody waits for its answer any more; for a stream, for its beginning.
    pub(crate) deadline: Instant,
    /// Whether the answer may be a stream.
    pub(crate) is_stream: bool,
    pub(crate) protocol: ServiceProtocol,
}

/// What a service answered.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ResponseBody,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    Complete(Vec<u8>),
    /// It goes on; dropping it closes the connection.
    Streaming(Response),
}

impl HttpClient {
    /// A client that may speak to nobody yet, and shows itself with this certificate where it is asked.
    ///
    /// # Errors
    ///
    /// A certificate or the proxy cannot be used.
    pub(crate) fn new(
        settings: &ClientSettings,
        identity: Option<Identity>,
    ) -> reqwest::Result<Self> {
        // Whoever embeds this may have chosen already; either is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let hosts = Arc::<ArcSwap<AllowedHosts>>::default();
        let builder = reqwest::Client::builder()
            // Where a request goes is decided here, and by nobody else.
            .redirect(Policy::none())
            .referer(false)
            .dns_resolver(resolver::FilteringResolver(Arc::clone(&hosts)))
            .connect_timeout(settings.connect_timeout)
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .http2_max_header_list_size(u32::try_from(settings.header_bytes).unwrap_or(u32::MAX))
            .http2_adaptive_window(true)
            .user_agent(concat!("toolpost/", env!("CARGO_PKG_VERSION")));
        let builder = proxy::with_proxies(builder, settings.proxy.as_ref())?;
        let builder = match &settings.ca_certificates {
            Some(pem) => builder.tls_certs_merge(Certificate::from_pem_bundle(pem.as_bytes())?),
            None => builder,
        };
        let builder = match identity {
            Some(identity) => builder.identity(identity),
            None => builder,
        };
        let breakers = CircuitBreakers::new(settings.breaker.clone());
        let loopback_clients =
            settings.proxy.is_none().then(|| LoopbackClients::new(settings.connect_timeout));
        Ok(Self {
            http: builder.build()?,
            loopback: loopback_clients,
            hosts,
            breakers,
            settings: settings.clone(),
        })
    }

    /// What sends, for those who have rules of their own.
    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Says which hosts may be spoken to from now on.
    pub(crate) fn set_allowed_hosts(&self, hosts: AllowedHosts) {
        self.hosts.store(Arc::new(hosts));
    }

    /// Whether one of its hosts is left alone.
    pub(crate) fn has_open_breaker(&self) -> bool {
        self.breakers.has_open()
    }

    /// When a request that begins now has taken too long, given how long its caller waits.
    pub(crate) fn deadline(&self, remaining: Option<Duration>) -> Instant {
        let limit = self.settings.timeout.min(remaining.unwrap_or(Duration::MAX));
        Instant::now() + limit
    }

    /// Sends a request, again where that is safe and helps, and reads the answer.
    ///
    /// # Cancellation
    ///
    /// Dropping it closes the connection that the request is on.
    ///
    /// # Errors
    ///
    /// There is no answer. One that is no success is an answer.
    pub(crate) async fn send(
        &self,
        request: &PreparedRequest,
        options: SendOptions,
    ) -> Result<HttpResponse, HttpError> {
        let began = Instant::now();
        match tokio::time::timeout_at(options.deadline, self.send_with_retries(request, options))
            .await
        {
            Ok(ended) => ended,
            Err(_) => Err(self.timeout_error(&request.url, began.elapsed())),
        }
    }

    fn timeout_error(&self, url: &Url, limit: Duration) -> HttpError {
        // A caller with little patience says nothing about the host.
        let is_of_host = limit >= self.settings.timeout;
        if let (true, Ok(Some(permit))) = (is_of_host, self.breakers.admit(url)) {
            permit.record(HostOutcome::Failure);
        }
        HttpError::Timeout { host: allowed_hosts::format_host_port(url), limit }
    }

    async fn send_with_retries(
        &self,
        request: &PreparedRequest,
        options: SendOptions,
    ) -> Result<HttpResponse, HttpError> {
        let settings = &self.settings.retry;
        for retries_before in 0.. {
            let outcome = self.send_with_redirects(request, options).await;
            // Another gateway says itself what may be repeated, and its word goes to the caller.
            if options.protocol == ServiceProtocol::Toolpost
                && outcome
                    .as_ref()
                    .is_ok_and(|response| peer_gateway::is_problem(&response.headers))
            {
                return outcome;
            }
            let attempt = match &outcome {
                Ok(response) => {
                    Some(AttemptOutcome::from_response(response.status, &response.headers))
                }
                Err(failure) => failure.attempt_outcome(),
            };
            let Some(attempt) = attempt else { return outcome };
            let remaining = options.deadline.saturating_duration_since(Instant::now());
            let idempotent = options.is_idempotent;
            let delay = retry::retry_delay(
                settings,
                retries_before,
                attempt,
                idempotent,
                remaining,
                || getrandom::u32().unwrap_or_default(),
            );
            let Some(delay) = delay else { return outcome };
            let host = allowed_hosts::format_host_port(&request.url);
            tracing::debug!(host, ?attempt, ?delay, "retrying request");
            tokio::time::sleep(delay).await;
        }
        unreachable!("the loop ends by itself");
    }

    /// Sends a request once, and from there to wherever the service says.
    async fn send_with_redirects(
        &self,
        request: &PreparedRequest,
        options: SendOptions,
    ) -> Result<HttpResponse, HttpError> {
        let hosts = self.hosts.load_full();
        hosts.check(&request.url).map_err(HttpError::Host)?;
        let mut request = Cow::Borrowed(request);
        for redirects_before in 0.. {
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
        }
        unreachable!("the loop ends by itself");
    }

    async fn send_once(&self, prepared: &PreparedRequest) -> Result<Response, HttpError> {
        let url = &prepared.url;
        let permit = self.breakers.admit(url).map_err(|retry_after| HttpError::BreakerOpen {
            host: allowed_hosts::format_host_port(url),
            retry_after,
        })?;
        let sent = match self
            .loopback
            .as_ref()
            .and_then(|loopback_clients| loopback_clients.client_for(url))
        {
            Some(client) => loopback::send(client, prepared).await,
            None => self.send_remote(prepared).await,
        };
        if let Some(permit) = permit {
            permit.record(match &sent {
                Ok(response) => self.breakers.outcome_of_status(response.status().as_u16()),
                Err(failure) if failure.is_host_failure() => HostOutcome::Failure,
                Err(_) => HostOutcome::Canceled,
            });
        }
        sent
    }

    async fn send_remote(&self, prepared: &PreparedRequest) -> Result<Response, HttpError> {
        let url = &prepared.url;
        let mut request = reqwest::Request::new(prepared.method.clone(), url.clone());
        // Set whole, since a builder would look each of them up and put it in again.
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
        if headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
            > limit
        {
            return Err(HttpError::HeadersTooLarge { limit });
        }
        let is_success = (200..300).contains(&status);
        let body = if request.method == Method::HEAD || matches!(status, 204 | 205 | 304) {
            ResponseBody::Complete(Vec::new())
        } else if !is_success {
            let max = MAX_ERROR_BODY.min(self.settings.response_bytes);
            ResponseBody::Complete(body::read_prefix(response, max).await)
        } else if options.is_stream && is_stream_response(&headers) {
            ResponseBody::Streaming(response)
        } else {
            ResponseBody::Complete(
                body::read_all(response, &request.url, self.settings.response_bytes).await?,
            )
        };
        Ok(HttpResponse { status, headers, body })
    }
}

fn is_stream_response(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| MediaKind::from_content_type(kind).is_stream())
}
