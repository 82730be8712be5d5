//! The store of the benches: a Valkey server of its own until it is told to end.

use lb_peers::valkey::Valkey;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let mut end = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = Valkey::start();
    eprintln!("listening on {}", server.url());
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
    drop(server);
    Ok(())
}
