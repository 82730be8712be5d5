//! Stores that have no room, or are away while sessions come and go.

use super::store::shaky;
use super::*;

/// A store with room for a few sessions.
async fn small() -> Arc<dyn Store> {
    let mut settings = Settings::parse("memory").expect("a store");
    settings.limits.bytes_max = 64 << 10;
    let store = lb_store::open(&settings).await.expect("a store");
    crate::nodes::settled(store).await
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_store_without_room_gets_room_when_sessions_end_and_refuses_new_ones_until_then() {
    let store = small().await;
    let process = ALONE.start(&store).await;
    let mut ids = Vec::new();
    let refusal = loop {
        assert!(ids.len() < 10_000, "it is never full");
        match process.try_begin().await {
            Ok(id) => {
                tell(&process.live(&id).await, 4);
                ids.push(id);
            }
            Err(refusal) => break refusal,
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    assert!(refusal.busy && refusal.error.raw.as_str().contains("full"), "{refusal:?}");
    for id in &ids {
        process.seat(id).await.expect("it is awake").end(Cancel::SessionEnd);
    }
    until("all of them are gone", || process.keeper().awake() == 0).await;
    let id = process.begin().await;
    process.written().await;
    assert!(!process.keeper().is_full(), "{id} is kept");
}

#[tokio::test]
async fn sessions_that_a_store_did_not_take_leave_nothing_behind() {
    let (shaky, _, store) = shaky().await;
    let process = A.start(&store).await;
    shaky.away(true);
    for _ in 0..20 {
        let refusal = process.try_begin().await.expect_err("it is away");
        assert!(refusal.busy, "{refusal:?}");
    }
    shaky.away(false);
    until("they are gone", || process.keeper().awake() == 0).await;
    process.begin().await;
}

#[tokio::test]
async fn what_was_written_before_a_session_woke_again_does_not_end_its_writing() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let id = process.begin().await;
    process.written().await;
    let old = process.keeper().writing.lock().get(id.as_str()).cloned().expect("it is written");
    assert!(process.keeper().let_go(&old).await);
    let (id, head) = (SessionId::from_client(&id), Raw::empty_object());
    let woken = Writing::new(&id, head, Owner::of(3, process.keeper().me()), Source::default()).expect("it is written");
    let woken = Arc::new(woken);
    process.keeper().begin(&woken);
    // The news of the first come late.
    process.keeper().after(&old, Wrote::Ended(Ended::Lost));
    assert_eq!(process.keeper().awake(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_about_to_end_lets_go_of_what_nobody_uses_before_its_last_call_has_ended() {
    let store = memory().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    let id = a.begin().await;
    a.written().await;
    assert_eq!(b.locate(&id).await, Place::Node("http://a".into()));
    a.gateway.leave();
    until("it is let go of", || a.gateway.sessions() == 0).await;
    assert_eq!(owner(&store, &id).await, "1 - -");
    b.live(&id).await;
    assert_eq!(owner(&store, &id).await, "2 b 1");
}
