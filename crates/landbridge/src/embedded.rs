//! Servers inside this process.

use std::collections::HashMap;
use std::sync::Arc;

use lb_backend::EmbeddedServers;
use lb_exchange::{ServerName, ServerSpec, Target, Tasks};

/// Bytes that may wait in each direction between the gateway and an embedded server.
const STREAM_BYTES: usize = 256 << 10;

/// The makers of all embedded servers.
pub fn servers(tasks: &Tasks) -> EmbeddedServers {
    let tasks = tasks.clone();
    let demo = move || {
        let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
        tasks.spawn(lb_demo::serve(theirs));
        ours
    };
    HashMap::from([(lb_demo::NAME.to_owned(), Arc::new(demo) as Arc<_>)])
}

/// The demo as the only server.
pub fn demo() -> Vec<ServerSpec> {
    let name = ServerName::parse(lb_demo::NAME);
    name.map(|name| ServerSpec::new(name, Target::Embedded(lb_demo::NAME.to_owned()))).into_iter().collect()
}
