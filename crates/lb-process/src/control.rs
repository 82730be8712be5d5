//! What a supervisor and we say to each other over their socket.
//!
//! Towards the supervisor: one byte that carries the program's standard input, then orders of one byte. Closing our
//! side is the last order: end everything. Towards us: reports of five bytes, a tag and a number.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use crate::Exit;

/// What we tell a supervisor to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// SIGTERM to the program's group.
    Terminate,
    /// SIGKILL to all that descends from the program.
    Kill,
}

impl Order {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Terminate => b'T',
            Self::Kill => b'K',
        }
    }

    pub(crate) fn parse(byte: u8) -> Option<Self> {
        match byte {
            b'T' => Some(Self::Terminate),
            b'K' => Some(Self::Kill),
            _ => None,
        }
    }
}

/// What a supervisor tells us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The program runs under this process id.
    Started(i32),
    /// The folder to start in could not be entered; the error number says why.
    NoFolder(i32),
    /// The program could not be started; the error number says why.
    NoProgram(i32),
    /// The program ended by itself.
    Exited(i32),
    /// The program was ended by a signal.
    Signalled(i32),
}

impl Report {
    pub(crate) const BYTES: usize = 5;

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let (tag, value) = match self {
            Self::Started(pid) => (b'S', pid),
            Self::NoFolder(errno) => (b'F', errno),
            Self::NoProgram(errno) => (b'P', errno),
            Self::Exited(code) => (b'X', code),
            Self::Signalled(signal) => (b'G', signal),
        };
        let [a, b, c, d] = value.to_le_bytes();
        [tag, a, b, c, d]
    }

    pub(crate) fn parse([tag, a, b, c, d]: [u8; Self::BYTES]) -> Option<Self> {
        let value = i32::from_le_bytes([a, b, c, d]);
        match tag {
            b'S' => Some(Self::Started(value)),
            b'F' => Some(Self::NoFolder(value)),
            b'P' => Some(Self::NoProgram(value)),
            b'X' => Some(Self::Exited(value)),
            b'G' => Some(Self::Signalled(value)),
            _ => None,
        }
    }
}

impl From<Exit> for Report {
    fn from(exit: Exit) -> Self {
        match exit.signal {
            Some(signal) => Self::Signalled(signal),
            None => Self::Exited(exit.code.unwrap_or_default()),
        }
    }
}

/// Sends a file descriptor. A process is started with three of them at most unless it is forked by hand, which is slow
/// in a large process; the fourth therefore travels through the socket.
pub(crate) fn send_fd(socket: impl AsFd, fd: impl AsFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [fd.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("no room for a file descriptor"));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(b"I")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Receives what [`send_fd`] sent; the copy is closed when another program is executed.
pub(crate) fn receive_fd(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::empty())?;
    let mut received = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    let fd = received.next().ok_or(io::ErrorKind::UnexpectedEof)?;
    // The flag that does this on receipt is missing outside Linux; the supervisor has one thread, so nothing races.
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_and_orders_survive_the_socket() {
        for value in [0, 1, -1, i32::MAX, i32::MIN] {
            for report in [
                Report::Started(value),
                Report::NoFolder(value),
                Report::NoProgram(value),
                Report::Exited(value),
                Report::Signalled(value),
            ] {
                assert_eq!(Report::parse(report.encode()), Some(report));
            }
        }
        assert_eq!(Report::parse(*b"?1234"), None);
        for order in [Order::Terminate, Order::Kill] {
            assert_eq!(Order::parse(order.byte()), Some(order));
        }
        assert_eq!(Order::parse(b'I'), None);
    }
}
