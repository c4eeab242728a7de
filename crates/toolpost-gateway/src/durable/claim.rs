//! The idempotency stage: claims the key of a call, and stores its result.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolpost::{
    CallError, CallView, HookResult, Idempotency, IdempotencyClaim, IdempotentRun, Limit,
    OperationKind, Outcome, StoredResult, epoch_ms,
};

use super::index::{EndedCall, Entry, HeldClaim, StoredBody, is_expired};
use super::record::{Digest, RecordHead, RecordKind};
use super::{DurableCalls, State, Storage, write_failed};

/// The claim that a call needs.
#[derive(Clone, Copy)]
struct Claim {
    id: Digest,
    input: Digest,
    is_repeatable: bool,
    journal_seq: u64,
}

/// State of a claim.
enum ClaimState {
    /// The call holds the claim now.
    Acquired,
    /// Another call holds it until the token is canceled.
    Held(CancellationToken),
    /// The first call has ended.
    Ended(EndedCall),
}

impl Idempotency for DurableCalls {
    fn claim(&self, call: &CallView<'_>, key: &str) -> HookResult<IdempotencyClaim> {
        let claim = match self.claim_of(call, key) {
            Ok(claim) => claim,
            Err(error) => return HookResult::Ready(Err(error)),
        };
        match self.try_claim(&claim) {
            Ok(ClaimState::Acquired) => HookResult::Ready(Ok(self.run(claim))),
            Ok(other) => {
                let store = self.clone();
                HookResult::Pending(Box::pin(async move { store.wait(claim, other).await }))
            }
            Err(error) => HookResult::Ready(Err(error)),
        }
    }
}

impl DurableCalls {
    fn claim_of(&self, call: &CallView<'_>, key: &str) -> Result<Claim, CallError> {
        let spec = call.operation.map(toolpost::Operation::spec);
        let null = Value::Null;
        let input = call.input.and_then(toolpost::Payload::as_value).unwrap_or(&null);
        let owner = call.identity.map(toolpost::Identity::key);
        let owner = owner.as_deref().unwrap_or_default();
        let generation = call.identity.and_then(|identity| identity.generation.as_deref());
        let generation = generation.unwrap_or_default();
        Ok(Claim {
            id: self.digest_parts(&[owner, generation, call.operation_id, key]),
            input: truncate(self.0.inputs.digest(input)?.as_ref()),
            is_repeatable: spec
                .is_some_and(|spec| spec.kind == OperationKind::Query || spec.idempotent),
            journal_seq: call.audit_id.unwrap_or(0),
        })
    }

    /// Returns the keyed digest of texts. Their lengths are included, so that different lists differ.
    fn digest_parts(&self, parts: &[&str]) -> Digest {
        let mut context = ring::hmac::Context::with_key(&self.0.claim_key);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        truncate(context.sign().as_ref())
    }

    /// Claims a key, unless another call holds it or has used it.
    fn try_claim(&self, claim: &Claim) -> Result<ClaimState, CallError> {
        let settings = self.0.settings.load();
        let mut state = self.state();
        state.expire(settings.retain);
        match state.index.get_mut(&claim.id) {
            Some(Entry::Held(held)) if held.input == claim.input => {
                return Ok(ClaimState::Held(held.ended.clone()));
            }
            Some(Entry::Ended(ended)) if is_expired(ended.time, epoch_ms(), settings.retain) => {}
            Some(Entry::Ended(ended)) if ended.input == claim.input => {
                if ended.result.is_some() || !ended.is_repeatable {
                    return Ok(ClaimState::Ended(ended.clone()));
                }
            }
            Some(_) => return Err(conflict()),
            None => {
                check_capacity(&state, settings.max, settings.max_size)?;
            }
        }
        let ended = CancellationToken::new();
        let held = HeldClaim { input: claim.input, ended, started_in: None };
        state.replace(claim.id, Entry::Held(held));
        Ok(ClaimState::Acquired)
    }

