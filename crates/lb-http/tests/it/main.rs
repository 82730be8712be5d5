//! The HTTP side over real sockets, against a scripted middle.

mod calls;
mod guards;
mod handover;
mod hops;
mod hops_proof;
mod hops_trouble;
mod limits;
mod node;
mod pages;
mod peer;
mod rates;
mod shutdown;
mod streams;
mod tls;
