//! Several processes on one store: one that is killed and started again, stores that lose what they were told, and
//! limits that count everywhere.

mod access;
mod caps;
mod failover;
mod listing;
mod rates;
mod restart;
mod world;
