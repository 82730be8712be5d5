//! Sessions that outlive the process that served them: kept in a folder or on a server, ended and started again in the
//! middle of what they do.

#[path = "../order/client.rs"]
mod client;
mod world;

mod events;
mod files;
mod kills;
mod looks;
mod modern;
mod nodes;
mod overflow;
mod questions;
mod readers;
mod rests;
mod servers;
mod sessions;
mod stores;
mod streams;
mod tasks;
mod timers;
mod times;
mod waits;
