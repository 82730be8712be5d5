//! Logins at servers behind two nodes with one store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use lb_auth::behind::Ended;
use lb_exchange::Principal;
use lb_peers::idp::{Idp, Options};
use lb_peers::valkey::Valkey;
use lb_store::{Key, SealKeys, Store};

use crate::behind::server::Server;
use crate::behind::{Linked, alice, call, log_in, login, native, needed, node, spec, token};

const LIFE: Duration = Duration::from_secs(3_600);

/// As nodes open it: sealed.
async fn sealed(server: &Valkey) -> Arc<dyn Store> {
    let mut settings = lb_store::Settings::parse(&server.url()).unwrap();
    settings.seal = Some(SealKeys::new(&[b"0123456789abcdef0123456789abcdef"]).unwrap());
    lb_store::open(&settings).await.unwrap()
}

/// As somebody does who has the server and not the key.
async fn bare(server: &Valkey) -> Arc<dyn Store> {
    lb_store::open(&lb_store::Settings::parse(&server.url()).unwrap()).await.unwrap()
}

async fn provider(life: Duration) -> Idp {
    let options = Options { access_life: Some(life), ..Options::default() };
    tokio::task::spawn_blocking(move || Idp::start(&options)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_that_renew_at_once_renew_once() {
    let valkey = tokio::task::spawn_blocking(Valkey::start).await.unwrap();
    let idp = provider(Duration::from_secs(2)).await;
    let (server, link) = (Server::start(&idp.issuer).await, Linked::default());
    let (here, there) = (node(sealed(&valkey).await, &link), node(sealed(&valkey).await, &link));
    let spec = spec(&server.url, native());
    let (one, other) = (login(&here, &alice(), &spec), login(&there, &alice(), &spec));
    let link_here = needed(&*one, &server.url).await;
    assert_eq!(needed(&*other, &server.url).await, link_here, "one link for both");
    // Begun here, finished there; who waits here is told.
    let (page, ended) = tokio::join!(log_in(&there, &link_here, "alice"), here.wait(&link_here.id));
    assert_eq!((page.0, ended), (200, Ended::Done), "{}", page.1);
    assert_eq!((call(&*one, &server.url).await, call(&*other, &server.url).await), (Ok(200), Ok(200)));
    link.0.slow.store(300, Ordering::SeqCst);
    for round in 1..=3 {
        let old = token(&one.proof().await.unwrap().unwrap());
        tokio::time::sleep(Duration::from_millis(2_050)).await;
        let before = link.0.refreshes.load(Ordering::SeqCst);
        let (a, b) = tokio::join!(join_all((0..25).map(|_| one.proof())), join_all((0..25).map(|_| other.proof())));
        let mut tokens: Vec<_> = a.into_iter().chain(b).map(|proof| token(&proof.unwrap().unwrap())).collect();
        tokens.dedup();
        assert_eq!(tokens.len(), 1, "round {round}");
        assert_ne!(tokens[0].0, old.0);
        assert_eq!(link.0.refreshes.load(Ordering::SeqCst), before + 1, "round {round}");
    }
    // One after the other: the second finds what the first got.
    tokio::time::sleep(Duration::from_millis(2_050)).await;
    let before = link.0.refreshes.load(Ordering::SeqCst);
    let first = token(&one.proof().await.unwrap().unwrap());
    assert_eq!(token(&other.proof().await.unwrap().unwrap()), first);
    assert_eq!(link.0.refreshes.load(Ordering::SeqCst), before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_to_one_is_nothing_in_the_place_of_another() {
    let valkey = tokio::task::spawn_blocking(Valkey::start).await.unwrap();
    let idp = provider(LIFE).await;
    let (server, link) = (Server::start(&idp.issuer).await, Linked::default());
    let store = sealed(&valkey).await;
    let (behind, spec) = (node(store.clone(), &link), spec(&server.url, native()));
    let bob = Principal::named("u_bob");
    let mut records: Vec<Key> = Vec::new();
    let bare = bare(&valkey).await;
    for (principal, user) in [(&alice(), "alice"), (&bob, "bob")] {
        let login = login(&behind, principal, &spec);
        let link = needed(&*login, &server.url).await;
        assert_eq!(log_in(&behind, &link, user).await.0, 200);
        let all: Vec<Key> = bare.scan("behind:login:").map(Result::unwrap).collect().await;
        records.extend(all.into_iter().find(|key| !records.contains(key)));
    }
    let [of_alice, of_bob] = &records[..] else { panic!("{records:?}") };
    let raw = |key: &Key| {
        let (bare, key) = (bare.clone(), key.clone());
        async move { bare.get(&key).await.unwrap().unwrap() }
    };
    let (hers, his) = (raw(of_alice).await, raw(of_bob).await);
    for secret in ["access", "refresh", "alice", "127.0.0.1"] {
        assert!(!hers.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret} can be read");
    }
    // Somebody who starts without memory reads what lies there.
    let fresh = || login(&node(store.clone(), &link), &bob, &spec);
    assert!(fresh().proof().await.unwrap().is_some());
    bare.set(of_bob, hers.clone(), LIFE).await.unwrap();
    assert_eq!(fresh().proof().await.unwrap(), None, "hers in his place");
    let mut flipped = his.to_vec();
    flipped[20] ^= 1;
    bare.set(of_bob, Bytes::from(flipped), LIFE).await.unwrap();
    assert_eq!(fresh().proof().await.unwrap(), None, "a bit of his");
    bare.set(of_bob, his, LIFE).await.unwrap();
    assert!(fresh().proof().await.unwrap().is_some());
    assert!(2 <= store.facts().refused);
}
