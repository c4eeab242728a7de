//! `room join`: a room at the terminal.
//!
//! | file | holds |
//! |---|---|
//! | `parse` | what a line means |
//! | `compose` | the message that it becomes |
//! | `room_view` | what is known of the room by what was heard |
//! | `render` | messages as people read them |
//! | `client` | the way in |
//! | `prompt` | where lines come from and where they are shown |
//! | `connection` | all of it, until one side has enough |

mod client;
mod compose;
mod connection;
mod parse;
mod prompt;
mod render;
mod room_view;

use std::sync::{Arc, Mutex};

use futures::SinkExt;
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
    // Whoever names himself is not the operator.
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

/// Says in the first frame where we go and who we are.
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
