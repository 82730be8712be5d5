use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use lb_backend::{Children, Environment};
use lb_exchange::{
    Call, Caller, Cancel, Capabilities, End, Exchange, Hello, Middle as _, Mount, Outcome, Principal, Seat, Tasks,
};
use lb_session::{Filter, Happening};
use lb_store::{Applied, Batch, Error, Facts, Pending, Scan, Settings, Subscription};
use lb_wire::revision::Revision;
use lb_wire::{Message, Raw, Text};

use super::*;
use crate::gateway::{Gateway, Setup};
use crate::live::Live;
use crate::surface::{Introduction, Surface, Visitor};

const TTL: Duration = Duration::from_secs(3_600);

/// A surface without tools.
struct Bare;

impl Surface for Bare {
    fn introduction(&self) -> Introduction {
        Introduction { capabilities: Raw::empty_object(), instructions: String::new() }
    }

    fn open(&self, _: Visitor, _: Call) -> Exchange {
        Exchange::ready(End::ours(Outcome::Result(Raw::empty_object())))
    }
}

async fn memory() -> Arc<dyn Store> {
    lb_store::open(&Settings::parse("memory").expect("a store")).await.expect("a store")
}

/// A process with this store.
async fn process(store: &Arc<dyn Store>) -> (Gateway, Tasks) {
    let tasks = Tasks::default();
    let environment = Environment {
        supervisor: "no-children-here".into(),
        embedded: Arc::default(),
        tasks: tasks.clone(),
        children: Children::new(0),
    };
    let keeping = Keeping { store: store.clone(), gather: Duration::from_millis(1), ttl: TTL };
    let setup = Setup { tools: Some(Arc::new(Bare)), keeping: Some(keeping), ..Setup::default() };
    let gateway = Gateway::new(Vec::new(), &environment, setup).expect("a gateway");
    gateway.recall().await.expect("a store that answers");
    (gateway, tasks)
}