    fn run(&self, claim: Claim) -> IdempotencyClaim {
        let run = KeyedRun { store: self.clone(), claim, is_dispatched: false, has_ended: false };
        IdempotencyClaim::Run(Box::new(run))
    }

    /// Waits for the call that holds the claim, and returns its result or claims the key.
    async fn wait(&self, claim: Claim, first: ClaimState) -> Result<IdempotencyClaim, CallError> {
        let mut found = first;
        loop {
            match found {
                ClaimState::Acquired => return Ok(self.run(claim)),
                ClaimState::Held(ended) => ended.cancelled().await,
                ClaimState::Ended(ended) => {
                    if let Some(stored) = self.read_result(&ended).await {
                        return Ok(IdempotencyClaim::Replay(stored));
                    }
                    self.forget_result(&claim.id, &ended);
                }
            }
            found = self.try_claim(&claim)?;
        }
    }

    /// Returns the result of a call; `None` if it cannot be read.
    async fn read_result(&self, ended: &EndedCall) -> Option<StoredResult> {
        let first_call = Some(ended.journal_seq).filter(|seq| *seq != 0);
        let Some(body) = ended.result.clone() else {
            return Some(StoredResult { result: Err(interrupted()), first_call });
        };
        let bytes = match body {
            StoredBody::Memory(bytes) => bytes,
            StoredBody::File(at) => {
                let file = match &self.state().storage {
                    Storage::Files(log) => log.file(at.file),
                    Storage::Memory(_) => None,
                }?;
                let reading = tokio::task::spawn_blocking(move || file.read(&at));
                match reading.await.ok()? {
                    Ok(bytes) => bytes.into(),
                    Err(error) => {
                        tracing::error!(%error, "outcome of a durable call cannot be read");
                        return None;
                    }
                }
            }
        };
        let result = serde_json::from_slice::<ResultIn>(&bytes);
        let result = result.inspect_err(|error| {
            tracing::error!(%error, "outcome of a durable call cannot be parsed");
        });
        let result = match result.ok()? {
            ResultIn::Outcome(outcome) => Ok(*outcome),
            ResultIn::Error(error) => Err(error),
        };
        Some(StoredResult { result, first_call })
    }

    /// Marks a call whose result cannot be read as interrupted.
    fn forget_result(&self, id: &Digest, unreadable: &EndedCall) {
        if let Some(Entry::Ended(ended)) = self.state().index.get_mut(id)
            && ended.time == unreadable.time
        {
            ended.result = None;
        }
    }
}

/// A call that holds the claim of its key.
struct KeyedRun {
    store: DurableCalls,
    claim: Claim,
    /// Whether the start of the handler is recorded.
    is_dispatched: bool,
    has_ended: bool,
}

impl KeyedRun {
    fn head(&self, kind: RecordKind) -> RecordHead {
        let Claim { id, input, is_repeatable, journal_seq } = self.claim;
        RecordHead { kind, is_repeatable, claim: id, input, time: epoch_ms(), journal_seq }
    }

    /// Ends the claim with the entry that replaces it.
    fn end(&mut self, state: &mut State, ended: Option<EndedCall>) {
        self.has_ended = true;
        let id = self.claim.id;
        let token = match state.index.get_mut(&id) {
            Some(Entry::Held(held)) => held.ended.clone(),
            _ => return,
        };
        match ended {
            Some(ended) => state.replace(id, Entry::Ended(ended)),
            None => state.remove(&id),
        }
        // The waiters lock the state again.
        token.cancel();
    }

    fn interrupted_entry(&self, state: &mut State) -> EndedCall {
        let head = self.head(RecordKind::Started);
        let file = match state.index.get_mut(&self.claim.id) {
            Some(Entry::Held(held)) => held.started_in.take(),
            _ => None,
        };
        EndedCall {
            input: head.input,
            is_repeatable: head.is_repeatable,
            time: head.time,
            journal_seq: head.journal_seq,
            result: None,
            file,
        }
    }
}

