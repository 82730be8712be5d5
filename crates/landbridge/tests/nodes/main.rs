//! Several processes on one store: one that is killed and started again, and stores that lose what they were told.

mod failover;
mod restart;
mod world;
