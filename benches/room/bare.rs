//! The reference: whatever anybody says goes to everybody, and nothing else is done about it.

use std::sync::{Arc, Mutex};

use futures::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

type Everybody = Arc<Mutex<Vec<mpsc::Sender<Message>>>>;

/// How many messages wait for one of them.
const WAITING: usize = 4_096;

pub(crate) async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    let everybody = Everybody::default();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        tokio::spawn(talk(stream, Arc::clone(&everybody)));
    }
}

async fn talk(stream: TcpStream, everybody: Everybody) {
    let Ok(socket) = tokio_tungstenite::accept_async(stream).await else { return };
    let (mut sink, mut stream) = socket.split();
    let (sender, mut waiting) = mpsc::channel(WAITING);
    everybody.lock().unwrap().push(sender);
    tokio::spawn(async move {
        while let Some(message) = waiting.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
    });
    while let Some(Ok(message)) = stream.next().await {
        if message.is_text() {
            let everybody = everybody.lock().unwrap();
            for one in everybody.iter() {
                // One that is full has left: the crowd never has so many on their way.
                let _ = one.try_send(message.clone());
            }
        }
    }
}
