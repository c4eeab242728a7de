//! Standard input and output, without a thread for each where that is possible.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;

type Input = Box<dyn AsyncRead + Unpin + Send>;
type Output = Box<dyn AsyncWrite + Unpin + Send>;

/// A client gives a pipe or a socket; whatever else it is, a thread reads it.
pub(super) fn input() -> Input {
    let stdin = std::io::stdin();
    if let Some(pipe) = copy(&stdin).and_then(|file| pipe::Receiver::from_owned_fd(file).ok()) {
        return Box::new(pipe);
    }
    match copy(&stdin).and_then(socket) {
        Some(socket) => Box::new(socket),
        None => Box::new(tokio::io::stdin()),
    }
}

pub(super) fn output() -> Output {
    let stdout = std::io::stdout();
    if let Some(pipe) = copy(&stdout).and_then(|file| pipe::Sender::from_owned_fd(file).ok()) {
        return Box::new(pipe);
    }
    match copy(&stdout).and_then(socket) {
        Some(socket) => Box::new(socket),
        None => Box::new(tokio::io::stdout()),
    }
}

fn copy(file: &impl AsFd) -> Option<OwnedFd> {
    file.as_fd().try_clone_to_owned().ok()
}

fn socket(file: OwnedFd) -> Option<tokio::net::UnixStream> {
    let socket = UnixStream::from(file);
    // Only a socket has an address.
    socket.local_addr().ok()?;
    socket.set_nonblocking(true).ok()?;
    tokio::net::UnixStream::from_std(socket).ok()
}
