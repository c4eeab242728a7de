//! One request to a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::failure::Failure;
use super::rpc::{self, Params};
use super::speech::Speech;
use crate::handler::{ProgressSender, Respondent};

/// A request, and how long it may take.
#[derive(Debug, Clone)]
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) params: &'a Params<'a>,
    /// What it is about, for a header: the name of a tool or a prompt, the address of a resource.
    pub(super) subject: Option<&'a str>,
    /// More headers, over HTTP.
    pub(super) headers: Vec<(&'a str, String)>,
    /// Where reports go; without it none are asked for.
    pub(super) progress: Option<ProgressSender>,
    /// The trace that it belongs to, as members of `_meta` without braces.
    pub(super) trace: String,
    /// Who can be asked meanwhile.
    pub(super) respondent: Option<&'a Respondent>,
    pub(super) patience: Patience,
    /// Where the number of the request is written when it gets one.
    pub(super) number: Option<Arc<AtomicU64>>,
}

/// How long is waited for an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Without a sign of progress.
    pub(super) silence: Duration,
    /// In any case.
    pub(super) until: Instant,
}

impl Patience {
    pub(super) fn of(most: Duration) -> Self {
        Self::new(most, most)
    }

    pub(super) fn new(silence: Duration, most: Duration) -> Self {
        Self { silence, until: after(Instant::now(), most) }
    }
}

/// Later by so much, or as late as nobody waits for.
pub(super) fn after(moment: Instant, time: Duration) -> Instant {
    let longest = Duration::from_secs(60 * 60 * 24 * 365);
    moment + time.min(longest)
}

impl<'a> Ask<'a> {
    pub(super) fn new(method: &'a str, params: &'a Params<'a>, patience: Patience) -> Self {
        Self {
            method,
            params,
            subject: None,
            headers: Vec::new(),
            progress: None,
            trace: String::new(),
            respondent: None,
            patience,
            number: None,
        }
    }

    /// Whoever has this knows the number of the request before the server does.
    pub(super) fn numbered(mut self, number: Arc<AtomicU64>) -> Self {
        self.number = Some(number);
        self
    }

    pub(super) fn text(&self, id: u64, speech: &Speech) -> Result<String, Failure> {
        if let Some(number) = &self.number {
            number.store(id, Ordering::Relaxed);
        }
        rpc::write(Some(id), self.method, self.params, &speech.meta_of(self, id))
            .map_err(|error| Failure::Unusable(format!("the request has no JSON form: {error}")))
    }

    /// Whether it is made for somebody who called.
    pub(super) fn is_errand(&self) -> bool {
        self.progress.is_some()
    }

    /// The handshake must be waited for.
    pub(super) fn is_cancellable(&self) -> bool {
        self.method != "initialize"
    }
}
