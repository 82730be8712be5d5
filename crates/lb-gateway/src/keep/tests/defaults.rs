//! The session of modern clients that name none.

use lb_exchange::Unseated;

use super::store::Shaky;
use super::*;

/// What it is called within.
const NAME: &str = "default:tools:local";
/// Longer than a node counts as alive that says nothing.
const LAPSE: Duration = Duration::from_secs(11);

pub(super) fn caller(who: &Visitor) -> Arc<Caller> {
    let capabilities = Capabilities(Raw::empty_object());
    let revision = Revision::parse(b"2026-07-28").expect("a revision");
    Arc::new(Caller {
        principal: who.principal.clone(),
        client: who.client.clone(),
        family: who.family.clone(),
        revision,
        capabilities,
        client_info: None,
    })
}

impl Process {
    /// What a front does first with a modern call of a tool.
    async fn place(&self, tool: &str) -> Place {
        let (who, mount) = (Visitor::local(), Mount::Default);
        let call = Unseated { mount: &mount, who: &who, tool };
        if self.gateway.is_unseated_here(&call) { Place::Here } else { self.gateway.locate_unseated(call).await }
    }

    /// What a tool does then.
    async fn call(&self, tool: &str) -> Arc<Live> {
        assert_eq!(self.place(tool).await, Place::Here);
        self.gateway.default_session(&caller(&Visitor::local()))
    }

    fn named(&self, handle: &str) -> Option<Arc<Live>> {
        self.gateway.session(handle, &caller(&Visitor::local()))
    }
}

fn elsewhere(node: &str) -> Place {
    Place::Node(format!("http://{node}").into())
}

#[tokio::test]
async fn what_nothing_is_remembered_of_is_not_kept_and_the_rest_is() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    for tool in ["look", "act"] {
        let live = first.call(tool).await;
        tell(&live, 1);
        assert!(!live.is_remembered() && first.named(live.handle()).is_none());
    }
    first.written().await;
    assert_eq!(keys(&store).await, Vec::<String>::new());
    let live = first.call("act").await;
    live.remember();
    live.cell().with(|session| session.set_timer(TTL, "later", false, live.now())).expect("set");
    let handle = live.handle().to_owned();
    assert!(first.named(&handle).is_some());
    first.stop().await;
    assert_eq!(owner(&store, NAME).await, "1 - -");

    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    assert!(second.named(&handle).is_none(), "nothing is read before it is asked for");
    let back = second.call("look").await;
    assert_eq!((back.handle(), back.is_remembered(), back.is_default()), (&*handle, true, true));
    assert_eq!((waiting(&back), back.cell().with(|session| session.timers(false).count())), (2, 1));
    assert!(second.named(&handle).is_some() && second.named(NAME).is_none());
    let eve = Visitor::of(Principal::named("eve"));
    assert!(second.gateway.session(&handle, &caller(&eve)).is_none(), "it is somebody else's");
    assert_ne!(second.gateway.default_session(&caller(&eve)).handle(), handle);
    tell(&back, 1);
    second.written().await;
    second.crash();

    let third = Node { boot: "3", ..ALONE }.start(&store).await;
    let back = third.call("act").await;
    let taken = back.cell().with(|session| session.events.take(&Filter::All, 9, usize::MAX));
    assert_eq!((back.handle(), taken.events.len(), taken.dropped.is_some()), (&*handle, 3, true));
}

