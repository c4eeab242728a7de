//! One signal that a call should stop, and why.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::context::CallContext;
use crate::error::CallError;
use crate::spec::OperationKind;

/// The signal of one call. Nested calls hang below it through the context of their caller, and are
/// canceled with it.
#[derive(Debug, Default)]
pub(super) struct Cancellation {
    /// Made when somebody first has to wait; a call that is answered at once never needs it.
    token: OnceLock<CancellationToken>,
    /// The first cause wins; a call ends once.
    cause: OnceLock<CancelCause>,
    /// Set when a mutation is dispatched: from then on a caller who merely goes away does not
    /// stop it.
    is_detached: AtomicBool,
}

#[derive(Debug)]
enum CancelCause {
    Aborted(Option<String>),
    Disconnected,
    Deadline,
}

impl CallContext {
    /// The signal as something that can be awaited.
    pub(crate) fn token(&self) -> &CancellationToken {
        let signal = &self.parts().cancellation;
        if let Some(token) = signal.token.get() {
            return token;
        }
        let token = signal.token.get_or_init(|| match &self.parts().caller {
            Some(caller) => caller.token().child_token(),
            None => CancellationToken::new(),
        });
        // Pairs with the fence in `cancel`: one of the two sees what the other has written.
        fence(Ordering::SeqCst);
        if signal.cause.get().is_some() {
            token.cancel();
        }
        token
    }

    pub(crate) fn abort(&self, reason: Option<String>) {
        self.cancel(CancelCause::Aborted(reason));
    }

    pub(crate) fn cancel_by_deadline(&self) {
        self.cancel(CancelCause::Deadline);
    }

    /// The caller went away, which is not the same as asking to stop.
    pub(crate) fn cancel_by_disconnect(&self) {
        if !self.parts().cancellation.is_detached.load(Ordering::Acquire) {
            self.cancel(CancelCause::Disconnected);
        }
    }

    pub(crate) fn detach_from_caller(&self) {
        self.parts().cancellation.is_detached.store(true, Ordering::Release);
    }

    /// The call turned out to be a mere way to another operation, and ends as that one would: with
    /// its caller, unless it writes.
    pub(crate) fn set_effective_kind(&self, kind: OperationKind, idempotent: bool) {
        let _ = self.parts().effective_kind.set((kind, idempotent));
        let outlives_caller = kind == OperationKind::Mutation;
        self.parts().cancellation.is_detached.store(outlives_caller, Ordering::Release);
    }

    fn cancel(&self, cause: CancelCause) {
        let signal = &self.parts().cancellation;
        // Only the first cause counts: whoever comes later finds the call already ended.
        let _ = signal.cause.set(cause);
        fence(Ordering::SeqCst);
        if let Some(token) = signal.token.get() {
            token.cancel();
        }
    }

    /// Whether the call should stop.
    pub fn is_canceled(&self) -> bool {
        self.cause().is_some()
    }

    /// The error that the call ends with after the signal.
    pub(crate) fn cancellation_error(&self) -> CallError {
        match self.cause() {
            Some(CancelCause::Deadline) => CallError::timeout("the deadline of the call passed"),
            Some(CancelCause::Disconnected) => CallError::aborted("the caller disconnected"),
            Some(CancelCause::Aborted(Some(reason))) => {
                CallError::aborted(format!("the call was aborted: {reason}"))
            }
            Some(CancelCause::Aborted(None)) | None => CallError::aborted("the call was aborted"),
        }
    }

    /// A nested call that was canceled from above has its cause further up.
    fn cause(&self) -> Option<&CancelCause> {
        let mut context = self;
        loop {
            if let Some(cause) = context.parts().cancellation.cause.get() {
                return Some(cause);
            }
            context = context.parts().caller.as_ref()?;
        }
    }
}

/// Stops a call from somewhere else; an explicit wish, which mutations obey too.
#[derive(Debug, Clone)]
pub struct AbortHandle(CallContext);

impl AbortHandle {
    pub(crate) fn new(context: CallContext) -> Self {
        Self(context)
    }

    /// Resolves when the call should stop, or its deadline has passed.
    pub(crate) async fn canceled_or_expired(&self) {
        let deadline = async {
            // It may have moved meanwhile.
            while let Some(deadline) = self.0.deadline() {
                if deadline <= Instant::now() {
                    return;
                }
                tokio::time::sleep_until(deadline).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = self.0.canceled() => {}
            () = deadline => {}
        }
    }

    /// Asks the call to stop. A call that has already ended is not disturbed.
    pub fn abort(&self, reason: impl Into<String>) {
        self.0.abort(Some(reason.into()));
    }
}
