//! The requests of a peer as calls of a pipeline.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::drive::say;
use super::peer::{Peer, Running};
use crate::access::{Authority, Identity};
use crate::clock;
use crate::error::CallError;
use crate::handler::{AbortHandle, ProgressSender, RequestId};
use crate::link::QUEUE;
use crate::outcome::Outcome;
use crate::pipeline::{Call, CallRequest, Pipeline, Started, Subscription};
use crate::protocol::{Event, Requested};

/// Runs what a peer asks for, on the authority that the link gives it and no other: trust never
/// crosses a link.
#[derive(Debug, Clone)]
pub struct CallHandler {
    pipeline: Pipeline,
    callers: Callers,
    attached: Option<Attached>,
    draining: CancellationToken,
}

#[derive(Clone)]
struct Attached(Arc<dyn Any + Send + Sync>);

/// Who is taken to be asking.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Callers {
    /// The one whom the link has authenticated, whatever the events say.
    Authenticated(Option<Arc<Identity>>),
    /// Whom the events name: the peer is a hub that has authenticated its callers.
    AsTold,
}

impl CallHandler {
    /// A handler in front of a pipeline.
    pub fn new(pipeline: Pipeline, callers: Callers) -> Self {
        let draining = CancellationToken::new();
        Self { pipeline, callers, attached: None, draining }
    }

    /// Lets handlers ask what connection a call came in on.
    #[must_use]
    pub(crate) fn attach(mut self, attached: Arc<dyn Any + Send + Sync>) -> Self {
        self.attached = Some(Attached(attached));
        self
    }

    /// A signal after which nothing new is begun and streams end.
    #[must_use]
    pub fn until(mut self, draining: CancellationToken) -> Self {
        self.draining = draining;
        self
    }

    pub(super) fn serve(&self, peer: &Arc<Peer>, request: Requested, tasks: &mut JoinSet<()>) {
        if self.draining.is_cancelled() {
            return self.refuse(peer, request, stopping(), tasks);
        }
        let id = Arc::clone(&request.id);
        let operation = Arc::clone(&request.operation);
        let window = request.window;
        let (request, authority) = self.to_call(peer, &operation, request);
        // Whoever counts values subscribes, and waits for an end also where there is one answer.
        let started = match window {
            Some(_) => Started::Stream(self.pipeline.start_subscription(request, authority)),
            None => self.pipeline.start(request, authority),
        };
        let mut call = match started {
            Started::Stream(values) => return self.stream(peer, id, values, window, tasks),
            Started::Call(call) => call,
        };
        // Most calls are answered by their first poll, and those need no task.
        if let Some(ended) = (&mut call).now_or_never() {
            return say(peer, answer(id, ended), tasks);
        }
        let running =
            Running { abort: Some(call.abort_handle()), credit: None, answers_once: true };
        peer.begin_serving(Arc::clone(&id), running);
        tasks.spawn(Answering::Runs { call, peer: Arc::clone(peer), id });
    }

    /// Answers a request that does not become a call, after it was written down like one.
    pub(super) fn refuse(
        &self,
        peer: &Arc<Peer>,
        request: Requested,
        error: CallError,
        tasks: &mut JoinSet<()>,
    ) {
        let event = Event::Failed { id: Arc::clone(&request.id), error: error.clone() };
        let (handler, asking) = (self.clone(), Arc::clone(peer));
        let noting = async move {
            let operation = Arc::clone(&request.operation);
            let (request, authority) = handler.to_call(&asking, &operation, request);
            handler.pipeline.refuse(request, authority, &error).await;
        };
        let mut noting = noting.boxed();
        if (&mut noting).now_or_never().is_some() {
            return say(peer, event, tasks);
        }
        let outgoing = peer.outgoing.clone();
        tasks.spawn(async move {
            noting.await;
            // A peer that is gone needs no answer.
            drop(outgoing.send(event).await);
        });
    }

