//! Attempts to connect on a clock that stands still, with a server that can be switched off.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lb_exchange::{Caller, Capabilities, Feed, Principal, ServerName, ServerSpec, Target, Tasks};
use lb_wire::revision::Revision;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::time::{Instant, advance};

use super::*;
use crate::children::Children;
use crate::connect::{Connector, EmbeddedServers, Environment};

/// A server and the switches of it.
struct Stage {
    server: Arc<Server>,
    wish: Wish,
    /// Whether it answers; one that does not closes its streams at once.
    up: Arc<AtomicBool>,
    /// Whether it neither answers nor closes.
    hangs: Arc<AtomicBool>,
    starts: Arc<AtomicUsize>,
}

impl Stage {
    fn new() -> Self {
        let (up, hangs, starts) = <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
        let tasks = Tasks::default();
        let make = {
            let (up, hangs, starts, tasks) = (up.clone(), hangs.clone(), starts.clone(), tasks.clone());
            move || {
                starts.fetch_add(1, Ordering::SeqCst);
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                if up.load(Ordering::SeqCst) {
                    tasks.spawn(welcome(theirs));
                } else if hangs.load(Ordering::SeqCst) {
                    let tasks_too = tasks.clone();
                    tasks.spawn(async move {
                        tasks_too.stopping().await;
                        drop(theirs);
                    });
                }
                ours
            }
        };
        let embedded = EmbeddedServers::from([("it".to_owned(), Arc::new(make) as Arc<_>)]);
        let spec = ServerSpec::new(ServerName::parse("it").unwrap(), Target::Embedded("it".to_owned()));
        let environment = Environment {
            supervisor: PathBuf::new(),
            embedded: Arc::new(embedded),
            tasks: tasks.clone(),
            children: Children::new(1),
            logins: None,
            names: crate::Names::default(),
        };
        let (principal, capabilities) = (Principal::local(), Capabilities::none());
        let caller = Caller {
            principal,
            client: None,
            family: None,
            revision: Revision::V2025_11_25,
            capabilities,
            client_info: None,
        };
        let feed = Feed::default();
        let wish = Wish { caller: Arc::new(caller), hello: None, feed, tasks, client_says_initialized: false };
        Self { server: Server::new(Arc::new(spec), environment).unwrap(), wish, up, hangs, starts }
    }

    async fn attempt(&self) -> Result<(), ConnectError> {
        self.server.connect(&self.wish).await.map(drop)
    }

    /// Attempts since the last look.
    fn starts(&self) -> usize {
        self.starts.swap(0, Ordering::SeqCst)
    }

    async fn open(&self) {
        for _ in 0..5 {
            let error = self.attempt().await.unwrap_err();
            assert!(!matches!(error, ConnectError::LeftAlone { .. }), "{error}");
        }
        assert_eq!(self.starts(), 5);
    }
}

async fn welcome(stream: DuplexStream) {
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let asked: Value = serde_json::from_str(&line).unwrap();
        if asked["method"] == "initialize" {
            let info = json!({"name": "s", "version": "1"});
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info});
            let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
            output.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    }
}

/// The wait that a refused attempt names.
fn wait(refused: Result<(), ConnectError>) -> Duration {
    match refused {
        Err(ConnectError::LeftAlone { again, last }) => {
            assert!(last.contains("exited before it answered"), "{last}");
            again
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn after_five_failures_attempts_are_refused_at_once_and_probes_come_later_and_later() {
    let stage = Stage::new();
    stage.open().await;
    for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
        let asked = Instant::now();
        let again = wait(stage.attempt().await);
        assert_eq!(asked.elapsed(), Duration::ZERO, "a refusal takes no time");
        let nominal = Duration::from_secs(seconds);
        assert!(nominal.mul_f64(0.9) <= again && again <= nominal.mul_f64(1.1), "{again:?} for {nominal:?}");
        assert_eq!(stage.starts(), 0, "nothing is started meanwhile");
        advance(again).await;
        assert!(stage.server.is_left_alone());
        assert!(stage.attempt().await.is_err());
        assert_eq!(stage.starts(), 1, "one probe");
    }
    stage.up.store(true, Ordering::SeqCst);
    advance(wait(stage.attempt().await)).await;
    stage.attempt().await.unwrap();
    assert!(!stage.server.is_left_alone());
    stage.up.store(false, Ordering::SeqCst);
    stage.starts();
    stage.open().await;
    assert!(wait(stage.attempt().await) <= Duration::from_millis(1_100), "the waits start anew");
}

#[tokio::test(start_paused = true)]
async fn of_many_attempts_at_once_one_is_the_probe_and_one_that_nobody_waits_for_makes_way() {
    let stage = Stage::new();
    stage.open().await;
    stage.hangs.store(true, Ordering::SeqCst);
    advance(wait(stage.attempt().await)).await;
    let mut probe = Box::pin(stage.attempt());
    assert!(futures_pending(&mut probe).await);
    for _ in 0..20 {
        assert_eq!(wait(stage.attempt().await), Duration::from_secs(1), "while the probe is under way");
    }
    assert_eq!(stage.starts(), 1);
    drop(probe);
    stage.up.store(true, Ordering::SeqCst);
    stage.attempt().await.unwrap();
    assert_eq!(stage.starts(), 1);
}

async fn futures_pending(future: &mut (impl Future + Unpin)) -> bool {
    tokio::select! {
        biased;
        _ = future => false,
        () = tokio::task::yield_now() => true,
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_insists_is_let_pass_and_waits_for_a_probe_that_is_under_way() {
    let stage = Stage::new();
    stage.open().await;
    assert!(stage.server.connect_anyway(&stage.wish).await.is_err());
    assert_eq!(stage.starts(), 1, "tried before its time");
    assert!(Duration::from_millis(1_800) <= wait(stage.attempt().await), "which counts as the probe");
    stage.hangs.store(true, Ordering::SeqCst);
    advance(Duration::from_millis(2_200)).await;
    let mut probe = Box::pin(stage.attempt());
    assert!(futures_pending(&mut probe).await);
    let mut insisting = Box::pin(stage.server.connect_anyway(&stage.wish));
    assert!(futures_pending(&mut insisting).await);
    assert_eq!(stage.starts(), 1, "not two at a time");
    stage.up.store(true, Ordering::SeqCst);
    drop(probe);
    assert!(insisting.await.is_ok());
    assert!(!stage.server.is_left_alone());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_waits_out_a_crash_is_refused_as_soon_as_the_server_is_left_alone() {
    let stage = Stage::new();
    let connector = Connector::new(stage.server.clone());
    for _ in 0..2 {
        assert!(connector.connect(&stage.wish).await.is_err());
    }
    stage.starts();
    for _ in 0..3 {
        assert!(stage.attempt().await.is_err());
    }
    let asked = Instant::now();
    wait(connector.connect(&stage.wish).await.map(drop));
    assert_eq!(asked.elapsed(), Duration::ZERO, "its own wait is not waited for");
}
