//! A TCP proxy between the gateway and an HTTP server: it can cut what is open, refuse what comes, and lead to another
//! server, all behind one address.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A running proxy; dropping it closes everything.
pub struct Proxy {
    /// Where it listens, also after it was closed and opened again.
    pub address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
    connections: Arc<Mutex<JoinSet<()>>>,
    listening: Option<JoinSet<()>>,
}

impl Proxy {
    /// Starts on a free port in front of `target`.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (target, connections) = (Arc::new(Mutex::new(target)), Arc::default());
        let mut proxy = Self { address, target, connections, listening: None };
        proxy.listen(listener);
        proxy
    }

    /// Where the gateway is told the server is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Where new connections lead from now on.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.target.lock().expect("lock") = target;
    }

    /// Breaks every open connection; new ones are fine.
    pub async fn cut(&self) {
        let mut connections = std::mem::take(&mut *self.connections.lock().expect("lock"));
        connections.shutdown().await;
    }

    /// Refuses new connections and breaks the open ones.
    pub async fn close(&mut self) {
        if let Some(mut listening) = self.listening.take() {
            listening.shutdown().await;
        }
        self.cut().await;
    }

    /// Listens again, at the same address.
    pub async fn open(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("the same port again");
        self.listen(listener);
    }

    /// How many connections are open.
    pub fn count(&self) -> usize {
        let mut connections = self.connections.lock().expect("lock");
        while connections.try_join_next().is_some() {}
        connections.len()
    }

    fn listen(&mut self, listener: TcpListener) {
        let (target, connections) = (self.target.clone(), self.connections.clone());
        let mut listening = JoinSet::new();
        listening.spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let target = *target.lock().expect("lock");
                connections.lock().expect("lock").spawn(relay(near, target));
            }
        });
        self.listening = Some(listening);
    }
}

async fn relay(mut near: TcpStream, target: SocketAddr) {
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    // Either side may break off at any time: that is what it is for.
    drop(copy_bidirectional(&mut near, &mut far).await);
}
