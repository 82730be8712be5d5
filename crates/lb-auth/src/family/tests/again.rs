//! What was ended stays so, and costs little.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// A store that takes a while for what is written, and counts.
#[derive(Debug)]
struct Slow {
    store: Arc<dyn Store>,
    life: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
}

impl Slow {
    async fn new() -> Arc<Self> {
        let (life, read, written) = Default::default();
        Arc::new(Self { store: store().await, life, read, written })
    }

    fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }
}

impl Store for Slow {
    fn get<'a>(&'a self, key: &'a Key) -> lb_store::Pending<'a, Option<Bytes>> {
        self.read.fetch_add(1, Ordering::SeqCst);
        self.store.get(key)
    }

    fn apply(&self, batch: Batch) -> lb_store::Pending<'_, Applied> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.written.fetch_add(1, Ordering::SeqCst);
            self.store.apply(batch).await
        })
    }

    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> lb_store::Pending<'a, Vec<(u64, Bytes)>> {
        self.store.range(key, after, limit)
    }

    fn scan(&self, prefix: &str) -> lb_store::Scan {
        self.store.scan(prefix)
    }

    fn publish<'a>(&'a self, channel: &'a Key, message: Bytes) -> lb_store::Pending<'a, ()> {
        self.store.publish(channel, message)
    }

    fn subscribe<'a>(&'a self, channel: &'a Key) -> lb_store::Pending<'a, lb_store::Subscription> {
        self.store.subscribe(channel)
    }

    fn ping(&self) -> lb_store::Pending<'_, ()> {
        self.store.ping()
    }

    fn facts(&self) -> lb_store::Facts {
        lb_store::Facts { lives: self.life.load(Ordering::SeqCst), ..self.store.facts() }
    }
}

#[tokio::test(start_paused = true)]
async fn very_many_that_were_ended_are_ended_again_each_once_however_often_it_is_cut_off() {
    const MANY: u64 = 5_000;
    let slow = Slow::new().await;
    let here = Families::new(slow.clone(), keys(), ISSUER);
    for number in 0..MANY {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        here.gone.family(&id, 0, at(0));
        // As a store has it that lost their end.
        slow.store.set(&key(&id).unwrap(), "a record", REFRESH_LIFE).await.unwrap();
    }
    slow.life.store(1, Ordering::SeqCst);
    let mut rounds = 0;
    while !here.gone.before(1).families.is_empty() {
        // What the watch gives it in each round.
        tokio::time::timeout(Duration::from_secs(2), here.tend(at(1))).await.ok();
        rounds += 1;
        assert!(rounds <= 10, "it does not get further: {} were written", slow.written());
    }
    // What was under way when it was cut off is done once more, and nothing else is.
    assert!((2..=4).contains(&rounds), "{rounds}");
    assert!(slow.written() <= MANY + rounds * AT_ONCE as u64, "{}", slow.written());
    let left = futures_util::StreamExt::count(slow.store.scan("fam:")).await;
    assert_eq!(left, 0);
}

#[tokio::test]
async fn whoever_saw_that_a_family_was_ended_ends_it_again_when_the_node_that_did_is_gone() {
    let store = store().await;
    let (gone, there) = (Families::new(store.clone(), keys(), ISSUER), Families::new(store.clone(), keys(), ISSUER));
    let newcomer = || Families::new(store.clone(), keys(), ISSUER);
    let first = begun(&gone).await;
    let (key, before) = kept(&store, &first).await;
    assert!(is_good(&there, &first, at(1)).await);
    gone.revoke_refresh(next(&first), "mcp_1", at(2)).await.unwrap();
    // The other node notices, and then the store fails over together with the node that wrote it.
    assert!(!is_good(&there, &first, at(8)).await);
    drop(gone);
    store.set(&key, before, REFRESH_LIFE).await.unwrap();
    assert!(is_good(&newcomer(), &first, at(9)).await, "as the store now says");
    there.tend_in(1, at(10)).await.unwrap();
    assert!(!is_good(&newcomer(), &first, at(11)).await);
    assert!(store.get(&key).await.unwrap().is_none());
    // Once for each life of the store.
    assert!(there.gone.before(1).families.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_token_whose_login_is_over_is_looked_up_once_however_often_it_is_sent() {
    let slow = Slow::new().await;
    let (here, there) = (Families::new(slow.clone(), keys(), ISSUER), Families::new(slow.clone(), keys(), ISSUER));
    let first = begun(&there).await;
    there.revoke_refresh(next(&first), "mcp_1", at(2)).await.unwrap();
    let before = slow.read.load(Ordering::SeqCst);
    for second in 2..100 {
        assert!(!is_good(&here, &first, at(second)).await);
    }
    assert_eq!(slow.read.load(Ordering::SeqCst) - before, 1, "whoever sends it cannot keep the store busy");
}
