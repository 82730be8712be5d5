//! Calls end well: servers that are left alone, bounds on how many run, and what is told when we stop.

#[path = "../order/client.rs"]
mod client;

mod breaker;
mod deadlines;
mod dismissed;
mod forks;
mod hard_stop;
mod last_line;
mod overload;
mod stop;
mod strays;
mod twice;

use client::LANDBRIDGE;
