//! A server that was greeted: what it lists, and what it is asked.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::ask::{Ask, Patience};
use super::failure::Failure;
use super::follow::Watches;
use super::greeting::{self, Peer};
use super::inbox::Inbox;
use super::inquiry::{self, Topic};
use super::json;
use super::pending::Answer;
use super::rpc::{Param, RpcError};
use super::settings::{McpSettings, McpTransport};
use super::source::SourceHooks;
use super::speech::Era;
use super::switch::Switch;
use super::wire::Wire;
use crate::handler::{Respondent, Returning};

/// How often a server may ask for more input within one call.
const ROUNDS: usize = 10;
/// The longest that is waited for a change of the lists; then the question is asked again.
const LISTENING: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a server has to say that it will tell about changes before its lists are read anyway.
const OPENING: Duration = Duration::from_secs(2);

/// A connection on which requests can be made.
#[derive(Debug)]
pub(super) struct Session {
    wire: Wire,
    pub(super) peer: Peer,
    inbox: Inbox,
    settings: Arc<McpSettings>,
}

/// What a server listed.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) tools: Vec<Value>,
    pub(super) warnings: Vec<String>,
}

impl Session {
    /// Connects and greets. `era` is what is known from before, and is learnt.
    pub(super) async fn connect(
        source: &Arc<str>,
        settings: &Arc<McpSettings>,
        watches: &Arc<Watches>,
        hooks: &SourceHooks,
        tasks: &TaskTracker,
        era: &mut Option<Era>,
    ) -> Result<Self, Failure> {
        let connect = async |known: Option<Era>| {
            let inbox = Inbox::new(Arc::clone(source), Arc::clone(settings)).with_watches(watches);
            let wire = Wire::open(settings, hooks, Switch::new(inbox.clone()), tasks)?;
            match greeting::greet(&wire, settings, known).await {
                Ok(peer) => Ok(Self { wire, peer, inbox, settings: Arc::clone(settings) }),
                Err(failure) => {
                    wire.stop();
                    Err(failure)
                }
            }
        };
        let is_process = matches!(settings.transport, McpTransport::Stdio(_));
        let connected = match connect(*era).await {
            Ok(session) => Ok(session),
            // A process that was asked what it does not know, and left or fell silent: a new one is
            // greeted in the old way at once.
            Err(failure) if is_process && era.is_none() && settings.protocol.is_none() => {
                let failure = failure.to_string();
                tracing::debug!(%source, failure, "greeted again, in the old way");
                connect(Some(Era::Legacy)).await
            }
            // What was known is not true any more.
            Err(failure) if era.is_some() && settings.protocol.is_none() => {
                let failure = failure.to_string();
                tracing::debug!(%source, failure, "greeted again, as if for the first time");
                *era = None;
                connect(None).await
            }
            Err(failure) => Err(failure),
        };
        let session = connected?;
        *era = Some(session.peer.speech.era);
        Ok(session)
    }

    /// The source that this is a session of.
    pub(super) fn source(&self) -> &str {
        self.inbox.source()
    }

    pub(super) fn is_modern_http(&self) -> bool {
        self.wire.is_http() && self.peer.speech.era == Era::Modern
    }

    /// Whether an answer that broke off says nothing about the server: over HTTP each has a connection
    /// of its own.
    pub(super) fn outlives_an_answer(&self) -> bool {
        self.wire.is_http()
    }

    /// Told when the list of tools has changed.
    pub(super) fn tools_changed(&self) -> &Notify {
        &self.inbox.tools_changed
    }

