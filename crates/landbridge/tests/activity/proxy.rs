//! A TCP proxy that cuts connections, and remembers what the gateway had written on each.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// How long the gateway may take to close a connection whose client is gone.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// When a connection is cut.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// When [`Proxy::cut`] is called.
    Told,
    /// After as many bytes towards the client.
    Bytes(usize),
    /// After this time.
    Time(Duration),
}

/// The proxy. Dropping it ends it.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

struct Shared {
    cuts: Mutex<HashMap<u16, Arc<Notify>>>,
    /// What the gateway wrote on connections that are over, by the client's port.
    over: watch::Sender<HashMap<u16, Vec<u8>>>,
}

impl Proxy {
    /// In front of a gateway; `plan` says when each connection is cut.
    pub async fn start(gateway: SocketAddr, plan: impl Fn() -> Cut + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared { cuts: Mutex::default(), over: watch::Sender::default() });
        let kept = shared.clone();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, peer)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let cut = Arc::new(Notify::new());
                kept.cuts.lock().expect("no panic holds it").insert(peer.port(), cut.clone());
                // A port comes again: what was written on its last connection is not what will be on this one.
                kept.over.send_if_modified(|over| over.remove(&peer.port()).is_some_and(|_| false));
                let (shared, plan) = (kept.clone(), plan());
                connections.spawn(async move {
                    let got = carry(client, gateway, plan, &cut).await;
                    shared.over.send_modify(|over| drop(over.insert(peer.port(), got)));
                });
            }
        });
        Self { address, shared, _serving: serving }
    }

    /// Cuts a connection.
    pub fn cut(&self, port: u16) {
        if let Some(cut) = self.shared.cuts.lock().expect("no panic holds it").get(&port) {
            cut.notify_one();
        }
    }

    /// Everything the gateway wrote on a connection, once it is over.
    pub async fn written(&self, port: u16) -> Vec<u8> {
        let mut over = self.shared.over.subscribe();
        let over = tokio::time::timeout(2 * CLOSE_MAX, over.wait_for(|over| over.contains_key(&port))).await;
        let bytes = over.expect("the connection ends").expect("the proxy is there").get(&port).cloned();
        self.shared.over.send_if_modified(|over| over.remove(&port).is_none());
        bytes.unwrap_or_default()
    }
}

async fn carry(client: TcpStream, gateway: SocketAddr, plan: Cut, cut: &Notify) -> Vec<u8> {
    let upstream = TcpStream::connect(gateway).await.expect("the gateway listens");
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_gateway, mut to_gateway) = upstream.into_split();
    let mut got = Vec::new();
    let cut = async {
        match plan {
            Cut::Told => cut.notified().await,
            Cut::Bytes(_) => std::future::pending().await,
            Cut::Time(time) => tokio::time::sleep(time).await,
        }
    };
    let room = if let Cut::Bytes(bytes) = plan { bytes } else { usize::MAX };
    tokio::select! {
        () = cut => {}
        () = up(&mut from_client, &mut to_gateway) => {}
        () = down(&mut from_gateway, &mut to_client, room, &mut got) => {}
    }
    drop((from_client, to_client));
    // From here on the gateway can see that nobody is there; what it had written by then is still in the pipe.
    to_gateway.shutdown().await.ok();
    let mut rest = Vec::new();
    tokio::time::timeout(CLOSE_MAX, from_gateway.read_to_end(&mut rest)).await.ok();
    got.extend(rest);
    got
}

/// Until the client closes.
async fn up(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) {
    let mut piece = [0; 16 * 1024];
    while let Ok(count) = from.read(&mut piece).await {
        if count == 0 || to.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}

/// Until the gateway closes, or as many bytes are through.
async fn down(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, room: usize, got: &mut Vec<u8>) {
    let mut piece = [0; 16 * 1024];
    while let Ok(count) = from.read(&mut piece).await {
        let before = got.len();
        got.extend_from_slice(&piece[..count]);
        let through = count.min(room.saturating_sub(before));
        if count == 0 || to.write_all(&piece[..through]).await.is_err() || room <= got.len() {
            return;
        }
    }
}
