//! The one who runs a room: takes what comes in, one after another, and does what the room says. What
//! is handed over has been written down before, and everybody gets it in the same order.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::sync::CancellationToken;
use toolpost::epoch_ms;

use super::message::{Message, Protocol};
use super::outlet::{Goodbye, Outlet};
use super::state::{
    Arrival, Call, Closing, ConnectionId, Effect, Frame, Input, Recipients, Room, TOOLPOST,
};
use super::workspace::{Inner, Name};
use crate::app::{Gateway, Parts};
use crate::door::{self, RoomRequest};
use crate::journal::{RoomEntry, RoomRefusal, Written};

/// How many things wait for a room.
pub(super) const INBOX: usize = 1_024;
/// How much is done about what came in before more is taken.
const OUTBOX: usize = 4_096;
/// How many requests of one room the operations of the registry answer at the same time.
const MOST_CALLS: usize = 256;
/// How often a room looks at the time.
const TICK: Duration = Duration::from_secs(1);
/// How long a room waits for answers when the gateway stops.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a room in which nobody is stays open.
const IDLE: Duration = Duration::from_secs(60);

/// What a room is asked.
pub(super) enum Ask {
    Arrive {
        arrival: Arrival,
        outlet: Outlet,
    },
    Take(Input),
    /// Look at it; what was seen is told when what stands before it was written down.
    Look(Box<dyn FnOnce(&Room) -> Tell + Send>),
}

/// Tells what was seen.
pub(super) type Tell = Box<dyn FnOnce() + Send>;

/// A room and everything around it.
pub(super) struct Task {
    name: Name,
    room: Room,
    workspace: Arc<Inner>,
    inbox: mpsc::Receiver<Ask>,
    outlets: HashMap<ConnectionId, Outlet>,
    /// What is done when what stands before it is.
    outbox: VecDeque<Pending>,
    calls: JoinSet<Answered>,
    /// The requests that are being answered, so that they can be canceled.
    cancellations: HashMap<Box<str>, CancellationToken>,
    notes: (mpsc::Sender<Noted>, mpsc::Receiver<Noted>),
    gateway: Weak<Parts>,
    empty_since: Option<Instant>,
    /// Whether something could not be written down.
    has_failed: bool,
}

/// Something that is done in its turn.
struct Pending {
    work: Work,
    step: Step,
}

enum Work {
    Do(Effect),
    Tell(Tell),
}

/// What has to happen before.
enum Step {
    Nothing,
    Writing(Written),
    Keeping(JoinHandle<std::io::Result<()>>),
}

/// What the operations of the registry say.
struct Answered {
    request: Box<str>,
    payload: Option<Box<RawValue>>,
}

struct Noted {
    request: Box<str>,
    payload: Box<RawValue>,
}

impl Task {
    pub(super) fn new(
        name: Name,
        room: Room,
        workspace: Arc<Inner>,
        inbox: mpsc::Receiver<Ask>,
        gateway: Weak<Parts>,
    ) -> Self {
        Self {
            name,
            room,
            workspace,
            inbox,
            outlets: HashMap::new(),
            outbox: VecDeque::new(),
            calls: JoinSet::new(),
            cancellations: HashMap::new(),
            notes: mpsc::channel(INBOX),
            gateway,
            empty_since: None,
            has_failed: false,
        }
    }

