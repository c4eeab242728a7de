//! The pending calls and their state changes, without I/O. Time is an argument.
//!
//! ```text
//! submit ─► pending ─► approved | rejected   by another identity, before it expires, once
//!                  └─► expired | withdrawn | canceled   without a decision
//! ```

use std::collections::VecDeque;

use tokio::time::Instant;
use toolpost::Identity;

use super::pending_call::PendingCall;

/// Maximum number of closed calls to remember, so that late decisions get a reason.
const MAX_CLOSED: usize = 256;

/// Pending calls, each with its waiter.
#[derive(Debug)]
pub(super) struct ApprovalQueue<W> {
    /// Pending calls by id, oldest first.
    pending: VecDeque<(String, PendingCall, W)>,
    /// Ids of recently closed calls, and how each of them ended.
    closed: VecDeque<(String, String)>,
}

/// Maximum number of pending calls, in total and per caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Capacity {
    pub(super) max: usize,
    pub(super) max_per_caller: usize,
}

/// Error of a call that cannot be queued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SubmitError {
    #[error("approval limit reached: {0} pending")]
    LimitReached(usize),
    #[error("approval limit reached: {1} pending for `{0}`")]
    CallerLimitReached(String, usize),
    /// The id is in use. The caller must generate another one.
    #[error("the id is already in use")]
    IdInUse,
}

/// Error of a decision that has no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DecisionError {
    #[error("no call with this id is pending approval; list them with `toolpost approvals`")]
    Unknown,
    #[error("this call is no longer pending: {0}")]
    Closed(String),
    #[error("callers cannot approve their own calls: this call was made by `{0}`")]
    OwnCall(String),
    #[error(
        "`{0}` is in the chain of invitations of the guest that made this call; another identity must decide"
    )]
    InvitedCaller(String),
    #[error("the input digest does not match this call; show its input with `toolpost approvals`")]
    InputMismatch,
}

impl<W> Default for ApprovalQueue<W> {
    fn default() -> Self {
        Self { pending: VecDeque::new(), closed: VecDeque::new() }
    }
}

impl<W> ApprovalQueue<W> {
    /// Adds a call to the queue.
    pub(super) fn submit(
        &mut self,
        now: Instant,
        room: Capacity,
        id: String,
        pending_call: PendingCall,
        waiter: W,
    ) -> Result<(), SubmitError> {
        if self.contains_id(&id) {
            return Err(SubmitError::IdInUse);
        }
        if self.pending(now).count() >= room.max {
            return Err(SubmitError::LimitReached(room.max));
        }
        let caller = pending_call.caller_key();
        let own = self.pending(now).filter(|(_, other)| other.caller_key() == caller).count();
        if own >= room.max_per_caller {
            let caller = caller.unwrap_or_else(|| "the gateway itself".to_owned());
            return Err(SubmitError::CallerLimitReached(caller, room.max_per_caller));
        }
        self.pending.push_back((id, pending_call, waiter));
        Ok(())
    }

    /// Resolves a pending call with a decision. Returns the call and its waiter.
    pub(super) fn decide(
        &mut self,
        now: Instant,
        id: &str,
        approver: &Identity,
        input_digest: Option<&str>,
        closed_reason: String,
    ) -> Result<(PendingCall, W), DecisionError> {
        let Some(at) = self.pending.iter().position(|(pending_id, ..)| pending_id == id) else {
            let ended = self.closed.iter().find(|(ended, _)| ended == id);
            return Err(ended.map_or(DecisionError::Unknown, |(_, reason)| {
                DecisionError::Closed(reason.clone())
            }));
        };
        let pending_call = &self.pending[at].1;
        if pending_call.deadline <= now {
            return Err(DecisionError::Closed(EXPIRED_REASON.to_owned()));
        }
        if let Some(caller) = &pending_call.caller {
            let approver = approver.key();
            if caller.key() == approver {
                return Err(DecisionError::OwnCall(approver.to_string()));
            }
            if caller.inviters().contains(&approver) {
                return Err(DecisionError::InvitedCaller(approver.to_string()));
            }
        }
        if input_digest
            .is_some_and(|digest| !digest.eq_ignore_ascii_case(&pending_call.input_digest))
        {
            return Err(DecisionError::InputMismatch);
        }
        let (id, pending_call, waiter) =
            self.pending.remove(at).expect("the index was found above");
        self.record_closed(id, closed_reason);
        Ok((pending_call, waiter))
    }

    /// Closes an expired call. Returns whether it was still pending.
    pub(super) fn expire(&mut self, id: &str) -> bool {
        self.close(id, EXPIRED_REASON)
    }

    /// Closes a call whose caller disconnected. Returns whether it was still pending.
    pub(super) fn withdraw(&mut self, id: &str) -> bool {
        self.close(id, "it was withdrawn by its caller")
    }

