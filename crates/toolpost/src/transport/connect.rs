//! Opens channels to a peer.

use futures::future::BoxFuture;

use super::Channel;

/// Opens channels to one peer. Each call to `connect` opens a new channel.
pub trait Connector: Send + Sync + 'static {
    /// Opens a connection.
    fn connect(&self) -> BoxFuture<'static, Result<Channel, ConnectError>>;

    /// Returns the address of the peer, for messages.
    fn target(&self) -> String;
}

/// Error returned when a channel cannot be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address is invalid.
    #[error("invalid hub address `{target}`: {reason}")]
    InvalidAddress {
        /// The address as given.
        target: String,
        /// Why the address is invalid.
        reason: String,
    },
    /// The peer does not respond, or sends an unexpected response.
    #[error("cannot connect to {target}: {reason}")]
    Unreachable {
        /// Address of the peer.
        target: String,
        /// Reason for the failure.
        reason: String,
    },
}

impl ConnectError {
    pub(crate) fn unreachable(target: &str, reason: impl Into<String>) -> Self {
        Self::Unreachable { target: target.to_owned(), reason: reason.into() }
    }
}
