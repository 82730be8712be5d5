//! The tools surface over a gateway and a scripted server, step by step, without a front.

mod asks;
mod events;
mod long_calls;
mod server;
mod sessions;
mod stage;
mod surface;