    /// Closes a call because the gateway is stopping. Returns whether it was still pending.
    pub(super) fn cancel_for_shutdown(&mut self, id: &str) -> bool {
        self.close(id, "the gateway is stopping")
    }

    /// Closes the calls by revoked identities and returns their waiters.
    pub(super) fn cancel_for_identities(
        &mut self,
        is_revoked: &dyn Fn(&Identity) -> bool,
        reason: &str,
    ) -> Vec<W> {
        let has_revoked_caller = |(_, pending_call, _): &(String, PendingCall, W)| {
            pending_call.caller.as_ref().is_some_and(is_revoked)
        };
        let (canceled, retained): (Vec<_>, Vec<_>) =
            self.pending.drain(..).partition(has_revoked_caller);
        self.pending = retained.into();
        canceled
            .into_iter()
            .map(|(id, _, waiter)| {
                self.record_closed(id, reason.to_owned());
                waiter
            })
            .collect()
    }

    /// Returns the pending calls that have not expired, oldest first.
    pub(super) fn pending(&self, now: Instant) -> impl Iterator<Item = (&str, &PendingCall)> {
        let undecided =
            self.pending.iter().filter(move |(_, pending_call, _)| now < pending_call.deadline);
        undecided.map(|(id, pending_call, _)| (id.as_str(), pending_call))
    }

    /// Whether an id belongs to a pending or recently closed call.
    fn contains_id(&self, id: &str) -> bool {
        self.pending.iter().any(|(entry_id, ..)| entry_id == id)
            || self.closed.iter().any(|(entry_id, _)| entry_id == id)
    }

    fn close(&mut self, id: &str, reason: &str) -> bool {
        let Some(at) = self.pending.iter().position(|(pending_id, ..)| pending_id == id) else {
            return false;
        };
        let (id, ..) = self.pending.remove(at).expect("the index was found above");
        self.record_closed(id, reason.to_owned());
        true
    }

    fn record_closed(&mut self, id: String, reason: String) {
        if self.closed.len() == MAX_CLOSED {
            self.closed.pop_front();
        }
        self.closed.push_back((id, reason));
    }
}

