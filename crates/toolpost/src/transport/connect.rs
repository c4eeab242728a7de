//! How a link to a far end is made, and made again.

use futures::future::BoxFuture;

use super::Channel;

/// Makes links to one far end; whoever lost one asks for another.
pub trait Connector: Send + Sync + 'static {
    /// Makes a link.
    fn connect(&self) -> BoxFuture<'static, Result<Channel, ConnectError>>;

    /// Where the links go, for messages.
    fn target(&self) -> String;
}

/// Why there is no link.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address is not one.
    #[error("invalid hub address `{target}`: {reason}")]
    InvalidAddress {
        /// What was given.
        target: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answers there, or not as expected.
    #[error("cannot connect to {target}: {reason}")]
    Unreachable {
        /// Where.
        target: String,
        /// What happened.
        reason: String,
    },
}

impl ConnectError {
    pub(crate) fn unreachable(target: &str, reason: impl Into<String>) -> Self {
        Self::Unreachable { target: target.to_owned(), reason: reason.into() }
    }
}
