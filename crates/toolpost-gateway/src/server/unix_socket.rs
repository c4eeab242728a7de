//! The Unix socket in the data folder, on which commands of the same user reach the gateway.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

use crate::data::if_exists;

/// Extension of requests over the Unix socket, whose sender is the user of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FromSameUser;

/// A listening socket. Its file is removed on drop.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// Held while this process listens, so that it can replace the file of a process that crashed.
    _lock: File,
}

impl UnixSocket {
    /// Creates the socket, or returns `None` if another process listens on it.
    pub(crate) fn bind(path: &Path) -> io::Result<Option<Self>> {
        let lock_file = path.with_extension("lock");
        let lock = File::options().write(true).create(true).truncate(false).open(lock_file)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if_exists(fs::remove_file(path))?;
        let socket =
            Self { listener: UnixListener::bind(path)?, path: path.to_owned(), _lock: lock };
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(Some(socket))
    }

    /// Accepts a connection of this user. Connections of other users are closed.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if is_same_user(&stream) {
                return Ok(stream);
            }
            tracing::warn!("connection of another user to the Unix socket rejected");
        }
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the peer runs as the user of this process or as root.
fn is_same_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| [own, 0].contains(&peer.uid()))
}
