//! Several processes that share a store.

use super::*;

/// Longer than a node counts as alive that says nothing.
const LAPSE: Duration = Duration::from_secs(11);

#[tokio::test(start_paused = true)]
async fn a_session_is_with_its_node_while_that_lives_and_with_whoever_is_asked_after() {
    let store = memory().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    let id = a.begin().await;
    assert_eq!(owner(&store, &id).await, "1 a 1", "its client is told when it is written");
    tell(&a.live(&id).await, 2);
    a.written().await;
    assert_eq!(b.locate(&id).await, Place::Node("http://a".into()));
    assert_eq!(b.gateway.sessions(), 0);
    a.crash();
    tokio::time::sleep(LAPSE).await;
    let back = b.live(&id).await;
    let taken = back.cell().with(|session| session.events.take(&Filter::All, 9, usize::MAX));
    assert_eq!((taken.events.len(), taken.dropped.is_some()), (2, true), "something may be missing");
    assert_eq!(owner(&store, &id).await, "2 b 1");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_let_go_of_moves_without_a_gap_and_back() {
    let store = memory().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    let id = a.begin().await;
    tell(&a.live(&id).await, 2);
    a.stop().await;
    let back = b.live(&id).await;
    let taken = back.cell().with(|session| session.events.take(&Filter::All, 9, usize::MAX));
    assert_eq!((taken.events.len(), taken.dropped.is_none()), (2, true));
    let a = Node { boot: "2", ..A }.start(&store).await;
    assert_eq!(a.locate(&id).await, Place::Node("http://b".into()));
    b.stop().await;
    assert!(a.seat(&id).await.is_some());
    assert_eq!(owner(&store, &id).await, "3 a 2");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_slept_drops_what_another_one_has_and_writes_nothing_of_it() {
    let store = memory().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    let (id, quiet) = (a.begin().await, a.begin().await);
    let old = a.live(&id).await;
    // Nobody renews the lease of A for a while, and it does not know.
    store.delete(&Key::parse("node:{a}").expect("a key")).await.expect("gone");
    let new = b.live(&id).await;
    b.live(&quiet).await;
    tell(&new, 1);
    b.written().await;
    tell(&old, 3);
    a.written().await;
    assert!(a.awake(&id).is_none() && old.is_ended(), "it was refused, and knows why");
    assert_eq!(store.range(&key(&id, "events"), 0, 99).await.expect("an answer").len(), 1);
    assert_eq!(waiting(&new), 1);
    // What nothing is written of is looked at before it is used again.
    tokio::time::sleep(LAPSE).await;
    assert_eq!(a.locate(&quiet).await, Place::Node("http://b".into()));
    assert!(a.awake(&quiet).is_none());
    assert!(b.seat(&quiet).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn only_one_of_many_takes_over() {
    let store = memory().await;
    let a = A.start(&store).await;
    let id = a.begin().await;
    a.stop().await;
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let nodes = names.iter().map(|id| async { Node { id, ..A }.start(&store).await });
    let nodes = futures_util::future::join_all(nodes).await;
    let places = futures_util::future::join_all(nodes.iter().map(|node| node.locate(&id))).await;
    let here = places.iter().filter(|place| **place == Place::Here).count();
    assert_eq!(here, 1, "{places:?}");
    assert!(places.iter().all(|place| !matches!(place, Place::Away(_))), "{places:?}");
    assert_eq!(nodes.iter().map(|node| node.gateway.sessions()).sum::<usize>(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_ended_elsewhere_is_nowhere() {
    let store = memory().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    let id = a.begin().await;
    let seat = a.seat(&id).await.expect("there");
    seat.end(Cancel::SessionEnd);
    seat.ended().await;
    assert!(b.seat(&id).await.is_none());
    assert_eq!(keys(&store).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_nodes_have_as_many_sessions_together_as_there_may_be() {
    let store = memory().await;
    let (a, b) = (Node { sessions_max: 3, ..A }.start(&store).await, Node { sessions_max: 3, ..B }.start(&store).await);
    let (first, _) = (a.begin().await, a.begin().await);
    // The count of A is told with its next renewal, and B hears of it with its own.
    tokio::time::sleep(LAPSE).await;
    b.begin().await;
    assert!(b.try_begin().await.is_err_and(|refusal| refusal.busy), "three are all there may be");
    a.crash();
    tokio::time::sleep(LAPSE + Duration::from_secs(4)).await;
    // What is dead counts no more, and what it had may come back.
    assert!(b.seat(&first).await.is_some());
    b.begin().await;
    assert!(b.try_begin().await.is_err());
}
