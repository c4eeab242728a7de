//! The baseline: broadcasts every text message to all connections and does nothing else.

use std::sync::{Arc, Mutex};

use futures::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

type Subscribers = Arc<Mutex<Vec<mpsc::Sender<Message>>>>;

/// Number of messages that can be queued for one subscriber.
const QUEUE_CAPACITY: usize = 4_096;

/// Serves on a port that it prints.
pub(crate) async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let subscribers = Subscribers::default();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        tokio::spawn(serve_connection(stream, Arc::clone(&subscribers)));
    }
}

async fn serve_connection(stream: TcpStream, subscribers: Subscribers) {
    let Ok(socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let (mut sink, mut stream) = socket.split();
    let (sender, mut queue) = mpsc::channel(QUEUE_CAPACITY);
    subscribers.lock().unwrap().push(sender);
    tokio::spawn(async move {
        while let Some(message) = queue.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
    });
    while let Some(Ok(message)) = stream.next().await {
        if message.is_text() {
            let subscribers = subscribers.lock().unwrap();
            for subscriber in subscribers.iter() {
                // A full queue means that the subscriber has disconnected: the load never has that
                // many messages in flight.
                let _ = subscriber.try_send(message.clone());
            }
        }
    }
}
