//! One request over a link, from the caller's side.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::sync::{mpsc, oneshot};

use super::peer::{AnswerTo, Peer, Waiter};
use super::values;
use crate::access::Identity;
use crate::clock;
use crate::error::CallError;
use crate::handler::{ProgressSender, RequestId, from_now};
use crate::outcome::Outcome;
use crate::pipeline::CallRequest;
use crate::protocol::{Consumer, Control, Event, Patience, Requested};

/// A call that is handed on: on behalf of somebody, or of nobody in particular.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behalf(pub(crate) Option<Arc<Identity>>);

/// A request that has an id and is not sent yet.
pub(super) struct Asked {
    /// Boxed once, here, and sent in the same box.
    request: Box<Requested>,
    patience: Patience,
    progress: ProgressSender,
}

impl Asked {
    /// Reads a request; a call without a deadline gets `default_timeout`.
    ///
    /// A call that is handed on gets an id of its own, with the caller's as its parent: the caller
    /// knows nothing of this link, where its id may be in use, or have been given up by somebody whose
    /// answer is still under way and must reach nobody else.
    pub(super) fn new(
        request: CallRequest<'_>,
        behalf: Option<Behalf>,
        default_timeout: Option<Duration>,
    ) -> Self {
        let parts = request.into_parts();
        let id = parts.request_id.unwrap_or_else(RequestId::fresh).to_shared();
        let mut request = Box::new(Requested::new(id, parts.operation, parts.input));
        let timeout = parts.timeout.or(default_timeout);
        request.timeout_ms = timeout.map(milliseconds);
        request.deadline = timeout.map(|timeout| {
            let ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
            clock::epoch_ms().saturating_add(ms)
        });
        request.idle_timeout_ms = parts.idle_timeout.map(milliseconds);
        request.parent_id = parts.parent_request_id.map(|parent| parent.to_shared());
        request.metadata = parts.metadata;
        if let Some(Behalf(identity)) = behalf {
            let own = RequestId::fresh().to_shared();
            request.parent_id = Some(std::mem::replace(&mut request.id, own));
            request.identity = identity;
        }
        let patience = Patience { deadline: timeout.and_then(from_now), idle: parts.idle_timeout };
        Self { request, patience, progress: parts.progress }
    }

