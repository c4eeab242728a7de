//! Notifications and cancellation of a running request.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use toolpost::json_rpc::{self, RpcId};
use toolpost::{LogMessage, Progress, ProgressObserver, ProgressSender};

use super::client::{CancelableRequest, ClientContext, ClientState, LogLevel};

/// Sends the notifications of a request and tracks its cancellation.
#[derive(Debug)]
pub(crate) struct Notifier {
    pub(super) notifications: Option<mpsc::Sender<Vec<u8>>>,
    pub(super) request: Arc<CancelableRequest>,
    /// Where the client can cancel the request by id.
    in_flight: Option<(Arc<ClientState>, RpcId)>,
    /// Whether a disconnect of the client cancels the request.
    pub(crate) cancels_on_disconnect: bool,
}

impl Notifier {
    /// Creates the notifier of a request, which the client can cancel if it keeps state.
    pub(crate) fn new(
        client: &ClientContext,
        id: &RpcId,
        notifications: Option<mpsc::Sender<Vec<u8>>>,
    ) -> Self {
        let in_flight = client.state.clone().map(|state| (state, id.clone()));
        let request = in_flight.as_ref().map(|(state, id)| state.register(id.clone()));
        Self {
            notifications,
            request: request.unwrap_or_default(),
            in_flight,
            cancels_on_disconnect: false,
        }
    }

    /// Marks the request as finished. Returns false if the client canceled it.
    pub(super) fn finish(mut self) -> bool {
        self.cancels_on_disconnect = false;
        !self.request.token.is_cancelled()
    }

    /// Returns a sender that forwards the progress and logs that the client requested.
    pub(super) fn progress_sender(
        &self,
        token: Option<&RawValue>,
        level: Option<LogLevel>,
    ) -> ProgressSender {
        match self.notifications.clone().filter(|_| token.is_some() || level.is_some()) {
            Some(notifications) => {
                let token = token.map(|token| token.get().into());
                let observer = ClientObserver { notifications, token, level };
                ProgressSender::from_observer(Arc::new(observer))
            }
            None => ProgressSender::default(),
        }
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
            let note = json_rpc::encode_request(None, "notifications/message", Some(line));
            let _ = self.notifications.try_send(note);
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        if let Some((state, id)) = &self.in_flight {
            state.remove(id, &self.request);
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
