//! Stores that fail, lose what they had, or take less than they should.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use lb_store::{Applied, Batch, Error, Facts, Pending, Scan, Subscription};

use super::*;

/// A store that can be made to fail.
#[derive(Debug)]
pub(super) struct Shaky {
    inner: Arc<dyn Store>,
    /// Batches that fail before they are done.
    pub(super) fails: AtomicUsize,
    /// Batches that there is no room for.
    pub(super) too_large: AtomicUsize,
    /// Batches that are done without an answer.
    pub(super) mute: AtomicUsize,
    /// Whether nothing is read.
    blind: AtomicBool,
    /// How often it has lost something.
    lives: AtomicU64,
    pub(super) meanwhile: Meanwhile,
    /// How often it was asked for something of a session.
    pub(super) of_sessions: AtomicUsize,
}

/// What happens while a batch is done.
#[derive(Default)]
pub(super) struct Meanwhile(pub(super) OnceLock<Box<dyn Fn() + Send + Sync>>);

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl Shaky {
    pub(super) fn new(inner: &Arc<dyn Store>) -> Arc<Self> {
        let (fails, too_large, mute, blind, lives, meanwhile, of_sessions) = Default::default();
        Arc::new(Self { inner: inner.clone(), fails, too_large, mute, blind, lives, meanwhile, of_sessions })
    }

    fn count(&self, about: &impl std::fmt::Debug) {
        if format!("{about:?}").contains("session:") {
            self.of_sessions.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(super) fn away(&self, away: bool) {
        self.fails.store(if away { usize::MAX } else { 0 }, Ordering::SeqCst);
        self.blind.store(away, Ordering::SeqCst);
    }
}

fn less(count: &AtomicUsize) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn failed<T>() -> Pending<'static, T> {
    Box::pin(async { Err(Error::Timeout(TTL)) })
}

impl Store for Shaky {
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>> {
        self.count(key);
        if self.blind.load(Ordering::SeqCst) { failed() } else { self.inner.get(key) }
    }

    fn apply(&self, batch: Batch) -> Pending<'_, Applied> {
        self.count(&batch);
        if less(&self.fails) {
            return failed();
        }
        if less(&self.too_large) {
            return Box::pin(async { Err(Error::Full("no room".to_owned())) });
        }
        let mute = less(&self.mute);
        Box::pin(async move {
            let applied = self.inner.apply(batch).await?;
            self.meanwhile.0.get().inspect(|happens| happens());
            if mute { Err(Error::Timeout(TTL)) } else { Ok(applied) }
        })
    }

    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> Pending<'a, Vec<(u64, Bytes)>> {
        if self.blind.load(Ordering::SeqCst) { failed() } else { self.inner.range(key, after, limit) }
    }

    fn scan(&self, prefix: &str) -> Scan {
        self.inner.scan(prefix)
    }

    fn publish<'a>(&'a self, channel: &'a Key, message: Bytes) -> Pending<'a, ()> {
        self.inner.publish(channel, message)
    }

    fn subscribe<'a>(&'a self, channel: &'a Key) -> Pending<'a, Subscription> {
        self.inner.subscribe(channel)
    }

    fn ping(&self) -> Pending<'_, ()> {
        self.inner.ping()
    }

    fn facts(&self) -> Facts {
        Facts { lives: self.lives.load(Ordering::SeqCst), ..self.inner.facts() }
    }
}

pub(super) async fn shaky() -> (Arc<Shaky>, Arc<dyn Store>, Arc<dyn Store>) {
    let inner = memory().await;
    let shaky = Shaky::new(&inner);
    (shaky.clone(), inner, shaky)
}

/// The same without anybody who writes by itself.
async fn by_hand(store: &Arc<dyn Store>) -> Process {
    let process = ALONE.start(store).await;
    process.keeper().finishing.cancel();
    process
}

