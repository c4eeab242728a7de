//! Handlers of imported operations.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::client::{HttpClient, HttpResponse, ResponseBody, SendOptions};
use super::credential::{CredentialError, CredentialStore, OperationCredentials};
use super::peer_gateway;
use super::plan::{OperationPlan, ServiceProtocol};
use super::request::{PreparedRequest, RequestTemplate};
use super::response::{self, JsonMode, SecretRedactor};
use super::settings::OpenApiSettings;
use super::stream;
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, Handler, HandlerOutput, OnceHandler, StreamHandler};
use crate::operation::{OutputPolicy, ResultPolicy};
use crate::payload::{Payload, PayloadError};
use crate::spec::{OperationKind, OperationSpec};

/// Context that all operations of a source share.
#[derive(Debug)]
pub(super) struct ServiceContext {
    pub(super) name: Arc<str>,
    pub(super) client: HttpClient,
    pub(super) settings: OpenApiSettings,
    pub(super) credential_store: CredentialStore,
}

/// What a call to one operation requires.
#[derive(Debug)]
pub(super) struct OperationRoute {
    pub(super) service: Arc<ServiceContext>,
    pub(super) plan: Arc<OperationPlan>,
    template: RequestTemplate,
    /// The credentials of the operation, or why they are not available.
    credentials: Result<OperationCredentials, CredentialError>,
    /// Whether the operation is idempotent, so that sent requests can be retried.
    pub(super) is_idempotent: bool,
    /// JSON is parsed unless the output policy is `Raw`.
    pub(super) json_mode: JsonMode,
    is_stream: bool,
}

impl OperationRoute {
    pub(super) fn new(
        service: &Arc<ServiceContext>,
        plan: Arc<OperationPlan>,
        template: RequestTemplate,
        credentials: Result<OperationCredentials, CredentialError>,
        spec: &OperationSpec,
        policy: ResultPolicy,
    ) -> Self {
        let is_read = matches!(plan.method, Method::GET | Method::HEAD);
        Self {
            service: Arc::clone(service),
            plan,
            template,
            credentials,
            // GET and HEAD requests are safe to repeat, regardless of the operation's kind.
            is_idempotent: spec.kind == OperationKind::Query || spec.idempotent || is_read,
            json_mode: match policy.output {
                OutputPolicy::Raw => JsonMode::Raw,
                _ => JsonMode::Parsed,
            },
            is_stream: spec.kind == OperationKind::Subscription,
        }
    }

    /// Converts the route into a handler.
    pub(super) fn into_handler(self) -> Handler {
        let is_stream = self.is_stream;
        let route = Arc::new(Arc::new(self));
        if is_stream { Handler::Stream(route) } else { Handler::Once(route) }
    }

    /// Opens a stream, and returns it with the redactor for the credentials of the request. A
    /// resume request has an extra header and is always idempotent.
    pub(super) async fn open(
        &self,
        context: &CallContext,
        input: Payload,
        header: Option<(HeaderName, HeaderValue)>,
    ) -> Result<(HttpResponse, SecretRedactor), CallError> {
        let (http_response, request) = self.send(context, input, header).await?;
        Ok((http_response, SecretRedactor::from_request(&request)))
    }

    /// Sends the request for an input. A status other than success is an error.
    async fn send(
        &self,
        context: &CallContext,
        input: Payload,
        header: Option<(HeaderName, HeaderValue)>,
    ) -> Result<(HttpResponse, PreparedRequest), CallError> {
        let client = &self.service.client;
        let options = SendOptions {
            is_idempotent: self.is_idempotent || header.is_some(),
            deadline: client.deadline(context.remaining()),
            is_stream: self.is_stream,
            protocol: self.plan.protocol,
        };
        let mut request = self.prepare(context, input, options.deadline)?;
        request.headers.extend(header);
        let credentials = self.credentials.as_ref().map_err(Clone::clone)?;
        credentials.apply(&mut request).await?;
        SecretRedactor::from_request(&request).add_to(context);
        let mut http_response = client.send(&request, options).await?;
        // Replace a rejected token once. The 401 means that the request was not executed.
        if http_response.status == 401 && credentials.apply_refreshed(&mut request).await? {
            SecretRedactor::from_request(&request).add_to(context);
            http_response = client.send(&request, options).await?;
        }
        match http_response {
            HttpResponse { status: 200..300, .. } => Ok((http_response, request)),
            HttpResponse { status, headers, body: ResponseBody::Complete(body) } => Err(self
                .error_response(status, &headers, body, &SecretRedactor::from_request(&request))),
            HttpResponse { status, .. } => Err(CallError::execution(format!("HTTP {status}"))),
        }
    }

    fn prepare(
        &self,
        context: &CallContext,
        mut input: Payload,
        deadline: Instant,
    ) -> Result<PreparedRequest, CallError> {
        match self.plan.protocol {
            ServiceProtocol::Http => {
                let unreadable =
                    |error: PayloadError| CallError::validation(error.to_string(), &[]).not_sent();
                let mut request = self.template.fill(input.value().map_err(unreadable)?)?;
                peer_gateway::set_trace_headers(&mut request.headers, context);
                Ok(request)
            }
            ServiceProtocol::Toolpost => {
                let until_deadline = deadline.saturating_duration_since(Instant::now());
                // A stream has no timeout unless the caller sets one.
                let timeout =
                    if self.is_stream { context.remaining() } else { Some(until_deadline) };
                peer_gateway::build_request(
                    &self.template,
                    context,
                    &input,
                    timeout,
                    self.is_stream,
                )
            }
        }
    }

    fn error_response(
        &self,
        status: u16,
        headers: &HeaderMap,
        body: Vec<u8>,
        redactor: &SecretRedactor,
    ) -> CallError {
        let peer_error = match self.plan.protocol {
            ServiceProtocol::Http => None,
            ServiceProtocol::Toolpost => peer_gateway::parse_error(headers, &body, redactor),
        };
        peer_error.unwrap_or_else(|| {
            response::response_error(&self.plan, status, headers, body, redactor)
        })
    }

    /// Converts a success response to the output of the operation.
    pub(super) fn output(
        &self,
        status: u16,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<HandlerOutput, CallError> {
        match self.plan.protocol {
            ServiceProtocol::Http => {
                Ok(response::success_output(&self.plan, status, headers, body, self.json_mode))
            }
            ServiceProtocol::Toolpost => {
                peer_gateway::parse_outcome(headers, &body).map(HandlerOutput::Forwarded)
            }
        }
    }

    async fn call(
        &self,
        context: &CallContext,
        input: Payload,
    ) -> Result<HandlerOutput, CallError> {
        let (http_response, _) = self.send(context, input, None).await?;
        match http_response.body {
            ResponseBody::Complete(body) => {
                self.output(http_response.status, &http_response.headers, body)
            }
            ResponseBody::Streaming(_) => {
                Err(CallError::execution("the service responded with a stream"))
            }
        }
    }
}

impl OnceHandler for Arc<OperationRoute> {
    fn call(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxFuture<'static, Result<HandlerOutput, HandlerError>> {
        let route = Arc::clone(self);
        async move {
            tokio::select! {
                biased;
                called = OperationRoute::call(&route, &context, input) => Ok(called?),
                // Dropping the call future closes its connection.
                () = context.canceled() => {
                    Err(CallError::aborted("the call was canceled").into())
                }
            }
        }
        .boxed()
    }
}

impl StreamHandler for Arc<OperationRoute> {
    fn subscribe(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxStream<'static, Result<HandlerOutput, HandlerError>> {
        stream::subscribe(Arc::clone(self), context, input)
    }
}
