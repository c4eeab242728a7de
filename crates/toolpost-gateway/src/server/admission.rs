//! Admission of requests: each uses a connection while it is served, out of the share of its caller.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use tokio::time::Instant;
use tokio_util::either::Either;
use toolpost::Limit;
use toolpost::shares::{Holder, ShareError, ShareLimits, SharePermit, Shares};

use super::Socket;
use super::connection_state::ConnectionState;
use crate::auth::ClientCertificate;
use crate::endpoint::{GatewaySettings, ProblemDetails};

/// Maximum time that a request waits for a connection of its share. Shorter peaks are tolerated.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Interval between attempts to admit a waiting request.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A client over TCP; its address is unknown if it has already disconnected.
    Remote(Option<IpAddr>),
    /// A process of the same user, over the Unix socket.
    SameUser,
}

impl Peer {
    pub(super) fn of(stream: &Socket) -> Self {
        match stream {
            Either::Left(stream) => Self::Remote(stream.peer_addr().ok().map(|peer| peer.ip())),
            Either::Right(_) => Self::SameUser,
        }
    }

    /// Returns the holder before authentication.
    pub(crate) fn holder(self) -> Holder {
        match self {
            Self::Remote(Some(address)) => Holder::of_address(address),
            Self::Remote(None) => Holder::of_unknown_address(),
            Self::SameUser => Holder::Operator,
        }
    }
}

/// A connection, as its requests see it.
#[derive(Debug, Clone)]
pub(super) struct ConnectionContext {
    pub(super) peer: Peer,
    pub(super) state: ConnectionState,
    pub(super) active: Shares,
    /// The certificate of the client, if it sent one.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
}

impl ConnectionContext {
    /// Admits a request of a holder. A probe is admitted without a permit if there is none. Any
    /// other request waits briefly and is then rejected. While it waits, the connection can be
    /// evicted.
    pub(super) async fn admit(
        &self,
        holder: &Holder,
        is_probe: bool,
    ) -> Result<Option<SharePermit>, Response<Body>> {
        self.state.set_owner(holder);
        let mut began = None;
        loop {
            let error = match self.active.try_acquire(holder, 1) {
                Ok(permit) => return Ok(Some(permit)),
                Err(_) if is_probe => return Ok(None),
                Err(error) => error,
            };
            if began.get_or_insert_with(Instant::now).elapsed() >= MAX_WAIT {
                tracing::debug!(%error, "connection limit reached; rejecting request");
                return Err(rejection(error));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Returns the bounds of the connections, or of the WebSockets, of a gateway.
pub(crate) fn connection_shares(settings: &GatewaySettings, unit: &'static str) -> Shares {
    let limits = ShareLimits::new(
        unit,
        (Limit::Connections, settings.max_connections),
        (Limit::CallerConnections, settings.max_connections_per_caller),
    );
    let address = (Limit::AddressConnections, settings.max_connections_per_address);
    Shares::new(limits.with_address(address).with_reserved(settings.reserved_connections))
}

fn rejection(error: ShareError) -> Response<Body> {
    let mut response = ProblemDetails::from(error).into_response();
    close_after(&mut response);
    response
}

/// Closes the connection after the response, so that a client that reads nothing cannot hold
/// several of them.
pub(super) fn close_after(response: &mut Response<Body>) {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}
