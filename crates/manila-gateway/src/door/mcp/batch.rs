//! Several messages in one body, as clients of 2025-03-26 may send them.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use futures::future::join_all;
use manila::view::Era;
use serde_json::value::RawValue;

use super::http::{Refusal, Visit, accepted, faulty};
use super::message::{self, Fault, Id, Message};
use super::outlet::Outlet;
use super::stream;

/// The only version that has them.
const VERSION: &str = "2025-03-26";
/// How many messages may come at once.
const MOST: usize = 100;

pub(super) async fn answer(visit: &Visit, body: &Bytes) -> Result<Response, Refusal> {
    let messages = read(visit, body).map_err(|fault| faulty(&fault, None))?;
    let answers = join_all(messages.into_iter().map(|one| answer_one(visit, one.get()))).await;
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    if answers.is_empty() {
        return Ok(accepted());
    }
    let mut all = vec![b'['];
    all.extend_from_slice(&answers.join(&b","[..]));
    all.push(b']');
    Ok(stream::whole(all, StatusCode::OK, visit.accepts))
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

async fn answer_one(visit: &Visit, text: &str) -> Option<Vec<u8>> {
    match message::read(text.as_bytes()) {
        Ok(Message::Request { id, method, params }) => {
            if method == "initialize" {
                let words = "`initialize` must not be part of a batch";
                return Some(Fault::new(Fault::INVALID_REQUEST, words).write(Some(&id)));
            }
            Some(answer_request(visit, id, &method, params).await)
        }
        Ok(Message::Notification { method, params }) => {
            // What a notification would be refused for concerns the whole batch, and was looked at.
            let _ = visit.note(&method, params);
            None
        }
        Ok(Message::Answer) => None,
        Err((id, fault)) => Some(fault.write(id.as_ref())),
    }
}

async fn answer_request(visit: &Visit, id: Id, method: &str, params: Option<&RawValue>) -> Vec<u8> {
    let calls = visit.session.as_ref().map(|session| std::sync::Arc::clone(&session.calls));
    let outlet = Outlet::new(id.clone()).cancellable(calls);
    match visit.understand(id.clone(), method, params).await {
        Ok(ask) if ask.asker.era == Era::Legacy => ask.answer(outlet).await.message,
        Ok(_) => Fault::unknown_method(method).write(Some(&id)),
        Err(fault) => fault.write(Some(&id)),
    }
}
