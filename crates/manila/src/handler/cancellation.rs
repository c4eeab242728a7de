//! One signal that a call should stop, and why.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::error::CallError;

/// The signal of one call; nested calls hang below it and are cancelled with it.
#[derive(Debug, Clone)]
pub(crate) struct Cancellation(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Made when somebody first has to wait; a call that is answered at once never needs it.
    token: OnceLock<CancellationToken>,
    /// The first cause wins; a call ends once.
    cause: OnceLock<Cause>,
    parent: Option<Cancellation>,
    /// Set when a mutation is dispatched: from then on a caller who merely goes away does not
    /// stop it.
    outlives_caller: AtomicBool,
}

#[derive(Debug)]
enum Cause {
    Aborted(Option<String>),
    Disconnected,
    Deadline,
}

impl Cancellation {
    pub(crate) fn root() -> Self {
        Self::with(None)
    }

    pub(crate) fn below(parent: &Self) -> Self {
        Self::with(Some(parent.clone()))
    }

    fn with(parent: Option<Self>) -> Self {
        Self(Arc::new(Inner {
            token: OnceLock::new(),
            cause: OnceLock::new(),
            parent,
            outlives_caller: AtomicBool::new(false),
        }))
    }

    /// The signal as something that can be awaited.
    pub(crate) fn token(&self) -> &CancellationToken {
        if let Some(token) = self.0.token.get() {
            return token;
        }
        let token = self.0.token.get_or_init(|| match &self.0.parent {
            Some(parent) => parent.token().child_token(),
            None => CancellationToken::new(),
        });
        // Pairs with the fence in `cancel`: one of the two sees what the other has written.
        fence(Ordering::SeqCst);
        if self.0.cause.get().is_some() {
            token.cancel();
        }
        token
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cause().is_some()
    }

    pub(crate) fn abort(&self, reason: Option<String>) {
        self.cancel(Cause::Aborted(reason));
    }

    pub(crate) fn pass_deadline(&self) {
        self.cancel(Cause::Deadline);
    }

    /// The caller went away, which is not the same as asking to stop.
    pub(crate) fn disconnect(&self) {
        if !self.0.outlives_caller.load(Ordering::Acquire) {
            self.cancel(Cause::Disconnected);
        }
    }

    pub(crate) fn outlive_caller(&self) {
        self.0.outlives_caller.store(true, Ordering::Release);
    }

    fn cancel(&self, cause: Cause) {
        // Only the first cause counts: whoever comes later finds the call already ended.
        let _ = self.0.cause.set(cause);
        fence(Ordering::SeqCst);
        if let Some(token) = self.0.token.get() {
            token.cancel();
        }
    }

    /// The error that a call ends with after this signal.
    pub(crate) fn error(&self) -> CallError {
        match self.cause() {
            Some(Cause::Deadline) => CallError::timeout("the deadline of the call passed"),
            Some(Cause::Disconnected) => CallError::aborted("the caller went away"),
            Some(Cause::Aborted(Some(reason))) => {
                CallError::aborted(format!("the call was aborted: {reason}"))
            }
            Some(Cause::Aborted(None)) | None => CallError::aborted("the call was aborted"),
        }
    }

    /// A nested call that was cancelled from above has its cause further up.
    fn cause(&self) -> Option<&Cause> {
        let mut signal = self;
        loop {
            if let Some(cause) = signal.0.cause.get() {
                return Some(cause);
            }
            signal = signal.0.parent.as_ref()?;
        }
    }
}

/// Stops a call from somewhere else; an explicit wish, which mutations obey too.
#[derive(Debug, Clone)]
pub struct AbortHandle(Cancellation);

impl AbortHandle {
    pub(crate) fn new(cancellation: Cancellation) -> Self {
        Self(cancellation)
    }

    /// Asks the call to stop. A call that has already ended is not disturbed.
    pub fn abort(&self, reason: impl Into<String>) {
        self.0.abort(Some(reason.into()));
    }
}
