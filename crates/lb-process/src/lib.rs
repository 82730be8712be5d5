//! Starting, watching and ending processes.
//!
//! Each program runs below a supervisor of its own: a second process of our binary that does nothing but wait. Between
//! it and us lies one socket. When that socket closes, for whatever reason (we stop, we drop the [`Child`], we are
//! killed with signal 9), the supervisor kills what is left and ends too. On Linux that is every descendant, those that
//! left by `setsid` included, because orphans of the program become children of the supervisor; on other Unix systems
//! it is the program's process group. The supervisor never copies a byte: the program's three pipes are ours.
//!
//! The binary calls [`supervise_entry`] before anything else in `main` and names itself (see [`own_supervisor`]) in
//! every [`Command`].
//!
//! [`inherited_sockets`] takes over what a service manager has opened for us.
//!
//! This crate knows no MCP, no sessions and no restart policy. It is the only one with `unsafe`. On systems other than
//! Unix it offers only [`environment`], [`Exit`] and [`StderrRing`].

mod environment;
mod exit;
mod stderr;

#[cfg(unix)]
mod child;
#[cfg(unix)]
mod command;
#[cfg(unix)]
mod control;
#[cfg(unix)]
mod error;
#[cfg(unix)]
mod inherited;
#[cfg(unix)]
mod supervisor;
#[cfg(unix)]
mod tree;

pub use environment::{Inherit, environment};
pub use exit::Exit;
pub use stderr::{LineHook, StderrRing, printable};

#[cfg(unix)]
pub use child::{Child, ChildStdin, ChildStdout, Grace};
#[cfg(unix)]
pub use command::{Command, own_supervisor};
#[cfg(unix)]
pub use error::SpawnError;
#[cfg(unix)]
pub use inherited::inherited_sockets;
#[cfg(unix)]
pub use supervisor::supervise_entry;
