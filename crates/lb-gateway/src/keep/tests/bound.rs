//! Whose a session is that is kept: one client of one principal, and the login that was last used on it.

use lb_exchange::{Families, Unseated};

use super::defaults::caller;
use super::*;

fn who(client: Option<&str>, family: &str) -> Visitor {
    Visitor {
        client: client.map(Into::into),
        family: Some(family.into()),
        ..Visitor::of(Principal::named("https://id.test|ann"))
    }
}

impl Process {
    async fn seat_of(&self, id: &str, who: &Visitor) -> Option<Arc<dyn Seat>> {
        assert_eq!(self.locate(id).await, Place::Here);
        self.gateway.seat(id, &Mount::Tools, who)
    }

    fn family_of(&self, id: &str) -> Option<Arc<str>> {
        let seat = self.gateway.everybody().into_iter().find(|seat| seat.id().as_str() == id)?;
        seat.family.lock().clone()
    }
}

async fn head(store: &Arc<dyn Store>, id: &str) -> serde_json::Value {
    let head = store.get(&key(id, "head")).await.expect("an answer").expect("a head");
    serde_json::from_slice(&head).expect("JSON")
}

#[tokio::test]
async fn a_session_comes_back_to_its_client_alone_and_remembers_the_login_it_was_last_used_by() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let editor = who(Some("editor"), "f1");
    let id = first.try_begin_as(&editor).await.expect("room");
    first.written().await;
    assert_eq!(
        (&head(&store, &id).await["client"], &head(&store, &id).await["family"]),
        (&"editor".into(), &"f1".into())
    );
    let renewed = who(Some("editor"), "f2");
    assert!(first.seat_of(&id, &renewed).await.is_some());
    first.written().await;
    let written = head(&store, &id).await;
    assert_eq!((&written["family"], &written["hello"]["x"]), (&"f2".into(), &serde_json::json!([1])));
    first.stop().await;

    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    for stranger in [who(Some("shell"), "f2"), who(None, "f2"), Visitor::local()] {
        assert!(second.seat_of(&id, &stranger).await.is_none(), "{stranger:?}");
    }
    assert_eq!(second.family_of(&id).as_deref(), Some("f2"), "strangers change nothing");
    let seat = second.seat_of(&id, &renewed).await.expect("its own client");
    assert_eq!(seat.caller().client.as_deref(), Some("editor"));
}

#[tokio::test]
async fn what_was_written_before_there_were_clients_is_still_read() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let id = first.begin().await;
    first.written().await;
    let old = head(&store, &id).await;
    assert!(
        old.get("client").is_none() && old.get("family").is_none(),
        "nothing is written where nobody logs in: {old}"
    );
    first.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    assert!(second.seat_of(&id, &Visitor::local()).await.is_some());
    assert_eq!(second.family_of(&id), None);
}

#[tokio::test]
async fn modern_clients_of_one_principal_have_a_session_each() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let everybody = [who(Some("editor"), "f1"), who(Some("shell"), "f1"), who(None, "f1"), Visitor::local()];
    let mut handles = Vec::new();
    for visitor in &everybody {
        let call = Unseated { mount: &Mount::Default, who: visitor, tool: "act" };
        assert_eq!(process.gateway.locate_unseated(call).await, Place::Here);
        let live = process.gateway.default_session(&caller(visitor));
        live.remember();
        handles.push(live.handle().to_owned());
    }
    process.written().await;
    for (at, visitor) in everybody.iter().enumerate() {
        for (other, handle) in handles.iter().enumerate() {
            let found = process.gateway.session(handle, &caller(visitor)).is_some();
            assert_eq!(found, at == other, "{visitor:?} names the session of {:?}", everybody[other]);
        }
    }
    process.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    for (visitor, handle) in everybody.iter().zip(&handles) {
        let call = Unseated { mount: &Mount::Default, who: visitor, tool: "look" };
        assert_eq!(second.gateway.locate_unseated(call).await, Place::Here);
        assert_eq!(second.gateway.default_session(&caller(visitor)).handle(), handle);
    }
}

#[tokio::test]
async fn names_of_principals_and_clients_do_not_run_into_each_other() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let pair = |principal: &str, client: &str| Visitor {
        client: Some(client.into()),
        ..Visitor::of(Principal::named(principal))
    };
    let one = process.gateway.default_session(&caller(&pair("a:b", "c")));
    let other = process.gateway.default_session(&caller(&pair("a", "b:c")));
    assert_ne!(one.handle(), other.handle());
}