#[tokio::test]
async fn what_a_store_does_not_take_is_written_later_in_order_however_much_it_is() {
    let (shaky, inner, store) = shaky().await;
    let first = by_hand(&store).await;
    let id = first.begin().await;
    let live = first.live(&id).await;
    tell(&live, 20);
    first.written().await;
    shaky.fails.store(usize::MAX, Ordering::SeqCst);
    for _ in 0..100 {
        tell(&live, 1);
        assert!(!first.keeper().write_marked().await);
    }
    assert!(first.keeper().waiting.load(Ordering::Relaxed) < 4_096, "what waits does not grow with what fails");
    shaky.fails.store(0, Ordering::SeqCst);
    while !first.keeper().write_marked().await {}
    assert_eq!(first.keeper().waiting.load(Ordering::Relaxed), 0);
    first.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&inner).await;
    assert_eq!(waiting(&second.live(&id).await), 120);
}

#[tokio::test]
async fn a_session_that_ends_where_there_is_no_room_for_a_word_goes_without_one() {
    let (shaky, inner, store) = shaky().await;
    let first = by_hand(&store).await;
    let id = first.begin().await;
    first.written().await;
    assert_eq!(owner(&inner, &id).await, "1 alone 1");
    first.seat(&id).await.expect("a session").end(Cancel::SessionEnd);
    shaky.too_large.store(1, Ordering::SeqCst);
    first.written().await;
    assert_eq!(inner.get(&key(&id, "owner")).await.expect("an answer"), None);
    assert_eq!(inner.get(&key(&id, "head")).await.expect("an answer"), None);
}

#[tokio::test]
async fn a_batch_that_was_done_without_an_answer_is_not_done_twice() {
    let (shaky, inner, store) = shaky().await;
    let first = by_hand(&store).await;
    let id = first.begin().await;
    let live = first.live(&id).await;
    // The claim, the first words, and later ones.
    for round in 0..6 {
        tell(&live, 2);
        shaky.mute.store(1, Ordering::SeqCst);
        assert!(!first.keeper().write_marked().await, "round {round}");
        while !first.keeper().write_marked().await {}
    }
    assert_eq!(store.range(&key(&id, "events"), 0, 99).await.expect("an answer").len(), 12);
    let record = inner.get(&key(&id, "record")).await.expect("an answer").expect("a record");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    assert_eq!(record["events"], 0, "the log did not begin anew");
    assert_eq!(owner(&inner, &id).await, "1 alone 1");
    first.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&inner).await;
    assert_eq!(waiting(&second.live(&id).await), 12);
}

#[tokio::test]
async fn a_store_that_lost_everything_gets_it_again() {
    let store = memory().await;
    let first = by_hand(&store).await;
    let id = first.begin().await;
    let live = first.live(&id).await;
    tell(&live, 3);
    let task = promote(&live);
    first.written().await;
    let all = keys(&store).await;
    for lost in [all.clone(), vec![key(&id, "head").as_str().to_owned()], vec![key(&id, "owner").as_str().to_owned()]] {
        for key in &lost {
            store.delete(&Key::parse(key).expect("a key")).await.expect("gone");
        }
        tell(&live, 1);
        while !first.keeper().write_marked().await {}
        assert_eq!(keys(&store).await, all, "without {lost:?}");
    }
    assert_eq!(owner(&store, &id).await, "3 alone 1", "epochs only grow");
    first.crash();
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    let back = second.live(&id).await;
    back.cell().with(|session| {
        assert!(session.task(task).is_some());
        let taken = session.events.take(&Filter::All, 99, usize::MAX);
        assert_eq!(taken.events.len(), 8, "three, three, the task, and its end");
    });
}

