//! The HTTP side over real sockets, against a scripted middle.

mod calls;
mod guards;
mod limits;
mod pages;
mod peer;
mod shutdown;
mod streams;
