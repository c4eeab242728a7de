//! Who can be asked something while a call runs.

use std::sync::{Arc, OnceLock};

use futures::future::BoxFuture;
use serde_json::value::RawValue;

use crate::error::{CallError, ErrorCode};

/// Somebody behind a call who can be asked, in one of two ways. Doors that have nobody give none.
#[derive(Clone)]
#[non_exhaustive]
pub enum Respondent {
    /// He is there while the call runs.
    Present(Arc<dyn Respond>),
    /// He is told at the end of the call what is wanted, and calls again with the answers.
    Returning(Arc<Returning>),
}

/// Somebody who answers while a call runs.
pub trait Respond: Send + Sync {
    /// What he can be asked: a JSON object with a member for each topic, as he said it.
    fn abilities(&self) -> &RawValue;

    /// Asks, and waits for the answer for as long as whoever asks does.
    ///
    /// # Cancellation
    ///
    /// Dropping the future takes the question back; an answer that comes after that is lost.
    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Box<RawValue>, Unanswered>>;
}

/// Something that is asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Question {
    /// What kind of answer is wanted, in words that both ends know.
    pub kind: Box<str>,
    /// The question itself.
    pub body: Option<Box<RawValue>>,
}

impl Question {
    /// A question of some kind.
    pub fn new(kind: impl Into<Box<str>>, body: Option<Box<RawValue>>) -> Self {
        Self { kind: kind.into(), body }
    }
}

/// Why a question has no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswered {
    /// What he said instead, as JSON.
    #[error("the client refused the question")]
    Refused(Box<RawValue>),
    /// He could not be asked, or went away.
    #[error("{0}")]
    Unreachable(String),
}

/// Somebody who is asked by the end of a call. Nothing of him is kept: whatever is needed to go on
/// comes back with the next call.
#[derive(Debug, Default)]
pub struct Returning {
    /// What he can be asked, as in [`Respond::abilities`].
    pub abilities: Option<Box<RawValue>>,
    /// The answers to what was wanted before.
    pub answers: Option<Box<RawValue>>,
    /// What whoever asked before gave him to bring back.
    pub state: Option<Box<RawValue>>,
    /// What is wanted now.
    wanted: OnceLock<Box<RawValue>>,
}

/// The code of a call that ended with a question. Nothing failed, but nothing is done either.
const INPUT_REQUIRED: &str = "INPUT_REQUIRED";

impl Returning {
    /// Somebody who can be asked this, and brings that along.
    pub fn new(
        abilities: Option<Box<RawValue>>,
        answers: Option<Box<RawValue>>,
        state: Option<Box<RawValue>>,
    ) -> Self {
        Self { abilities, answers, state, wanted: OnceLock::new() }
    }

    /// Leaves word of what is wanted, and gives the error that the call is to end with.
    pub fn leave(&self, wanted: Box<RawValue>) -> CallError {
        // Of several in one call the first is told; the others are asked again by the next call.
        let _ = self.wanted.set(wanted);
        let words = "more input is wanted; call again with it";
        CallError::new(ErrorCode::from(INPUT_REQUIRED), words)
    }

    /// What is wanted, if that is what the call ended with.
    pub fn wanted(&self, ended: &CallError) -> Option<&RawValue> {
        let is_a_question = ended.code().as_str() == INPUT_REQUIRED;
        self.wanted.get().filter(|_| is_a_question).map(|wanted| &**wanted)
    }
}

impl Respondent {
    /// What can be asked: a JSON object with a member for each topic.
    pub fn abilities(&self) -> Option<&RawValue> {
        match self {
            Self::Present(present) => Some(present.abilities()),
            Self::Returning(returning) => returning.abilities.as_deref(),
        }
    }
}

impl std::fmt::Debug for Respondent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Present(_) => "Respondent::Present",
            Self::Returning(_) => "Respondent::Returning",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_told_only_where_the_call_ended_with_it() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let returning = Returning::default();
        let other = CallError::timeout("late");
        let asked = CallError::new(ErrorCode::from(INPUT_REQUIRED), "of somebody else");
        assert!(returning.wanted(&asked).is_none(), "nothing was left");
        let ended = returning.leave(raw("1"));
        assert_eq!(ended.code().as_str(), "INPUT_REQUIRED");
        returning.leave(raw("2"));
        assert_eq!(returning.wanted(&ended).unwrap().get(), "1");
        assert!(returning.wanted(&other).is_none());
    }
}