    /// Runs until nobody needs the room any more, or the gateway stops.
    pub(super) async fn run(mut self) {
        let stopping = self.workspace.stopping.clone();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_room = self.outbox.len() < OUTBOX;
            tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                ready = next(&mut self.outbox) => self.go_on(ready),
                Some(answered) = self.calls.join_next() => self.answer(answered.ok()),
                Some(noted) = self.notes.1.recv() => {
                    let Noted { request, payload } = noted;
                    self.apply(Input::Noted { request, payload });
                }
                ask = self.inbox.recv(), if has_room => match ask {
                    Some(ask) => self.take(ask),
                    None => break,
                },
                _ = tick.tick() => {
                    self.apply(Input::Time);
                    if self.is_over() {
                        break;
                    }
                }
            }
            if self.has_failed {
                return self.end_unwritten();
            }
        }
        self.end().await;
    }

    fn take(&mut self, ask: Ask) {
        match ask {
            Ask::Arrive { arrival, outlet } => {
                self.outlets.insert(arrival.connection, outlet);
                self.apply(Input::Arrive(arrival));
            }
            Ask::Take(Input::Leave { connection }) => {
                self.outlets.remove(&connection);
                self.apply(Input::Leave { connection });
            }
            Ask::Take(input @ Input::Say { .. }) if !self.can_write() => {
                let effects = self.room.refuse_unwritten(epoch_ms(), input);
                self.do_all(effects);
            }
            Ask::Take(input) => self.apply(input),
            Ask::Look(look) => {
                let work = Work::Tell(look(&self.room));
                self.outbox.push_back(Pending { work, step: Step::Nothing });
                self.do_what_waits_for_nothing();
            }
        }
    }

    fn can_write(&self) -> bool {
        self.workspace.journal.as_ref().is_none_or(|journal| !journal.is_in_trouble())
    }

    fn apply(&mut self, input: Input) {
        let effects = self.room.apply(epoch_ms(), input);
        self.do_all(effects);
    }

    fn do_all(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match self.prepare(&effect) {
                Some(step) => self.outbox.push_back(Pending { work: Work::Do(effect), step }),
                None => self.fail("too much is waiting to be written"),
            }
        }
        self.do_what_waits_for_nothing();
    }

    fn do_what_waits_for_nothing(&mut self) {
        while matches!(self.outbox.front(), Some(Pending { step: Step::Nothing, .. })) {
            if let Some(pending) = self.outbox.pop_front() {
                self.execute(pending.work);
            }
        }
    }

    /// What was accepted cannot be written down, so that nothing that follows from it may be shown: the
    /// room ends, and is opened again as it was written.
    fn fail(&mut self, error: &str) {
        if !self.has_failed {
            tracing::error!(room = &*self.name, error, "a message could not be written down");
        }
        self.has_failed = true;
    }

    /// Begins what has to happen before; nothing if it cannot.
    fn prepare(&self, effect: &Effect) -> Option<Step> {
        let Some(journal) = &self.workspace.journal else { return Some(self.keep(effect)) };
        match effect {
            Effect::Deliver { message, allowed_by, .. } => {
                let allowed_by = allowed_by.as_ref().map(ToString::to_string);
                let recorded = journal.message(&RoomEntry {
                    room: &self.name,
                    who: &message.from,
                    id: &message.id,
                    message: &self.stored(message),
                    allowed_by: allowed_by.as_deref(),
                });
                recorded.map(Step::Writing)
            }
            Effect::Refused { who, id, kind, error, reason } => {
                journal.refusal(&RoomRefusal {
                    room: &self.name,
                    who,
                    attempted_kind: kind,
                    error,
                    reason,
                    id: id.as_deref(),
                });
                Some(Step::Nothing)
            }
            _ => Some(Step::Nothing),
        }
    }

    /// A message as it is written down: without what the schema of an operation calls secret.
    fn stored(&self, message: &Message) -> String {
        let is_ours = &*message.from == TOOLPOST
            || message.to.is_empty()
            || message.to.iter().any(|to| &**to == TOOLPOST);
        let payload = message.payload.as_ref().filter(|_| is_ours);
        let tool = message.kind.context().filter(|_| message.kind.method() == Some("tools/call"));
        let masked =
            self.gateway.upgrade().zip(tool).zip(payload).and_then(|((parts, tool), it)| {
                let is_result = message.kind.short() == "mcp/response";
                door::masked_in_room(&Gateway(parts), tool, it, is_result)
            });
        match masked {
            None => message.stored(),
            masked => Message { payload: masked, ..message.clone() }.stored(),
        }
    }

    /// Keeps what outlives the process, if something does.
    fn keep(&self, effect: &Effect) -> Step {
        let (Effect::Deliver { keep: Some(kept), .. }, Some(store)) =
            (effect, &self.workspace.store)
        else {
            return Step::Nothing;
        };
        let (store, name, kept) = (Arc::clone(store), self.name.clone(), kept.clone());
        Step::Keeping(tokio::task::spawn_blocking(move || store.save(&name, &kept)))
    }

    /// Goes on with the first thing in the outbox: the next step, or the thing itself.
    fn go_on(&mut self, ready: Result<Done, String>) {
        let Some(Pending { work, .. }) = self.outbox.pop_front() else { return };
        match (ready, work) {
            (Err(error), _) => self.fail(&error),
            (Ok(Done::Written), Work::Do(effect)) => match self.keep(&effect) {
                Step::Nothing => self.execute(Work::Do(effect)),
                step => self.outbox.push_front(Pending { work: Work::Do(effect), step }),
            },
            (Ok(_), work) => self.execute(work),
        }
    }

    fn execute(&mut self, work: Work) {
        let effect = match work {
            Work::Tell(tell) => return tell(),
            Work::Do(effect) => effect,
        };
        match effect {
            Effect::Deliver { message, to, .. } | Effect::Tell { message, to } => {
                self.hand_over(&message, &to);
            }
            Effect::Frame { frame, to } => self.pass(&frame, &to),
            Effect::Refused { .. } => {}
            Effect::Call(call) => self.call(call),
            Effect::Cancel { request } => {
                if let Some(cancellation) = self.cancellations.get(&request) {
                    cancellation.cancel();
                }
            }
            Effect::Close { connection, closing } => self.close(connection, closing),
        }
    }

    /// Each form of a message is written once, whoever gets it.
    fn hand_over(&self, message: &Message, to: &Recipients) {
        let mut forms: [Option<Utf8Bytes>; 3] = [const { None }; 3];
        for recipient in to.iter() {
            let Some(outlet) = self.outlets.get(&recipient.connection) else { continue };
            let form = &mut forms[match recipient.protocol {
                Protocol::Mcpx01 => 0,
                Protocol::Mew03 => 1,
                Protocol::Mew04 => 2,
            }];
            let text = form.get_or_insert_with(|| message.write(recipient.protocol).into());
            outlet.send(text.clone());
        }
    }

    fn pass(&self, frame: &Frame, to: &Recipients) {
        let text = Utf8Bytes::from(&*frame.text);
        for recipient in to.iter() {
            if let Some(outlet) = self.outlets.get(&recipient.connection) {
                outlet.send(text.clone());
            }
        }
    }

    fn close(&mut self, connection: ConnectionId, closing: Closing) {
        let Some(outlet) = self.outlets.remove(&connection) else { return };
        outlet.close(match closing {
            Closing::Replaced => Goodbye::new(4409, "you have joined from somewhere else"),
            Closing::Kicked => Goodbye::new(4403, "you were sent away from this room"),
            Closing::Refused(words) => Goodbye::new(4403, words),
        });
    }

    fn call(&mut self, call: Call) {
        let Some(parts) = self.gateway.upgrade() else { return };
        let cancellation = CancellationToken::new();
        let request = call.request.clone();
        let notes = Notes { request: request.clone(), sender: self.notes.0.clone() };
        let asked = RoomRequest {
            identity: call.identity,
            id: call.request,
            payload: call.payload,
            is_addressed: call.is_addressed,
            has_room: self.calls.len() < MOST_CALLS,
        };
        self.cancellations.insert(request.clone(), cancellation.clone());
        self.calls.spawn(async move {
            let tell = |payload| notes.tell(payload);
            let gateway = Gateway(parts);
            let payload = door::answer_room(&gateway, asked, &tell, cancellation).await;
            Answered { request, payload }
        });
    }

    fn answer(&mut self, answered: Option<Answered>) {
        let Some(Answered { request, payload }) = answered else { return };
        // What was told on the way comes before the answer.
        while let Ok(Noted { request, payload }) = self.notes.1.try_recv() {
            self.apply(Input::Noted { request, payload });
        }
        self.cancellations.remove(&request);
        if let Some(payload) = payload {
            self.apply(Input::Answered { request, payload });
        }
    }

    /// Whether nobody has been here for a while, and nobody is about to come.
    fn is_over(&mut self) -> bool {
        let is_busy = !self.calls.is_empty() || !self.outbox.is_empty() || self.room.is_waiting();
        // Without a journal what is here is nowhere else.
        if is_busy || !self.room.is_empty() || self.workspace.journal.is_none() {
            self.empty_since = None;
            return false;
        }
        let since = *self.empty_since.get_or_insert_with(Instant::now);
        since.elapsed() >= IDLE && self.workspace.forget(&self.name, &self.inbox)
    }

    /// Lets everybody go, to come again to what was written.
    fn end_unwritten(self) {
        self.workspace.abandon(&self.name);
        for outlet in self.outlets.values() {
            outlet.close(Goodbye::new(1013, "the journal cannot be written; come again"));
        }
    }

    /// Hands over what is on its way, and ends the connections.
    async fn end(mut self) {
        self.inbox.close();
        while let Ok(ask) = self.inbox.try_recv() {
            self.take(ask);
        }
        let answered = async {
            while let Some(answered) = self.calls.join_next().await {
                self.answer(answered.ok());
            }
        };
        let _ = tokio::time::timeout(PATIENCE, answered).await;
        while !self.outbox.is_empty() && !self.has_failed {
            let ready = next(&mut self.outbox).await;
            self.go_on(ready);
        }
        for outlet in self.outlets.values() {
            outlet.close(Goodbye::new(1001, "the gateway is stopping"));
        }
    }
}

/// What is done about the first thing of an outbox.
enum Done {
    Written,
    Everything,
}

/// Waits for the first thing of an outbox, and takes nothing out.
async fn next(outbox: &mut VecDeque<Pending>) -> Result<Done, String> {
    let Some(first) = outbox.front_mut() else { return std::future::pending().await };
    match &mut first.step {
        Step::Nothing => Ok(Done::Everything),
        Step::Writing(written) => match written.await {
            Ok(()) => Ok(Done::Written),
            Err(error) => Err(error.to_string()),
        },
        Step::Keeping(kept) => match kept.await {
            Ok(Ok(())) => Ok(Done::Everything),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// What a request tells while it is answered. What finds no room is left out: the answer comes anyway.
struct Notes {
    request: Box<str>,
    sender: mpsc::Sender<Noted>,
}

impl Notes {
    fn tell(&self, payload: Box<RawValue>) {
        let _ = self.sender.try_send(Noted { request: self.request.clone(), payload });
    }
}
