//! Notifications and cancellation of a running request.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use toolpost::{AbortHandle, LogMessage, Progress, ProgressObserver, ProgressSender};

use super::json_rpc::{self, JsonRpcId};
use super::log_level::LogLevel;
use super::session::{CancelableRequest, InFlightRequests};

/// Sends the notifications of a request and tracks its cancellation.
#[derive(Debug)]
pub(super) struct Notifier {
    pub(super) notifications: Option<mpsc::Sender<Vec<u8>>>,
    id: JsonRpcId,
    request: Arc<CancelableRequest>,
    /// The in-flight requests of the client, by which it can cancel this one.
    in_flight: Option<Arc<InFlightRequests>>,
    /// Whether a disconnect of the client cancels the request.
    cancels_on_disconnect: bool,
}

impl Notifier {
    pub(super) fn new(id: JsonRpcId) -> Self {
        let request = Arc::default();
        Self { notifications: None, id, request, in_flight: None, cancels_on_disconnect: false }
    }

    pub(super) fn with_notifications(mut self, sender: Option<mpsc::Sender<Vec<u8>>>) -> Self {
        self.notifications = sender;
        self
    }

    /// Registers the request, so that the client can cancel it by id.
    pub(super) fn with_cancellation(mut self, requests: Option<Arc<InFlightRequests>>) -> Self {
        if let Some(requests) = &requests {
            self.request = requests.register(self.id.clone());
        }
        self.in_flight = requests;
        self
    }

    /// Sets whether a disconnect of the client cancels the request.
    pub(super) fn cancel_on_disconnect(mut self, enabled: bool) -> Self {
        self.cancels_on_disconnect = enabled;
        self
    }

    /// Sets the call of the request, which cancellation aborts.
    pub(super) fn set_call(&self, call: AbortHandle) {
        self.request.set_call(call);
    }

    /// Resolves when the client cancels the request.
    pub(super) async fn canceled(&self) {
        self.request.canceled().await;
    }

    /// Marks the request as finished. Returns false if the client canceled it.
    pub(super) fn finish(mut self) -> bool {
        self.cancels_on_disconnect = false;
        !self.request.is_canceled()
    }

    /// Returns a sender that forwards progress and logs to the client, as far as the client
    /// requested them.
    pub(super) fn progress_sender(
        &self,
        token: Option<&RawValue>,
        level: Option<LogLevel>,
    ) -> ProgressSender {
        let Some(notification_sender) =
            self.notifications.clone().filter(|_| token.is_some() || level.is_some())
        else {
            return ProgressSender::default();
        };
        let token = token.map(|token| token.get().into());
        ProgressSender::from_observer(Arc::new(ClientObserver {
            notifications: notification_sender,
            token,
            level,
        }))
    }
}

/// Forwards progress and logs to the client. Notifications are dropped if the channel is full, so
/// that a slow client does not slow down the call.
struct ClientObserver {
    notifications: mpsc::Sender<Vec<u8>>,
    token: Option<Box<str>>,
    level: Option<LogLevel>,
}

impl ProgressObserver for ClientObserver {
    fn progress(&self, report: Progress) {
        if let Some(token) = &self.token {
            let _ = self.notifications.try_send(encode_progress(token, &report));
        }
    }

    fn log(&self, line: LogMessage) {
        let is_enabled = LogLevel::from_name(&line.level)
            .zip(self.level)
            .is_some_and(|(is, minimum)| is >= minimum);
        if is_enabled {
            let line = serde_json::to_value(&line).expect("a line is JSON");
            let _ = self
                .notifications
                .try_send(json_rpc::encode_notification("notifications/message", &line));
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        if let Some(calls) = &self.in_flight {
            calls.remove(&self.id, &self.request);
        }
        if self.cancels_on_disconnect {
            self.request.cancel("the client closed the stream of its request");
        }
    }
}

pub(super) fn encode_progress(token: &str, report: &Progress) -> Vec<u8> {
    let report = serde_json::to_string(report).expect("a report is JSON");
    let members = report.trim_start_matches('{');
    let head = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#;
    format!("{head}{token},{members}}}").into_bytes()
}

/// Encodes a log notification. `data` is JSON text.
pub(super) fn encode_log(level: &str, logger: &str, data: &str) -> Vec<u8> {
    let logger = serde_json::Value::from(logger);
    let head = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"#;
    format!(r#"{head}"{level}","logger":{logger},"data":{data}}}}}"#).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_and_log_encode_as_notifications() {
        let report = Progress::new(2.0).with_total(5.0).with_message("x");
        let text = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":2.0,"total":5.0,"message":"x"}}"#;
        assert_eq!(String::from_utf8(encode_progress(r#""t""#, &report)).unwrap(), text);
        let text = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"a\"b","data":[1]}}"#;
        assert_eq!(String::from_utf8(encode_log("info", "a\"b", "[1]")).unwrap(), text);
    }
}
