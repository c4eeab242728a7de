//! WebSocket transport: one text frame per event.

mod client;
mod text_socket;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::task::AtomicWaker;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::{Channel, CloseHandle, event_queue};
use crate::error::CallError;
use crate::protocol::{CallEvent, FrameError};

pub use client::{WsConnector, WsStream, connect_ws};
pub use text_socket::{DataFrame, TextSocket};
pub use tokio_tungstenite::tungstenite::Utf8Bytes;

/// Limits and timeouts of a WebSocket connection.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct WsSettings {
    /// Maximum frame size, in bytes. A larger frame closes the connection with code 1009.
    pub max_frame_bytes: usize,
    /// Size of the unsent events, in bytes, at which no further requests are read. At eight times the
    /// size, the connection closes with code 1013.
    pub max_queued_bytes: usize,
    /// Interval between pings.
    pub ping_interval: Duration,
    /// Number of ping intervals after which a silent peer is disconnected.
    pub max_silent_intervals: u32,
    /// Maximum time the send queue can stay full before the connection closes with code 1013.
    pub stall_timeout: Duration,
    /// Maximum time for the closing handshake, in which the peer receives the close reason.
    pub close_timeout: Duration,
    /// Timeout for establishing a connection.
    pub connect_timeout: Duration,
}

impl Default for WsSettings {
    fn default() -> Self {
        Self {
            max_frame_bytes: 16 * 1024 * 1024,
            max_queued_bytes: 16 * 1024 * 1024,
            ping_interval: Duration::from_secs(15),
            max_silent_intervals: 2,
            stall_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

impl WsSettings {
    fn config(self) -> WebSocketConfig {
        WebSocketConfig::default()
            .max_message_size(Some(self.max_frame_bytes))
            .max_frame_size(Some(self.max_frame_bytes))
            .read_buffer_size(32 * 1024)
    }
}

/// Returns the `Sec-WebSocket-Accept` value for a client's key.
pub fn accept_key(key: &[u8]) -> String {
    tokio_tungstenite::tungstenite::handshake::derive_accept_key(key)
}

/// Creates the server end of a channel over a stream whose handshake is complete. `buffered` holds
/// the bytes already read after the handshake.
pub async fn accept_ws<S>(stream: S, buffered: Vec<u8>, settings: WsSettings) -> Channel
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    open_channel(TextSocket::accept(stream, buffered, settings).await, settings)
}

fn open_channel<S>(socket: TextSocket<S>, settings: WsSettings) -> Channel
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let close_handle = CloseHandle::default();
    let (outgoing, mut queue) = event_queue::channel(settings.max_queued_bytes, &close_handle);
    let encoder = Arc::new(Encoder {
        max_frame_bytes: settings.max_frame_bytes,
        returned_events: Mutex::default(),
        read_waker: AtomicWaker::new(),
    });
    let (reader, on_close, decoder) = (socket.clone(), close_handle.clone(), Arc::clone(&encoder));
    let incoming = futures::stream::poll_fn(move |cx| {
        decoder.read_waker.register(cx.waker());
        if let Some(event) = decoder.returned_events.lock().pop_front() {
            return Poll::Ready(Some(Ok(event)));
        }
        reader.poll_recv(cx).map(|received| match received {
            Ok(DataFrame::Text(text)) => Some(CallEvent::from_json(&text)),
            Ok(DataFrame::Binary(_)) => {
                Some(Err(FrameError::new("a binary frame is not an event: frames are text")))
            }
            Err(reason) => {
                on_close.close(reason);
                None
            }
        })
    });
    // Used to check whether the send queue is full while it is drained.
    let (is_full, closing) = (outgoing.fullness(), close_handle.clone());
    let pump = async move {
        let texts = futures::stream::poll_fn(move |cx| queue.poll_recv(cx))
            .filter_map(|event| std::future::ready(encoder.encode(event)));
        socket.run(texts, is_full, &closing).await;
    };
    Channel { outgoing, incoming: incoming.boxed(), pump: pump.boxed(), close_handle }
}

/// Encodes events within the frame limit.
struct Encoder {
    max_frame_bytes: usize,
    /// Failures for requests that were not sent because they exceed the frame limit; delivered as
    /// if the peer had rejected the requests.
    returned_events: Mutex<VecDeque<CallEvent>>,
    /// Wakes the reader when an event is added to `returned_events`.
    read_waker: AtomicWaker,
}

impl Encoder {
    fn encode(&self, event: CallEvent) -> Option<Utf8Bytes> {
        let text = event.to_json();
        let (bytes, max) = (text.len(), self.max_frame_bytes);
        if bytes <= max {
            return Some(text.into());
        }
        let message =
            format!("a frame of {bytes} bytes is over the limit of {max}, so it was not sent");
        match event {
            // The local caller receives an error: the request was not sent.
            CallEvent::Requested(request) => {
                let error = CallError::validation(message, &[]).not_sent();
                let failure = CallEvent::Failed { id: request.id, error };
                self.returned_events.lock().push_back(failure);
                self.read_waker.wake();
                None
            }
            // The peer receives an error in place of the oversized response.
            response => {
                let error = CallError::execution(message);
                Some(CallEvent::Failed { id: response.shared_id(), error }.to_json().into())
            }
        }
    }
}
