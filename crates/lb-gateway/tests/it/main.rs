//! Front and gateway together in one process, without a transport.

mod client;
mod counted;
mod kept;
mod login;
mod mirrored;
mod plain_calls;
mod redefined;
mod rests;
mod servers;
mod stored_streams;
mod welcome;

/// Held by every test here: one of them counts the tasks of the whole process.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
