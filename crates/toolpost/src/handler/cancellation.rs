//! Cancellation of a call: the signal and its cause.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::context::CallContext;
use crate::error::CallError;
use crate::spec::OperationKind;

/// Cancellation state of one call. Nested calls are canceled with it.
#[derive(Debug, Default)]
pub(super) struct Cancellation {
    /// Created on first use. A call that completes immediately never needs it.
    token: OnceLock<CancellationToken>,
    /// The first cause; later ones are ignored.
    cause: OnceLock<CancelCause>,
    /// Set when a mutation is dispatched: a disconnect no longer cancels it.
    is_detached: AtomicBool,
}

#[derive(Debug)]
enum CancelCause {
    Aborted(Option<String>),
    Disconnected,
    Deadline,
}

impl CallContext {
    /// Returns the cancellation token, created on first use.
    pub(crate) fn token(&self) -> &CancellationToken {
        let signal = &self.parts().cancellation;
        if let Some(token) = signal.token.get() {
            return token;
        }
        let token = signal.token.get_or_init(|| match &self.parts().caller {
            Some(caller) => caller.token().child_token(),
            None => CancellationToken::new(),
        });
        // Pairs with the fence in `cancel`: at least one side sees the other's write.
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

    /// Cancels the call because its caller disconnected, unless the call is detached.
    pub(crate) fn cancel_by_disconnect(&self) {
        if !self.parts().cancellation.is_detached.load(Ordering::Acquire) {
            self.cancel(CancelCause::Disconnected);
        }
    }

    pub(crate) fn detach_from_caller(&self) {
        self.parts().cancellation.is_detached.store(true, Ordering::Release);
    }

    /// Sets the kind of the operation that the call forwards to. The call is then canceled when its
    /// caller disconnects, unless that operation is a mutation.
    pub(crate) fn set_effective_kind(&self, kind: OperationKind, idempotent: bool) {
        let _ = self.parts().effective_kind.set((kind, idempotent));
        let outlives_caller = kind == OperationKind::Mutation;
        self.parts().cancellation.is_detached.store(outlives_caller, Ordering::Release);
    }

    fn cancel(&self, cause: CancelCause) {
        let signal = &self.parts().cancellation;
        // Only the first cause is kept; a call ends once.
        let _ = signal.cause.set(cause);
        fence(Ordering::SeqCst);
        if let Some(token) = signal.token.get() {
            token.cancel();
        }
    }

    /// Whether the call is canceled.
    pub fn is_canceled(&self) -> bool {
        self.cause().is_some()
    }

    /// Returns the error of the canceled call.
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

    /// Returns the cause of the cancellation, which may be recorded in an ancestor.
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

/// Handle that aborts a call. An explicit abort also stops mutations.
#[derive(Debug, Clone)]
pub struct AbortHandle(CallContext);

impl AbortHandle {
    pub(crate) fn new(context: CallContext) -> Self {
        Self(context)
    }

    /// Waits until the call is canceled or its deadline has passed.
    pub(crate) async fn canceled_or_expired(&self) {
        let deadline = async {
            // The deadline may have moved during the sleep.
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

    /// Aborts the call. Has no effect on a call that has ended.
    pub fn abort(&self, reason: impl Into<String>) {
        self.0.abort(Some(reason.into()));
    }
}
