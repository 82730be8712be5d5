//! `slow`: a crowd of clients that send a byte a second, in a process of its own.
//!
//! `slow ADDRESS --sockets N --seconds S`. Half of the sockets never finish the head of their request, the others drip
//! its body; one that is cut off is opened again. It prints `ready` when nearly all of them are open, and when the time is
//! over lets those go that are left and prints what it saw, as one line of JSON.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How to call the program.
pub const USAGE: &str = "usage: slow ADDRESS --sockets N --seconds S";

/// Connections that are being made at one time.
const CONNECTING_MAX: usize = 200;
/// They come one after the other over this time, so that they are not cut off all at once either.
const SPREAD: Duration = Duration::from_secs(5);
/// How long those that are left may wait for being let go.
const LET_GO_MAX: Duration = Duration::from_secs(60);
const BETWEEN_BYTES: Duration = Duration::from_secs(1);

/// How the crowd is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whom they talk to.
    pub address: SocketAddr,
    /// How many there are at any time.
    pub sockets: u64,
    /// For how long, from when all are there.
    pub time: Duration,
}

impl Options {
    /// Reads the command line, without the program's name.
    ///
    /// # Errors
    /// With a sentence for the user.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let [address, sockets_flag, sockets, seconds_flag, seconds] = args else { return Err("five words".to_owned()) };
        if (sockets_flag.as_str(), seconds_flag.as_str()) != ("--sockets", "--seconds") {
            return Err("an unknown option".to_owned());
        }
        let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{text} is not a number"));
        let address = address.parse().map_err(|_| format!("{address} is not an address"))?;
        Ok(Self { address, sockets: number(sockets)?, time: Duration::from_secs(number(seconds)?) })
    }
}

/// What the crowd saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Connections made in all.
    pub opened: u64,
    /// Those that the other side ended.
    pub cut: u64,
    /// How many were open at one time in the mean, once nearly all were there.
    pub mean: u64,
    /// The fewest.
    pub least: u64,
    /// Those that were still open long after the time was over.
    pub left: u64,
    /// The longest that one was open.
    pub longest_ms: u64,
}

#[derive(Default)]
struct Counters {
    opened: AtomicU64,
    cut: AtomicU64,
    open: AtomicU64,
    longest_ms: AtomicU64,
    over: AtomicBool,
}

/// Lets this process, and those that it starts, have as many descriptors as it may: how many.
#[must_use]
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.or(limit.current).unwrap_or(u64::MAX);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        eprintln!("slow: descriptors: {error}");
        return limit.current.unwrap_or(u64::MAX);
    }
    most
}

/// Runs it; `ready` is called when nearly all sockets are open.
pub async fn run(options: Options, ready: impl FnOnce()) -> Seen {
    let (counters, connecting) = (Arc::new(Counters::default()), Arc::new(Semaphore::new(CONNECTING_MAX)));
    let mut crowd = JoinSet::new();
    for number in 0..options.sockets {
        let after = SPREAD.mul_f64(number as f64 / options.sockets as f64);
        let (counters, connecting) = (counters.clone(), connecting.clone());
        crowd.spawn(async move {
            tokio::time::sleep(after).await;
            linger(options.address, number % 2 == 0, &counters, &connecting).await;
        });
    }
    let start = Instant::now();
    while counters.open.load(Ordering::Relaxed) < options.sockets * 19 / 20 && start.elapsed() < LET_GO_MAX {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ready();
    let (start, mut least, mut sum, mut looks) = (Instant::now(), options.sockets, 0, 0_u64);
    while start.elapsed() < options.time {
        let open = counters.open.load(Ordering::Relaxed);
        (least, sum, looks) = (least.min(open), sum + open, looks + 1);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    counters.over.store(true, Ordering::Relaxed);
    let gone = async { while crowd.join_next().await.is_some() {} };
    if tokio::time::timeout(LET_GO_MAX, gone).await.is_err() {
        eprintln!("slow: some are never let go");
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Seen {
        opened: count(&counters.opened),
        cut: count(&counters.cut),
        mean: sum / looks.max(1),
        least,
        left: count(&counters.open),
        longest_ms: count(&counters.longest_ms),
    }
}

/// One place in the crowd.
async fn linger(address: SocketAddr, in_head: bool, counters: &Counters, connecting: &Semaphore) {
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n";
    let first = if in_head {
        "POST /mcp HTTP/1.1\r\nHost: loc".to_owned()
    } else {
        format!("{head}Content-Length: 100000\r\n\r\n{{")
    };
    while !counters.over.load(Ordering::Relaxed) {
        let Ok(place) = connecting.acquire().await else { return };
        let connected = TcpStream::connect(address).await;
        drop(place);
        let Ok(mut socket) = connected else {
            tokio::time::sleep(BETWEEN_BYTES).await;
            continue;
        };
        let start = Instant::now();
        counters.opened.fetch_add(1, Ordering::Relaxed);
        counters.open.fetch_add(1, Ordering::Relaxed);
        if socket.write_all(first.as_bytes()).await.is_ok() {
            drip(&mut socket).await;
        }
        counters.open.fetch_sub(1, Ordering::Relaxed);
        counters.cut.fetch_add(1, Ordering::Relaxed);
        let life = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        counters.longest_ms.fetch_max(life, Ordering::Relaxed);
    }
}

/// A byte a second until the other side has enough.
async fn drip(socket: &mut TcpStream) {
    let mut answer = [0; 1024];
    loop {
        match tokio::time::timeout(BETWEEN_BYTES, socket.read(&mut answer)).await {
            Ok(Ok(0) | Err(_)) => return,
            Ok(Ok(_)) => {}
            Err(_) => {
                if socket.write_all(b"x").await.is_err() {
                    return;
                }
            }
        }
    }
}