    pub(super) fn id(&self) -> &Arc<str> {
        &self.request.id
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How many values are asked for before anything is known about their size.
const FIRST_WINDOW: u32 = 8;

/// Gives the request up when it is dropped before its end, and tells the far end.
struct Claim {
    peer: Arc<Peer>,
    id: Arc<str>,
    was_sent: bool,
    is_over: bool,
}

impl Claim {
    /// The call has ended; without an answer that can only be because the link is gone.
    fn over(mut self, ended: Option<Result<Outcome, CallError>>) -> Result<Outcome, CallError> {
        self.is_over = true;
        ended.unwrap_or_else(|| Err(self.peer.gone()))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_over {
            self.peer.leave(&self.id, Some("the caller gave up"), self.was_sent);
        }
    }
}

/// What has become of a call so far; small, since there may be ten thousands that wait.
enum Calling {
    Sent,
    /// Boxed, because most calls find room.
    WaitsForRoom(BoxFuture<'static, bool>),
}

pub(super) async fn call(peer: Arc<Peer>, asked: Asked) -> Result<Outcome, CallError> {
    let (mut claim, mut answer, calling) = start_call(&peer, asked)?;
    if let Calling::WaitsForRoom(sending) = calling {
        // A request whose time runs out while it waits for room is answered without being sent.
        tokio::select! {
            biased;
            ended = &mut answer => return claim.over(ended.ok()),
            sent = sending => claim.was_sent = sent,
        }
    }
    let ended = answer.await.ok();
    claim.over(ended)
}

type Answer = oneshot::Receiver<Result<Outcome, CallError>>;

fn start_call(peer: &Arc<Peer>, asked: Asked) -> Result<(Claim, Answer, Calling), CallError> {
    let (reply, answer) = oneshot::channel();
    let (mut claim, event) = open(peer, asked, Consumer::Call, AnswerTo::Call(reply))?;
    let calling = match peer.outgoing.try_send(event) {
        Ok(()) => {
            claim.was_sent = true;
            Calling::Sent
        }
        Err(mpsc::error::TrySendError::Closed(_)) => return Err(peer.gone().before_sending()),
        Err(mpsc::error::TrySendError::Full(event)) => {
            let outgoing = peer.outgoing.clone();
            Calling::WaitsForRoom(async move { outgoing.send(event).await.is_ok() }.boxed())
        }
    };
    Ok((claim, answer, calling))
}

fn open(
    peer: &Arc<Peer>,
    asked: Asked,
    consumer: Consumer,
    to: AnswerTo,
) -> Result<(Claim, Event), CallError> {
    let Asked { request, patience, progress } = asked;
    let id = Arc::clone(&request.id);
    peer.open(&id, consumer, patience, Waiter { to, progress })?;
    let claim = Claim { peer: Arc::clone(peer), id, was_sent: false, is_over: false };
    Ok((claim, Event::Requested(request)))
}

/// The values of a request; it goes out when the stream is first polled.
pub(super) fn subscribe(
    peer: Arc<Peer>,
    asked: Asked,
) -> BoxStream<'static, Result<Outcome, CallError>> {
    async move {
        match start(&peer, asked).await {
            Ok(stream) => stream.values().left_stream(),
            Err(error) => futures::stream::once(std::future::ready(Err(error))).right_stream(),
        }
    }
    .flatten_stream()
    .boxed()
}

async fn start(peer: &Arc<Peer>, mut asked: Asked) -> Result<RemoteStream, CallError> {
    let window = FIRST_WINDOW.min(peer.settings.window.max(1));
    asked.request.window = Some(window);
    let (sender, mut values) = values::channel(&peer.settings);
    let (mut claim, event) =
        open(peer, asked, Consumer::Subscription, AnswerTo::Subscription(sender))?;
    let outgoing = peer.outgoing.clone();
    tokio::select! {
        biased;
        sent = outgoing.send(event) => match sent {
            Ok(()) => claim.was_sent = true,
            Err(_) => return Err(peer.gone().before_sending()),
        },
        // Nothing was sent, so nothing can come but the end.
        _ = values.next() => {}
    }
    Ok(RemoteStream { claim, values, window, taken: 0 })
}

struct RemoteStream {
    claim: Claim,
    values: values::Receiver,
    /// How many values may be under way or unconsumed.
    window: u32,
    /// Values that the consumer has taken since room was last granted.
    taken: u32,
}

impl RemoteStream {
    fn values(self) -> impl futures::Stream<Item = Result<Outcome, CallError>> + Send {
        futures::stream::unfold(Some(self), async |stream| {
            let mut stream = stream?;
            match stream.values.next().await {
                Some(outcome) => {
                    stream.grant();
                    Some((Ok(outcome), Some(stream)))
                }
                None => {
                    stream.claim.is_over = true;
                    let error = stream.values.fate()?;
                    Some((Err(error), None))
                }
            }
        })
    }

    fn grant(&mut self) {
        self.taken += 1;
        if self.taken < (self.window / 2).max(1) {
            return;
        }
        let count = std::mem::take(&mut self.taken) + self.widen();
        let id = Arc::clone(&self.claim.id);
        self.claim.peer.post(Event::Control(Control::More { id, count }));
    }

    /// Doubles the window as long as values of the size that was seen would still fit twice.
    fn widen(&mut self) -> u32 {
        let settings = &self.claim.peer.settings;
        let wider = self.window.saturating_mul(2).min(settings.window);
        if self.values.largest().saturating_mul(wider as usize) > settings.kept_bytes / 2 {
            return 0;
        }
        let more = wider.saturating_sub(self.window);
        self.window += more;
        more
    }
}
