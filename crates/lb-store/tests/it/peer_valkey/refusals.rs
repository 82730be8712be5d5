//! Servers that answer, but not with what was asked for: replicas, those without replicas, those that are busy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lb_peers::valkey::{Program, Valkey};
use lb_store::{Batch, Error, Settings, Store};

use crate::suite::{LONG, key, until};

async fn open(server: &Valkey) -> Arc<dyn Store> {
    lb_store::open(&Settings::parse(&server.url()).unwrap()).await.unwrap()
}

fn connections(server: &Valkey) -> u64 {
    let info = server.command(&["INFO", "stats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_became_a_replica_counts_as_away_and_is_looked_up_again() {
    let main = Valkey::start();
    for program in [Program::Valkey, Program::Redis] {
        let server = Valkey::start_with(program, &[]);
        let store = open(&server).await;
        store.set(&key("{t}v"), "1", LONG).await.unwrap();
        let port = main.port.to_string();
        server.command(&["REPLICAOF", "127.0.0.1", &port]);
        let before = connections(&server);
        for batch in [
            Batch::new().set(&key("{t}v"), "2", LONG),
            Batch::new().delete(&key("{t}v")),
            Batch::new().when(&key("{t}x"), None).expire(&key("{t}v"), LONG),
        ] {
            let begun = Instant::now();
            let error = store.apply(batch).await.unwrap_err();
            assert!(matches!(error, Error::Away { .. }), "{program:?}: {error:?}");
            assert!(begun.elapsed() < Duration::from_secs(20), "told after {:?}", begun.elapsed());
            assert!(store.facts().away_since.is_some(), "{program:?}");
        }
        assert!(before + 3 < connections(&server), "{program:?}: the same connection was used on and on");
        let since = store.facts().away_since;
        // Reading works, and makes it no better.
        drop(store.get(&key("{t}v")).await);
        assert_eq!(store.facts().away_since, since);
        server.command(&["REPLICAOF", "NO", "ONE"]);
        until("it takes writes again", async || store.set(&key("{t}v"), "3", LONG).await.ok()).await;
        assert!(store.facts().away_since.is_none(), "{program:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_enough_replicas_may_be_asked_again() {
    for program in [Program::Valkey, Program::Redis] {
        let server = Valkey::start_with(program, &[]);
        let store = open(&server).await;
        store.set(&key("v"), "1", LONG).await.unwrap();
        server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        for error in
            [store.set(&key("v"), "2", LONG).await.unwrap_err(), store.delete(&key("v")).await.map(drop).unwrap_err()]
        {
            assert!(error.is_temporary(), "{program:?}: {error:?}");
        }
        assert_eq!(store.get(&key("v")).await.unwrap(), Some("1".into()));
        server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        store.set(&key("v"), "2", LONG).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_runs_a_script_for_ever_may_be_asked_again() {
    let server = Valkey::start_with(Program::Valkey, &["--lua-time-limit", "20"]);
    let store = open(&server).await;
    let busy = std::thread::scope(|scope| {
        let looping = scope.spawn(|| server.command(&["EVAL", "while true do end", "0"]));
        let begun = Instant::now();
        while !server.command(&["PING"]).contains("BUSY") {
            assert!(begun.elapsed() < Duration::from_secs(8), "the script does not run");
        }
        let handle = tokio::runtime::Handle::current();
        let busy = tokio::task::block_in_place(|| handle.block_on(store.set(&key("v"), "1", LONG)));
        server.command(&["SCRIPT", "KILL"]);
        looping.join().unwrap();
        busy
    });
    let error = busy.unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("BUSY"), "{error:?}");
    until("it goes on", async || store.set(&key("v"), "1", LONG).await.ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_a_stream_can_be_asked_for() {
    let server = Valkey::start();
    let store = open(&server).await;
    store.append(&key("s"), 7, "x", 9, LONG).await.unwrap();
    assert_eq!(store.range(&key("s"), 0, usize::MAX).await.unwrap(), [(7, "x".into())]);
}

/// Listens, accepts, and never says a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_hang_cost_one_timeout_together() {
    let silent: Vec<_> = (0..3).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let hosts: Vec<String> = silent.iter().map(|host| host.local_addr().unwrap().to_string()).collect();
    let timeout = Duration::from_secs(1);
    let settings = Settings { timeout, ..Settings::parse(&format!("valkey://{}", hosts.join(","))).unwrap() };
    let begun = Instant::now();
    let error = lb_store::open(&settings).await.unwrap_err();
    assert!(error.is_temporary(), "{error:?}");
    assert!(begun.elapsed() < timeout * 2, "three of them took {:?}", begun.elapsed());
}
