//! WebSocket over loopback TCP, through a relay that can be disconnected.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use toolpost::transport::{
    Channel, CloseHandle, TextSocket, Utf8Bytes, WsConnector, WsSettings, accept_key, accept_ws,
};

use super::harness::{ChannelHarness, RequestSource, TestTransport, TransportHarness};

pub(super) struct WebSocket;

impl TestTransport for WebSocket {
    fn start(&self, responses: RequestSource) -> BoxFuture<'static, Box<dyn TransportHarness>> {
        Box::pin(async {
            let (hub, links) = listen().await;
            let (address, relays) = relay(hub).await;
            let cut = move || {
                for relay in relays.lock().unwrap().drain(..) {
                    relay.abort();
                }
            };
            let connector = WsConnector::new(&format!("ws://{address}"), None).unwrap();
            Box::new(ChannelHarness::serve(responses, connector, links, cut))
                as Box<dyn TransportHarness>
        })
    }

    /// The window, plus one value produced while the window was full.
    fn max_buffered_values(&self) -> usize {
        257
    }
}

async fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn listen() -> (SocketAddr, mpsc::Receiver<Channel>) {
    let (listener, address) = bind().await;
    let (accepting, links) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let accepting = accepting.clone();
            tokio::spawn(async move {
                if let Ok(stream) = accept_handshake(stream).await {
                    let link = accept_ws(stream, Vec::new(), WsSettings::default()).await;
                    let _ = accepting.send(link).await;
                }
            });
        }
    });
    (address, links)
}

/// Performs the server side of the WebSocket handshake.
async fn accept_handshake(mut stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        accept_key(key.as_bytes())
    );
    stream.write_all(response.as_bytes()).await?;
    Ok(stream)
}

type Relays = Arc<Mutex<Vec<AbortHandle>>>;

/// Starts a TCP relay between client and server. Aborting a relay closes both of its sockets.
async fn relay(target: SocketAddr) -> (SocketAddr, Relays) {
    let (listener, address) = bind().await;
    let relays = Relays::default();
    let relay_handles = Arc::clone(&relays);
    tokio::spawn(async move {
        while let Ok((mut inbound, _)) = listener.accept().await {
            let relaying = tokio::spawn(async move {
                let mut outbound = TcpStream::connect(target).await.unwrap();
                inbound.set_nodelay(true).unwrap();
                outbound.set_nodelay(true).unwrap();
                let _ = copy_bidirectional(&mut inbound, &mut outbound).await;
            });
            relay_handles.lock().unwrap().push(relaying.abort_handle());
        }
    });
    (address, relays)
}

#[tokio::test]
async fn close_of_peer_is_answered_with_texts_queued() {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let socket = TextSocket::accept(near, Vec::new(), WsSettings::default()).await;
    let mut far = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
    let frame = CloseFrame { code: CloseCode::from(4321), reason: "done".into() };
    far.send(Message::Close(Some(frame.clone()))).await.unwrap();
    let close_handle = CloseHandle::default();
    let receiving = async { close_handle.close(socket.recv().await.unwrap_err()) };
    let queue = futures::stream::iter([Utf8Bytes::from("queued")]);
    let queue = queue.chain(futures::stream::pending());
    // The close frame is read before the queue is sent.
    futures::join!(receiving, socket.run(queue, || false, &close_handle));
    drop(socket);
    let answer = far.next().await.unwrap();
    assert_eq!(answer.unwrap(), Message::Close(Some(frame)));
}
