//! A TCP proxy that makes the network worse: slow, in single bytes, or with resets. What it does follows from a seed.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::random::Random;

/// What is wrong with the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Everything takes this long, give or take half of it.
    Slow(u64),
    /// Everything comes in single bytes.
    Slices,
    /// Connections are reset after some number of bytes below this one, counted in both directions.
    Resets(u64),
    /// Nothing, until [`Proxy::cut`].
    Calm,
}

/// A connection that has carried nothing for so long is idle.
const IDLE_AFTER: Duration = Duration::from_millis(100);

/// The proxy. Dropping it ends it and every connection through it.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    cut: watch::Sender<u64>,
    _serving: JoinSet<()>,
}

impl Proxy {
    /// In front of an address.
    pub async fn start(to: SocketAddr, weather: Weather, mut random: Random) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (mut serving, cut) = (JoinSet::new(), watch::Sender::new(0));
        let cuts = cut.clone();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(carry(client, to, weather, random.fork(), cuts.subscribe()));
            }
        });
        Self { address, cut, _serving: serving }
    }

    /// Resets every connection that is open: one that is busy somewhere in the next piece from the server, so that half
    /// a message has come through, and any other at once.
    pub fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }
}

async fn carry(
    mut client: TcpStream,
    to: SocketAddr,
    weather: Weather,
    mut random: Random,
    mut cuts: watch::Receiver<u64>,
) {
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    for stream in [&client, &server] {
        if let Err(error) = stream.set_nodelay(true) {
            eprintln!("set_nodelay: {error}");
        }
    }
    let mut left = if let Weather::Resets(below) = weather { random.below(below) } else { u64::MAX };
    let (mut up, mut down) = ([0; 4096], [0; 4096]);
    let mut busy: Option<Instant> = None;
    let mut doomed = false;
    while 0 < left {
        let (piece, is_up) = tokio::select! {
            read = client.read(&mut up) => (read.map(|count| up.get(..count).unwrap_or_default()), true),
            read = server.read(&mut down) => (read.map(|count| down.get(..count).unwrap_or_default()), false),
            Ok(()) = cuts.changed() => {
                doomed = busy.is_some_and(|last| last.elapsed() < IDLE_AFTER);
                if doomed { continue } else { break }
            }
        };
        let Ok(piece) = piece else { break };
        if piece.is_empty() {
            return; // one side has left in order
        }
        busy = (!is_up).then(Instant::now).or(busy);
        if doomed && !is_up {
            left = random.below(piece.len() as u64);
        }
        let through = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
        left -= through as u64;
        let out = if is_up { &mut server } else { &mut client };
        if forward(out, piece.get(..through).unwrap_or_default(), weather, &mut random).await.is_err() {
            break;
        }
    }
    // Both sides get a reset instead of an orderly end.
    for stream in [&client, &server] {
        if let Err(error) = stream.set_zero_linger() {
            eprintln!("set_zero_linger: {error}");
        }
    }
}

async fn forward(out: &mut TcpStream, piece: &[u8], weather: Weather, random: &mut Random) -> std::io::Result<()> {
    match weather {
        Weather::Slow(ms) => {
            tokio::time::sleep(Duration::from_millis(ms / 2 + random.below(ms))).await;
            out.write_all(piece).await
        }
        Weather::Slices => {
            for byte in piece {
                out.write_all(std::slice::from_ref(byte)).await?;
            }
            Ok(())
        }
        Weather::Resets(_) | Weather::Calm => out.write_all(piece).await,
    }
}
