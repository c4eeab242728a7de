//! `/mcp`: streamable HTTP, for clients of every version.
//!
//! A request of 2026-07-28 stands for itself. One of before belongs to a session if it names one,
//! and is answered without one too.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use toolpost::Identity;
use toolpost::view::Era;

use super::ask::{Ask, Asker, agreed};
use super::batch;
use super::changes::Changes;
use super::era;
use super::inquiry::Questions;
use super::message::{self, Fault, Id, Message};
use super::outlet::Outlet;
use super::params::{self, Filter, Params};
use super::refused_call;
use super::session::Session;
use super::settings::McpView;
use super::stream;
use crate::app::Gateway;
use crate::door::http::{check_content_type, read_bytes, trace};
use crate::door::{bearer, problem::Problem};

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// How many notifications of a request wait for a client that reads slowly.
const NOTES: usize = 64;

/// What is known of a request before its body is read.
pub(super) struct Visit {
    pub(super) gateway: Gateway,
    pub(super) identity: Arc<Identity>,
    pub(super) view: McpView,
    pub(super) headers: HeaderMap,
    pub(super) session: Option<Arc<Session>>,
    pub(super) accepts: Accepts,
}

/// What a client can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

pub(in crate::door) async fn serve(State(gateway): State<Gateway>, request: Request) -> Response {
    let answered = match *request.method() {
        Method::POST => post(gateway, request).await,
        Method::GET => listen(gateway, request).await,
        Method::DELETE => end(gateway, request).await,
        _ => Err(not_allowed("POST, GET, DELETE")),
    };
    answered.unwrap_or_else(|refusal| *refusal)
}

/// A response that is a refusal.
pub(super) type Refusal = Box<Response>;

async fn post(gateway: Gateway, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let visit = Visit::new(gateway, parts).await?;
    check_content_type(&visit.headers).map_err(refused)?;
    let body = read_bytes(body, &visit.gateway.0.settings).await.map_err(refused)?;
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return batch::answer(&visit, &body).await;
    }
    match message::read(&body) {
        Ok(Message::Request { id, method, params }) => {
            let ask = visit.understand(id.clone(), &method, params).await;
            let ask = ask.map_err(|fault| faulty(&fault, Some(&id)))?;
            visit.respond(ask).await
        }
        Ok(Message::Notification { method, params }) => visit.note(&method, params),
        Ok(Message::Answer { id, said }) => Ok(visit.answered(&id, said)),
        Err((id, fault)) => Err(faulty(&fault, id.as_ref())),
    }
}

impl Visit {
    async fn new(gateway: Gateway, request: Parts) -> Result<Self, Refusal> {
        let headers = request.headers;
        let identity =
            bearer::identify(gateway.authenticator(), "/mcp", &headers).await.map_err(refused)?;
        let view = McpView::from_query(request.uri.query().unwrap_or_default())
            .map_err(|words| faulty(&Fault::invalid_params(words), None))?;
        let accepts = Accepts::of(&headers);
        if !accepts.json && !accepts.events {
            let words = "the client must accept application/json and text/event-stream";
            return Err(refused(Problem::new(StatusCode::NOT_ACCEPTABLE, words)));
        }
        let mut visit = Self { gateway, identity, view, headers, session: None, accepts };
        visit.session = visit.session()?;
        Ok(visit)
    }

    /// The session that the client names, which must be its own. One of 2026-07-28 has none.
    fn session(&self) -> Result<Option<Arc<Session>>, Refusal> {
        let Some(id) = self.headers.get(SESSION) else { return Ok(None) };
        if era::of_header(&self.headers) == Ok(Era::Modern) {
            return Ok(None);
        }
        let sessions = &self.gateway.0.mcp.sessions;
        let found = id.to_str().ok().and_then(|id| sessions.get(id, &self.identity));
        found.map(Some).ok_or_else(unknown_session)
    }

    /// A request, as far as it can be understood without answering it.
    pub(super) async fn understand(
        &self,
        id: Id,
        method: &str,
        raw: Option<&RawValue>,
    ) -> Result<Ask, Fault> {
        let understood = self.understand_params(method, raw).await;
        let (asker, params) = match understood {
            Ok(understood) => understood,
            Err(fault) => {
                self.note_refused(method, raw, &fault).await;
                return Err(fault);
            }
        };
        let is_call = method == "tools/call";
        let headers = (is_call && asker.era == Era::Modern).then(|| self.arguments_in_headers());
        let raw = raw.filter(|_| !is_call).map(ToOwned::to_owned);
        Ok(Ask { asker, id, method: method.to_owned(), params, raw, hints: true, headers })
    }

