//! `room join`: an interactive room client.
//!
//! | file | contains |
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

use parking_lot::Mutex;

use super::super::signal::Signals;
use crate::arguments::JoinOptions;
use crate::error::CommandError;
use crate::output;
use client::RoomClient;
use connection::RoomConnection;
use prompt::Screen;
use room_view::RoomView;

pub(crate) async fn join(options: &JoinOptions) -> Result<(), CommandError> {
    let stop = Signals::stop()?;
    let client = RoomClient::new(options)?;
    let socket = client.join().await?;
    let view = Arc::new(Mutex::new(RoomView::default()));
    let (screen, lines) = Screen::open(output::is_json(), &view)?;
    RoomConnection::new(options, client, socket, view, screen).run(lines, stop).await
}
