//! The service around the protocol, through the binary: guards, limits, pages, sockets, and the way down.

mod guards;
mod life;
mod pages;
mod world;
