//! Tokens that live two seconds, renewed again and again over a restart of the provider.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use lb_auth::behind::Behind;
use lb_exchange::{Login, LoginError, Principal};
use lb_peers::idp::{Idp, Options};

use super::memory;
use crate::behind::server::Server;
use crate::behind::{Linked, call, log_in, login, native, needed, node, spec};

/// Many people at once, so that so many renewals of tokens that really live two seconds fit into a test.
const PEOPLE: usize = 72;
const ROTATIONS: usize = 10;

/// Logs somebody in.
async fn begin(behind: &Behind, server: &Server, index: usize) -> Arc<dyn Login> {
    let spec = spec(&server.url, native());
    let login = login(behind, &Principal::named(&format!("u_{index}")), &spec);
    let link = needed(&*login, &server.url).await;
    assert_eq!(log_in(behind, &link, &format!("person{index}")).await.0, 200);
    login
}

/// Uses a login until it was renewed often enough. That nobody can be asked for a while is no reason to log in.
async fn rotate(login: &dyn Login, rotations: &AtomicUsize) -> usize {
    let (mut newest, mut seen, mut away) = (0, 0, 0);
    while seen <= ROTATIONS {
        match login.proof().await {
            Ok(Some(proof)) if newest < proof.number => {
                (newest, seen) = (proof.number, seen + 1);
                rotations.fetch_add(usize::from(1 < seen), Ordering::SeqCst);
            }
            Ok(Some(_)) => {}
            Err(LoginError::Failed(_)) => away += 1,
            other => panic!("somebody must log in again: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    away
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seven_hundred_and_twenty_rotations_and_a_restart_need_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (life, store) = (Some(Duration::from_secs(2)), Some(folder.path().join("all")));
    let mut options = Options { access_life: life, store, ..Options::default() };
    let start = |options: Options| tokio::task::spawn_blocking(move || Idp::start(&options));
    let idp = start(options.clone()).await.unwrap();
    options.port = idp.port;
    let (server, link) = (Server::start(&idp.issuer).await, Linked::default());
    let behind = node(memory().await, &link);
    let logins = stream::iter(0..PEOPLE).map(|index| begin(&behind, &server, index));
    let logins: Vec<_> = logins.buffer_unordered(8).collect().await;
    let rotations = AtomicUsize::new(0);
    let restart = async {
        while rotations.load(Ordering::SeqCst) < PEOPLE * ROTATIONS / 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::task::spawn_blocking(move || idp.stop()).await.unwrap();
        // Longer than a token lives: everybody is without one when it comes back.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        start(options).await.unwrap()
    };
    let all = join_all(logins.iter().map(|login| rotate(&**login, &rotations)));
    let (_idp, away) = tokio::join!(restart, all);
    let rotations = rotations.load(Ordering::SeqCst);
    assert!(720 <= rotations, "{rotations}");
    assert!(720 <= link.0.refreshes.load(Ordering::SeqCst));
    assert_eq!(link.0.exchanges.load(Ordering::SeqCst), PEOPLE, "nobody logged in again");
    let well = join_all(logins.iter().map(|login| call(&**login, &server.url))).await;
    assert!(well.iter().all(|status| *status == Ok(200)), "{well:?}");
    assert!(away.iter().all(|away| 0 < *away), "everybody has seen that it was away: {away:?}");
}