/// Logins as a test wants them.
#[derive(Default)]
struct Logins {
    dead: parking_lot::Mutex<HashSet<String>>,
    unknown: AtomicBool,
    asked: AtomicUsize,
}

impl Families for Logins {
    fn lives<'a>(&'a self, family: &'a str, _: Option<&'a str>) -> BoxFuture<'a, Option<bool>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let lives = (!self.unknown.load(Ordering::Relaxed)).then(|| !self.dead.lock().contains(family));
        Box::pin(std::future::ready(lives))
    }
}

impl Logins {
    fn end(&self, family: &str) {
        self.dead.lock().insert(family.to_owned());
    }
}

/// What is promised between the end of a login and that of its sessions.
const WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn sessions_end_with_the_login_that_was_last_used_on_them_on_every_node() {
    let store = memory().await;
    let logins = Arc::new(Logins::default());
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    for node in [&a, &b] {
        node.gateway.watch_logins(logins.clone());
    }
    let here = a.try_begin_as(&who(Some("editor"), "f1")).await.expect("room");
    let there = b.try_begin_as(&who(Some("editor"), "f1")).await.expect("room");
    let renewed = a.try_begin_as(&who(Some("editor"), "f1")).await.expect("room");
    assert!(a.seat_of(&renewed, &who(Some("editor"), "f2")).await.is_some());
    let other = a.try_begin_as(&who(Some("shell"), "f3")).await.expect("room");
    let nobodys = a.begin().await;
    let modern = a.gateway.default_session(&caller(&who(Some("editor"), "f1")));
    let seat = a.seat_of(&here, &who(Some("editor"), "f1")).await.expect("there");
    let mut stream = seat.listen();
    logins.end("f1");
    logins.unknown.store(true, Ordering::Relaxed);
    tokio::time::sleep(2 * WITHIN).await;
    assert_eq!((a.gateway.sessions(), b.gateway.sessions()), (5, 1), "what is not known ends nothing");
    logins.unknown.store(false, Ordering::Relaxed);
    let ended =
        tokio::time::timeout(WITHIN, async { while !matches!(stream.step().await, lb_exchange::Step::End(_)) {} });
    ended.await.expect("an open stream ends in time");
    tokio::time::sleep(WITHIN).await;
    assert!(modern.is_ended());
    let left = |process: &Process| {
        let mut ids: Vec<String> =
            process.gateway.everybody().iter().map(|seat| seat.id().as_str().to_owned()).collect();
        ids.sort();
        ids
    };
    let mut expected = vec![renewed.clone(), other.clone(), nobodys.clone()];
    expected.sort();
    assert_eq!((left(&a), left(&b)), (expected, Vec::new()));
    for gone in [&here, &there] {
        assert!(owner(&store, gone).await.contains(" gone "), "what was kept of it is gone");
        assert!(store.get(&key(gone, "head")).await.expect("an answer").is_none());
        assert!(a.seat_of(gone, &who(Some("editor"), "f9")).await.is_none(), "not for another login either");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_login_ended_while_it_was_asleep_does_not_wake() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let id = first.try_begin_as(&who(Some("editor"), "f1")).await.expect("room");
    first.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    let logins = Arc::new(Logins::default());
    second.gateway.watch_logins(logins.clone());
    logins.end("f1");
    assert!(second.seat_of(&id, &who(Some("editor"), "f2")).await.is_none());
    second.written().await;
    assert!(store.get(&key(&id, "head")).await.expect("an answer").is_none(), "nothing is left of it");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_sessions_without_a_login() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let logins = Arc::new(Logins::default());
    process.gateway.watch_logins(logins.clone());
    process.begin().await;
    tokio::time::sleep(4 * WITHIN).await;
    assert_eq!(logins.asked.load(Ordering::Relaxed), 0);
    for _ in 0..3 {
        process.try_begin_as(&who(None, "f1")).await.expect("room");
    }
    tokio::time::sleep(WITHIN).await;
    let asked = logins.asked.load(Ordering::Relaxed);
    assert!((1..=4).contains(&asked), "once a round for all of its sessions: {asked}");
}
