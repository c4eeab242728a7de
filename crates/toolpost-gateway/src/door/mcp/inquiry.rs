//! What a client is asked while its requests run, and what it answers.
//!
//! A client of before 2026-07-28 is asked by a request on the stream of its own. A later one is
//! answered with what is wanted, and asks again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use toolpost::view::Era;
use toolpost::{CallError, Question, Respond, Respondent, Returning, Unanswered};

use super::ask::Ask;
use super::message::{self, Fault, Id};
use super::outlet::Outlet;

/// How many questions to one client are open at once; more are refused.
const MOST: usize = 64;

/// What a client answered: a result, or an error.
type Said = Result<Box<RawValue>, Box<RawValue>>;

/// The open questions to a client of before 2026-07-28, which only the client itself can answer.
#[derive(Debug)]
pub(super) struct Questions {
    /// What the client said that it can be asked.
    abilities: Box<RawValue>,
    last: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    waiting: HashMap<Id, oneshot::Sender<Said>>,
    /// Set when no answer can come any more.
    is_closed: bool,
}

impl Questions {
    /// Those to a client that said hello like this; `None` if it cannot be asked anything.
    pub(super) fn of(hello: Option<&RawValue>) -> Option<Arc<Self>> {
        #[derive(Deserialize)]
        struct Hello {
            capabilities: Box<RawValue>,
        }
        #[derive(Deserialize)]
        struct Capabilities {
            elicitation: Option<IgnoredAny>,
            sampling: Option<IgnoredAny>,
            roots: Option<IgnoredAny>,
        }
        let hello: Hello = serde_json::from_str(hello?.get()).ok()?;
        let can: Capabilities = serde_json::from_str(hello.capabilities.get()).ok()?;
        can.elicitation.or(can.sampling).or(can.roots)?;
        let (last, open) = (AtomicU64::new(0), Mutex::default());
        Some(Arc::new(Self { abilities: hello.capabilities, last, open }))
    }

    /// Takes an answer; one that nobody waits for is dropped.
    pub(super) fn answer(&self, id: &Id, said: Result<&RawValue, &RawValue>) {
        let waiting = self.lock().waiting.remove(id);
        let said = said.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
        if waiting.is_none_or(|waiting| waiting.send(said).is_err()) {
            tracing::debug!(id = id.json(), "an answer that nobody waits for");
        }
    }

    /// The client answers nothing any more.
    pub(super) fn close(&self) {
        let mut open = self.lock();
        open.is_closed = true;
        open.waiting.clear();
    }

    fn begin(&self) -> Result<(Id, oneshot::Receiver<Said>), Unanswered> {
        let refused = |words: &str| Err(Unanswered::Unreachable(words.to_owned()));
        let mut open = self.lock();
        if open.is_closed {
            return refused(GONE);
        }
        if open.waiting.len() >= MOST {
            return refused("the client is asked too much at once");
        }
        let id = Id::own(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, answer) = oneshot::channel();
        open.waiting.insert(id.clone(), sender);
        Ok((id, answer))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const GONE: &str = "the client that called is not there any more";

/// A client that is asked on the stream of the request that it made.
struct Present {
    questions: Arc<Questions>,
    notes: mpsc::Sender<Vec<u8>>,
}

impl Respond for Present {
    fn abilities(&self) -> &RawValue {
        &self.questions.abilities
    }

    fn ask(&self, question: Question) -> BoxFuture<'static, Result<Box<RawValue>, Unanswered>> {
        let (questions, notes) = (Arc::clone(&self.questions), self.notes.clone());
        async move {
            let (id, answer) = questions.begin()?;
            let text = message::request(&id, &question.kind, question.body.as_deref());
            // Whatever ends this ends the question.
            let _asked = Asked { questions, notes: notes.clone(), id };
            let gone = || Unanswered::Unreachable(GONE.to_owned());
            notes.send(text).await.map_err(|_| gone())?;
            tokio::select! {
                biased;
                said = answer => said.map_err(|_| gone())?.map_err(Unanswered::Refused),
                () = notes.closed() => Err(gone()),
            }
        }
        .boxed()
    }
}

/// A question that is open. Dropping it takes it back.
struct Asked {
    questions: Arc<Questions>,
    notes: mpsc::Sender<Vec<u8>>,
    id: Id,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.questions.lock().waiting.remove(&self.id).is_none() {
            return;
        }
        let id: Value = serde_json::from_str(self.id.json()).expect("an id of ours is JSON");
        let params = json!({"requestId": id, "reason": "nobody waits for the answer any more"});
        // Full or closed: the answer is dropped when it comes.
        let _ = self.notes.try_send(message::notification("notifications/cancelled", &params));
    }
}

impl Ask {
    /// Who can be asked while this request runs.
    pub(super) fn respondent(&mut self, outlet: &Outlet) -> Option<Respondent> {
        match self.asker.era {
            Era::Modern => {
                self.returning().map(|returning| Respondent::Returning(returning.into()))
            }
            _ => {
                let questions = Arc::clone(self.asker.questions.as_ref()?);
                let notes = outlet.notes.clone()?;
                Some(Respondent::Present(Arc::new(Present { questions, notes })))
            }
        }
    }

    /// What the request says about its client, and brings along. It is moved, since nobody else looks.
    fn returning(&mut self) -> Option<Returning> {
        let abilities = self.params.meta.as_mut().and_then(|meta| meta.capabilities.take());
        let abilities = abilities.filter(|abilities| abilities.get() != "{}");
        let (answers, state) = (self.params.answers.take(), self.params.state.take());
        let says_something = abilities.is_some() || answers.is_some() || state.is_some();
        says_something.then(|| Returning::new(abilities, answers, state))
    }