#[tokio::test]
async fn while_the_store_is_away_what_is_here_goes_on_and_nothing_else() {
    let (shaky, inner, store) = shaky().await;
    let first = ALONE.start(&inner).await;
    let elsewhere = first.begin().await;
    first.stop().await;
    let process = Node { boot: "2", shared: true, ..ALONE }.start(&store).await;
    let id = process.begin().await;
    shaky.away(true);
    tell(&process.live(&id).await, 2);
    assert!(matches!(process.locate(&elsewhere).await, Place::Away(_)), "nobody can tell");
    let refusal = process.try_begin().await.expect_err("it could not be written");
    assert!(refusal.busy);
    assert_eq!(process.gateway.sessions(), 1, "nothing is left of it");
    shaky.away(false);
    assert!(process.seat(&elsewhere).await.is_some());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while store.range(&key(&id, "events"), 0, 9).await.expect("an answer").len() < 2 {
        assert!(tokio::time::Instant::now() < deadline, "nothing was written");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    process.begin().await;
}

#[tokio::test]
async fn a_session_that_was_claimed_and_not_read_is_read_by_whoever_asks_next() {
    let (shaky, inner, store) = shaky().await;
    let first = ALONE.start(&inner).await;
    let id = first.begin().await;
    tell(&first.live(&id).await, 2);
    first.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    shaky.mute.store(1, Ordering::SeqCst);
    assert!(matches!(second.locate(&id).await, Place::Away(_)), "it is ours, and nobody said so");
    let back = second.live(&id).await;
    let taken = back.cell().with(|session| session.events.take(&Filter::All, 9, usize::MAX));
    assert_eq!((taken.events.len(), taken.dropped.is_none()), (2, true));
}

#[tokio::test]
async fn what_is_too_large_is_left_out_and_the_rest_is_kept() {
    let mut settings = Settings::parse("memory").expect("a store");
    settings.limits.value_bytes_max = 20_000;
    let store = lb_store::open(&settings).await.expect("a store");
    let first = by_hand(&store).await;
    let id = first.begin().await;
    let live = first.live(&id).await;
    let (large, small) = (promote(&live), promote(&live));
    let text = Raw::string(&"x".repeat(30_000));
    live.cell().with(|session| session.task_completed(large, text, live.now()));
    live.cell().with(|session| session.task_completed(small, Raw::from_static("[1]"), live.now()));
    while !first.keeper().write_marked().await {}
    first.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    second.live(&id).await.cell().with(|session| {
        let task = session.task(large).expect("it is not forgotten");
        assert_eq!((task.status(), task.result()), (TaskStatus::Completed, None));
        assert!(task.error().expect("a reason").contains("too large"));
        assert!(session.task(small).expect("there").result().is_some());
    });
}

#[tokio::test]
async fn a_result_of_sixteen_mebibytes_is_kept() {
    let store = memory().await;
    let first = by_hand(&store).await;
    let id = first.begin().await;
    let live = first.live(&id).await;
    let task = promote(&live);
    let result = Raw::string(&"x".repeat(9 << 20));
    live.cell().with(|session| session.task_completed(task, result.clone(), live.now()));
    first.written().await;
    let kept = store.get(&key(&id, &format!("task:{task}"))).await.expect("an answer").expect("there");
    assert!((9 << 20) < kept.len());
    let huge = Key::parse("huge").expect("a key");
    store.set(&huge, vec![b' '; (16 << 20) + 65_536], TTL).await.expect("room for the largest result there can be");
}

#[tokio::test]
async fn an_old_event_outlives_thousands_that_came_after_it() {
    let store = memory().await;
    let first = by_hand(&store).await;
    let id = first.begin().await;
    let live = first.live(&id).await;
    tell(&live, 1);
    for number in 0..9_000_u32 {
        let method = Text::from(&*format!("n/{number}"));
        let what = Happening::Notification { method, params: None, count: 1 };
        live.cell().tell(&Text::from_static("files"), &what, live.now());
        if number % 50 == 0 {
            first.written().await;
        }
    }
    first.stop().await;
    let entries = store.range(&key(&id, "events"), 0, 10_000).await.expect("an answer").len();
    assert!(entries <= 4_200, "{entries}");
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    let back = second.live(&id).await;
    assert_eq!(waiting(&back), 101, "one, and as many notifications as are kept");
    let first = back.cell().with(|session| session.events.take(&Filter::All, 1, usize::MAX));
    assert_eq!(first.events[0].seq, 1);
}

#[tokio::test]
async fn what_was_written_without_a_word_is_not_taken_for_what_is_written_anew() {
    let (shaky, inner, store) = shaky().await;
    let first = by_hand(&store).await;
    let id = first.begin().await;
    let live = first.live(&id).await;
    first.written().await;
    tell(&live, 3);
    shaky.mute.store(1, Ordering::SeqCst);
    assert!(!first.keeper().write_marked().await, "the events are there, and nobody said so");
    live.cell().with(|session| session.set_timer(TTL, "later", false, live.now())).expect("set");
    inner.delete(&key(&id, "owner")).await.expect("gone");
    while !first.keeper().write_marked().await {}
    first.crash();
    let second = Node { boot: "2", ..ALONE }.start(&inner).await;
    let back = second.live(&id).await;
    assert_eq!(back.cell().with(|session| session.timers(false).count()), 1);
    assert_eq!(waiting(&back), 3);
}

#[tokio::test]
async fn a_session_of_which_nothing_but_its_beginning_was_written_is_a_session() {
    let store = memory().await;
    let first = by_hand(&store).await;
    let id = first.begin().await;
    first.written().await;
    first.crash();
    store.delete(&key(&id, "record")).await.expect("gone");
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    tell(&second.live(&id).await, 1);
    second.stop().await;
    let third = Node { boot: "3", ..ALONE }.start(&store).await;
    assert_eq!(waiting(&third.live(&id).await), 1);
}

/// What a store holds of sessions.
async fn all_of(store: &Arc<dyn Store>) -> Vec<(String, Option<Bytes>)> {
    let mut all = Vec::new();
    for name in keys(store).await {
        let key = Key::parse(&name).expect("a key");
        if !name.ends_with(":events") && !name.ends_with(":streams") {
            all.push((name, store.get(&key).await.expect("an answer")));
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_empty_has_every_session_again_before_anybody_asks() {
    let (shaky, inner, store) = shaky().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.push(a.begin().await);
    }
    tell(&a.live(&ids[0]).await, 3);
    a.written().await;
    // A store that was away for long made it patient.
    shaky.fails.store(usize::MAX, Ordering::SeqCst);
    tell(&a.live(&ids[0]).await, 1);
    tokio::time::sleep(Duration::from_secs(8)).await;
    for name in keys(&inner).await {
        inner.delete(&Key::parse(&name).expect("a key")).await.expect("gone");
    }
    shaky.fails.store(0, Ordering::SeqCst);
    shaky.lives.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(2)).await;
    for id in &ids {
        assert_eq!(b.locate(id).await, Place::Node("http://a".into()), "its owner is known");
    }
    a.crash();
    tokio::time::sleep(Duration::from_secs(21)).await;
    assert!(waiting(&b.live(&ids[0]).await) >= 4, "and all that it had was written");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_missed_the_last_writes_is_told_them_again_and_no_session_is_served_twice() {
    let (shaky, inner, store) = shaky().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    let c = Node { id: "c", ..A }.start(&store).await;
    let (kept, moved) = (a.begin().await, c.begin().await);
    a.written().await;
    c.stop().await;
    let missed = all_of(&inner).await;
    // Nothing of this reaches the replica.
    tell(&a.live(&kept).await, 5);
    a.written().await;
    tell(&b.live(&moved).await, 2);
    b.written().await;
    assert_eq!(owner(&store, &moved).await, "2 b 1");
    for (name, value) in missed {
        let key = Key::parse(&name).expect("a key");
        inner.set(&key, value.expect("a value"), TTL).await.expect("set");
    }
    for id in [&kept, &moved] {
        inner.delete(&key(id, "events")).await.expect("gone");
    }
    assert_eq!(owner(&store, &moved).await, "1 - -");
    shaky.lives.fetch_add(1, Ordering::SeqCst);

    assert!(matches!(a.locate(&moved).await, Place::Away(_)), "it says nobody has it, which may be wrong");
    assert_eq!(b.locate(&moved).await, Place::Here);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(owner(&store, &moved).await, "3 b 1", "its epoch grows");
    assert_eq!(a.locate(&moved).await, Place::Node("http://b".into()));
    assert_eq!(owner(&store, &kept).await, "1 a 1");
    a.crash();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(waiting(&b.live(&kept).await) >= 5, "what was lost of it was written again");
}
