//! What runs when an operation of a service is called.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::client::{Answer, Body, Client, Terms};
use super::credential::{CredentialError, Keyring, Keys};
use super::native;
use super::plan::{Language, Plan};
use super::request::{Prepared, Template};
use super::response::{self, Redacted};
use super::settings::OpenApiSettings;
use super::stream;
use crate::error::{CallError, HandlerError};
use crate::handler::{CallContext, Handler, OnceHandler, Output, StreamHandler};
use crate::operation::{OutputPolicy, ResultPolicy};
use crate::payload::{Payload, PayloadError};
use crate::spec::{Kind, OperationSpec};

/// What the operations of a source share.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: Arc<str>,
    pub(super) client: Client,
    pub(super) settings: OpenApiSettings,
    pub(super) keyring: Keyring,
}

/// The way to one operation.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) service: Arc<Service>,
    pub(super) plan: Arc<Plan>,
    template: Template,
    /// What it shows, or why it cannot.
    keys: Result<Keys, CredentialError>,
    /// Whether calling it twice is the same as calling it once.
    pub(super) is_repeatable: bool,
    /// Whether anybody looks into what it answers.
    pub(super) is_looked_at: bool,
    is_stream: bool,
}

impl Route {
    pub(super) fn new(
        service: &Arc<Service>,
        plan: Arc<Plan>,
        template: Template,
        spec: &OperationSpec,
        policy: ResultPolicy,
    ) -> Self {
        let is_read = matches!(plan.method, Method::GET | Method::HEAD);
        let keys = service.keyring.keys(&plan.security);
        Self {
            service: Arc::clone(service),
            plan,
            template,
            keys,
            // What HTTP reads with is a query, whatever it becomes here.
            is_repeatable: spec.kind == Kind::Query || spec.idempotent || is_read,
            is_looked_at: policy.output != OutputPolicy::Raw,
            is_stream: spec.kind == Kind::Subscription,
        }
    }

    /// The handler that goes this way.
    pub(super) fn into_handler(self) -> Handler {
        let is_stream = self.is_stream;
        let route = RouteHandler(Arc::new(self));
        match is_stream {
            true => Handler::Stream(Arc::new(route)),
            false => Handler::Once(Arc::new(route)),
        }
    }

    /// Opens a stream, and says what nobody may read in it. One that is asked for again brings a header
    /// along, and may be asked for as often as it takes.
    pub(super) async fn open(
        &self,
        context: &CallContext,
        input: Payload,
        header: Option<(HeaderName, HeaderValue)>,
    ) -> Result<(Answer, Redacted), CallError> {
        let (answer, request) = self.send(context, input, header).await?;
        Ok((answer, Redacted::of(&request)))
    }

    /// Sends the request for an input; an answer that is no success is an error.
    async fn send(
        &self,
        context: &CallContext,
        input: Payload,
        header: Option<(HeaderName, HeaderValue)>,
    ) -> Result<(Answer, Prepared), CallError> {
        let client = &self.service.client;
        let terms = Terms {
            is_repeatable: self.is_repeatable || header.is_some(),
            deadline: client.deadline(context.remaining()),
            is_stream: self.is_stream,
            language: self.plan.language,
        };
        let mut request = self.prepare(context, input, terms.deadline)?;
        request.headers.extend(header);
        let keys = self.keys.as_ref().map_err(Clone::clone)?;
        keys.show(&mut request).await?;
        let mut answer = client.send(&request, terms).await?;
        // A token that is not accepted any more is replaced once. Nothing was done for the old one.
        if answer.status == 401 && keys.show_again(&mut request).await? {
            answer = client.send(&request, terms).await?;
        }
        match answer {
            Answer { status: 200..300, .. } => Ok((answer, request)),
            Answer { status, headers, body: Body::Whole(body) } => {
                Err(self.refusal(status, &headers, body, &Redacted::of(&request)))
            }
            Answer { status, .. } => Err(CallError::execution(format!("HTTP {status}"))),
        }
    }

    fn prepare(
        &self,
        context: &CallContext,
        mut input: Payload,
        deadline: Instant,
    ) -> Result<Prepared, CallError> {
        match self.plan.language {
            Language::Http => {
                let unreadable = |error: PayloadError| {
                    CallError::validation(error.to_string(), &[]).before_sending()
                };
                let mut request = self.template.fill(input.value().map_err(unreadable)?)?;
                native::trace(&mut request.headers, context);
                Ok(request)
            }
            Language::Toolpost => {
                let left = deadline.saturating_duration_since(Instant::now());
                // A stream may go on for as long as its consumer wants.
                let timeout = if self.is_stream { context.remaining() } else { Some(left) };
                native::fill(&self.template, context, &input, timeout, self.is_stream)
            }
        }
    }

    fn refusal(
        &self,
        status: u16,
        headers: &HeaderMap,
        body: Vec<u8>,
        redacted: &Redacted,
    ) -> CallError {
        let said = match self.plan.language {
            Language::Http => None,
            Language::Toolpost => native::refusal(headers, &body, redacted),
        };
        said.unwrap_or_else(|| response::refusal(&self.plan, status, headers, body, redacted))
    }

    /// What a success becomes.
    pub(super) fn output(
        &self,
        status: u16,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Output, CallError> {
        match self.plan.language {
            Language::Http => {
                Ok(response::output(&self.plan, status, headers, body, self.is_looked_at))
            }
            Language::Toolpost => native::outcome(headers, &body).map(Output::Relayed),
        }
    }

    async fn call(&self, context: &CallContext, input: Payload) -> Result<Output, CallError> {
        let (answer, _) = self.send(context, input, None).await?;
        match answer.body {
            Body::Whole(body) => self.output(answer.status, &answer.headers, body),
            Body::Flowing(_) => Err(CallError::execution("the service answered with a stream")),
        }
    }
}

struct RouteHandler(Arc<Route>);

impl OnceHandler for RouteHandler {
    fn call(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxFuture<'static, Result<Output, HandlerError>> {
        let route = Arc::clone(&self.0);
        async move {
            tokio::select! {
                biased;
                called = route.call(&context, input) => Ok(called?),
                // Dropping the call closes its connection.
                () = context.cancelled() => {
                    Err(CallError::aborted("the call was canceled").into())
                }
            }
        }
        .boxed()
    }
}

impl StreamHandler for RouteHandler {
    fn subscribe(
        &self,
        context: CallContext,
        input: Payload,
    ) -> BoxStream<'static, Result<Output, HandlerError>> {
        stream::subscribe(Arc::clone(&self.0), context, input)
    }
}
