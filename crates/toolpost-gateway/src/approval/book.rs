//! The proposals, and what may become of them: decided purely, with time as an argument.
//!
//! ```text
//! submit ─► waiting ─► approved | rejected   by somebody else, before it expires, once
//!                  └─► expired | withdrawn   by nobody
//! ```

use std::collections::VecDeque;

use tokio::time::Instant;

use super::proposal::Proposal;

/// How many proposals are remembered after their end, so that whoever comes too late learns why.
const REMEMBERED: usize = 256;

/// Proposals that wait, each with whoever has to be told.
#[derive(Debug)]
pub(super) struct Book<W> {
    /// The oldest first.
    waiting: VecDeque<(String, Proposal, W)>,
    /// How the last ones ended.
    ended: VecDeque<(String, String)>,
}

/// How many may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) most: usize,
    pub(super) most_per_caller: usize,
}

/// Why a call may not even wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("{0} calls wait for approval already, which is the limit")]
    Full(usize),
    #[error("`{0}` has {1} calls that wait for approval already, which is the limit")]
    FullFor(String, usize),
    /// Another id has to be drawn.
    #[error("the id is taken")]
    Taken,
}

/// Why nothing was decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Undecided {
    #[error("no call waits for approval under this id; `toolpost approvals` lists those that do")]
    Unknown,
    #[error("this call does not wait any more: {0}")]
    Ended(String),
    #[error("nobody approves his own call: it was made by `{0}`, and somebody else must decide")]
    Own(String),
    #[error("the input of this call is another one; `toolpost approvals` shows it")]
    OtherInput,
}

impl<W> Default for Book<W> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), ended: VecDeque::new() }
    }
}

impl<W> Book<W> {
    /// Lets a call wait.
    pub(super) fn submit(
        &mut self,
        now: Instant,
        room: Room,
        id: String,
        proposal: Proposal,
        waiter: W,
    ) -> Result<(), Refused> {
        if self.knows(&id) {
            return Err(Refused::Taken);
        }
        if self.waiting(now).count() >= room.most {
            return Err(Refused::Full(room.most));
        }
        let own = self.waiting(now).filter(|(_, other)| other.caller == proposal.caller).count();
        if own >= room.most_per_caller {
            let caller = proposal.caller.unwrap_or_else(|| "the gateway itself".to_owned());
            return Err(Refused::FullFor(caller, room.most_per_caller));
        }
        self.waiting.push_back((id, proposal, waiter));
        Ok(())
    }

    /// Ends a proposal with somebody's word, and gives what was agreed to and who waits for it.
    pub(super) fn decide(
        &mut self,
        now: Instant,
        id: &str,
        approver: &str,
        input_digest: Option<&str>,
        ending: String,
    ) -> Result<(Proposal, W), Undecided> {
        let Some(at) = self.waiting.iter().position(|(waiting, ..)| waiting == id) else {
            let ended = self.ended.iter().find(|(ended, _)| ended == id);
            return Err(ended.map_or(Undecided::Unknown, |(_, how)| Undecided::Ended(how.clone())));
        };
        let proposal = &self.waiting[at].1;
        if proposal.until <= now {
            return Err(Undecided::Ended(EXPIRED.to_owned()));
        }
        if proposal.caller.as_deref() == Some(approver) {
            return Err(Undecided::Own(approver.to_owned()));
        }
        if input_digest.is_some_and(|seen| !seen.eq_ignore_ascii_case(&proposal.input_digest)) {
            return Err(Undecided::OtherInput);
        }
        let (id, proposal, waiter) = self.waiting.remove(at).expect("it was found there");
        self.remember(id, ending);
        Ok((proposal, waiter))
    }

    /// Ends a proposal whose time is over, and says whether it was still there.
    pub(super) fn expire(&mut self, id: &str) -> bool {
        self.end(id, EXPIRED)
    }

    /// Ends a proposal whose caller has left, if it is still there.
    pub(super) fn withdraw(&mut self, id: &str) -> bool {
        self.end(id, "it was withdrawn by its caller")
    }

    /// Ends a proposal because nobody will be there to decide, and says whether it was still there.
    pub(super) fn stop(&mut self, id: &str) -> bool {
        self.end(id, "the gateway is stopping")
    }

    /// Ends the proposals of some callers, and gives those who wait for them.
    pub(super) fn dismiss(&mut self, is_over: &dyn Fn(&str) -> bool, how: &str) -> Vec<W> {
        let is_meant = |(_, proposal, _): &(String, Proposal, W)| {
            proposal.caller.as_deref().is_some_and(is_over)
        };
        let (over, kept): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(is_meant);
        self.waiting = kept.into();
        over.into_iter()
            .map(|(id, _, waiter)| {
                self.remember(id, how.to_owned());
                waiter
            })
            .collect()
    }

    /// Those about which somebody can decide, the oldest first.
    pub(super) fn waiting(&self, now: Instant) -> impl Iterator<Item = (&str, &Proposal)> {
        let waiting = self.waiting.iter().filter(move |(_, proposal, _)| now < proposal.until);
        waiting.map(|(id, proposal, _)| (id.as_str(), proposal))
    }

    /// Whether an id stands for a proposal, or did a while ago.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.waiting.iter().any(|(known, ..)| known == id)
            || self.ended.iter().any(|(known, _)| known == id)
    }

    fn end(&mut self, id: &str, how: &str) -> bool {
        let Some(at) = self.waiting.iter().position(|(waiting, ..)| waiting == id) else {
            return false;
        };
        let (id, ..) = self.waiting.remove(at).expect("it was found there");
        self.remember(id, how.to_owned());
        true
    }

    fn remember(&mut self, id: String, how: String) {
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((id, how));
    }
}