#[tokio::test]
async fn no_client_can_name_it_by_what_it_is_called_within() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    process.call("act").await.remember();
    process.written().await;
    for _ in 0..2 {
        assert_eq!(process.locate(NAME).await, Place::Here);
        assert!(process.gateway.seat(NAME, &Mount::Tools, &Visitor::local()).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn several_nodes_have_one_together() {
    let store = memory().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    assert_eq!(b.place("unknown").await, Place::Here);
    assert_eq!(b.gateway.sessions(), 0, "what needs no session makes none");
    // Both look, and neither has anything.
    a.call("look").await;
    b.call("look").await;
    assert_eq!(keys(&store).await, Vec::<String>::new());
    let live = a.call("act").await;
    assert_eq!(owner(&store, NAME).await, "1 a 1", "a call that may have to remember something begins when it is ours");
    assert_eq!((b.place("look").await, b.place("act").await), (elsewhere("a"), elsewhere("a")));
    live.remember();
    tell(&live, 2);
    let handle = live.handle().to_owned();
    a.written().await;
    a.crash();
    tokio::time::sleep(LAPSE).await;
    let back = b.call("look").await;
    assert_eq!((back.handle(), owner(&store, NAME).await.as_str()), (&*handle, "2 b 1"));
    assert!(b.named(&handle).is_some());
    let taken = back.cell().with(|session| session.events.take(&Filter::All, 9, usize::MAX));
    assert_eq!((taken.events.len(), taken.dropped.is_some()), (2, true), "something may be missing");
}

#[tokio::test(start_paused = true)]
async fn of_many_nodes_one_begins_it() {
    let store = memory().await;
    let names: Vec<String> = (0..8).map(|number| format!("n{number}")).collect();
    let nodes = names.iter().map(|id| async { Node { id, ..A }.start(&store).await });
    let nodes = futures_util::future::join_all(nodes).await;
    for round in 0..3 {
        let asking = nodes.iter().flat_map(|node| [node.place("act"), node.place("look"), node.place("act")]);
        let places = futures_util::future::join_all(asking).await;
        assert!(places.iter().all(|place| !matches!(place, Place::Away(_))), "{places:?}");
        let winner = owner(&store, NAME).await.split(' ').nth(1).expect("a node").to_owned();
        for (node, places) in names.iter().zip(places.chunks(3)) {
            let want = if *node == winner { Place::Here } else { elsewhere(&winner) };
            assert_eq!((&places[0], &places[2]), (&want, &want), "round {round}");
        }
        // It ends, and the next one begins anew.
        let at = names.iter().position(|name| *name == winner).expect("one of them");
        let seat = nodes[at].gateway.everybody().into_iter().find(|seat| seat.id().as_str() == NAME).expect("there");
        seat.end(Cancel::SessionEnd);
        seat.ended().await;
    }
    assert_eq!(owner(&store, NAME).await, "6 gone -");
}

#[tokio::test(start_paused = true)]
async fn one_that_was_lost_to_another_node_goes_without_a_word() {
    let store = memory().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    let stray = b.call("look").await;
    let live = a.call("act").await;
    live.remember();
    tell(&live, 1);
    a.written().await;
    // A server of B asks something out of the blue.
    stray.remember();
    tell(&stray, 5);
    b.written().await;
    assert!(stray.is_ended(), "there is one already");
    assert_eq!(b.place("look").await, elsewhere("a"));
    a.stop().await;
    assert_eq!(waiting(&b.call("look").await), 1);
}

#[tokio::test(start_paused = true)]
async fn after_its_end_the_next_one_has_another_name_for_clients() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let mut handles = Vec::new();
    for round in 0..4 {
        let live = process.call("act").await;
        assert_eq!((waiting(&live), live.is_remembered()), (0, false), "round {round}");
        live.remember();
        tell(&live, 3);
        promote(&live);
        handles.push(live.handle().to_owned());
        if round % 2 == 0 {
            process.written().await;
        }
        let seat = process.gateway.everybody().into_iter().next().expect("there");
        seat.end(Cancel::SessionEnd);
        assert!(process.named(&handles[round]).is_none());
    }
    handles.sort();
    handles.dedup();
    assert_eq!(handles.len(), 4);
    process.written().await;
    assert_eq!(keys(&store).await, [key(NAME, "owner").as_str()]);
}

#[tokio::test(start_paused = true)]
async fn one_that_nobody_uses_rests_and_one_without_memory_ends() {
    let store = memory().await;
    let a = A.start(&store).await;
    let handle = a.call("act").await.handle().to_owned();
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!((a.gateway.sessions(), a.keeper().awake()), (0, 0));
    assert_eq!(owner(&store, NAME).await, "2 gone -");
    let live = a.call("act").await;
    assert_ne!(live.handle(), handle);
    live.remember();
    tell(&live, 2);
    let handle = live.handle().to_owned();
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!((a.gateway.sessions(), owner(&store, NAME).await.as_str()), (0, "3 - -"));
    let back = a.call("look").await;
    let taken = back.cell().with(|session| session.events.take(&Filter::All, 9, usize::MAX));
    assert_eq!((back.handle(), taken.events.len(), taken.dropped.is_none()), (&*handle, 2, true));
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_only_who_has_it_serves_it() {
    let inner = memory().await;
    let shaky = Shaky::new(&inner);
    let store: Arc<dyn Store> = shaky.clone();
    let a = A.start(&store).await;
    shaky.away(true);
    for tool in ["look", "act"] {
        assert!(matches!(a.place(tool).await, Place::Away(_)), "{tool}");
    }
    shaky.away(false);
    // The store does it, and nobody hears of that.
    shaky.mute.store(1, Ordering::SeqCst);
    assert!(matches!(a.place("act").await, Place::Away(_) | Place::Here));
    let live = a.call("act").await;
    live.remember();
    shaky.away(true);
    assert_eq!(a.place("act").await, Place::Here);
    shaky.away(false);
    a.stop().await;
    assert_eq!(owner(&inner, NAME).await, "0 - -");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_of_it_is_over() {
    let store = memory().await;
    let first = A.start(&store).await;
    first.call("act").await.remember();
    first.stop().await;
    store.set(&key(NAME, "head"), "{", TTL).await.expect("set");
    let second = Node { boot: "2", ..A }.start(&store).await;
    let live = second.call("act").await;
    assert!(!live.is_remembered());
    assert_eq!(owner(&store, NAME).await, "3 a 2");
}

async fn forget(store: &Arc<dyn Store>) {
    for key in store.scan("").try_collect::<Vec<Key>>().await.expect("keys") {
        store.delete(&key).await.expect("gone");
    }
}

/// A store that nobody has used.
async fn fresh() -> Arc<dyn Store> {
    lb_store::open(&Settings::parse("memory").expect("a store")).await.expect("a store")
}

#[tokio::test(start_paused = true)]
async fn on_a_store_that_forgot_nothing_begins_before_others_have_said_what_they_have() {
    let store = memory().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    let live = a.call("act").await;
    live.remember();
    tell(&live, 2);
    a.written().await;
    forget(&store).await;
    for tool in ["look", "act"] {
        assert!(matches!(b.place(tool).await, Place::Away(_)), "{tool}: somebody may have one");
    }
    // As soon as its node sees that.
    tokio::time::sleep(LAPSE / 3).await;
    assert_eq!((b.place("look").await, b.place("act").await), (elsewhere("a"), elsewhere("a")));
    assert_eq!((owner(&store, NAME).await.as_str(), waiting(&a.call("look").await)), ("2 a 1", 2));
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_without_knowing_of_it_gives_way_to_what_a_store_forgot() {
    let store = fresh().await;
    let a = A.start(&store).await;
    let live = a.call("act").await;
    assert_eq!(owner(&store, NAME).await, "0 a 1", "a store that is new may be one that forgot");
    live.remember();
    tell(&live, 2);
    a.written().await;
    let handle = live.handle().to_owned();
    forget(&store).await;
    // It knows the store only as it is now.
    let b = B.start(&store).await;
    let stray = b.call("act").await;
    stray.remember();
    tell(&stray, 1);
    b.written().await;
    assert_eq!(owner(&store, NAME).await, "0 b 1");
    tell(&live, 1);
    a.written().await;
    assert_eq!(owner(&store, NAME).await, "1 a 1", "who was there before goes on");
    // Nothing is written there meanwhile, and it does not go on with its own until it finds the other one.
    assert!(matches!(b.place("act").await, Place::Away(_)));
    tokio::time::sleep(LAPSE / 3).await;
    assert_eq!((b.place("look").await, b.place("act").await), (elsewhere("a"), elsewhere("a")));
    assert!(stray.is_ended() && !live.is_ended());
    assert_eq!((a.named(&handle).is_some(), waiting(&a.call("look").await)), (true, 3));
}

#[tokio::test(start_paused = true)]
async fn what_was_assumed_to_be_new_is_certain_when_the_store_has_settled() {
    let inner = fresh().await;
    let shaky = Shaky::new(&inner);
    let store: Arc<dyn Store> = shaky.clone();
    let a = A.start(&store).await;
    a.call("act").await.remember();
    a.written().await;
    let asked = |times: usize| {
        let (a, shaky) = (&a, &shaky);
        async move {
            let before = shaky.of_sessions.load(Ordering::SeqCst);
            for _ in 0..times {
                assert_eq!(a.place("act").await, Place::Here);
            }
            shaky.of_sessions.load(Ordering::SeqCst) - before
        }
    };
    assert_eq!(asked(3).await, 3, "each time, as long as another one may turn up");
    tokio::time::sleep(LAPSE).await;
    assert_eq!((asked(1).await, asked(9).await), (1, 0), "once more, and never again");
}
