//! `room join`: a room at the terminal.
//!
//! | file | holds |
//! |---|---|
//! | `parse` | parsing input lines |
//! | `compose` | building messages from parsed lines |
//! | `room_view` | room state derived from received messages |
//! | `render` | rendering messages for a terminal |
//! | `client` | connecting over WebSocket and HTTP |
//! | `prompt` | reading lines and printing output |
//! | `connection` | the session, until either side ends it |

mod client;
mod compose;
mod connection;
mod parse;
mod prompt;
mod render;
mod room_view;

use std::sync::Arc;

use futures::SinkExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use toolpost::protocol::Secret;

use super::super::backend::{explicit_token, gateway_token};
use super::super::signal::StopRequests;
use crate::arguments::JoinOptions;
use crate::error::CommandError;
use crate::output;
use client::RoomClient;
use connection::RoomConnection;
use prompt::Screen;
use room_view::RoomView;

pub(crate) async fn join(options: &JoinOptions) -> Result<(), CommandError> {
    let stop = StopRequests::new()?;
    // With `--as`, the operator's token is not used.
    let token = match &options.name {
        Some(_) => explicit_token(&options.target),
        None => gateway_token(&options.target)?,
    };
    let client = RoomClient::new(options, token.clone())?;
    let socket = match (&options.name, &token) {
        (None, Some(_)) => client.connect_with_token(options.history).await?,
        _ => send_join(client.connect().await?, options, token.as_ref()).await?,
    };
    let view = Arc::new(Mutex::new(RoomView::default()));
    let (screen, mut lines) = Screen::open(output::wants_json(options.format.json), &view)?;
    let mut connection = RoomConnection::new(options, client, socket, view, screen);
    let end = connection.run(&mut lines, stop).await;
    connection.close(end, &lines).await
}

/// Sends the join frame with the room, the participant name and the token.
async fn send_join(
    mut socket: WebSocketStream<TcpStream>,
    options: &JoinOptions,
    token: Option<&Secret>,
) -> Result<WebSocketStream<TcpStream>, CommandError> {
    let mut join = json!({"type": "join", "space": options.room, "history": options.history});
    if let Some(name) = &options.name {
        join["participantId"] = name.as_str().into();
    }
    if let Some(token) = token {
        join["token"] = token.reveal().into();
    }
    socket.send(Frame::text(join.to_string())).await.map_err(connection_error)?;
    Ok(socket)
}

fn connection_error(error: impl std::fmt::Display) -> CommandError {
    CommandError::Unreachable(format!("the connection to the gateway broke: {error}"))
}
