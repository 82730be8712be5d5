//! Drives `evil` and `recorder` with the raw clients and sees each fault happen as described.

mod fixture;
mod http;
mod http_streams;
mod peer;
mod plain;
mod recorder;
mod stdio;
mod stdio_process;
