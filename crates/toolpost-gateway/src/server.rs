//! Connections: accepted up to a bound, each owned here, all of them drained in the end.

mod overflow;
mod room;
mod seat;
mod turn;
mod wire;

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::overflow::Overflow;
use self::room::Room;
use self::seat::Seat;
use self::turn::{Answering, Asking};
pub(crate) use self::wire::Wire;
use crate::app::{GatewaySettings, Parts};
use crate::door::Doors;

/// The most that is kept of what a client sends before it is understood, and so the largest head of
/// a request: 1,024 clients who send half a head hold 64 MiB together.
const BUFFER: usize = 64 * 1024;

/// How soon to look for a seat again while all of them are in use.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How a gateway stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Whether everything had ended before the deadline.
    pub in_time: bool,
    /// How many connections had to be cut.
    pub cut: usize,
}

/// Boxed, and so compiled here: what is generic is compiled where it is used, and the program that
/// serves may have been asked to be small rather than fast.
pub(crate) fn serve<'a>(
    parts: &'a Parts,
    doors: Doors,
    listener: TcpListener,
    shutdown: BoxFuture<'a, ()>,
) -> BoxFuture<'a, Drained> {
    accept_all(parts, doors, listener, shutdown).boxed()
}

async fn accept_all(
    parts: &Parts,
    doors: Doors,
    listener: TcpListener,
    mut shutdown: BoxFuture<'_, ()>,
) -> Drained {
    // Connections inherit it from their listener.
    if let Err(error) = SockRef::from(&listener).set_send_buffer_size(parts.settings.send_buffer) {
        tracing::debug!(%error, "the system keeps its own size of send buffers");
    }
    let (mut room, mut overflow) = (Room::new(parts.settings.connections), Overflow::default());
    // Who was accepted and has no seat yet. Looking out for more would only fill the table of
    // descriptors, so the others wait in the system's queue.
    let mut newcomer = None;
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            () = room.left() => {}
            stream = accept(&listener), if newcomer.is_none() => newcomer = Some(stream),
            () = tokio::time::sleep(LOOK_AGAIN), if newcomer.is_some() => {}
        }
        parts.seated.store(room.count(), Ordering::Relaxed);
        let Some(stream) = newcomer.take() else { continue };
        if room.has_room() {
            overflow.ended();
            room.seat(|seat| {
                connection(stream, seat, doors.clone(), &parts.settings, parts.stopping.clone())
            });
        } else if overflow.turns_away() {
            overflow.turn_away(stream);
        } else {
            newcomer = Some(stream);
        }
    }
    drop(listener);
    drain(parts, room.into_tasks(), parts.settings.drain).await
}

pub(crate) async fn drain(
    parts: &Parts,
    mut connections: JoinSet<()>,
    patience: Duration,
) -> Drained {
    // A time beyond the end of the clock is as good as a day.
    let drain = patience.min(Duration::from_secs(86_400));
    let deadline = Instant::now() + drain;
    parts.stopping.cancel();
    parts.arriving.close();
    let ended = async { while connections.join_next().await.is_some() {} };
    let (ended, peers_answered) =
        tokio::join!(tokio::time::timeout_at(deadline, ended), parts.hub.drain(drain));
    let cut = connections.len();
    connections.shutdown().await;
    parts.streams.drain().await;
    let _ = tokio::time::timeout_at(deadline, parts.workspace.closed()).await;
    let calls_ended =
        parts.pipeline.drain(deadline.saturating_duration_since(Instant::now())).await;
    // Links go last: calls in flight may have needed them.
    parts.hub.close().await;
    // What peers had asked for and is still running was left to the pipeline just now.
    let left_ended = parts.pipeline.drain(Duration::ZERO).await;
    parts.arriving.wait().await;
    let drained =
        Drained { in_time: ended.is_ok() && peers_answered && calls_ended && left_ended, cut };
    if drained.in_time {
        tracing::info!("drained");
    } else {
        tracing::warn!(cut, "drain deadline passed; what was left has been cut");
    }
    drained
}

/// A failed accept is about one connection, or about descriptors that will come back.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn connection(
    stream: TcpStream,
    seat: Seat,
    doors: Doors,
    settings: &GatewaySettings,
    stopping: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    // Without it the small frames of a stream wait for an acknowledgement that is itself delayed.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY refused");
    }
    let wire = Wire::new(stream, settings.write_timeout, seat.clone());
    let asked = seat.clone();
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(BUFFER)
        .max_header_size(BUFFER)
        .serve_connection(
            TokioIo::new(wire),
            service_fn(move |request| answer(&doors, &asked, request)),
        )
        .with_upgrades();
    async move {
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = &mut connection => ended,
            () = stopping.cancelled() => {
                // Nobody waits for the rest of a head.
                if seat.leave() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended");
        }
    }
}

/// One request: from its head to the last byte of its answer, the seat knows whose turn it is.
fn answer(
    doors: &Doors,
    seat: &Seat,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Answering>, Infallible>> + Send + use<> {
    let seat = seat.clone();
    let asking = |body| Body::new(Asking::new(body, seat.clone()));
    let begun = seat.head_came().then(|| doors.answer(request.map(asking)));
    async move {
        match begun {
            Some(answer) => Ok(answer.await.map(|body| Answering::new(body, seat))),
            None => std::future::pending().await,
        }
    }
}
