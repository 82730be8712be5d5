//! Our stdin and stdout as streams that can be polled.
//!
//! Clients hand us pipes or sockets, which the reactor can watch; everything else (files, terminals) goes through
//! Tokio's blocking adapters.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as StdUnixStream;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Where lines come from.
pub type Input = Box<dyn AsyncRead + Send + Unpin>;
/// Where lines go.
pub type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// Our stdin.
pub fn input() -> io::Result<Input> {
    let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() {
        return Ok(Box::new(pipe::Receiver::from_file(file)?));
    }
    if kind.is_socket() {
        return Ok(Box::new(socket(file)?));
    }
    Ok(Box::new(tokio::io::stdin()))
}

/// Our stdout.
pub fn output() -> io::Result<Output> {
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    // Where stderr is the same stream, our logs would have to expect that it does not take everything at once.
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?).metadata()?;
    let same = (metadata.dev(), metadata.ino()) == (stderr.dev(), stderr.ino());
    if kind.is_fifo() && !same {
        return Ok(Box::new(pipe::Sender::from_file(file)?));
    }
    if kind.is_socket() && !same {
        return Ok(Box::new(socket(file)?));
    }
    Ok(Box::new(tokio::io::stdout()))
}

fn socket(file: File) -> io::Result<UnixStream> {
    let stream = StdUnixStream::from(OwnedFd::from(file));
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
