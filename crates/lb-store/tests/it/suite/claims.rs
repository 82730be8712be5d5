//! Claims: one holder, and tokens that only grow.

use std::time::Duration;

use lb_store::{Applied, Batch, Claim, Claimed, Refusal, Store};

use super::{Fixture, LONG, is_there, key, until};

async fn ours(store: &dyn Store, name: &str, holder: &str, ttl: Duration) -> Claim {
    match store.claim(&key(name), holder, ttl).await.unwrap() {
        Claimed::Ours(claim) => claim,
        Claimed::Theirs(claim) => panic!("{name} is held by {claim:?}"),
    }
}

pub async fn a_claim_is_held_renewed_and_released<F: Fixture>(fixture: &F) {
    let store = fixture.store().await;
    let c = key("c");
    let short = Duration::from_millis(300);
    let mine = ours(&*store, "c", "node 1", short).await;
    assert_eq!(store.get(&c).await.unwrap(), if F::SEALED { None } else { Some(mine.value()) });
    assert_eq!(Claim::read(&mine.value()), Some(mine.clone()));
    assert!(store.renew(&c, &mine, LONG).await.unwrap());
    // Past the first lifetime.
    store.set(&key("clock"), "1", short).await.unwrap();
    until("time passes", async || store.get(&key("clock")).await.unwrap().is_none().then_some(())).await;
    assert_eq!(store.claim(&c, "node 2", LONG).await.unwrap(), Claimed::Theirs(mine.clone()));
    assert!(store.release(&c, &mine).await.unwrap());
    assert!(!store.release(&c, &mine).await.unwrap());
    assert!(!store.renew(&c, &mine, LONG).await.unwrap());
    let theirs = ours(&*store, "c", "node 2", LONG).await;
    assert!(mine.token < theirs.token);
}

pub async fn only_its_holder_renews_and_releases(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let c = key("c");
    let old = ours(&*store, "c", "node 1", LONG).await;
    let new = ours(&*store, "c", "node 1", LONG).await;
    assert!(old.token < new.token, "the same holder gets a new token");
    for stale in [old, Claim { holder: "node 2".into(), ..new.clone() }, Claim { token: new.token + 1, ..new.clone() }]
    {
        assert!(!store.renew(&c, &stale, LONG).await.unwrap(), "{stale:?}");
        assert!(!store.release(&c, &stale).await.unwrap(), "{stale:?}");
    }
    assert_eq!(store.claim(&c, "node 2", LONG).await.unwrap(), Claimed::Theirs(new.clone()));
    assert!(store.renew(&c, &new, LONG).await.unwrap());
}

pub async fn tokens_only_grow_and_fence_off_old_holders(fixture: &impl Fixture) {
    let store = fixture.store().await;
    let (c, record) = (key("owner:{s}"), key("record:{s}"));
    let before = now_us();
    let mut last = 0;
    for round in 0..50 {
        let claim = ours(&*store, "owner:{s}", &format!("node {round}"), LONG).await;
        assert!(last < claim.token, "{} after {last}", claim.token);
        last = claim.token;
        match round % 3 {
            0 => assert!(store.release(&c, &claim).await.unwrap()),
            1 => assert!(store.delete(&c).await.unwrap()),
            _ => drop(store.take(&c).await.unwrap()),
        }
    }
    // The clock is in it, so that a store that comes back empty goes on above.
    assert!(before - 5_000_000 < last, "{last} is not a time");
    let old = ours(&*store, "owner:{s}", "old", Duration::from_millis(50)).await;
    until("the old claim expires", async || (!is_there(&*store, &c).await).then_some(())).await;
    let new = ours(&*store, "owner:{s}", "new", LONG).await;
    assert!(old.token < new.token);
    let write = |claim: &Claim, text: &str| Batch::new().when_held(&c, claim).set(&record, text.to_owned(), LONG);
    assert!(matches!(store.apply(write(&new, "new")).await.unwrap(), Applied::Done(_)));
    assert_eq!(store.apply(write(&old, "old")).await.unwrap(), Applied::Refused(Refusal::Guard(0)));
    assert_eq!(store.get(&record).await.unwrap(), Some("new".into()));
}

fn now_us() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64
}
