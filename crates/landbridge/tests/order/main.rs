//! Order and resumption, seen by clients of the real binary.

mod accept;
mod asks;
mod batch;
mod client;
mod get;
mod lists;
mod pass;
mod polling;
mod probe_http;
mod probe_stdio;
mod progress;
mod resume;
mod script;
mod unread;