    fn to_call<'a>(
        &self,
        peer: &Arc<Peer>,
        operation: &'a str,
        request: Requested,
    ) -> (CallRequest<'a>, Authority) {
        let remaining = request.remaining_ms(clock::epoch_ms());
        let identity = match &self.callers {
            Callers::Authenticated(identity) => identity.clone(),
            Callers::AsTold => request.identity,
        };
        let mut call = CallRequest::new(operation, request.input)
            .request_id(Arc::clone(&request.id))
            .door("call")
            .progress(progress(peer, request.id))
            .shared_metadata(request.metadata);
        if let Some(remaining) = remaining {
            call = call.timeout(Duration::from_millis(remaining));
        }
        if let Some(idle) = request.idle_timeout_ms {
            call = call.idle_timeout(Duration::from_millis(idle));
        }
        if let Some(parent) = request.parent_id {
            call = call.parent_request_id(RequestId::from(parent));
        }
        if let Some(Attached(attached)) = &self.attached {
            call = call.attach_any(Arc::clone(attached));
        }
        (call, Authority::outside(identity))
    }

    fn stream(
        &self,
        peer: &Arc<Peer>,
        id: Arc<str>,
        values: Subscription,
        window: Option<u32>,
        tasks: &mut JoinSet<()>,
    ) {
        let credit = window.map(|window| Arc::new(Semaphore::new(window as usize)));
        let abort = values.abort_handle();
        let running =
            Running { abort: Some(abort.clone()), credit: credit.clone(), answers_once: false };
        peer.begin_serving(Arc::clone(&id), running);
        let streaming = Streaming {
            peer: Arc::clone(peer),
            id,
            values,
            credit,
            abort,
            draining: self.draining.clone(),
        };
        tasks.spawn(streaming.run());
    }
}

/// A call whose answer goes to the peer. Written by hand, because there may be ten thousands that
/// wait, and an `async` block would keep room for what only some of them need.
enum Answering {
    Runs {
        call: Call,
        peer: Arc<Peer>,
        id: Arc<str>,
    },
    /// Answered, and without room for the answer so far.
    Sends(BoxFuture<'static, ()>),
    Over,
}

impl Future for Answering {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Runs { call, .. } = &mut *self {
            let ended = ready!(Pin::new(call).poll(cx));
            let Self::Runs { peer, id, .. } = std::mem::replace(&mut *self, Self::Over) else {
                return Poll::Ready(());
            };
            peer.end_serving(&id);
            // A peer that is gone needs no answer.
            if let Err(TrySendError::Full(event)) = peer.outgoing.try_send(answer(id, ended)) {
                let outgoing = peer.outgoing.clone();
                *self = Self::Sends(async move { drop(outgoing.send(event).await) }.boxed());
            }
        }
        match &mut *self {
            Self::Sends(sending) => sending.as_mut().poll(cx),
            Self::Runs { .. } | Self::Over => Poll::Ready(()),
        }
    }
}

fn answer(id: Arc<str>, ended: Result<Outcome, CallError>) -> Event {
    match ended {
        Ok(outcome) => Event::Responded { id, outcome },
        Err(error) => Event::Failed { id, error },
    }
}

fn stopping() -> CallError {
    CallError::unavailable("the far end is stopping")
}

/// Reports of a call that outlives its connection go nowhere.
fn progress(peer: &Arc<Peer>, id: Arc<str>) -> ProgressSender {
    let peer = Arc::downgrade(peer);
    ProgressSender::from_fn(move |progress| {
        if let Some(peer) = peer.upgrade().filter(|peer| peer.outgoing.capacity() > QUEUE / 2) {
            let _ = peer.outgoing.try_send(Event::Progress { id: Arc::clone(&id), progress });
        }
    })
}

/// A subscription of the peer: polled only while there is room for what it gives.
struct Streaming {
    peer: Arc<Peer>,
    id: Arc<str>,
    values: Subscription,
    credit: Option<Arc<Semaphore>>,
    abort: AbortHandle,
    draining: CancellationToken,
}

impl Streaming {
    async fn run(mut self) {
        let last = loop {
            // Whoever is not wanted any more says so when it is polled.
            tokio::select! {
                biased;
                () = self.abort.unwanted() => {}
                () = self.draining.cancelled() => {
                    break Event::Failed { id: Arc::clone(&self.id), error: stopping() };
                }
                () = room(self.credit.as_deref(), &self.peer.outgoing) => {}
            }
            let value = tokio::select! {
                biased;
                value = self.values.next() => value,
                () = self.draining.cancelled() => Some(Err(stopping())),
            };
            let id = Arc::clone(&self.id);
            match value {
                Some(Ok(outcome)) => {
                    if self.peer.outgoing.send(Event::Responded { id, outcome }).await.is_err() {
                        return;
                    }
                }
                Some(Err(error)) => break Event::Failed { id, error },
                None => break Event::Completed { id },
            }
        };
        self.peer.end_serving(&self.id);
        let _ = self.peer.outgoing.send(last).await;
    }
}

/// Waits until the peer has granted another value and the queue has a place for it.
async fn room(credit: Option<&Semaphore>, outgoing: &Sender<Event>) {
    if let Some(credit) = credit
        && let Ok(permit) = credit.acquire().await
    {
        permit.forget();
    }
    until_room(outgoing).await;
}

/// Waits for a place without keeping it, since the next value may be long in coming.
async fn until_room(outgoing: &Sender<Event>) {
    if outgoing.capacity() == 0 {
        drop(outgoing.reserve().await);
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attached")
    }
}