    /// Waits until the server says that other lists than that of its tools have changed, and gives
    /// what the methods of these begin with.
    pub(super) async fn offer_changed(&self) -> Vec<&'static str> {
        self.inbox.offer_changed.notified().await;
        let parts = [
            (&self.inbox.prompts_changed, "prompts/"),
            (&self.inbox.resources_changed, "resources/"),
        ];
        let changed = parts.into_iter().filter(|(flag, _)| flag.swap(false, Ordering::Relaxed));
        changed.map(|(_, part)| part).collect()
    }

    /// Resolves when the server is gone, with words about it.
    pub(super) async fn over(&self) -> String {
        self.wire.over().await
    }

    pub(super) fn lose(&self, words: &str) {
        self.wire.lose(words);
    }

    pub(super) fn stop(&self) {
        self.wire.stop();
    }

    /// Ends it as far as nobody uses it.
    pub(super) fn retire(&self) {
        self.wire.retire();
    }

    /// Every tool, page by page, within the time and the room that one server has.
    pub(super) async fn list_tools(&self) -> Result<Listed, Failure> {
        if !self.peer.has("tools") {
            return Ok(Listed::default());
        }
        let most = self.settings.start_timeout;
        tokio::time::timeout(most, self.list_pages()).await.unwrap_or_else(|_| {
            Err(Failure::TimedOut(format!("the list of tools has no end within {most:?}")))
        })
    }

    async fn list_pages(&self) -> Result<Listed, Failure> {
        let (mut listed, mut seen, mut bytes) = (Listed::default(), HashSet::new(), 0);
        let (most, most_bytes) = (self.settings.tools, self.settings.message_bytes);
        let mut cursor: Option<String> = None;
        loop {
            let answer = self.page(cursor.as_deref()).await?;
            bytes += answer.get().len();
            let page = Page::read(&answer)?;
            listed.add(&page.tools);
            let end = match page.next_cursor {
                _ if listed.tools.len() > most || seen.len() > most => {
                    listed.tools.truncate(most);
                    format!("only the first {most} tools are taken")
                }
                None => return Ok(listed),
                Some(_) if bytes > most_bytes => {
                    format!("the rest of the list is left out: {bytes} bytes of it were read")
                }
                Some(next) if !seen.insert(next.clone()) => {
                    "the list of tools repeats itself".to_owned()
                }
                Some(next) => {
                    cursor = Some(next);
                    continue;
                }
            };
            listed.warnings.push(end);
            return Ok(listed);
        }
    }

    async fn page(&self, cursor: Option<&str>) -> Answer {
        let params: Vec<_> =
            cursor.map(|cursor| ("cursor", Param::Text(cursor))).into_iter().collect();
        let patience = Patience::of(self.settings.start_timeout);
        let ask = Ask::new("tools/list", &params, patience);
        self.wire.ask(&self.peer.speech, &ask).await
    }

    /// The changes that a server wants to be asked about; `None` for one that does not.
    fn changes(&self) -> Option<Value> {
        let tells = |part: &&str| {
            let part = self.peer.capabilities.get(*part);
            part.and_then(|part| part.get("listChanged")) == Some(&Value::Bool(true))
        };
        let parts = ["tools", "prompts", "resources"].into_iter().filter(tells);
        let wanted: Map<_, _> =
            parts.map(|part| (format!("{part}ListChanged"), true.into())).collect();
        (self.peer.speech.era == Era::Modern && !wanted.is_empty()).then_some(Value::Object(wanted))
    }

    /// Begins to listen to changes of the lists, and waits until the server does so too: what changes
    /// before is not told. What it returns never ends.
    pub(super) async fn begin_listening(self: &Arc<Self>) -> BoxFuture<'static, ()> {
        let Some(wanted) = self.changes() else { return std::future::pending().boxed() };
        let session = Arc::clone(self);
        let mut listening = async move { session.listen(&wanted).await }.boxed();
        tokio::select! {
            () = &mut listening => {}
            () = self.inbox.listening.notified() => {}
            () = tokio::time::sleep(OPENING) => {}
        }
        listening
    }

    async fn listen(&self, wanted: &Value) {
        let params = [("notifications", Param::Value(wanted))];
        let ask = Ask::new("subscriptions/listen", &params, Patience::of(LISTENING));
        let mut pause = Duration::from_secs(1);
        loop {
            match self.wire.ask(&self.peer.speech, &ask).await {
                Err(failure) if failure.rpc().is_some() => {
                    let failure = failure.to_string();
                    tracing::debug!(failure, "the server does not tell about changes after all");
                    self.inbox.listening.notify_one();
                    return std::future::pending().await;
                }
                Err(failure) => {
                    tracing::debug!(failure = failure.to_string(), "listening broke off");
                    pause = (pause * 2).min(Duration::from_secs(60));
                }
                Ok(_) => pause = Duration::from_secs(1),
            }
            tokio::time::sleep(pause).await;
            // Whatever changed meanwhile was not heard.
            self.inbox.tools_changed.notify_one();
        }
    }

    /// Makes a request, and answers what the server wants to know before it answers.
    pub(super) async fn request(&self, ask: &Ask<'_>) -> Result<Box<RawValue>, Failure> {
        let mut answer = self.ask_first(ask).await?;
        for _ in 1..ROUNDS {
            let Some(wanted) = self.wanted(&answer) else { return Ok(answer) };
            if let Some(returning) = self.leaves(ask, &wanted)? {
                return Err(Failure::Asked(returning.leave(answer)));
            }
            answer = self.ask_again(ask, &wanted).await?;
        }
        match self.wanted(&answer) {
            None => Ok(answer),
            Some(_) => {
                Err(Failure::NeedsInput(format!("the server asked for input {ROUNDS} times")))
            }
        }
    }

    /// The request, with what whoever called brings along since the server asked for it.
    async fn ask_first(&self, ask: &Ask<'_>) -> Answer {
        let returning = match (self.peer.speech.era, ask.respondent) {
            (Era::Modern, Some(Respondent::Returning(returning))) => returning,
            _ => return self.wire.ask(&self.peer.speech, ask).await,
        };
        let brought = [(RESPONSES, &returning.answers), (STATE, &returning.state)];
        let brought = brought.into_iter().filter_map(|(name, brought)| {
            let brought = brought.as_deref()?;
            Some((name, Param::Raw(brought)))
        });
        let params: Vec<_> = ask.params.iter().copied().chain(brought).collect();
        let ask = Ask { params: &params, ..ask.clone() };
        self.wire.ask(&self.peer.speech, &ask).await
    }

    fn wanted<'a>(&self, answer: &'a RawValue) -> Option<InputRequired<'a>> {
        match self.peer.speech.era {
            Era::Legacy => None,
            Era::Modern => InputRequired::read(answer),
        }
    }

    /// Who is told at the end of the call what is wanted, if that is for him and he may be asked.
    fn leaves<'a>(
        &self,
        ask: &Ask<'a>,
        wanted: &InputRequired<'_>,
    ) -> Result<Option<&'a Returning>, Failure> {
        let Some(Respondent::Returning(returning)) = ask.respondent else { return Ok(None) };
        let (mut for_the_client, mut settled) = (false, false);
        for request in wanted.requests()?.values() {
            match self.topic(request) {
                Some(topic) => {
                    self.check(ask, topic, request)?;
                    for_the_client = true;
                }
                None => settled = true,
            }
        }
        match (for_the_client, settled) {
            (true, true) => Err(Failure::NeedsInput(
                "the server asks the client and the settings of the source in one question; leave \
                 both to the client, or neither"
                    .to_owned(),
            )),
            (false, true) => Ok(None),
            // A question without requests only wants to be asked again, which is up to the client.
            (_, false) => Ok(Some(returning)),
        }
    }

    /// What a request of the server is about, if that is left to the client.
    fn topic(&self, request: &InputRequest<'_>) -> Option<Topic> {
        Topic::of(&request.method).filter(|topic| self.inbox.leaves_to_the_client(*topic))
    }

    fn check(
        &self,
        ask: &Ask<'_>,
        topic: Topic,
        request: &InputRequest<'_>,
    ) -> Result<(), Failure> {
        inquiry::check(ask.respondent, topic, request.params).map_err(|why| {
            let refused = self.inbox.not_asked(&request.method, request.params, &why);
            Failure::NeedsInput(refused.message)
        })
    }

    /// The same request with what the server wanted to know.
    async fn ask_again(&self, ask: &Ask<'_>, wanted: &InputRequired<'_>) -> Answer {
        let responding = tokio::time::timeout_at(ask.patience.until, self.respond(ask, wanted));
        let responses = responding.await.map_err(|_| {
            Failure::TimedOut("nobody answered what the server asked in time".to_owned())
        })??;
        let mut params = ask.params.to_vec();
        params.push((RESPONSES, Param::Raw(&responses)));
        params.extend(wanted.request_state.map(|state| (STATE, Param::Raw(state))));
        let asked = Ask { params: &params, ..ask.clone() };
        self.wire.ask(&self.peer.speech, &asked).await
    }

    async fn respond(
        &self,
        ask: &Ask<'_>,
        wanted: &InputRequired<'_>,
    ) -> Result<Box<RawValue>, Failure> {
        let mut responses = BTreeMap::new();
        for (key, request) in wanted.requests()? {
            let answer = self.respond_to(ask, &request).await?;
            let answer = answer.map_err(|RpcError { message, .. }| Failure::NeedsInput(message))?;
            responses.insert(key, answer);
        }
        Ok(serde_json::value::to_raw_value(&responses).expect("JSON by names is JSON"))
    }

    async fn respond_to(
        &self,
        ask: &Ask<'_>,
        request: &InputRequest<'_>,
    ) -> Result<Result<Box<RawValue>, RpcError>, Failure> {
        let InputRequest { method, params } = request;
        let Some(topic) = self.topic(request) else {
            let answer = self.inbox.answer(method, *params);
            return Ok(answer
                .map(|answer| serde_json::value::to_raw_value(&answer).expect("a value is JSON")));
        };
        self.check(ask, topic, request)?;
        match ask.respondent {
            Some(Respondent::Present(present)) => {
                Ok(inquiry::ask(&**present, method, *params).await)
            }
            _ => Err(Failure::NeedsInput("whoever called cannot be asked".to_owned())),
        }
    }
}

