mod bound;
mod cluster;
mod defaults;
mod full;
mod generated;
mod idle;
mod store;
mod streams;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use lb_backend::{Children, Environment};
use lb_exchange::{
    Call, Caller, Cancel, Capabilities, End, Exchange, Hello, Middle as _, Mount, Outcome, Place, Principal, Refusal,
    Remote, Seat, Tasks, Visitor,
};
use lb_session::{Filter, Happening, NewTask, TaskStatus, Ulid};
use lb_store::{Key, Settings};
use lb_wire::revision::Revision;
use lb_wire::{Message, Raw, Text};

use super::keys::name_of;
use super::*;
use crate::gateway::{Gateway, Limits, Setup};
use crate::live::Live;
use crate::nodes::About;
use crate::surface::{Introduction, Need, Surface, Via};

const TTL: Duration = Duration::from_secs(3_600);

/// A surface without tools.
struct Bare;

impl Surface for Bare {
    fn introduction(&self) -> Introduction {
        Introduction { capabilities: Raw::empty_object(), instructions: String::new() }
    }

    fn need(&self, tool: &str) -> Need {
        match tool {
            "look" => Need::Look,
            "act" => Need::Memory,
            _ => Need::Nothing,
        }
    }

    fn open(&self, _: Via, _: Call) -> Exchange {
        Exchange::ready(End::ours(Outcome::Result(Raw::empty_object())))
    }
}

async fn memory() -> Arc<dyn Store> {
    let store = lb_store::open(&Settings::parse("memory").expect("a store")).await.expect("a store");
    crate::nodes::settled(store).await
}

/// A process, as long as it is not dropped.
struct Process {
    gateway: Gateway,
    tasks: Tasks,
    nodes: Arc<Membership>,
}

/// How a process keeps its sessions.
struct Node<'a> {
    id: &'a str,
    boot: &'a str,
    shared: bool,
    sessions_max: usize,
    gather: Duration,
    idle_after: Duration,
}

const ALONE: Node<'static> = Node {
    id: "alone",
    boot: "1",
    shared: false,
    sessions_max: 10_000,
    gather: Duration::from_millis(1),
    idle_after: TTL,
};
/// Two that share a store.
const A: Node<'static> = Node { id: "a", shared: true, ..ALONE };
const B: Node<'static> = Node { id: "b", shared: true, ..ALONE };

impl Node<'_> {
    async fn start(&self, store: &Arc<dyn Store>) -> Process {
        let tasks = Tasks::default();
        let environment = Environment {
            supervisor: "no-children-here".into(),
            embedded: Arc::default(),
            tasks: tasks.clone(),
            children: Children::new(0),
            logins: None,
            names: lb_backend::Names::default(),
        };
        let (url, version) = (Some(format!("http://{}", self.id)), "0".to_owned());
        let about = About { id: self.id.into(), boot: self.boot.into(), url, version, host: None };
        let nodes = Membership::join(store.clone(), about, &tasks).await.expect("a store that answers");
        let keeping = Keeping {
            store: store.clone(),
            nodes: nodes.clone(),
            gather: self.gather,
            ttl: TTL,
            shared: self.shared,
            wait_for_streams: self.shared,
        };
        let (sessions_max, idle_after) = (self.sessions_max, self.idle_after);
        let limits = Limits { sessions_max, idle_after, ..Limits::default() };
        let setup = Setup { tools: Some(Arc::new(Bare)), keeping: Some(keeping), limits, ..Setup::default() };
        Process { gateway: Gateway::new(Vec::new(), &environment, setup).expect("a gateway"), tasks, nodes }
    }
}

impl Process {
    async fn try_begin(&self) -> Result<String, Refusal> {
        self.try_begin_as(&Visitor::local()).await
    }

