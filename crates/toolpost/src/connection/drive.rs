//! What a connection does with each event, and with each moment that passes.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

use super::Serve;
use super::peer::{Peer, Running};
use crate::error::CallError;
use crate::link::QUEUE;
use crate::protocol::{Event, FrameError, Requested};

pub(super) type Incoming = Result<Event, FrameError>;

/// How many events are taken in a row before the rest of the task gets its turn.
const BATCH: usize = 64;

/// How much may wait for room beyond the requests that are worked on, before the peer is not read any
/// more: it then takes nothing, and should not be able to ask for more of it.
const SPARE: usize = 1_024;

/// Reads until the link is gone. Never waits for room in the queue to the peer, since whoever does
/// not read while it writes can end up waiting for somebody who does the same.
pub(super) async fn drive(
    peer: &Arc<Peer>,
    mut incoming: BoxStream<'static, Incoming>,
    serve: &Serve,
    tasks: &mut JoinSet<()>,
) {
    let mut alarm = Alarm::new();
    let mut is_flushed = true;
    let mut may_read = true;
    // Kept from one round to the next: what waits for them is in their lists already.
    let mut closed = std::pin::pin!(peer.closing.closed());
    let mut woken = std::pin::pin!(peer.wake.notified());
    loop {
        alarm.set(peer.arm());
        tokio::select! {
            biased;
            () = &mut closed => return,
            () = &mut woken => woken.set(peer.wake.notified()),
            () = alarm.rings() => peer.expire(),
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            // What is left in the outbox goes out when there is room, whether or not anything comes.
            _ = peer.outgoing.reserve(), if !is_flushed => {}
            event = incoming.next(), if may_read => match event {
                Some(event) => take(peer, event, serve, tasks).await,
                None => return,
            },
        }
        for _ in 0..BATCH {
            if !may_read || peer.outgoing.capacity() < QUEUE / 2 {
                break;
            }
            match incoming.next().now_or_never() {
                Some(Some(event)) => take(peer, event, serve, tasks).await,
                Some(None) => return,
                None => break,
            }
        }
        while tasks.try_join_next().is_some() {}
        is_flushed = peer.flush_outbox();
        may_read = tasks.len() < peer.settings.serving + SPARE && peer.outbox() < SPARE;
        if !is_flushed || peer.outgoing.capacity() < QUEUE / 2 {
            // The pump is polled by this very task.
            tokio::task::yield_now().await;
        }
    }
}

async fn take(peer: &Arc<Peer>, event: Incoming, serve: &Serve, tasks: &mut JoinSet<()>) {
    match event {
        Ok(Event::Requested(request)) => requested(peer, *request, serve, tasks).await,
        Ok(Event::Aborted { id, reason }) => peer.aborted(id, reason),
        Ok(Event::Control(control)) => peer.control(control),
        Ok(answer) => peer.receive(answer),
        Err(error) => {
            tracing::debug!(%error, id = &*error.id, "a frame is not an event");
            if error.is_answer {
                tracing::warn!(%error, id = &*error.id, "a peer sent a broken answer");
                let message = format!("the far end sent a broken answer: {error}");
                peer.fail(&error.id, CallError::execution(message));
            }
            say(peer, error.to_event(), tasks);
        }
    }
}

async fn requested(peer: &Arc<Peer>, request: Requested, serve: &Serve, tasks: &mut JoinSet<()>) {
    if let Err(error) = peer.admit(&request.id) {
        return match serve {
            Serve::Operations(handler) => handler.refuse(peer, request, error, tasks),
            _ => say(peer, Event::Failed { id: request.id, error }, tasks),
        };
    }
    match serve {
        Serve::Nothing => {
            let error = CallError::operation_not_found(&request.operation);
            say(peer, Event::Failed { id: request.id, error }, tasks);
        }
        Serve::Operations(handler) => handler.serve(peer, request, tasks),
        Serve::Requests(taker) => {
            // Our own subscribers always name a window; what others ask without one may be either, and
            // then only the place in the table is free too early.
            let answers_once = request.window.is_none();
            let running = Running { abort: None, credit: None, answers_once };
            peer.begin_serving(Arc::clone(&request.id), running);
            if let Err(refused) = taker.send(request).await {
                let id = refused.0.id;
                peer.end_serving(&id);
                let error = CallError::unavailable("nobody takes requests here any more");
                say(peer, Event::Failed { id, error }, tasks);
            }
        }
    }
}

/// Says something now, or in a task of its own if there is no room.
pub(super) fn say(peer: &Arc<Peer>, event: Event, tasks: &mut JoinSet<()>) {
    if let Err(tokio::sync::mpsc::error::TrySendError::Full(event)) = peer.outgoing.try_send(event)
    {
        let outgoing = peer.outgoing.clone();
        tasks.spawn(async move { drop(outgoing.send(event).await) });
    }
}

/// One timer for the nearest of all deadlines.
struct Alarm {
    sleep: Pin<Box<Sleep>>,
    at: Option<Instant>,
}

impl Alarm {
    fn new() -> Self {
        Self { sleep: Box::pin(tokio::time::sleep_until(Instant::now())), at: None }
    }

    fn set(&mut self, at: Option<Instant>) {
        if let Some(at) = at.filter(|_| at != self.at) {
            self.sleep.as_mut().reset(at);
        }
        self.at = at;
    }

    async fn rings(&mut self) {
        match self.at {
            Some(_) => self.sleep.as_mut().await,
            None => std::future::pending().await,
        }
    }
}
