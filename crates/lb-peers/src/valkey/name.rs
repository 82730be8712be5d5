//! An address behind which one server takes the place of another, as the name of a primary does.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A port of loopback that leads to a server, and from one moment on to another one. Dropping it ends what goes through.
#[derive(Debug)]
pub struct Name {
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
    leads_to: Arc<AtomicU16>,
    moved: watch::Sender<()>,
    /// Those who lead there, for as long as it is held.
    _tasks: JoinSet<()>,
}

impl Name {
    /// A name of the server on this port.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn of(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let own = listener.local_addr().expect("bound").port();
        let leads_to = Arc::new(AtomicU16::new(port));
        let (moved, heard) = watch::channel(());
        let mut tasks = JoinSet::new();
        tasks.spawn(lead(listener, leads_to.clone(), heard));
        Self { port: own, leads_to, moved, _tasks: tasks }
    }

    /// Where a store finds whoever has the name.
    pub fn url(&self) -> String {
        format!("valkey://127.0.0.1:{}", self.port)
    }

    /// Leads to the server on this port from now on, and closes every connection to the one before.
    pub fn moves_to(&self, port: u16) {
        self.leads_to.store(port, Ordering::SeqCst);
        self.moved.send_replace(());
    }
}

async fn lead(listener: TcpListener, leads_to: Arc<AtomicU16>, heard: watch::Receiver<()>) {
    let mut connections = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        let (mut heard, port) = (heard.clone(), leads_to.load(Ordering::SeqCst));
        heard.mark_unchanged();
        connections.spawn(async move {
            let Ok(mut server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                _ = heard.changed() => {}
            }
        });
        // Those that have ended need no room.
        while connections.try_join_next().is_some() {}
    }
}
