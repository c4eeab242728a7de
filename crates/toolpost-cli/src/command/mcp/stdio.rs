//! Asynchronous standard input and output, without a thread for each where possible.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;

type InputStream = Box<dyn AsyncRead + Unpin + Send>;
type OutputStream = Box<dyn AsyncWrite + Unpin + Send>;

/// Opens standard input. Pipes and sockets are read asynchronously, anything else by a blocking
/// thread.
pub(super) fn stdin() -> InputStream {
    let stdin = std::io::stdin();
    if let Some(pipe) =
        duplicate_fd(&stdin).and_then(|file| pipe::Receiver::from_owned_fd(file).ok())
    {
        return Box::new(pipe);
    }
    match duplicate_fd(&stdin).and_then(as_socket) {
        Some(socket) => Box::new(socket),
        None => Box::new(tokio::io::stdin()),
    }
}

pub(super) fn stdout() -> OutputStream {
    let stdout = std::io::stdout();
    if let Some(pipe) =
        duplicate_fd(&stdout).and_then(|file| pipe::Sender::from_owned_fd(file).ok())
    {
        return Box::new(pipe);
    }
    match duplicate_fd(&stdout).and_then(as_socket) {
        Some(socket) => Box::new(socket),
        None => Box::new(tokio::io::stdout()),
    }
}

fn duplicate_fd(file: &impl AsFd) -> Option<OwnedFd> {
    file.as_fd().try_clone_to_owned().ok()
}

fn as_socket(file: OwnedFd) -> Option<tokio::net::UnixStream> {
    let socket = UnixStream::from(file);
    // Fails if the file is not a socket.
    socket.local_addr().ok()?;
    socket.set_nonblocking(true).ok()?;
    tokio::net::UnixStream::from_std(socket).ok()
}
