//! The tools of the gateway from the front to scripted servers, in one process and on a paused clock.

mod client;
mod concurrent;
mod destroy;
mod health;
mod idle;
mod limits;
mod login;
mod need;
mod patience;
mod pending;
mod races;
mod rebind;
mod reconnect;
mod rights;
mod script;
mod tasks;
mod timers;
mod wake;
mod world;
