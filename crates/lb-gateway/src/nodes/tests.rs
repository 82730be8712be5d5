use std::sync::atomic::AtomicBool;

use lb_store::{Facts, Pending, Scan, Settings, Subscription};
use tokio::time::{advance, sleep};

use super::*;

/// A store that can be away, or be emptied.
#[derive(Debug)]
struct Shaky {
    inner: Mutex<Arc<dyn Store>>,
    away: AtomicBool,
    /// Whether it is away only after it has done what was asked.
    does_it: AtomicBool,
    /// How often it has lost something.
    lives: AtomicU64,
}

impl Shaky {
    async fn new() -> Arc<Self> {
        let (away, does_it) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { inner: Mutex::new(memory().await), away, does_it, lives: AtomicU64::new(0) })
    }

    fn lives_anew(&self) {
        self.lives.fetch_add(1, Ordering::SeqCst);
    }

    async fn empty(&self) {
        let empty = lb_store::open(&Settings::parse("memory").expect("a store")).await.expect("a store");
        *self.inner.lock() = empty;
    }

    fn inner(&self) -> Arc<dyn Store> {
        self.inner.lock().clone()
    }

    fn check(&self) -> Result<(), Error> {
        let why = "it is a test".to_owned();
        if self.away.load(Ordering::SeqCst) { Err(Error::Away { since: UNIX_EPOCH, why }) } else { Ok(()) }
    }
}

impl Store for Shaky {
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>> {
        Box::pin(async move {
            self.check()?;
            self.inner().get(key).await
        })
    }

    fn apply(&self, batch: Batch) -> Pending<'_, Applied> {
        Box::pin(async move {
            if !self.does_it.load(Ordering::SeqCst) {
                self.check()?;
            }
            let applied = self.inner().apply(batch).await?;
            self.check().map(|()| applied)
        })
    }

    fn range<'a>(&'a self, _: &'a Key, _: u64, _: usize) -> Pending<'a, Vec<(u64, Bytes)>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn scan(&self, prefix: &str) -> Scan {
        self.inner().scan(prefix)
    }

    fn publish<'a>(&'a self, _: &'a Key, _: Bytes) -> Pending<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn subscribe<'a>(&'a self, channel: &'a Key) -> Pending<'a, Subscription> {
        let inner = self.inner();
        Box::pin(async move { inner.subscribe(channel).await })
    }

    fn ping(&self) -> Pending<'_, ()> {
        Box::pin(async { self.check() })
    }

    fn facts(&self) -> Facts {
        Facts { lives: self.lives.load(Ordering::SeqCst), ..self.inner().facts() }
    }
}

async fn memory() -> Arc<dyn Store> {
    let store = lb_store::open(&Settings::parse("memory").expect("a store")).await.expect("a store");
    crate::nodes::settled(store).await
}

async fn join(store: &Arc<dyn Store>, id: &str, tasks: &Tasks) -> Arc<Membership> {
    let about = About::new(Some(id), Some(format!("http://127.0.0.1/{id}")), "1.2.3");
    Membership::join(store.clone(), about, tasks).await.expect("a node")
}

async fn url_of(by: &Membership, node: &NodeName) -> Option<String> {
    by.find(node).await.expect("an answer").map(|url| url.to_string())
}

async fn ids(store: &Arc<dyn Store>) -> Vec<String> {
    let nodes = Membership::list(&**store).await.expect("nodes");
    nodes.iter().map(|node| node.id.to_string()).collect()
}

const A_LITTLE: Duration = Duration::from_millis(20);

