//! Front and gateway together in one process, without a transport.

mod plain_calls;
mod servers;