    async fn try_begin_as(&self, who: &Visitor) -> Result<String, Refusal> {
        let message =
            r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18","x":[1]}}"#;
        let caller = Caller {
            principal: who.principal.clone(),
            client: who.client.clone(),
            family: who.family.clone(),
            revision: Revision::parse(b"2025-06-18").expect("a revision"),
            capabilities: Capabilities(Raw::from_static(r#"{"sampling":{}}"#)),
            client_info: Some(Raw::from_static(r#"{"name":"t"}"#)),
        };
        let message = Message::scan(Bytes::from_static(message.as_bytes())).expect("a message");
        let welcome = self.gateway.begin(Hello { caller, mount: Mount::Tools, message }).await?;
        Ok(welcome.seat.id().as_str().to_owned())
    }

    async fn begin(&self) -> String {
        self.try_begin().await.expect("room")
    }

    /// What a front does first.
    async fn locate(&self, id: &str) -> Place {
        if self.gateway.is_here(id) { Place::Here } else { self.gateway.locate(id).await }
    }

    /// What a front does with a request.
    async fn seat(&self, id: &str) -> Option<Arc<dyn Seat>> {
        assert_eq!(self.locate(id).await, Place::Here);
        self.gateway.seat(id, &Mount::Tools, &Visitor::local())
    }

    async fn live(&self, id: &str) -> Arc<Live> {
        self.seat(id).await.expect("a session");
        self.awake(id).expect("a session")
    }

    /// A session, if it is in memory.
    fn awake(&self, id: &str) -> Option<Arc<Live>> {
        let seat = self.gateway.everybody().into_iter().find(|seat| seat.id().as_str() == id)?;
        Some(seat.live().expect("a surface of ours").clone())
    }

    fn keeper(&self) -> &Arc<Keeper> {
        self.gateway.shared().keeper().expect("a keeper")
    }

    async fn written(&self) {
        assert!(self.keeper().write_marked().await);
    }

    /// As `kill -9` does: nothing more is written, and nobody says a word.
    fn crash(&self) {
        self.keeper().finishing.cancel();
        self.keeper().stopped.store(true, Ordering::Release);
        self.tasks.stop();
    }

    /// Its end, as it should be.
    async fn stop(self) {
        self.gateway.close().await;
        self.nodes.leave().await;
    }
}

fn tell(live: &Arc<Live>, count: usize) {
    for _ in 0..count {
        live.cell().tell(&Text::from_static("files"), &Happening::ServerHealthRestored, live.now());
    }
}

fn waiting(live: &Arc<Live>) -> usize {
    live.cell().with(|session| session.events.waiting(&Filter::All))
}

fn promote(live: &Arc<Live>) -> Ulid {
    let remote = Remote::sink(|_| false);
    let (server, tool) = (Text::from_static("files"), Text::from_static("slow"));
    let task = NewTask { server, tool, args: Raw::from_static(r#"{"a":1}"#), ttl: None, remote };
    live.cell().with(|session| session.promote(task, live.now())).expect("room for a task")
}

async fn keys(store: &Arc<dyn Store>) -> Vec<String> {
    let keys: Vec<Key> = store.scan("session:").try_collect().await.expect("keys");
    let mut keys: Vec<String> = keys.iter().map(|key| key.as_str().to_owned()).collect();
    keys.sort();
    keys
}

fn key(id: &str, part: &str) -> Key {
    Key::parse(&format!("session:{{{}}}:{part}", name_of(id))).expect("a key")
}

async fn owner(store: &Arc<dyn Store>, id: &str) -> String {
    let value = store.get(&key(id, "owner")).await.expect("an answer").expect("an owner");
    String::from_utf8(value.to_vec()).expect("text")
}

#[tokio::test]
async fn a_session_comes_back_with_what_it_remembered_and_to_its_client_alone() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let id = first.begin().await;
    let before = first.live(&id).await;
    tell(&before, 3);
    before.cell().with(|session| session.set_timer(TTL, "later", false, before.now())).expect("set");
    let done = promote(&before);
    before.cell().with(|session| session.task_completed(done, Raw::from_static("[1]"), before.now()));
    let lost = promote(&before);
    first.stop().await;
    assert!(owner(&store, &id).await.ends_with(" - -"), "it was let go of");

    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    assert_eq!(second.locate("0123").await, Place::Here, "that is no id");
    assert_eq!(second.locate(&"0".repeat(64)).await, Place::Here, "that is none of ours");
    assert!(second.seat(&"0".repeat(64)).await.is_none());
    let back = second.live(&id).await;
    assert!(second.gateway.seat(&id, &Mount::Default, &Visitor::local()).is_none(), "it was somewhere else");
    assert!(
        second.gateway.seat(&id, &Mount::Tools, &Visitor::of(Principal::named("eve"))).is_none(),
        "it is somebody else's"
    );
    let seat = second.seat(&id).await.expect("there");
    assert_eq!(seat.caller().capabilities.0.as_str(), r#"{"sampling":{}}"#);
    assert_eq!(seat.caller().client_info.as_ref().map(Raw::as_str), Some(r#"{"name":"t"}"#));
    back.cell().with(|session| {
        assert_eq!(session.timers(false).count(), 1);
        let status = |id| session.task(id).map(|task| (task.status(), task.result().is_some()));
        assert_eq!(status(done), Some((TaskStatus::Completed, true)));
        assert_eq!(status(lost), Some((TaskStatus::Failed, false)), "its call went with the process");
        let taken = session.events.take(&Filter::All, 99, usize::MAX);
        assert!(taken.dropped.is_none(), "the process before had time to write");
        assert_eq!(taken.events.len(), 7, "three, two of tasks that began, one of each end");
    });

    tell(&back, 1);
    second.stop().await;
    let third = Node { boot: "3", ..ALONE }.start(&store).await;
    assert_eq!(waiting(&third.live(&id).await), 8, "it is kept on, and a response under way arrived nowhere");
}

#[tokio::test]
async fn what_is_on_disk_outlives_the_store_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = Settings::parse(&format!("disk:{}", folder.path().display())).expect("a store");
    let mut id = String::new();
    for round in 1..=3_usize {
        let store = lb_store::open(&settings).await.expect("a store");
        let process = Node { boot: &round.to_string(), ..ALONE }.start(&store).await;
        if id.is_empty() {
            id = process.begin().await;
        }
        let live = process.live(&id).await;
        assert_eq!(waiting(&live), 2 * (round - 1));
        tell(&live, 2);
        drop(live);
        let tasks = process.tasks.clone();
        process.stop().await;
        assert!(tasks.close(Duration::from_secs(20)).await);
        drop(store);
    }
}

#[tokio::test]
async fn after_a_crash_what_was_written_is_there_and_the_rest_is_a_gap() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let id = first.begin().await;
    tell(&first.live(&id).await, 2);
    first.written().await;
    first.crash();
    tell(&first.live(&id).await, 5);

    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    let back = second.live(&id).await;
    let taken = back.cell().with(|session| session.events.take(&Filter::All, 9, usize::MAX));
    assert_eq!(taken.events.len(), 2);
    let gap = taken.dropped.expect("a word on what may be missing");
    assert!(gap.data.as_str().contains("node_lost"), "{}", gap.data.as_str());
}

#[tokio::test]
async fn a_session_that_ends_leaves_a_word_and_nothing_else() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let id = process.begin().await;
    let live = process.live(&id).await;
    tell(&live, 3);
    promote(&live);
    process.written().await;
    let kept = keys(&store).await;
    assert_eq!(kept.len(), 5, "{kept:?}");
    assert!(kept.iter().all(|key| !key.contains(&id)), "the id is a secret: {kept:?}");
    let seat = process.seat(&id).await.expect("there");
    seat.end(Cancel::SessionEnd);
    seat.ended().await;
    assert_eq!(keys(&store).await, [key(&id, "owner").as_str()]);
    assert_eq!(owner(&store, &id).await, "2 gone -");
    assert!(process.seat(&id).await.is_none());
    process.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    assert!(second.seat(&id).await.is_none());
}

#[tokio::test]
async fn a_session_that_ends_before_it_was_written_is_not_written_after() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    process.keeper().finishing.cancel();
    let id = process.begin().await;
    let seat = process.gateway.seat(&id, &Mount::Tools, &Visitor::local()).expect("there");
    seat.end(Cancel::SessionEnd);
    seat.ended().await;
    process.written().await;
    assert_eq!(keys(&store).await, Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_written_after_the_end() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let id = process.begin().await;
    let live = process.live(&id).await;
    process.gateway.close().await;
    let before = store.range(&key(&id, "events"), 0, 99).await.expect("an answer");
    tell(&live, 3);
    process.keeper().write_marked().await;
    assert_eq!(store.range(&key(&id, "events"), 0, 99).await.expect("an answer"), before);
    assert_eq!(owner(&store, &id).await, "1 - -", "the end of the process is not the end of the session");
}

#[tokio::test]
async fn all_who_come_back_at_once_get_the_same_session() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let id = first.begin().await;
    first.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    let asking = (0..50).map(|_| async { second.live(&id).await.number() });
    let found = futures_util::future::join_all(asking).await;
    assert!(found.iter().all(|number| *number == found[0]), "{found:?}");
    assert_eq!(owner(&store, &id).await, "2 alone 2", "it was taken over once");
}

#[tokio::test(start_paused = true)]
async fn sessions_that_nobody_asks_for_cost_nothing() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let mut ids = Vec::new();
    for _ in 0..1_000 {
        ids.push(first.begin().await);
    }
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!((first.gateway.sessions(), first.keeper().awake()), (0, 0), "all are written out");
    first.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    assert_eq!((second.gateway.sessions(), second.keeper().awake()), (0, 0));
    second.live(&ids[500]).await;
    assert_eq!((second.gateway.sessions(), second.keeper().awake()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_session_rests_when_nothing_goes_on_and_comes_back_whole() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let (quiet, timed, tasked) = (process.begin().await, process.begin().await, process.begin().await);
    tell(&process.live(&quiet).await, 2);
    let live = process.live(&timed).await;
    live.cell().with(|session| session.set_timer(TTL, "later", false, live.now())).expect("set");
    promote(&process.live(&tasked).await);
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(process.awake(&quiet).is_some(), "it was used a moment ago");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(process.awake(&quiet).is_none());
    assert!(process.awake(&timed).is_some() && process.awake(&tasked).is_some());
    assert_eq!(owner(&store, &quiet).await, "1 - -");
    let back = process.live(&quiet).await;
    let taken = back.cell().with(|session| session.events.take(&Filter::All, 9, usize::MAX));
    assert_eq!((taken.events.len(), taken.dropped.is_none()), (2, true));
    assert_eq!(owner(&store, &quiet).await, "2 alone 1");
}

#[tokio::test(start_paused = true)]
async fn a_session_is_kept_for_as_long_as_it_is_used_and_no_longer() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let id = process.begin().await;
    let live = process.live(&id).await;
    tell(&live, 1);
    let task = promote(&live);
    live.cell().with(|session| session.task_completed(task, Raw::from_static("[1]"), live.now()));
    drop(live);
    for _ in 0..4 {
        tokio::time::sleep(TTL - Duration::from_secs(300)).await;
        let live = process.live(&id).await;
        assert!(0 < waiting(&live));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let all = keys(&store).await;
    assert_eq!(all.len(), 5, "owner, head, record, events and the task: {all:?}");
    tokio::time::sleep(TTL + Duration::from_secs(300)).await;
    assert_eq!(keys(&store).await, Vec::<String>::new());
    assert!(process.seat(&id).await.is_none());
}

#[tokio::test]
async fn what_is_written_by_itself_needs_nobody_to_ask() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let id = process.begin().await;
    tell(&process.live(&id).await, 3);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while store.range(&key(&id, "events"), 0, 9).await.expect("an answer").len() < 3 {
        assert!(tokio::time::Instant::now() < deadline, "nothing was written");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_nobodys_session_and_harms_nobody() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let (head, record, owned, fine) =
        (first.begin().await, first.begin().await, first.begin().await, first.begin().await);
    first.stop().await;
    store.set(&key(&head, "head"), "{", TTL).await.expect("set");
    store.set(&key(&record, "record"), r#"{"version":"9"}"#, TTL).await.expect("set");
    store.set(&key(&owned, "owner"), "gibberish", TTL).await.expect("set");
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    for id in [&head, &record, &owned] {
        assert!(second.seat(id).await.is_none());
    }
    assert_eq!(owner(&store, &record).await, "1 - -", "a later version of us may read it");
    assert!(second.seat(&fine).await.is_some());
}

#[tokio::test]
async fn a_full_gateway_wakes_nobody() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let id = first.begin().await;
    first.stop().await;
    let second = Node { boot: "2", sessions_max: 1, ..ALONE }.start(&store).await;
    let other = second.begin().await;
    assert!(matches!(second.locate(&id).await, Place::Full(_)));
    second.seat(&other).await.expect("there").end(Cancel::SessionEnd);
    assert!(second.seat(&id).await.is_some());
}

#[tokio::test]
async fn where_nothing_may_be_lost_an_answer_comes_after_what_its_call_changed() {
    for (gather, kept) in [(Duration::ZERO, 3), (Duration::from_secs(3_600), 0)] {
        let store = memory().await;
        let process = Node { gather, ..ALONE }.start(&store).await;
        let id = process.begin().await;
        let (live, seat) = (process.live(&id).await, process.seat(&id).await.expect("a session"));
        process.written().await;
        tell(&live, 3);
        let message = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#;
        let message = Message::scan(Bytes::from_static(message.as_bytes())).expect("a message");
        let (caller, mount) = (seat.caller().clone(), Mount::Tools);
        let mut answer = seat.open(Call { caller, mount, message, headers: None, trace: None, rights: None });
        answer.step().await;
        let events = store.range(&key(&id, "events"), 0, 9).await.expect("an answer");
        assert_eq!(events.len(), kept, "changes gather for {gather:?}");
    }
}
