//! What happens in a session and who is told of it, seen by clients of the real binary.

mod world;

mod events;
mod flood;
mod logs;
mod long;
mod proxy;
mod sessions;
mod tasks;
