//! The tools surface over a gateway and scripted servers, in one process and without a transport.

mod asks;
mod events;
mod long_calls;
mod server;
mod sessions;
mod stage;
mod surface;
