//! Asynchronous standard input and output. Pipes and sockets need no blocking thread.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;

pub(super) fn stdin() -> Box<dyn AsyncRead + Unpin + Send> {
    let file = io::stdin();
    if let Ok(pipe) = file.as_fd().try_clone_to_owned().and_then(pipe::Receiver::from_owned_fd) {
        return Box::new(pipe);
    }
    match as_socket(&file) {
        Ok(socket) => Box::new(socket),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

pub(super) fn stdout() -> Box<dyn AsyncWrite + Unpin + Send> {
    let file = io::stdout();
    if let Ok(pipe) = file.as_fd().try_clone_to_owned().and_then(pipe::Sender::from_owned_fd) {
        return Box::new(pipe);
    }
    match as_socket(&file) {
        Ok(socket) => Box::new(socket),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}

fn as_socket(file: &impl AsFd) -> io::Result<tokio::net::UnixStream> {
    let socket = UnixStream::from(file.as_fd().try_clone_to_owned()?);
    // Fails if the file is not a socket.
    socket.local_addr()?;
    socket.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(socket)
}
