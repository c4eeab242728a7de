//! Requests over the network: where they may go, how long they may take, how large their answers may
//! be, and when they are sent again.

mod body;
mod breaker;
mod failure;
mod host;
mod near;
mod proxy;
mod redirect;
mod resolve;
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

use self::breaker::{Breakers, Health};
use self::near::Near;
use self::redirect::RedirectError;
use self::retry::Attempt;
use super::native;
use super::plan::Language;
use super::request::Prepared;
use super::response::Media;
use super::settings::ClientSettings;

pub(crate) use failure::Failure;
pub(crate) use host::Hosts;

/// How much of the body of an answer that is no success is read.
const REFUSAL_BYTES: usize = 1024 * 1024;
/// How long an idle connection is kept.
const IDLE: Duration = Duration::from_secs(60);

/// The client of one source: its connections, and what it knows of its hosts.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// Absent where everything goes through a proxy.
    near: Option<Near>,
    /// Another document may name other hosts.
    hosts: Arc<ArcSwap<Hosts>>,
    breakers: Breakers,
    settings: ClientSettings,
}

/// What holds for one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Whether doing it twice is the same as doing it once.
    pub(crate) is_repeatable: bool,
    /// When nobody waits for its answer any more; for a stream, for its beginning.
    pub(crate) deadline: Instant,
    /// Whether the answer may be a stream.
    pub(crate) is_stream: bool,
    pub(crate) language: Language,
}

/// What a service answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Body {
    Whole(Vec<u8>),
    /// It goes on; dropping it closes the connection.
    Flowing(Response),
}

