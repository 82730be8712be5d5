//! Peers of the gateway for tests: servers that behave, servers that do not, raw clients, and a way to start what is
//! tested. Uses none of the gateway's crates and no MCP SDK, so that no bug is shared.

pub mod evil;
pub mod fixture;
pub mod harness;
pub mod idp;
pub mod installed;
pub mod ledger;
pub mod procs;
pub mod raw;
pub mod slow;
pub mod suite;
pub mod tools;
pub mod valkey;
