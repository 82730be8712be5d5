//! The service around the protocol, through the binary: guards, limits, pages, sockets, and the way down.

mod flags;
mod guards;
mod life;
mod pages;
mod sockets;
mod tls;
mod world;
