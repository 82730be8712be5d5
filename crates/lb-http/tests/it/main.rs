//! The HTTP side over real sockets, against a scripted middle.

mod calls;
mod guards;
mod handover;
mod limits;
mod pages;
mod peer;
mod rates;
mod shutdown;
mod streams;
mod tls;
