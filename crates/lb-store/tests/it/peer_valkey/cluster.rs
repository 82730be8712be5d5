//! Three servers that share the keys.

use std::collections::BTreeSet;

use futures_util::TryStreamExt;
use lb_peers::valkey::{Program, Valkey};
use lb_store::{Applied, Batch, Claimed, Key, Kind, Notice, Settings};

use crate::suite::{LONG, key, until};

fn node() -> Valkey {
    let args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"];
    Valkey::start_with(Program::Valkey, &args)
}

/// Three nodes, each with a third of the slots.
async fn cluster() -> Vec<Valkey> {
    let nodes: Vec<Valkey> = (0..3).map(|_| node()).collect();
    for (node, (first, last)) in nodes.iter().zip([(0, 5_460), (5_461, 10_922), (10_923, 16_383)]) {
        let slots = [first.to_string(), last.to_string()];
        assert_eq!(node.command(&["CLUSTER", "ADDSLOTSRANGE", &slots[0], &slots[1]]), "+OK\r\n");
    }
    for node in &nodes[1..] {
        assert_eq!(nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string()]), "+OK\r\n");
    }
    until("the cluster is whole", async || {
        let whole = nodes.iter().all(|node| {
            let info = node.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        });
        whole.then_some(())
    })
    .await;
    nodes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_one_store() {
    let nodes = cluster().await;
    let hosts: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
    let settings = Settings::parse(&format!("valkey://{}", hosts.join(","))).unwrap();
    let store = lb_store::open(&settings).await.unwrap();
    assert_eq!(store.facts().kind, Kind::Cluster);
    let mut names = BTreeSet::new();
    for n in 0..60 {
        let (record, owner, plain) = (key(&format!("r:{{{n}}}")), key(&format!("o:{{{n}}}")), key(&format!("p:{n}")));
        let Claimed::Ours(claim) = store.claim(&owner, "me", LONG).await.unwrap() else { panic!("it is free") };
        let batch = Batch::new().when_held(&owner, &claim).set(&record, n.to_string(), LONG);
        assert!(matches!(
            store.apply(batch.append(&key(&format!("s:{{{n}}}")), 1, "x", 9, LONG)).await.unwrap(),
            Applied::Done(_)
        ));
        assert!(matches!(store.claim(&plain, "me", LONG).await.unwrap(), Claimed::Ours(_)), "a claim without a tag");
        assert_eq!(store.get(&record).await.unwrap(), Some(n.to_string().into()));
        names.extend([record, owner, plain, key(&format!("s:{{{n}}}"))]);
    }
    let found: Vec<Key> = store.scan("").try_collect().await.unwrap();
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), names, "a scan asks every server");
    for node in &nodes {
        assert_ne!(node.command(&["DBSIZE"]), ":0\r\n", "every server has some");
    }
    let other = lb_store::open(&settings).await.unwrap();
    for n in 0..10 {
        let channel = key(&format!("news:{n}"));
        let mut news = other.subscribe(&channel).await.unwrap();
        let heard = until("a message crosses the cluster", async || {
            store.publish(&channel, "hi".into()).await.unwrap();
            tokio::time::timeout(std::time::Duration::from_millis(200), news.next()).await.ok()
        });
        assert_eq!(heard.await, Some(Notice::Message("hi".into())));
    }
    store.ping().await.unwrap();
    moves(&nodes, &*store).await;
    takes_over(nodes, &*store).await;
}

/// A server dies, and its replica has not heard the last claim.
async fn takes_over(mut nodes: Vec<Valkey>, store: &dyn lb_store::Store) {
    let replica = node();
    let first = nodes[0].command(&["CLUSTER", "MYID"]).lines().nth(1).unwrap().to_owned();
    replica.command(&["CLUSTER", "MEET", "127.0.0.1", &nodes[0].port.to_string()]);
    until("it is a replica", async || {
        let joined = replica.command(&["CLUSTER", "REPLICATE", &first]) == "+OK\r\n";
        (joined && replica.command(&["INFO", "replication"]).contains("master_link_status:up")).then_some(())
    })
    .await;
    // One that the first server has: a slot below 5,461.
    let below = |n: &u32| {
        let slot = nodes[1].command(&["CLUSTER", "KEYSLOT", &n.to_string()]);
        slot.trim_start_matches(':').trim_end().parse::<u32>().unwrap() < 5_461
    };
    let number = (100..).find(below).unwrap();
    let owner = key(&format!("owner:{{{number}}}"));
    // It may not find what is written now in its buffers either.
    replica.pause();
    nodes[0].command(&["CLIENT", "KILL", "TYPE", "replica"]);
    let Claimed::Ours(lost) = store.claim(&owner, "old", LONG).await.unwrap() else { panic!("it is free") };
    nodes[0].kill9();
    replica.resume();
    assert!(store.get(&owner).await.is_err(), "nobody has the slot");
    assert!(store.facts().away_since.is_some());
    assert_eq!(replica.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]), "+OK\r\n");
    let claimed = until("the replica is found", async || store.claim(&owner, "new", LONG).await.ok()).await;
    let Claimed::Ours(new) = claimed else { panic!("the claim was lost: {claimed:?}") };
    assert!(lost.token < new.token, "tokens grow although a write was lost");
    until("all is well", async || store.ping().await.ok()).await;
    assert!(store.facts().away_since.is_none(), "{:?}", store.facts());
}

/// A slot that goes to another server is followed, and nothing is done twice.
async fn moves(nodes: &[Valkey], store: &dyn lb_store::Store) {
    let id = |node: &Valkey| node.command(&["CLUSTER", "MYID"]).lines().nth(1).unwrap().to_owned();
    let counter = key("{moving}n");
    assert_eq!(store.add(&counter, 1, LONG).await.unwrap(), 1);
    let slot = nodes[0].command(&["CLUSTER", "KEYSLOT", "moving"]).trim_start_matches(':').trim_end().to_owned();
    let has = |node: &&Valkey| node.command(&["GET", "landbridge:{moving}n"]).starts_with('$');
    let from = nodes.iter().find(has).unwrap();
    let to = nodes.iter().find(|node| node.port != from.port).unwrap();
    to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
    from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
    let moved = from.command(&["MIGRATE", "127.0.0.1", &to.port.to_string(), "landbridge:{moving}n", "0", "5000"]);
    assert_eq!(moved, "+OK\r\n");
    for node in [to, from] {
        assert_eq!(node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]), "+OK\r\n");
    }
    let count = until("the move is followed", async || store.add(&counter, 1, LONG).await.ok()).await;
    assert_eq!(count, 2);
}