    /// What the error of a call is to a client of 2026-07-28, if it is no result of a tool: that more
    /// is wanted of the client, that it lacks a capability, or that what it brought cannot be used.
    pub(super) fn asked<'r>(
        &self,
        error: &CallError,
        respondent: Option<&'r Respondent>,
    ) -> Option<Result<&'r str, Fault>> {
        if let Some(Respondent::Returning(client)) = respondent
            && let Some(wanted) = client.wanted(error)
        {
            return Some(Ok(wanted.get()));
        }
        let is_said = toolpost::mcp::server_error(error).is_some();
        if self.asker.era != Era::Modern || !is_said {
            return None;
        }
        let fault = Fault::from(error.clone()).about(respondent);
        let brought = match respondent {
            Some(Respondent::Returning(returning)) => {
                returning.answers.is_some() || returning.state.is_some()
            }
            _ => false,
        };
        (brought || fault.code == Fault::MISSING_CAPABILITY).then_some(Err(fault))
    }
}

impl Fault {
    /// A capability that a source misses is the client's to declare, unless it did: then it is the
    /// gateway that does not pass it on, and nothing that the client could mend.
    pub(super) fn about(mut self, respondent: Option<&Respondent>) -> Self {
        if self.code != Self::MISSING_CAPABILITY {
            return self;
        }
        let declared = respondent.and_then(Respondent::abilities);
        let declared = declared.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        let required = self.data.as_ref().and_then(|data| data.get("requiredCapabilities"));
        let has_all = declared.zip(required).is_some_and(|(has, needs)| covers(&has, needs));
        match has_all {
            true => {
                self.code = Self::INTERNAL;
                self.message.push_str("; the settings of the source do not let it be asked");
            }
            false => self.is_foreign = false,
        }
        self
    }
}

/// Whether everything that is needed is there.
fn covers(has: &Value, needs: &Value) -> bool {
    match needs {
        Value::Object(needs) => needs
            .iter()
            .all(|(name, needed)| has.get(name).is_some_and(|member| covers(member, needed))),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    fn questions() -> Arc<Questions> {
        let hello = json!({"capabilities": {"elicitation": {}}});
        Questions::of(Some(&raw(&hello))).unwrap()
    }

    #[test]
    fn only_who_says_so_can_be_asked() {
        for (hello, expected) in [
            (json!({"capabilities": {"elicitation": {}}}), true),
            (json!({"capabilities": {"roots": {"listChanged": true}}}), true),
            (json!({"capabilities": {"sampling": {}, "tasks": 1}}), true),
            (json!({"capabilities": {"experimental": {}}}), false),
            (json!({"capabilities": {"elicitation": null}}), false),
            (json!({"capabilities": []}), false),
            (json!({"capabilities": 1}), false),
            (json!({}), false),
        ] {
            assert_eq!(Questions::of(Some(&raw(&hello))).is_some(), expected, "{hello}");
        }
        assert!(Questions::of(None).is_none());
    }

    #[tokio::test]
    async fn an_answer_goes_to_its_question_and_nothing_else_does() {
        let questions = questions();
        let (notes, mut told) = mpsc::channel(8);
        let present = Present { questions: Arc::clone(&questions), notes };
        let ask = || present.ask(Question::new("elicitation/create", None));
        let result = raw(&json!({"action": "accept"}));
        let answer = |id: &str, said| questions.answer(&Id::of(&raw(&json!(id))).unwrap(), said);
        let answering = async {
            let asked = told.recv().await.unwrap();
            let asked: Value = serde_json::from_slice(&asked).unwrap();
            assert_eq!(asked["method"], "elicitation/create");
            answer("toolpost-99", Ok(&result));
            answer(asked["id"].as_str().unwrap(), Ok(&result));
            answer(asked["id"].as_str().unwrap(), Err(&result));
        };
        let (said, ()) = tokio::join!(ask(), answering);
        assert_eq!(said.unwrap().get(), result.get());

        // Who stops waiting takes the question back.
        drop(tokio::time::timeout(std::time::Duration::ZERO, ask()).await);
        let asked: Value = serde_json::from_slice(&told.recv().await.unwrap()).unwrap();
        let taken: Value = serde_json::from_slice(&told.recv().await.unwrap()).unwrap();
        assert_eq!(taken["method"], "notifications/cancelled");
        assert_eq!(taken["params"]["requestId"], asked["id"]);

        // More than the most are refused, and so is everything after the end.
        let open: Vec<_> = (0..MOST).map(|_| questions.begin().unwrap()).collect();
        assert!(ask().await.unwrap_err().to_string().contains("too much at once"));
        questions.close();
        assert!(ask().await.unwrap_err().to_string().contains("not there any more"));
        assert_eq!(open.len(), MOST);
    }

    #[test]
    fn a_missing_capability_is_the_clients_unless_it_declared_it() {
        let needs = json!({"requiredCapabilities": {"elicitation": {"url": {}}}});
        for (declared, code) in [
            (None, Fault::MISSING_CAPABILITY),
            (Some(json!({"sampling": {}})), Fault::MISSING_CAPABILITY),
            (Some(json!({"elicitation": {}})), Fault::MISSING_CAPABILITY),
            (Some(json!({"elicitation": {"url": {}}})), Fault::INTERNAL),
        ] {
            let mut fault = Fault::new(Fault::MISSING_CAPABILITY, "no");
            (fault.data, fault.is_foreign) = (Some(needs.clone()), true);
            let abilities = declared.as_ref().map(raw);
            let client = Respondent::Returning(Returning::new(abilities, None, None).into());
            let about = fault.about(Some(&client));
            assert_eq!((about.code, about.is_foreign), (code, code == Fault::INTERNAL));
        }
    }
}
