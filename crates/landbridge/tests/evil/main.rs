//! Servers that die, hang, lie, flood and linger behind the gateway: what their callers are told, what everybody else
//! notices (nothing), and what is left afterwards (nothing).

mod crowd;
mod desk;
mod ends;
mod faults;
mod memory;
mod remote;
mod restart;
mod room;
mod script;
mod signals;
mod starts;

use lb_peers::procs;