    async fn understand_params(
        &self,
        method: &str,
        raw: Option<&RawValue>,
    ) -> Result<(Asker, Params), Fault> {
        let mut params = Params::read(raw)?;
        params.carried = trace(&self.headers);
        let asker = self.asker(era::of_request(&self.headers, method, &params)?);
        asker.find_source().await?;
        Ok((asker, params))
    }

    pub(super) async fn note_refused(
        &self,
        method: &str,
        params: Option<&RawValue>,
        fault: &Fault,
    ) {
        Box::pin(refused_call::note(&self.gateway, &self.identity, (method, params), fault)).await;
    }

    /// The headers that repeat arguments: mostly none, and then nothing is copied.
    fn arguments_in_headers(&self) -> HeaderMap {
        let repeated =
            self.headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-param-"));
        repeated.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    pub(super) fn asker(&self, era: Era) -> Asker {
        Asker {
            door: "mcp",
            gateway: self.gateway.clone(),
            identity: Arc::clone(&self.identity),
            view: self.view.clone(),
            era,
            level: self
                .session
                .as_ref()
                .map(|session| Arc::clone(&session.level))
                .unwrap_or_default(),
            following: self.session.as_ref().map(|session| Arc::clone(&session.following)),
            questions: self.session.as_ref().and_then(|session| session.questions.clone()),
        }
    }

    async fn respond(&self, ask: Ask) -> Result<Response, Refusal> {
        match (ask.method.as_str(), ask.asker.era) {
            ("initialize", Era::Legacy) => self.welcome(&ask),
            ("logging/setLevel", Era::Legacy) if self.session.is_none() => {
                let words = "a level is kept in a session, and this request belongs to none";
                Err(faulty(&Fault::new(Fault::INVALID_REQUEST, words), Some(&ask.id)))
            }
            ("subscriptions/listen", Era::Modern) => self.subscribe(ask).await,
            _ => Ok(self.answer(ask).await),
        }
    }

    /// Answers with JSON, or with events as soon as there is something to tell before the answer.
    async fn answer(&self, ask: Ask) -> Response {
        let era = ask.asker.era;
        let (sender, notes) = mpsc::channel(NOTES);
        let outlet = Outlet::new(ask.id.clone())
            .notes(self.accepts.events.then_some(sender))
            .cancellable(self.session.as_ref().map(|session| Arc::clone(&session.calls)))
            .cancelled_by_leaving(era == Era::Modern);
        let lacks = self.lacks(&ask);
        let answering = Box::pin(ask.answer(outlet));
        let response = stream::respond(&self.gateway, self.accepts, era, answering, notes).await;
        match lacks {
            Some(challenge) => forbidden(response, challenge),
            None => response,
        }
    }

    /// What a client is told that lacks scopes which an authorization server could give it.
    fn lacks(&self, ask: &Ask) -> Option<HeaderValue> {
        let authenticator = self.gateway.authenticator();
        authenticator.authorization_server()?;
        let scopes = ask.missing_scopes()?;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        Some(bearer::insufficient(authenticator, "/mcp", &self.headers, &scopes))
    }

    fn welcome(&self, ask: &Ask) -> Result<Response, Refusal> {
        let version = agreed(ask.raw.as_deref());
        let questions = Questions::of(ask.raw.as_deref());
        let sessions = &self.gateway.0.mcp.sessions;
        let Some(session) = sessions.begin(&self.identity, version, questions) else {
            let words = "there are as many sessions as there may be, and all of them are in use";
            return Err(busy(words, Some(&ask.id)));
        };
        let welcome = ask.asker.welcome(&ask.id, version);
        let mut response = stream::whole(welcome.into(), StatusCode::OK, self.accepts);
        let session = HeaderValue::from_str(&session).expect("hexadecimal digits");
        response.headers_mut().insert(SESSION, session);
        Ok(response)
    }

    async fn subscribe(&self, ask: Ask) -> Result<Response, Refusal> {
        let filter = Filter::read(ask.raw.as_deref(), &self.gateway.0.mcp.settings());
        let filter = filter.map_err(|fault| faulty(&fault, Some(&ask.id)))?;
        if !self.accepts.events {
            let words = "the client must accept text/event-stream to listen";
            return Err(refused(Problem::new(StatusCode::NOT_ACCEPTABLE, words)));
        }
        let place = self.place_to_listen(Some(&ask.id))?;
        let mut changes = Changes::new(ask.asker, filter, Some(ask.id));
        changes.begin().await;
        let first = changes.acknowledgement();
        let token = self.gateway.0.mcp.listening.enter(&self.identity.id);
        Ok(stream::changes(&self.gateway, changes, place, Some(first), Some(token)))
    }

    /// Listeners hold their connections, and must not hold all of them.
    fn place_to_listen(&self, id: Option<&Id>) -> Result<OwnedSemaphorePermit, Refusal> {
        let places = Arc::clone(&self.gateway.0.mcp.listeners);
        places.try_acquire_owned().map_err(|_| {
            let most = self.gateway.0.mcp.settings().listeners;
            busy(format!("{most} clients are listening, which is the limit"), id)
        })
    }

    /// An answer is accepted, whether or not somebody waits for it: a client cannot know.
    pub(super) fn answered(&self, id: &Id, said: Result<&RawValue, &RawValue>) -> Response {
        if let Some(questions) = self.session.as_ref().and_then(|it| it.questions.as_ref()) {
            questions.answer(id, said);
        }
        accepted()
    }

    /// A notification is accepted, and one that cancels does.
    pub(super) fn note(&self, method: &str, raw: Option<&RawValue>) -> Result<Response, Refusal> {
        era::of_header(&self.headers).map_err(|fault| faulty(&fault, None))?;
        if let ("notifications/cancelled", Some(session)) = (method, &self.session)
            && let Some((id, reason)) = params::cancelled(raw)
        {
            session.calls.cancel(&id, &reason);
        }
        Ok(accepted())
    }
}

/// The stream on which a client of before 2026-07-28 hears what happens.
async fn listen(gateway: Gateway, request: Request) -> Result<Response, Refusal> {
    let visit = Visit::new(gateway, request.into_parts().0).await?;
    let Some(session) = visit.session.as_ref().filter(|_| visit.accepts.events) else {
        return Err(not_allowed("POST"));
    };
    let asker = visit.asker(Era::Legacy);
    asker.find_source().await.map_err(|fault| faulty(&fault, None))?;
    let place = visit.place_to_listen(None)?;
    let token = session.listen();
    let changes = Changes::new(asker, Filter::ALL, None);
    Ok(stream::changes(&visit.gateway, changes, place, None, Some(token)))
}

async fn end(gateway: Gateway, request: Request) -> Result<Response, Refusal> {
    let visit = Visit::new(gateway, request.into_parts().0).await?;
    if visit.session.is_none() {
        return Err(not_allowed("POST"));
    }
    let id = visit.headers.get(SESSION).and_then(|id| id.to_str().ok()).unwrap_or_default();
    visit.gateway.0.mcp.sessions.end(id, &visit.identity);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

impl Accepts {
    /// Whoever says nothing reads everything.
    fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::ACCEPT).iter().peekable();
        if values.peek().is_none() {
            return Self { json: true, events: true };
        }
        let mut accepts = Self { json: false, events: false };
        let types = values.filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
        for one in types {
            let media_type = one.split(';').next().unwrap_or_default().trim();
            let is =
                |names: [&str; 3]| names.iter().any(|name| media_type.eq_ignore_ascii_case(name));
            accepts.json |= is(["application/json", "application/*", "*/*"]);
            accepts.events |= is(["text/event-stream", "text/*", "*/*"]);
        }
        accepts
    }
}

