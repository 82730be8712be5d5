//! The stdio transport: lines in, lines out; stdout belongs to the protocol.

use std::future::Future;
use std::io;

use lb_exchange::{Mount, Principal};
use lb_front::Front;

/// Serves one client on stdin and stdout.
pub async fn serve(
    _front: &Front,
    _mount: Mount,
    _who: Principal,
    _shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    Err(io::Error::other("stdio"))
}
