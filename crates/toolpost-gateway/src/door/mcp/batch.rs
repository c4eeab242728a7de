//! Several messages in one body, as clients of 2025-03-26 may send them.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::value::RawValue;
use toolpost::view::Era;

use super::http::{Refusal, Visit, accepted, faulty};
use super::message::{self, Fault, Id, Message};
use super::outlet::Outlet;
use super::stream;

/// The only version that has them.
const VERSION: &str = "2025-03-26";
/// How many messages may come at once.
const MOST: usize = 100;
/// How many of them are answered at once.
const AT_ONCE: usize = 8;
/// How large the answers may be together; a small batch can ask for a large list many times.
const MOST_BYTES: usize = 8 * 1024 * 1024;

struct Answered {
    id: Option<Id>,
    message: Vec<u8>,
}

pub(super) async fn answer(visit: &Visit, body: &Bytes) -> Result<Response, Refusal> {
    let messages = read(visit, body).map_err(|fault| faulty(&fault, None))?;
    let answering: Vec<BoxFuture<'_, _>> =
        messages.into_iter().map(|one| answer_one(visit, one.get()).boxed()).collect();
    let mut answers = futures::stream::iter(answering).buffered(AT_ONCE);
    let mut all = Vec::new();
    while let Some(answer) = answers.next().await {
        let Some(Answered { id, message }) = answer else { continue };
        all.push(if all.is_empty() { b'[' } else { b',' });
        if all.len() + message.len() <= MOST_BYTES {
            all.extend_from_slice(&message);
        } else {
            let words = format!("the answers to a batch have at most {MOST_BYTES} bytes");
            all.extend(Fault::new(Fault::OVERLOADED, words).write(id.as_ref()));
        }
    }
    if all.is_empty() {
        return Ok(accepted());
    }
    all.push(b']');
    Ok(stream::whole(all.into(), StatusCode::OK, visit.accepts))
}

fn read<'b>(visit: &Visit, body: &'b Bytes) -> Result<Vec<&'b RawValue>, Fault> {
    let refuse = |words: String| Err(Fault::new(Fault::INVALID_REQUEST, words));
    // Before the header came, which this version does not have, there was no saying.
    let version = visit.headers.get(super::era::VERSION_HEADER);
    let version = version.map_or(Ok(VERSION), |version| version.to_str()).unwrap_or_default();
    let agreed = visit.session.as_ref().map_or(version, |session| session.version);
    if version != VERSION || agreed != VERSION {
        return refuse(format!("only {VERSION} has batches; send one message in a request"));
    }
    let messages: Vec<&RawValue> = serde_json::from_slice(body)
        .map_err(|error| Fault::new(Fault::PARSE, format!("the batch cannot be read: {error}")))?;
    if messages.is_empty() || messages.len() > MOST {
        return refuse(format!("a batch has between 1 and {MOST} messages"));
    }
    Ok(messages)
}

async fn answer_one(visit: &Visit, text: &str) -> Option<Answered> {
    match message::read(text.as_bytes()) {
        Ok(Message::Request { id, method, params }) => {
            if method == "initialize" {
                let words = "`initialize` must not be part of a batch";
                let message = Fault::new(Fault::INVALID_REQUEST, words).write(Some(&id));
                return Some(Answered { id: Some(id), message });
            }
            let message = answer_request(visit, id.clone(), &method, params).await;
            Some(Answered { id: Some(id), message })
        }
        Ok(Message::Notification { method, params }) => {
            // What a notification would be refused for concerns the whole batch, and was looked at.
            let _ = visit.note(&method, params);
            None
        }
        Ok(Message::Answer { id, said }) => {
            visit.answered(&id, said);
            None
        }
        Err((id, fault)) => {
            let message = fault.write(id.as_ref());
            Some(Answered { id, message })
        }
    }
}

async fn answer_request(visit: &Visit, id: Id, method: &str, params: Option<&RawValue>) -> Vec<u8> {
    let calls = visit.session.as_ref().map(|session| std::sync::Arc::clone(&session.calls));
    let outlet = Outlet::new(id.clone()).cancellable(calls);
    match visit.understand(id.clone(), method, params).await {
        Ok(mut ask) if ask.asker.era == Era::Legacy => {
            ask.hints = false;
            ask.answer(outlet).await.message.into_bytes()
        }
        Ok(_) => {
            let fault = Fault::unknown_method(method);
            visit.note_refused(method, params, &fault).await;
            fault.write(Some(&id))
        }
        Err(fault) => fault.write(Some(&id)),
    }
}