/// The answer as it is, with the status and the header by which clients ask for more scopes.
fn forbidden(mut response: Response, challenge: HeaderValue) -> Response {
    *response.status_mut() = StatusCode::FORBIDDEN;
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

pub(super) fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

fn unknown_session() -> Refusal {
    let words = "there is no such session; initialize again";
    let fault = Fault::new(Fault::SESSION_NOT_FOUND, words);
    Box::new(json(StatusCode::NOT_FOUND, fault.write(None)))
}

/// Somebody has to leave first.
fn busy(words: impl Into<String>, id: Option<&Id>) -> Refusal {
    let fault = Fault::new(Fault::OVERLOADED, words);
    let mut response = json(StatusCode::SERVICE_UNAVAILABLE, fault.write(id));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    Box::new(response)
}

fn not_allowed(methods: &'static str) -> Refusal {
    let words = format!("this address answers to {methods} here");
    let fault = Fault::new(Fault::INVALID_REQUEST, words);
    let mut response = json(StatusCode::METHOD_NOT_ALLOWED, fault.write(None));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    Box::new(response)
}

pub(super) fn refused(problem: Problem) -> Refusal {
    Box::new(problem.into_response())
}

/// A fault of a message that was not even looked at further.
pub(super) fn faulty(fault: &Fault, id: Option<&Id>) -> Refusal {
    Box::new(json(StatusCode::BAD_REQUEST, fault.write(id)))
}

pub(super) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