const EXPIRED: &str = "nobody decided in time";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    const ROOM: Room = Room { most: 3, most_per_caller: 2 };

    fn proposal(caller: Option<&str>, since: Instant) -> Proposal {
        Proposal {
            request_id: "r".to_owned(),
            parent_request_id: None,
            door: "http",
            operation: "t.op".to_owned(),
            caller: caller.map(str::to_owned),
            input: json!({}),
            input_digest: "ab".to_owned(),
            since,
            until: since + Duration::from_secs(10),
        }
    }

    /// Each row: seconds after the proposal of `ada`, who decides, what he has seen, and what comes
    /// of it.
    #[test]
    fn somebody_else_decides_in_time_about_what_he_saw() {
        let begin = Instant::now();
        let ended = |how: &str| Err(Undecided::Ended(how.to_owned()));
        for (after, caller, approver, seen, expected) in [
            (0, Some("ada"), "bob", None, Ok("waiter")),
            (9, Some("ada"), "bob", Some("ab"), Ok("waiter")),
            (9, Some("ada"), "bob", Some("AB"), Ok("waiter")),
            (9, Some("ada"), "bob", Some("ac"), Err(Undecided::OtherInput)),
            (9, Some("ada"), "ada", Some("ab"), Err(Undecided::Own("ada".to_owned()))),
            (9, Some("operator"), "operator", None, Err(Undecided::Own("operator".to_owned()))),
            (9, None, "bob", None, Ok("waiter")),
            (10, Some("ada"), "bob", None, ended(EXPIRED)),
            (11, Some("ada"), "ada", None, ended(EXPIRED)),
        ] {
            let mut book = Book::default();
            let row = format!("{after} {caller:?} {approver} {seen:?}");
            book.submit(begin, ROOM, "p".to_owned(), proposal(caller, begin), "waiter").unwrap();
            let now = begin + Duration::from_secs(after);
            let decided = book.decide(now, "p", approver, seen, "done".to_owned());
            let is_decided = decided.is_ok();
            assert_eq!(decided.map(|(_, waiter)| waiter), expected, "{row}");
            // Once: whoever comes second learns how it ended, and who may not decide changes nothing.
            let again = book.decide(now, "p", "eve", None, "again".to_owned());
            match (is_decided, after < 10) {
                (true, _) => assert_eq!(again.unwrap_err(), ended("done").unwrap_err(), "{row}"),
                (false, in_time) => assert_eq!(again.is_ok(), in_time, "{row}"),
            }
        }
    }

    #[test]
    fn what_has_ended_is_told_and_what_never_was_is_not() {
        let begin = Instant::now();
        let mut book = Book::default();
        for id in ["left", "late"] {
            book.submit(begin, ROOM, id.to_owned(), proposal(Some("ada"), begin), ()).unwrap();
        }
        assert!(book.withdraw("left") && !book.withdraw("left"));
        assert!(book.expire("late") && !book.expire("late") && !book.withdraw("late"));
        let mut said = |id| book.decide(begin, id, "bob", None, String::new()).unwrap_err();
        assert!(said("left").to_string().ends_with("withdrawn by its caller"));
        assert!(said("late").to_string().ends_with("nobody decided in time"));
        assert_eq!(said("other"), Undecided::Unknown);
        // An id is never used for something else while somebody may still mean the first.
        let again = book.submit(begin, ROOM, "left".to_owned(), proposal(None, begin), ());
        assert_eq!(again, Err(Refused::Taken));
    }

    #[test]
    fn what_somebody_proposed_ends_with_him() {
        let begin = Instant::now();
        let mut book = Book::default();
        for (id, caller) in [("a", "ada"), ("b", "bob"), ("c", "ada")] {
            book.submit(begin, ROOM, id.to_owned(), proposal(Some(caller), begin), id).unwrap();
        }
        assert_eq!(book.dismiss(&|who| who == "ada", "gone"), ["a", "c"]);
        assert_eq!(book.waiting(begin).map(|(id, _)| id).collect::<Vec<_>>(), ["b"]);
        let late = book.decide(begin, "c", "eve", None, String::new()).unwrap_err();
        assert!(late.to_string().ends_with("gone"), "{late}");
        assert!(book.dismiss(&|who| who == "eve", "gone").is_empty());
    }

    #[test]
    fn so_many_wait_and_no_more() {
        let begin = Instant::now();
        let mut book = Book::default();
        let mut submit = |id: &str, caller, now| {
            book.submit(now, ROOM, id.to_owned(), proposal(caller, now), ())
        };
        assert_eq!(submit("a", Some("ada"), begin), Ok(()));
        assert_eq!(submit("a", Some("bob"), begin), Err(Refused::Taken));
        assert_eq!(submit("b", Some("ada"), begin), Ok(()));
        assert_eq!(submit("c", Some("ada"), begin), Err(Refused::FullFor("ada".to_owned(), 2)));
        assert_eq!(submit("c", None, begin), Ok(()));
        assert_eq!(submit("d", Some("bob"), begin), Err(Refused::Full(3)));
        // What has expired takes no place, whether or not its caller has noticed.
        let later = begin + Duration::from_secs(10);
        assert_eq!(submit("d", Some("ada"), later), Ok(()));
        assert_eq!(book.waiting(later).map(|(id, _)| id).collect::<Vec<_>>(), ["d"]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let begin = Instant::now();
        let mut book = Book::default();
        for number in 0..2 * REMEMBERED {
            book.submit(begin, ROOM, number.to_string(), proposal(None, begin), ()).unwrap();
            book.withdraw(&number.to_string());
        }
        assert_eq!((book.waiting.len(), book.ended.len()), (0, REMEMBERED));
    }
}