impl Listed {
    /// Takes the tools of a page; one that cannot be read is reported, and the others stay.
    fn add(&mut self, tools: &[&RawValue]) {
        for tool in tools {
            match json::read(tool.get()) {
                Ok(tool) => self.tools.push(tool),
                Err(error) => {
                    let beginning: String = tool.get().chars().take(80).collect();
                    self.warnings.push(format!("a tool cannot be read: {error}: {beginning}…"));
                }
            }
        }
    }
}

struct Page<'a> {
    tools: Vec<&'a RawValue>,
    next_cursor: Option<String>,
}

impl<'a> Page<'a> {
    fn read(answer: &'a RawValue) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Members<'a> {
            #[serde(borrow)]
            tools: Vec<&'a RawValue>,
            next_cursor: Option<&'a RawValue>,
        }
        let members: Members<'_> = serde_json::from_str(answer.get()).map_err(|error| {
            Failure::Unusable(format!("the list of tools cannot be read: {error}"))
        })?;
        // What is no text is no cursor.
        let cursor = members.next_cursor.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let next_cursor = cursor.filter(|cursor: &String| !cursor.is_empty());
        Ok(Self { tools: members.tools, next_cursor })
    }
}

/// What such a result calls itself.
const INPUT_REQUIRED: &str = "input_required";

/// The members of the request that brings what was wanted.
const RESPONSES: &str = "inputResponses";
const STATE: &str = "requestState";

/// A result that is none yet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired<'a> {
    #[serde(borrow)]
    result_type: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow)]
    request_state: Option<&'a RawValue>,
}

/// One of the things that are wanted.
#[derive(Deserialize)]
struct InputRequest<'a> {
    #[serde(borrow)]
    method: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

impl<'a> InputRequired<'a> {
    fn read(answer: &'a RawValue) -> Option<Self> {
        // Hardly any answer is of this kind, and to look for the word costs far less than to read.
        memchr::memmem::find(answer.get().as_bytes(), INPUT_REQUIRED.as_bytes())?;
        let wanted: Self = serde_json::from_str(answer.get()).ok()?;
        (wanted.result_type.as_deref() == Some(INPUT_REQUIRED)).then_some(wanted)
    }

    fn requests(&self) -> Result<BTreeMap<String, InputRequest<'a>>, Failure> {
        let Some(requests) = self.input_requests else { return Ok(BTreeMap::new()) };
        serde_json::from_str(requests.get()).map_err(|error| {
            Failure::Unusable(format!("what the server asks for cannot be read: {error}"))
        })
    }
}
