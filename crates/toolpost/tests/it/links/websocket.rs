//! Text frames over TCP on loopback, through a relay that can be cut.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use toolpost::link::{Link, WsConnector, WsSettings, accept_key, ws};

use super::wire::{Answers, End, Linked, Wire};

pub(super) struct WebSocket;

impl Wire for WebSocket {
    fn start(&self, answers: Answers) -> BoxFuture<'static, Box<dyn End>> {
        Box::pin(async {
            let (hub, links) = listen().await;
            let (address, relays) = relay(hub).await;
            let cut = move || {
                for relay in relays.lock().unwrap().drain(..) {
                    relay.abort();
                }
            };
            let connector = WsConnector::new(&format!("ws://{address}"), None).unwrap();
            Box::new(Linked::serve(answers, connector, links, cut)) as Box<dyn End>
        })
    }

    /// The window, and one that was made when it was full.
    fn most_ahead(&self) -> usize {
        257
    }
}

async fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn listen() -> (SocketAddr, mpsc::Receiver<Link>) {
    let (listener, address) = bind().await;
    let (accepting, links) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let accepting = accepting.clone();
            tokio::spawn(async move {
                if let Ok(stream) = shake_hands(stream).await {
                    let link = ws(stream, Vec::new(), WsSettings::default()).await;
                    let _ = accepting.send(link).await;
                }
            });
        }
    });
    (address, links)
}

/// The serving half of the handshake.
async fn shake_hands(mut stream: TcpStream) -> std::io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        accept_key(key.as_bytes())
    );
    stream.write_all(answer.as_bytes()).await?;
    Ok(stream)
}

type Relays = Arc<Mutex<Vec<AbortHandle>>>;

/// Stands between the two; whoever aborts a relay closes both of its sockets.
async fn relay(target: SocketAddr) -> (SocketAddr, Relays) {
    let (listener, address) = bind().await;
    let relays = Relays::default();
    let noted = Arc::clone(&relays);
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let relaying = tokio::spawn(async move {
                let mut far = TcpStream::connect(target).await.unwrap();
                near.set_nodelay(true).unwrap();
                far.set_nodelay(true).unwrap();
                let _ = copy_bidirectional(&mut near, &mut far).await;
            });
            noted.lock().unwrap().push(relaying.abort_handle());
        }
    });
    (address, relays)
}