impl Client {
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
        let hosts = Arc::<ArcSwap<Hosts>>::default();
        let builder = reqwest::Client::builder()
            // Where a request goes is decided here, and by nobody else.
            .redirect(Policy::none())
            .referer(false)
            .dns_resolver(resolve::Resolver(Arc::clone(&hosts)))
            .connect_timeout(settings.connect_timeout)
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE)
            .http2_max_header_list_size(u32::try_from(settings.header_bytes).unwrap_or(u32::MAX))
            .http2_adaptive_window(true)
            .user_agent(concat!("toolpost/", env!("CARGO_PKG_VERSION")));
        let builder = proxy::with_proxies(builder, settings.proxy.as_ref())?;
        let builder = match &settings.authorities {
            Some(pem) => builder.tls_certs_merge(Certificate::from_pem_bundle(pem.as_bytes())?),
            None => builder,
        };
        let builder = match identity {
            Some(identity) => builder.identity(identity),
            None => builder,
        };
        let breakers = Breakers::new(settings.breaker.clone());
        let near = settings.proxy.is_none().then(|| Near::new(settings.connect_timeout));
        Ok(Self { http: builder.build()?, near, hosts, breakers, settings: settings.clone() })
    }

    /// What sends, for those who have rules of their own.
    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// Says which hosts may be spoken to from now on.
    pub(crate) fn allow(&self, hosts: Hosts) {
        self.hosts.store(Arc::new(hosts));
    }

    /// Whether one of its hosts is left alone.
    pub(crate) fn leaves_alone(&self) -> bool {
        self.breakers.is_any_open()
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
    pub(crate) async fn send(&self, request: &Prepared, terms: Terms) -> Result<Answer, Failure> {
        let began = Instant::now();
        match tokio::time::timeout_at(terms.deadline, self.send_again(request, terms)).await {
            Ok(ended) => ended,
            Err(_) => Err(self.timeout(&request.url, began.elapsed())),
        }
    }

    fn timeout(&self, url: &Url, limit: Duration) -> Failure {
        // A caller with little patience says nothing about the host.
        let is_of_host = limit >= self.settings.timeout;
        if let (true, Ok(Some(pass))) = (is_of_host, self.breakers.admit(url)) {
            pass.note(Health::Bad);
        }
        Failure::Timeout { host: host::host_and_port(url), limit }
    }

    async fn send_again(&self, request: &Prepared, terms: Terms) -> Result<Answer, Failure> {
        let settings = &self.settings.retry;
        for retries_before in 0.. {
            let ended = self.send_round(request, terms).await;
            // Another gateway says itself what may be repeated, and its word goes to the caller.
            if terms.language == Language::Toolpost
                && ended.as_ref().is_ok_and(|answer| native::is_problem(&answer.headers))
            {
                return ended;
            }
            let attempt = match &ended {
                Ok(answer) => Some(Attempt::answered(answer.status, &answer.headers)),
                Err(failure) => failure.attempt(),
            };
            let Some(attempt) = attempt else { return ended };
            let remaining = terms.deadline.saturating_duration_since(Instant::now());
            let repeatable = terms.is_repeatable;
            let pause =
                retry::pause(settings, retries_before, attempt, repeatable, remaining, || {
                    getrandom::u32().unwrap_or_default()
                });
            let Some(pause) = pause else { return ended };
            let host = host::host_and_port(&request.url);
            tracing::debug!(host, ?attempt, ?pause, "a request is sent again");
            tokio::time::sleep(pause).await;
        }
        unreachable!("the loop ends by itself");
    }

    /// Sends a request once, and from there to wherever the service says.
    async fn send_round(&self, request: &Prepared, terms: Terms) -> Result<Answer, Failure> {
        let hosts = self.hosts.load_full();
        hosts.check(&request.url).map_err(Failure::Host)?;
        let mut request = Cow::Borrowed(request);
        for redirects_before in 0.. {
            let response = self.send_once(&request).await?;
            let (status, headers) = (response.status().as_u16(), response.headers());
            if !redirect::is_one(status, headers) {
                return self.read(response, &request, terms).await;
            }
            let (next, repeatable) = (request.to_mut(), terms.is_repeatable);
            redirect::follow(next, status, headers, &hosts, repeatable, redirects_before)?;
            if terms.language == Language::Toolpost && next.body.is_none() {
                return Err(RedirectError::WithoutInput.into());
            }
        }
        unreachable!("the loop ends by itself");
    }

    async fn send_once(&self, prepared: &Prepared) -> Result<Response, Failure> {
        let url = &prepared.url;
        let pass = self
            .breakers
            .admit(url)
            .map_err(|wait| Failure::LeftAlone { host: host::host_and_port(url), wait })?;
        let sent = match self.near.as_ref().and_then(|near| near.way(url)) {
            Some(way) => near::send(way, prepared).await,
            None => self.send_far(prepared).await,
        };
        if let Some(pass) = pass {
            pass.note(match &sent {
                Ok(response) => self.breakers.health(response.status().as_u16()),
                Err(failure) if failure.is_of_host() => Health::Bad,
                Err(_) => Health::Unknown,
            });
        }
        sent
    }

    async fn send_far(&self, prepared: &Prepared) -> Result<Response, Failure> {
        let url = &prepared.url;
        let mut request = reqwest::Request::new(prepared.method.clone(), url.clone());
        // Set whole, since a builder would look each of them up and put it in again.
        *request.headers_mut() = prepared.headers.clone();
        *request.body_mut() = prepared.body.clone().map(reqwest::Body::from);
        let sent = self.http.execute(request).await;
        sent.map_err(|error| Failure::of_request(&error, url))
    }

    async fn read(
        &self,
        mut response: Response,
        request: &Prepared,
        terms: Terms,
    ) -> Result<Answer, Failure> {
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let limit = self.settings.header_bytes;
        if headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
            > limit
        {
            return Err(Failure::HeadTooLarge { limit });
        }
        let is_success = (200..300).contains(&status);
        let body = if request.method == Method::HEAD || matches!(status, 204 | 205 | 304) {
            Body::Whole(Vec::new())
        } else if !is_success {
            let most = REFUSAL_BYTES.min(self.settings.response_bytes);
            Body::Whole(body::beginning(response, most).await)
        } else if terms.is_stream && is_stream(&headers) {
            Body::Flowing(response)
        } else {
            Body::Whole(body::whole(response, &request.url, self.settings.response_bytes).await?)
        };
        Ok(Answer { status, headers, body })
    }
}

fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| Media::of(kind).is_stream())
}