const EXPIRED_REASON: &str = "no decision was made in time";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use toolpost::{IdentityKey, IdentityKind};

    use super::*;

    const CAPACITY: Capacity = Capacity { max: 3, max_per_caller: 2 };

    fn pending_call(caller: Option<&str>, since: Instant) -> PendingCall {
        PendingCall {
            request_id: "r".to_owned(),
            parent_request_id: None,
            endpoint: toolpost::Endpoint::Http,
            operation: "t.op".to_owned(),
            caller: caller.map(Identity::new),
            input: json!({}),
            input_digest: "ab".to_owned(),
            submitted_at: since,
            deadline: since + Duration::from_secs(10),
        }
    }

    /// Each row: seconds since submission, the caller, the approver, the reviewed digest, and the
    /// expected result.
    #[test]
    fn decide_requires_other_caller_deadline_and_input_digest() {
        let begin = Instant::now();
        let ended = |reason: &str| Err(DecisionError::Closed(reason.to_owned()));
        for (after, caller, approver, seen, expected) in [
            (0, Some("ada"), "bob", None, Ok("waiter")),
            (9, Some("ada"), "bob", Some("ab"), Ok("waiter")),
            (9, Some("ada"), "bob", Some("AB"), Ok("waiter")),
            (9, Some("ada"), "bob", Some("ac"), Err(DecisionError::InputMismatch)),
            (9, Some("ada"), "ada", Some("ab"), Err(DecisionError::OwnCall("ada".to_owned()))),
            (9, Some("carl"), "carl", None, Err(DecisionError::OwnCall("carl".to_owned()))),
            (9, None, "bob", None, Ok("waiter")),
            (10, Some("ada"), "bob", None, ended(EXPIRED_REASON)),
            (11, Some("ada"), "ada", None, ended(EXPIRED_REASON)),
        ] {
            let mut queue = ApprovalQueue::default();
            let row = format!("{after} {caller:?} {approver} {seen:?}");
            queue
                .submit(begin, CAPACITY, "p".to_owned(), pending_call(caller, begin), "waiter")
                .unwrap();
            let now = begin + Duration::from_secs(after);
            let decided = queue.decide(now, "p", &Identity::new(approver), seen, "done".to_owned());
            let is_decided = decided.is_ok();
            assert_eq!(decided.map(|(_, waiter)| waiter), expected, "{row}");
            // A second decision reports the first one; a failed decision changes nothing.
            let again = queue.decide(now, "p", &Identity::new("eve"), None, "again".to_owned());
            match (is_decided, after < 10) {
                (true, _) => assert_eq!(again.unwrap_err(), ended("done").unwrap_err(), "{row}"),
                (false, in_time) => assert_eq!(again.is_ok(), in_time, "{row}"),
            }
        }
    }

    #[test]
    fn identities_in_chain_of_invitations_cannot_decide() {
        let begin = Instant::now();
        let keys =
            |ids: [&'static str; 2]| ids.map(|id| IdentityKey::new(&IdentityKind::Token, id));
        let kind =
            IdentityKind::Guest { room: "lobby".into(), inviters: keys(["eve", "ada"]).into() };
        let mut call = pending_call(None, begin);
        call.caller = Some(Identity::new("bob").with_kind(kind.clone()));
        let mut queue = ApprovalQueue::default();
        queue.submit(begin, CAPACITY, "p".to_owned(), call, "waiter").unwrap();
        let mut decide = |approver: &Identity| {
            let decided = queue.decide(begin, "p", approver, None, String::new());
            decided.map(|(_, waiter)| waiter)
        };
        for inviter in ["eve", "ada"] {
            let expected = DecisionError::InvitedCaller(inviter.to_owned());
            assert_eq!(decide(&Identity::new(inviter)), Err(expected));
        }
        let own = Identity::new("bob").with_kind(kind);
        assert_eq!(decide(&own), Err(DecisionError::OwnCall("guest:lobby/bob".to_owned())));
        // The identity with the same id is another one.
        assert_eq!(decide(&Identity::new("bob")), Ok("waiter"));
    }

    #[test]
    fn decide_reports_closed_and_unknown_calls() {
        let begin = Instant::now();
        let mut queue = ApprovalQueue::default();
        for id in ["left", "late"] {
            queue
                .submit(begin, CAPACITY, id.to_owned(), pending_call(Some("ada"), begin), ())
                .unwrap();
        }
        assert!(queue.withdraw("left") && !queue.withdraw("left"));
        assert!(queue.expire("late") && !queue.expire("late") && !queue.withdraw("late"));
        let mut decide_error =
            |id| queue.decide(begin, id, &Identity::new("bob"), None, String::new()).unwrap_err();
        assert!(decide_error("left").to_string().ends_with("withdrawn by its caller"));
        assert!(decide_error("late").to_string().ends_with("no decision was made in time"));
        assert_eq!(decide_error("other"), DecisionError::Unknown);
        // An id is not reused while its closed call is remembered.
        let again = queue.submit(begin, CAPACITY, "left".to_owned(), pending_call(None, begin), ());
        assert_eq!(again, Err(SubmitError::IdInUse));
    }

    #[test]
    fn cancel_for_identities_removes_only_their_calls() {
        let begin = Instant::now();
        let mut queue = ApprovalQueue::default();
        for (id, caller) in [("a", "ada"), ("b", "bob"), ("c", "ada")] {
            queue
                .submit(begin, CAPACITY, id.to_owned(), pending_call(Some(caller), begin), id)
                .unwrap();
        }
        assert_eq!(
            queue.cancel_for_identities(&|identity| identity.id == "ada", "gone"),
            ["a", "c"]
        );
        assert_eq!(queue.pending(begin).map(|(id, _)| id).collect::<Vec<_>>(), ["b"]);
        let error =
            queue.decide(begin, "c", &Identity::new("eve"), None, String::new()).unwrap_err();
        assert!(error.to_string().ends_with("gone"), "{error}");
        assert!(queue.cancel_for_identities(&|identity| identity.id == "eve", "gone").is_empty());
    }

    #[test]
    fn submit_enforces_total_and_per_caller_limits() {
        let begin = Instant::now();
        let mut queue = ApprovalQueue::default();
        let mut submit = |id: &str, caller, now| {
            queue.submit(now, CAPACITY, id.to_owned(), pending_call(caller, now), ())
        };
        assert_eq!(submit("a", Some("ada"), begin), Ok(()));
        assert_eq!(submit("a", Some("bob"), begin), Err(SubmitError::IdInUse));
        assert_eq!(submit("b", Some("ada"), begin), Ok(()));
        assert_eq!(
            submit("c", Some("ada"), begin),
            Err(SubmitError::CallerLimitReached("ada".to_owned(), 2))
        );
        assert_eq!(submit("c", None, begin), Ok(()));
        assert_eq!(submit("d", Some("bob"), begin), Err(SubmitError::LimitReached(3)));
        // Expired calls do not count against the limits, even before their callers notice.
        let later = begin + Duration::from_secs(10);
        assert_eq!(submit("d", Some("ada"), later), Ok(()));
        assert_eq!(queue.pending(later).map(|(id, _)| id).collect::<Vec<_>>(), ["d"]);
    }

    #[test]
    fn closed_history_is_bounded() {
        let begin = Instant::now();
        let mut queue = ApprovalQueue::default();
        for number in 0..2 * MAX_CLOSED {
            queue
                .submit(begin, CAPACITY, number.to_string(), pending_call(None, begin), ())
                .unwrap();
            queue.withdraw(&number.to_string());
        }
        assert_eq!((queue.pending.len(), queue.closed.len()), (0, MAX_CLOSED));
    }
}