async fn begin(gateway: &Gateway) -> String {
    let message =
        r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18","x":[1]}}"#;
    let caller = Caller {
        principal: Principal::local(),
        revision: Revision::parse(b"2025-06-18").expect("a revision"),
        capabilities: Capabilities(Raw::from_static(r#"{"sampling":{}}"#)),
        client_info: Some(Raw::from_static(r#"{"name":"t"}"#)),
    };
    let message = Message::scan(Bytes::from_static(message.as_bytes())).expect("a message");
    let welcome = gateway.begin(Hello { caller, mount: Mount::Tools, message }).await.expect("room");
    welcome.seat.id().as_str().to_owned()
}

fn seat(gateway: &Gateway, id: &str) -> Option<Arc<dyn Seat>> {
    gateway.seat(id, &Mount::Tools, &Principal::local())
}

fn live(gateway: &Gateway, id: &str) -> Arc<Live> {
    seat(gateway, id).expect("a session");
    let (seats, _) = gateway.everybody();
    let seat = seats.into_iter().find(|seat| seat.id().as_str() == id).expect("a session");
    seat.live().expect("a surface of ours").clone()
}

fn tell(live: &Live, count: usize) {
    for _ in 0..count {
        live.cell().tell(&Text::from_static("files"), &Happening::ServerHealthRestored, live.now());
    }
}

fn waiting(live: &Live) -> usize {
    live.cell().with(|session| session.events.waiting(&Filter::All))
}

async fn written(gateway: &Gateway) {
    assert!(gateway.shared().keeper().expect("a keeper").write_marked().await);
}

async fn keys(store: &Arc<dyn Store>) -> Vec<String> {
    use futures_util::TryStreamExt as _;
    let keys: Vec<Key> = store.scan("").try_collect().await.expect("keys");
    let mut keys: Vec<String> = keys.iter().map(|key| key.as_str().to_owned()).collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn a_session_comes_back_with_what_it_remembered_and_to_its_client_alone() {
    let store = memory().await;
    let (first, _tasks) = process(&store).await;
    let id = begin(&first).await;
    tell(&live(&first, &id), 3);
    live(&first, &id).cell().with(|session| session.set_timer(TTL, "later", false, first.clock()())).expect("set");
    first.close().await;

    let (second, _tasks) = process(&store).await;
    assert!(second.seat(&id, &Mount::Default, &Principal::local()).is_none(), "it was somewhere else");
    assert!(second.seat(&id, &Mount::Tools, &Principal::named("eve")).is_none(), "it is somebody else's");
    assert!(seat(&second, "0123").is_none());
    let back = live(&second, &id);
    assert_eq!(waiting(&back), 3);
    assert_eq!(back.cell().with(|session| session.timers(false).count()), 1);
    let caller = seat(&second, &id).expect("there").caller().clone();
    assert_eq!(caller.capabilities.0.as_str(), r#"{"sampling":{}}"#);
    assert_eq!(caller.client_info.as_ref().map(Raw::as_str), Some(r#"{"name":"t"}"#));
    let taken = back.cell().with(|session| session.events.take(&Filter::All, 9, usize::MAX));
    assert!(taken.dropped.is_none(), "the process before had time to write");

    tell(&back, 1);
    second.close().await;
    let (third, _tasks) = process(&store).await;
    assert_eq!(waiting(&live(&third, &id)), 4, "it is kept on");
}

#[tokio::test]
async fn after_a_crash_what_was_written_is_there_and_the_rest_is_a_gap() {
    let store = memory().await;
    let (first, tasks) = process(&store).await;
    let id = begin(&first).await;
    tell(&live(&first, &id), 2);
    written(&first).await;
    tasks.stop();
    tell(&live(&first, &id), 5);

    let (second, _tasks) = process(&store).await;
    let back = live(&second, &id);
    let taken = back.cell().with(|session| session.events.take(&Filter::All, 9, usize::MAX));
    assert_eq!(taken.events.len(), 2);
    assert!(taken.dropped.is_some());
}

#[tokio::test]
async fn a_session_that_ends_leaves_nothing() {
    let store = memory().await;
    let (gateway, _tasks) = process(&store).await;
    let id = begin(&gateway).await;
    tell(&live(&gateway, &id), 3);
    written(&gateway).await;
    let kept = keys(&store).await;
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert!(kept.iter().all(|key| !key.contains(&id)), "the id is a secret: {kept:?}");
    seat(&gateway, &id).expect("there").end(Cancel::SessionEnd);
    written(&gateway).await;
    assert_eq!(keys(&store).await, Vec::<String>::new());
    gateway.close().await;
    let (second, _tasks) = process(&store).await;
    assert!(seat(&second, &id).is_none());
}

#[tokio::test]
async fn all_who_come_back_at_once_get_the_same_session() {
    let store = memory().await;
    let (first, _tasks) = process(&store).await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(begin(&first).await);
    }
    first.close().await;
    let (second, _tasks) = process(&store).await;
    let runtime = tokio::runtime::Handle::current();
    let together = std::sync::Barrier::new(8);
    let ask = |ids: &[String]| -> Vec<u64> {
        let _in = runtime.enter();
        let woken = ids.iter().map(|id| {
            together.wait();
            live(&second, id).number()
        });
        woken.collect()
    };
    let found: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(&ids))).collect();
        asking.into_iter().map(|one| one.join().expect("an answer")).collect()
    });
    assert!(found.iter().all(|numbers| *numbers == found[0]), "{found:?}");
}

/// A store that fails a number of times first.
#[derive(Debug)]
struct Shaky {
    inner: Arc<dyn Store>,
    fails: AtomicUsize,
}

impl Store for Shaky {
    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Option<Bytes>> {
        self.inner.get(key)
    }

    fn apply(&self, batch: Batch) -> Pending<'_, Applied> {
        if self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return Box::pin(async { Err(Error::Timeout(TTL)) });
        }
        self.inner.apply(batch)
    }

    fn range<'a>(&'a self, key: &'a Key, after: u64, limit: usize) -> Pending<'a, Vec<(u64, Bytes)>> {
        self.inner.range(key, after, limit)
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
        self.inner.facts()
    }
}

#[tokio::test]
async fn what_a_store_does_not_take_is_written_later_in_order_however_much_it_is() {
    let inner = memory().await;
    let shaky = Arc::new(Shaky { inner: inner.clone(), fails: AtomicUsize::new(0) });
    let store: Arc<dyn Store> = shaky.clone();
    let (first, _tasks) = process(&store).await;
    let id = begin(&first).await;
    tell(&live(&first, &id), 20);
    written(&first).await;
    // More than may wait: it is written anew as a whole.
    shaky.fails.store(usize::MAX, Ordering::SeqCst);
    for _ in 0..100 {
        tell(&live(&first, &id), 1);
        assert!(!first.shared().keeper().expect("a keeper").write_marked().await);
    }
    shaky.fails.store(0, Ordering::SeqCst);
    while !first.shared().keeper().expect("a keeper").write_marked().await {}
    first.close().await;
    let (second, _tasks) = process(&inner).await;
    assert_eq!(waiting(&live(&second, &id)), 120);
}

#[tokio::test]
async fn what_is_written_by_itself_needs_nobody_to_ask() {
    let store = memory().await;
    let (first, _tasks) = process(&store).await;
    let id = begin(&first).await;
    tell(&live(&first, &id), 3);
    let events = Key::parse(&format!("session:{{{}}}:events", name_of(&id))).expect("a key");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while store.range(&events, 0, 9).await.expect("an answer").len() < 3 {
        assert!(tokio::time::Instant::now() < deadline, "nothing was written");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
