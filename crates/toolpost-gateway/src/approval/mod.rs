//! Calls that wait for a person's word.
//!
//! A call of an operation that asks for approval becomes a proposal: who wants to call what with
//! which input, until when. Somebody else who holds `toolpost:approve` agrees or refuses, once; the
//! caller hears meanwhile that it waits, and a caller who leaves takes the proposal along.
//!
//! | file | holds |
//! |---|---|
//! | `book` | the proposals and what may become of them, without I/O; time is an argument |
//! | `proposal` | what is proposed, and what is shown of it |
//! | `input` | what an input is known by |
//! | `gate` | a call that waits |
//! | `operation` | `gateway.approvals`, `gateway.approve`, `gateway.reject` |
//!
//! The reasons are in `docs/decisions/approval.md`.

mod book;
mod gate;
mod input;
mod operation;
mod proposal;
mod rooms;
mod settings;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};

use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolpost::Identity;

use crate::app::{Gateway, Parts};
use crate::config::Config;
use crate::run::{Part, Reloaded};

pub use gate::{Unattended, is_listing};
pub use operation::operations;
pub use settings::ApprovalSettings;

use book::{Book, Undecided};
use input::Digests;
use proposal::{Proposal, Verdict};

/// The calls that wait, and those who decide about them. Cloning it shares everything.
///
/// It is the [`ApprovalGate`](toolpost::ApprovalGate) of a pipeline; [`operations`] are the other side
/// of it.
#[derive(Debug, Clone, Default)]
pub struct Approvals(Arc<Desk>);

#[derive(Debug, Default)]
struct Desk {
    book: Mutex<Book<oneshot::Sender<Verdict>>>,
    /// What holds for the calls that come; those that wait keep what they began with.
    settings: RwLock<Arc<ApprovalSettings>>,
    /// What holds since the last change of it: whoever calls is held against it.
    config: RwLock<Option<Arc<Config>>>,
    /// Set when the gateway stops: whoever waits for a person would only hold it up.
    stopping: OnceLock<CancellationToken>,
    digests: Digests,
    /// The gateway whose rooms have proposals of their own.
    rooms: OnceLock<Weak<Parts>>,
}

/// Calls that wait already keep what they began with, but for those whose caller is another one now.
impl Part for Approvals {
    fn change(&self, before: &Config, now: &Config, report: &mut Reloaded) {
        // First this, so that nobody asks as who he was while those who wait are looked through.
        *self.0.config.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::new(now.clone()));
        let over = before.ended_by(now);
        let ended = self.dismiss(&|id| over.has(id));
        if ended > 0 {
            report.notes.push(format!("calls that waited for approval and were ended: {ended}"));
        }
        if before.approval != now.approval {
            self.configure(now.approval.clone());
            report.notes.push("[approval] holds for calls from now on".to_owned());
        }
    }
}

impl Approvals {
    /// Nobody waits yet.
    pub fn new(settings: ApprovalSettings) -> Self {
        let approvals = Self::default();
        approvals.configure(settings);
        approvals
    }

    /// Lets other settings hold from now on.
    pub fn configure(&self, settings: ApprovalSettings) {
        let mut held = self.0.settings.write().unwrap_or_else(PoisonError::into_inner);
        *held = Arc::new(settings);
    }

    /// Ends the waiting of all calls when this is canceled; the first that is given counts.
    pub(crate) fn end_with(&self, stopping: CancellationToken) {
        let _ = self.0.stopping.set(stopping);
    }

    /// Shows the proposals of the rooms of a gateway as well, and decides about them.
    pub(crate) fn join_rooms(&self, gateway: &Gateway) {
        let _ = self.0.rooms.set(Arc::downgrade(&gateway.0));
    }

    /// Resolves when the gateway stops, if it is one that says so.
    async fn stopped(&self) {
        match self.0.stopping.get() {
            Some(stopping) => stopping.cancelled().await,
            None => std::future::pending().await,
        }
    }

    fn settings(&self) -> Arc<ApprovalSettings> {
        Arc::clone(&self.0.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn book(&self) -> MutexGuard<'_, Book<oneshot::Sender<Verdict>>> {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls wait.
    pub fn waiting(&self) -> usize {
        self.book().waiting(Instant::now()).count()
    }

    /// Whether a caller is still who he was when the door let him in.
    fn knows(&self, caller: Option<&Identity>) -> bool {
        let config = self.0.config.read().unwrap_or_else(PoisonError::into_inner);
        match (&*config, caller) {
            (Some(config), Some(caller)) => config.knows(caller),
            _ => true,
        }
    }

    /// Ends the waiting of all calls of some identities, and says how many these were.
    fn dismiss(&self, is_over: &dyn Fn(&str) -> bool) -> usize {
        let over = self.book().dismiss(is_over, &Verdict::Dismissed.ending(""));
        let count = over.len();
        for waiter in over {
            // Whoever has left needs no word.
            let _ = waiter.send(Verdict::Dismissed);
        }
        count
    }

    /// Ends the waiting of a call with somebody's word. Whoever left in this very moment has taken
    /// the proposal along.
    fn decide(
        &self,
        id: &str,
        approver: &str,
        input_digest: Option<&str>,
        verdict: Verdict,
    ) -> Result<Proposal, Undecided> {
        let outcome = verdict.ending(approver);
        let (proposal, waiter) =
            self.book().decide(Instant::now(), id, approver, input_digest, outcome)?;
        match waiter.send(verdict) {
            Ok(()) => Ok(proposal),
            Err(_) => Err(Undecided::Ended("it was withdrawn by its caller".to_owned())),
        }
    }
}
