//! Sessions that outlive the process that served them: kept in a folder or on a server, ended and started again in the
//! middle of what they do.

#[path = "../order/client.rs"]
mod client;
mod world;

mod events;
mod files;
mod questions;
mod servers;
mod sessions;
mod tasks;
mod timers;
