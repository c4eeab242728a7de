//! `workspace join`: a room at the terminal.
//!
//! | file | holds |
//! |---|---|
//! | `typed` | what a line means |
//! | `speech` | the message that it becomes |
//! | `scene` | what is known of the room by what was heard |
//! | `show` | messages as people read them |
//! | `connect` | the way in |
//! | `prompt` | where lines come from and where they are shown |
//! | `visit` | all of it, until one side has enough |

mod connect;
mod prompt;
mod scene;
mod show;
mod speech;
mod typed;
mod visit;

use std::sync::{Arc, Mutex};

use futures::SinkExt;
use serde_json::json;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use toolpost::protocol::Secret;

use super::super::backend::{given_token, token_of};
use super::super::signal::StopRequests;
use crate::arguments::JoinOptions;
use crate::failure::Failure;
use crate::output;
use connect::Door;
use prompt::Screen;
use scene::Scene;
use visit::Visit;

pub(crate) async fn join(options: &JoinOptions) -> Result<(), Failure> {
    let stop = StopRequests::new()?;
    // Whoever names himself is not the operator.
    let token = match &options.name {
        Some(_) => given_token(&options.running),
        None => token_of(&options.running)?,
    };
    let door = Door::new(options, token.clone())?;
    let socket = match (&options.name, &token) {
        (None, Some(_)) => door.enter(options.history).await?,
        _ => introduced(door.knock().await?, options, token.as_ref()).await?,
    };
    let scene = Arc::new(Mutex::new(Scene::default()));
    let (screen, mut lines) = Screen::open(output::is_plain(options.format.json), &scene)?;
    let mut visit = Visit::new(options, door, socket, scene, screen);
    let end = visit.run(&mut lines, stop).await;
    visit.leave(end, &lines).await
}

/// Says in the first frame where we go and who we are.
async fn introduced(
    mut socket: WebSocketStream<TcpStream>,
    options: &JoinOptions,
    token: Option<&Secret>,
) -> Result<WebSocketStream<TcpStream>, Failure> {
    let mut join = json!({"type": "join", "space": options.room, "history": options.history});
    if let Some(name) = &options.name {
        join["participantId"] = name.as_str().into();
    }
    if let Some(token) = token {
        join["token"] = token.reveal().into();
    }
    socket.send(Frame::text(join.to_string())).await.map_err(lost)?;
    Ok(socket)
}

fn lost(error: impl std::fmt::Display) -> Failure {
    Failure::Unreachable(format!("the connection to the gateway broke: {error}"))
}
