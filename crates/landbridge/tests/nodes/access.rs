//! Stores that are not reached just so: with a user, a database of their own, an encrypted connection, several servers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lb_peers::harness::Gateway;
use lb_peers::valkey::{Program, Valkey};

use crate::world::{Client, DOOR, PATIENCE, start};

/// Two nodes share sessions on this store; gives them back to look at.
async fn shared(store: &str, args: &[&str]) -> (Gateway, Gateway) {
    let args = [DOOR, args].concat();
    let (one, two) = (start(store, &args).await, start(store, &args).await);
    for (from, to) in [(&one, &two), (&two, &one)] {
        let client = Client::begin(from.address).await;
        client.remember(from.address, "kept").await;
        assert!(goes_on(&client, to.address).await.contains("kept"), "at the other node");
    }
    (one, two)
}

async fn goes_on(client: &Client, at: SocketAddr) -> String {
    client.timers_soon(at).await.0
}

/// A session that outlives its node.
async fn survives(store: &str, args: &[&str]) {
    let (one, two) = shared(store, args).await;
    let client = Client::begin(one.address).await;
    client.remember(one.address, "survives").await;
    crate::world::kill(one).await;
    assert!(goes_on(&client, two.address).await.contains("survives"), "after its node has died");
}

mod peer_valkey {
    use super::*;

    /// What the documentation of the store says that a user needs.
    const RIGHTS: &str = "+get +set +del +incrby +setrange +pexpire +type +xadd +xrange +xtrim +xinfo +time +scan \
                          +publish +subscribe +unsubscribe +ping +info +evalsha +script|load";

    #[tokio::test]
    async fn nodes_share_a_store_as_a_user_with_few_rights() {
        let server = Valkey::start();
        let mut words = vec!["ACL", "SETUSER", "ann", "on", ">hunter2", "-@all", "~landbridge:*", "&landbridge:*"];
        words.extend(RIGHTS.split_ascii_whitespace());
        assert_eq!(server.command(&words), "+OK\r\n");
        assert_eq!(server.command(&["ACL", "SETUSER", "default", "off"]), "+OK\r\n");
        survives(&format!("valkey://ann:hunter2@127.0.0.1:{}", server.port), &[]).await;
    }

    #[tokio::test]
    async fn nodes_share_a_database_of_a_server_and_leave_the_others_alone() {
        let server = Valkey::start();
        let nodes = shared(&format!("{}/5", server.url()), &[]).await;
        assert_eq!(server.command(&["DBSIZE"]), ":0\r\n", "nothing in the first one");
        let keyspace = server.command(&["INFO", "keyspace"]);
        assert!(keyspace.contains("db5:keys="), "{keyspace}");
        // Another database is another set of nodes.
        let apart = start(&format!("{}/6", server.url()), DOOR).await;
        let client = Client::begin(nodes.0.address).await;
        client.remember(nodes.0.address, "of five").await;
        let began = Instant::now();
        loop {
            match client.timers(apart.address).await {
                (404, _) => break,
                // A node that has just started does not yet believe that its store has nothing.
                (503, _) if began.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_millis(50)).await,
                (status, text) => panic!("{status} {text}"),
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nodes_share_several_servers_that_are_one_store() {
        let args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        let servers: Vec<Valkey> = (0..3).map(|_| Valkey::start_with(Program::Valkey, &args)).collect();
        for (server, slots) in servers.iter().zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]]) {
            assert_eq!(server.command(&["CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]]), "+OK\r\n");
        }
        for server in &servers[1..] {
            let port = server.port.to_string();
            assert_eq!(servers[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port]), "+OK\r\n");
        }
        let (began, whole) = (Instant::now(), |server: &Valkey| {
            let info = server.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        });
        while !servers.iter().all(whole) {
            assert!(began.elapsed() < PATIENCE, "the servers find each other");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
        survives(&format!("valkey://{}", hosts.join(",")), &[]).await;
    }
}

mod peer_redis {
    use super::*;

    #[tokio::test]
    async fn nodes_share_a_store_over_an_encrypted_connection_that_they_trust() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let (certificate, secret) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).expect("written");
        std::fs::write(&secret, made.signing_key.serialize_pem()).expect("written");
        let (cert, key) = (certificate.to_str().expect("text"), secret.to_str().expect("text"));
        let tls = ["--tls-port", "PORT", "--tls-auth-clients", "no", "--tls-cert-file", cert, "--tls-key-file", key];
        let args = [&["--port", "0"][..], &tls, &["--tls-ca-cert-file", cert]].concat();
        let server = Valkey::start_with(Program::Redis, &args);
        let url = format!("rediss://localhost:{}", server.port);
        survives(&url, &["--store-ca", cert]).await;
        let refused = crate::world::refused(&url, &[]).await;
        assert!(refused.contains("certificate"), "without the certificate nothing starts: {refused}");
    }
}