impl IdempotentRun for KeyedRun {
    fn dispatch(&mut self) -> HookResult<()> {
        let mut state = self.store.state();
        let stored = match state.append(&self.head(RecordKind::Started), &[]) {
            Ok(stored) => stored,
            Err(error) => {
                tracing::error!(%error, "start of a durable call cannot be recorded");
                return HookResult::Ready(Err(write_failed()));
            }
        };
        if let Some(Entry::Held(held)) = state.index.get_mut(&self.claim.id) {
            held.started_in = stored.file;
        }
        self.is_dispatched = true;
        drop(state);
        self.store.await_durable()
    }

    fn complete(mut self: Box<Self>, result: &Result<Outcome, CallError>) -> HookResult<()> {
        let body = serde_json::to_vec(&match result {
            Ok(outcome) => ResultOut::Outcome(outcome),
            Err(error) => ResultOut::Error(error),
        });
        let head = self.head(RecordKind::Finished);
        let store = self.store.clone();
        let mut state = store.state();
        let stored = body.map_err(std::io::Error::from).and_then(|body| state.append(&head, &body));
        match stored {
            Ok(stored) => {
                let ended = EndedCall {
                    input: head.input,
                    is_repeatable: head.is_repeatable,
                    time: head.time,
                    journal_seq: head.journal_seq,
                    result: Some(stored.body),
                    file: stored.file,
                };
                self.end(&mut state, Some(ended));
                drop(state);
                store.await_durable()
            }
            Err(error) => {
                tracing::error!(%error, "outcome of a durable call cannot be stored");
                let interrupted = self.interrupted_entry(&mut state);
                self.end(&mut state, Some(interrupted));
                match store.0.is_sync {
                    true => HookResult::Ready(Err(write_failed())),
                    false => HookResult::Ready(Ok(())),
                }
            }
        }
    }

    fn release(mut self: Box<Self>) {
        let store = self.store.clone();
        let mut state = store.state();
        if self.is_dispatched {
            let released = state.append(&self.head(RecordKind::Released), &[]);
            match released {
                // No entry needs the record.
                Ok(stored) => state.forget_record(stored.file),
                Err(error) => tracing::error!(%error, "end of a durable call cannot be recorded"),
            }
        }
        self.end(&mut state, None);
    }
}

impl Drop for KeyedRun {
    /// Runs if the call panicked or was dropped. If it was dispatched, it is unknown what it did.
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let store = self.store.clone();
        let mut state = store.state();
        let ended = self.is_dispatched.then(|| self.interrupted_entry(&mut state));
        self.end(&mut state, ended);
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ResultOut<'a> {
    Outcome(&'a Outcome),
    Error(&'a CallError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum ResultIn {
    Outcome(Box<Outcome>),
    Error(CallError),
}

fn check_capacity(state: &State, max: usize, max_size: u64) -> Result<(), CallError> {
    if state.index.len() >= max {
        let message = format!("idempotency key limit reached: {max} keys");
        return Err(CallError::overloaded(message).with_limit(Limit::IdempotencyMax));
    }
    if state.stored_bytes() >= max_size {
        let message = format!("idempotency key limit reached: {max_size} bytes");
        return Err(CallError::overloaded(message).with_limit(Limit::IdempotencyMaxSize));
    }
    Ok(())
}

fn truncate(digest: &[u8]) -> Digest {
    digest[..size_of::<Digest>()].try_into().expect("the digest is longer")
}

fn conflict() -> CallError {
    CallError::idempotency_conflict(
        "the idempotency key was used with another input; use a new key for another call",
    )
}

fn interrupted() -> CallError {
    CallError::interrupted("the gateway stopped while the first call with this key ran")
        .with_details(json!({"mayHaveRun": true}))
}