#[tokio::test(start_paused = true)]
async fn nodes_see_one_another_for_as_long_as_they_live() {
    let (store, tasks) = (memory().await, Tasks::default());
    let a = join(&store, "a", &tasks).await;
    let b = join(&store, "b", &tasks).await;
    sleep(Duration::from_secs(100)).await;
    assert_eq!(url_of(&a, b.me()).await.as_deref(), Some("http://127.0.0.1/b"));
    assert_eq!(url_of(&b, a.me()).await.as_deref(), Some("http://127.0.0.1/a"));
    assert_eq!(ids(&store).await, ["a", "b"]);
    assert_eq!((a.generation(), b.generation()), (1, 1));

    let earlier_life = NodeName { boot: "0".into(), ..b.me().clone() };
    assert_eq!(url_of(&a, &earlier_life).await, None, "that one is dead");
    let nobody = NodeName { id: "}".into(), boot: "0".into() };
    assert_eq!(url_of(&a, &nobody).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_dropped_is_gone_when_its_lease_is_over_and_one_that_leaves_at_once() {
    let (store, tasks) = (memory().await, Tasks::default());
    let (a, b, c) = (join(&store, "a", &tasks).await, join(&store, "b", &tasks).await, join(&store, "c", &tasks).await);
    let (dropped, left) = (b.me().clone(), c.me().clone());
    drop(b);
    c.leave().await;
    assert_eq!(url_of(&a, &left).await, None);
    sleep(LEASE - A_LITTLE).await;
    assert_eq!(ids(&store).await, ["a", "b"]);
    assert!(url_of(&a, &dropped).await.is_some());
    sleep(BELIEVED + A_LITTLE).await;
    assert_eq!(url_of(&a, &dropped).await, None);
    assert_eq!(ids(&store).await, ["a"], "and what has left stays away");
}

#[tokio::test(start_paused = true)]
async fn what_was_found_is_believed_for_a_second_and_what_was_not_is_asked_for_again() {
    let (store, tasks) = (memory().await, Tasks::default());
    let a = join(&store, "a", &tasks).await;
    let about = About::new(Some("b"), Some("http://b".into()), "1");
    assert_eq!(url_of(&a, &about.name()).await, None);
    let b = Membership::join(store.clone(), about, &tasks).await.expect("a node");
    assert!(url_of(&a, b.me()).await.is_some());
    b.leave().await;
    assert!(url_of(&a, b.me()).await.is_some(), "nobody asked the store");
    sleep(BELIEVED).await;
    assert_eq!(url_of(&a, b.me()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_for_longer_than_its_lease_knows_it_and_is_back() {
    let (store, tasks) = (memory().await, Tasks::default());
    let a = join(&store, "a", &tasks).await;
    // The clock jumps: nothing runs meanwhile, as while a process is stopped.
    advance(LEASE - A_LITTLE).await;
    sleep(A_LITTLE).await;
    assert_eq!(a.generation(), 1, "it was in time");
    advance(LEASE + A_LITTLE).await;
    assert!(1 < a.generation());
    sleep(A_LITTLE).await;
    let back = a.generation();
    let nodes = Membership::list(&*store).await.expect("nodes");
    let [node] = nodes.as_slice() else { panic!("one node, not {nodes:?}") };
    assert!(LEASE - RENEW_EVERY <= node.lag, "{:?} late", node.lag);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(a.generation(), back);
}

#[tokio::test(start_paused = true)]
async fn a_lease_lapses_once_and_counts_again_when_it_is_renewed() {
    let began = Instant::now();
    let lease = Lease::new(began);
    assert_eq!(lease.generation(began + LEASE - A_LITTLE), 1);
    assert_eq!(lease.generation(began + LEASE), 2, "nobody has to renew it for that");
    assert_eq!(lease.generation(began + LEASE * 2), 2);
    lease.renewed(began + LEASE * 2, began + LEASE * 2);
    assert_eq!(lease.generation(began + LEASE * 2), 3);
    // A renewal counts from when it began, however long it took.
    lease.renewed(began + LEASE * 2 + A_LITTLE, began + LEASE * 3 - A_LITTLE);
    assert_eq!(lease.generation(began + LEASE * 3 + A_LITTLE), 4);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_store_was_away_is_back_when_the_store_is() {
    let (shaky, tasks) = (Shaky::new().await, Tasks::default());
    let store: Arc<dyn Store> = shaky.clone();
    let a = join(&store, "a", &tasks).await;
    let b = join(&store, "b", &tasks).await;
    shaky.away.store(true, Ordering::SeqCst);
    assert!(a.find(b.me()).await.is_err_and(|error| error.is_temporary()));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(a.generation(), 1, "there is time left");
    sleep(Duration::from_secs(25)).await;
    let away = a.generation();
    assert_eq!(away, 2);
    shaky.away.store(false, Ordering::SeqCst);
    sleep(Duration::from_secs(2)).await;
    assert!(away < a.generation());
    assert_eq!(ids(&store).await, ["a", "b"]);
    let back = (a.generation(), b.generation());
    sleep(Duration::from_secs(60)).await;
    assert_eq!((a.generation(), b.generation()), back);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_came_back_empty_has_the_node_again_and_the_node_knows() {
    let (shaky, tasks) = (Shaky::new().await, Tasks::default());
    let store: Arc<dyn Store> = shaky.clone();
    let a = join(&store, "a", &tasks).await;
    shaky.empty().await;
    sleep(RENEW_EVERY + A_LITTLE).await;
    assert_eq!(ids(&store).await, ["a"]);
    assert_eq!(a.generation(), 2, "what it owned is not noted there any more");
}

#[tokio::test(start_paused = true)]
async fn a_store_in_another_life_is_noticed_and_told_in_a_moment() {
    let (shaky, tasks) = (Shaky::new().await, Tasks::default());
    let store: Arc<dyn Store> = shaky.clone();
    let a = join(&store, "a", &tasks).await;
    assert!(tokio::time::timeout(LEASE, a.doubted()).await.is_err(), "nothing has happened");
    assert!(a.may_be_nobodys().is_ok());
    shaky.empty().await;
    shaky.lives_anew();
    assert!(a.may_be_nobodys().is_err(), "at once, whoever asks");
    sleep(WATCH_EVERY + A_LITTLE).await;
    assert_eq!(ids(&store).await, ["a"], "long before the next renewal");
    assert_eq!(tokio::time::timeout(A_LITTLE, a.doubted()).await, Ok(()), "what it has is to be verified");
    assert!(1 < a.generation());
    let nobody = About::new(Some("nobody"), None, "1").name();
    assert!(a.find(&nobody).await.is_err(), "nobody counts as dead");
    sleep(RENEW_EVERY).await;
    assert!(a.may_be_nobodys().is_ok(), "who has something has said so");
    assert!(a.find(&nobody).await.is_err(), "but a node may still be on its way");
    sleep(LEASE).await;
    assert_eq!(a.find(&nobody).await.expect("an answer"), None);
    let before = a.generation();
    sleep(LEASE).await;
    assert_eq!(a.generation(), before);
    // One that lost nothing of ours is doubted as well: it may have lost something of a session.
    shaky.lives_anew();
    sleep(WATCH_EVERY + A_LITTLE).await;
    assert!(before < a.generation());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_makes_nobody_doubt() {
    let (shaky, tasks) = (Shaky::new().await, Tasks::default());
    let store: Arc<dyn Store> = shaky.clone();
    let a = join(&store, "a", &tasks).await;
    shaky.away.store(true, Ordering::SeqCst);
    shaky.does_it.store(true, Ordering::SeqCst);
    sleep(RENEW_EVERY + A_LITTLE).await;
    shaky.away.store(false, Ordering::SeqCst);
    sleep(RENEW_EVERY).await;
    assert_eq!(a.generation(), 1);
    shaky.away.store(true, Ordering::SeqCst);
    sleep(RENEW_EVERY).await;
    shaky.away.store(false, Ordering::SeqCst);
    a.leave().await;
    assert_eq!(ids(&store).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_a_node_says_of_itself_reaches_the_others() {
    let (store, tasks) = (memory().await, Tasks::default());
    let a = join(&store, "a", &tasks).await;
    a.report(7, 3);
    a.set_draining(true);
    // At once, not with the next renewal.
    sleep(A_LITTLE).await;
    let nodes = Membership::list(&*store).await.expect("nodes");
    let [node] = nodes.as_slice() else { panic!("one node, not {nodes:?}") };
    assert_eq!((node.sessions, node.streams, node.draining), (7, 3, true));
    assert_eq!((node.version.as_str(), node.store.kind.as_str(), node.store.ok), ("1.2.3", "memory", true));
    let view = node.view(node.seen + Duration::from_millis(1_500));
    let view: serde_json::Value = view.read().expect("an object");
    assert_eq!(view["lastSeenMs"], 1_500);
    assert_eq!(view["store"], serde_json::json!({"type": "memory", "ok": true, "rttMs": 0}));
    assert!(view["startedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{view}");
    assert!(view.get("boot").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_starts_again_under_the_same_id_replaces_its_earlier_life() {
    let (store, tasks) = (memory().await, Tasks::default());
    let first = join(&store, "a", &tasks).await;
    let earlier = first.me().clone();
    drop(first);
    let second = join(&store, "a", &tasks).await;
    assert_eq!(url_of(&second, &earlier).await, None);
    assert!(url_of(&second, second.me()).await.is_some());
    let (random, other) = (About::new(None, None, "1"), About::new(None, None, "1"));
    assert_eq!((random.id.len(), random.boot.len()), (12, 16));
    assert!(random.id != other.id && random.boot != other.boot);
    assert_eq!(NodeName::parse(&random.name().to_string()), Some(random.name()));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_neighbours_see_that_it_is_gone_does_not_live_out_its_lease() {
    let shaky = Shaky::new().await;
    let (store, tasks): (Arc<dyn Store>, _) = (shaky.clone(), Tasks::default());
    // It knows nobody, so that whose key is missing is not dead for that.
    shaky.empty().await;
    let join_at = async |id: &str, place: &str| {
        let host = Host { place: place.into(), is_gone: |id| id.starts_with("gone") };
        let about = About { host: Some(host), ..About::new(Some(id), Some(format!("http://{id}")), "1") };
        Membership::join(store.clone(), about, &tasks).await.expect("a node")
    };
    let (far, gone) = (join_at("far", "there").await, join_at("gone-1", "here").await);
    let (stays, same) = (join_at("gone-2", "there").await, join_at("a", "here").await);
    assert_eq!(url_of(&same, gone.me()).await, None, "from the start");
    assert_eq!(url_of(&far, gone.me()).await, None, "and for everybody");
    assert!(url_of(&same, stays.me()).await.is_some(), "nobody can see that from elsewhere");
    assert_eq!(ids(&store).await, ["a", "far", "gone-2"]);
    let later = stays.me().clone();
    drop((gone, stays));
    sleep(RENEW_EVERY + A_LITTLE).await;
    assert_eq!(url_of(&far, &later).await, None, "its neighbour has looked");
    assert_eq!(ids(&store).await, ["a", "far"]);
    assert_eq!(same.sessions_elsewhere(), 0);
}

#[tokio::test(start_paused = true)]
async fn ids_that_cannot_be_told_apart_are_refused_and_a_node_without_address_is_not_dead() {
    let (store, tasks) = (memory().await, Tasks::default());
    for id in ["", "-", "gone", "a b", "a}", &"x".repeat(65)] {
        let about = About::new(Some(id), None, "1");
        assert!(Membership::join(store.clone(), about, &tasks).await.is_err(), "id {id:?}");
    }
    let a = join(&store, "a", &tasks).await;
    let silent = Membership::join(store.clone(), About::new(Some("s"), None, "1"), &tasks).await.expect("a node");
    assert!(a.find(silent.me()).await.is_err(), "what it has must not be taken over");
    let error = a.find(silent.me()).await.expect_err("no address").to_string();
    assert!(error.contains("--node-url"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn tasks_that_stop_do_not_wait_for_a_renewal() {
    let (store, tasks) = (memory().await, Tasks::default());
    let _a = join(&store, "a", &tasks).await;
    assert!(tasks.close(A_LITTLE).await);
}

#[tokio::test(start_paused = true)]
async fn the_only_process_of_a_store_writes_nothing_and_finds_nobody() {
    let store = memory().await;
    let alone = Membership::alone(store.clone(), About::new(Some("local"), None, "1")).expect("a name");
    let before = alone.generation();
    advance(LEASE * 100).await;
    assert_eq!(alone.generation(), before, "nobody can take over");
    let other = About::new(Some("local"), Some("http://127.0.0.1:1".to_owned()), "1").name();
    assert_eq!(alone.find(&other).await.expect("an answer"), None);
    alone.leave().await;
    assert!(Membership::list(&*store).await.expect("an answer").is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_node_knows_how_many_sessions_the_other_live_ones_have() {
    let (store, tasks) = (memory().await, Tasks::default());
    let (a, b) = (join(&store, "a", &tasks).await, join(&store, "b", &tasks).await);
    a.report(5, 0);
    b.report(7, 0);
    sleep(RENEW_EVERY * 2 + A_LITTLE).await;
    assert_eq!((a.sessions_elsewhere(), b.sessions_elsewhere()), (7, 5));
    let c = join(&store, "c", &tasks).await;
    assert_eq!(c.sessions_elsewhere(), 12, "from the start");
    c.report(100, 0);
    sleep(RENEW_EVERY * 2 + A_LITTLE).await;
    assert_eq!((a.sessions_elsewhere(), b.sessions_elsewhere()), (107, 105));
    c.leave().await;
    drop(b);
    sleep(LEASE + RENEW_EVERY * 2).await;
    assert_eq!(a.sessions_elsewhere(), 0);
    let list = Key::parse("nodes").expect("a key");
    assert_eq!(store.get(&list).await.expect("an answer"), Some("a".into()), "the dead are not asked for any more");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_nodes_that_is_lost_or_rubbish_is_made_anew_and_what_was_known_counts_meanwhile() {
    let (shaky, tasks) = (Shaky::new().await, Tasks::default());
    let store: Arc<dyn Store> = shaky.clone();
    let (a, b) = (join(&store, "a", &tasks).await, join(&store, "b", &tasks).await);
    b.report(7, 0);
    let list = Key::parse("nodes").expect("a key");
    for rubbish in [&b"}{ \xff"[..], b"  a a } x", b""] {
        store.set(&list, rubbish, LEASE).await.expect("an answer");
        sleep(RENEW_EVERY * 3 + A_LITTLE).await;
        assert_eq!(a.sessions_elsewhere(), 7, "{rubbish:?}");
        assert_eq!(store.get(&list).await.expect("an answer"), Some("a b".into()), "{rubbish:?}");
    }
    shaky.away.store(true, Ordering::SeqCst);
    sleep(LEASE * 2).await;
    assert_eq!(a.sessions_elsewhere(), 7);
    shaky.away.store(false, Ordering::SeqCst);
    shaky.empty().await;
    sleep(RENEW_EVERY * 4).await;
    assert_eq!((a.sessions_elsewhere(), b.sessions_elsewhere()), (7, 0));
}

#[tokio::test(start_paused = true)]
async fn nobody_counts_as_dead_right_after_the_store_was_away_or_came_back_empty() {
    let tasks = Tasks::default();
    let shaky = Shaky::new().await;
    let store: Arc<dyn Store> = shaky.clone();
    let (a, b) = (join(&store, "a", &tasks).await, join(&store, "b", &tasks).await);
    let gone = About::new(Some("gone"), None, "1").name();
    assert_eq!(a.find(&gone).await.expect("an answer"), None, "the store has stood for long");
    shaky.empty().await;
    assert!(a.find(b.me()).await.is_err() && a.find(&gone).await.is_err(), "it knows nobody, though both live");
    sleep(RENEW_EVERY * 2).await;
    assert!(a.find(b.me()).await.expect("an answer").is_some());
    assert!(a.find(&gone).await.is_err(), "it may not have renewed yet");
    sleep(LEASE).await;
    assert_eq!(a.find(&gone).await.expect("an answer"), None);
    shaky.away.store(true, Ordering::SeqCst);
    sleep(LEASE * 2).await;
    shaky.away.store(false, Ordering::SeqCst);
    assert!(a.find(b.me()).await.is_err(), "nobody could renew");
    sleep(RENEW_EVERY).await;
    assert!(a.find(b.me()).await.expect("an answer").is_some() && a.find(&gone).await.is_err());
    let late = join(&store, "late", &tasks).await;
    assert!(late.find(&gone).await.is_err(), "others tell whoever comes now");
    sleep(LEASE).await;
    assert_eq!(late.find(&gone).await.expect("an answer"), None);
}
