mod generated;

use serde_json::{Value, json};

use super::*;
use crate::backend::Listed;
use crate::events::{Event, Filter, Lease};
use crate::session::kit::{MINUTE, SECOND, Wire, ask, at, events};
use crate::tasks::{NewTask, TaskStatus};
use crate::timers::TimerStatus;

/// What a store has of one session.
#[derive(Default)]
struct Shelf {
    record: Option<Raw>,
    events: Vec<(u64, Raw)>,
    tasks: Vec<(Ulid, Raw)>,
    writes: usize,
}

impl Shelf {
    fn write(&mut self, session: &mut Session) {
        let Some(delta) = session.take_delta() else { return };
        self.writes += 1;
        self.record = Some(delta.record);
        for (seq, event) in delta.events {
            assert!(self.events.last().is_none_or(|(last, _)| *last < seq), "events come in the order of their places");
            self.events.push((seq, event));
        }
        self.events.retain(|(seq, _)| delta.events_from <= *seq);
        for (id, task) in delta.tasks {
            self.tasks.retain(|(other, _)| *other != id);
            self.tasks.push((id, task.compose()));
        }
        self.tasks.retain(|(id, _)| !delta.tasks_gone.contains(id));
    }

    fn restore(&self, how: Return<'_>, now: Moment) -> Session {
        let record = self.record.clone().expect("something was written");
        let named = Kept::tasks_of(&record).expect("our own record");
        let tasks = named.iter().filter_map(|id| self.tasks.iter().find(|(other, _)| other == id));
        let kept = Kept { record, events: self.events.clone(), tasks: tasks.map(|(_, task)| task.clone()).collect() };
        Session::restore(Limits::default(), &kept, how, now).expect("our own record")
    }
}

const CLEAN: Return<'static> = Return { why: "Node lost", may_miss: false, epoch: 1 };
const CRASH: Return<'static> = Return { why: "Node lost", may_miss: true, epoch: 1 };

fn session() -> Session {
    let mut session = Session::new(Limits::default());
    session.keep();
    session
}

fn note(method: &'static str) -> Happening {
    Happening::Notification { method: Text::from_static(method), params: None, count: 1 }
}

fn files() -> Text {
    Text::from_static("files")
}

fn tell(session: &mut Session, count: usize, now: Moment) -> Vec<Ulid> {
    (0..count).map(|_| session.tell(&files(), &Happening::ServerHealthRestored, now)).collect()
}

fn new_task(wire: &Wire) -> NewTask {
    let args = Raw::from_static(r#"{"path":"/tmp"}"#);
    NewTask { server: files(), tool: Text::from_static("slow"), args, ttl: None, remote: wire.remote("call") }
}

fn take(session: &mut Session, max: usize) -> (Vec<Ulid>, Option<Lease>) {
    let taken = session.events.take(&Filter::All, max, usize::MAX);
    (taken.events.iter().map(|event| event.id).collect(), taken.lease)
}

#[test]
fn nothing_is_written_twice_and_nothing_without_a_change() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    shelf.write(&mut session);
    assert!(session.take_delta().is_none(), "nothing happened");
    tell(&mut session, 2, at(SECOND));
    let delta = session.take_delta().expect("two events");
    assert_eq!(delta.events.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 2]);
    tell(&mut session, 1, at(SECOND));
    let delta = session.take_delta().expect("one more");
    assert_eq!(delta.events.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [3]);
    let (_, lease) = take(&mut session, usize::MAX);
    assert!(session.take_delta().is_none(), "that a response is under way is not kept");
    session.events.commit(lease.expect("a lease"));
    assert!(session.take_delta().expect("they arrived").events.is_empty());
    assert!(Session::new(Limits::default()).take_delta().is_none(), "nobody keeps this one");
}

#[test]
fn events_that_nobody_had_wait_again_and_others_do_not() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    let ids = tell(&mut session, 5, at(SECOND));
    let (first, lease) = take(&mut session, 2);
    session.events.commit(lease.expect("a lease"));
    let (leased, _) = take(&mut session, 1);
    assert_eq!([first, leased].concat(), ids[..3]);
    shelf.write(&mut session);

    let mut back = shelf.restore(CLEAN, at(MINUTE));
    assert_eq!(back.events.cursor(), Some(ids[1]), "two were delivered");
    let (waiting, lease) = take(&mut back, usize::MAX);
    assert_eq!(waiting, ids[2..], "a response that was under way is lost, and its events are not");
    back.events.commit(lease.expect("a lease"));
    let again = back.events.after(&ids[0].to_string()).expect("a known id");
    assert_eq!(again.events.iter().map(|event| event.id).collect::<Vec<_>>(), ids[1..]);
    let next = tell(&mut back, 1, at(MINUTE));
    assert!(ids.iter().all(|id| *id < next[0]));
    assert_eq!(back.events.take(&Filter::All, 9, usize::MAX).events[0].seq, 6);
}

#[test]
fn what_an_event_says_comes_back_as_it_was() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    let params = Some(Raw::from_static(r#"{"uri":"file:///ü","n":1.50}"#));
    let what = Happening::Notification { method: Text::from_static("x/y"), params, count: 1 };
    session.tell(&files(), &what, at(SECOND));
    shelf.write(&mut session);
    let mut back = shelf.restore(CLEAN, at(MINUTE));
    let (before, after) = (
        session.events.take(&Filter::All, 1, usize::MAX).events[0].clone(),
        back.events.take(&Filter::All, 1, usize::MAX).events[0].clone(),
    );
    assert_eq!(crate::event_json(&before), crate::event_json(&after));
}

#[test]
fn merged_notifications_come_back_as_one() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    session.tell(&files(), &note("notifications/tools/list_changed"), at(SECOND));
    shelf.write(&mut session);
    session.tell(&files(), &note("notifications/tools/list_changed"), at(SECOND));
    shelf.write(&mut session);
    let mut back = shelf.restore(CLEAN, at(MINUTE));
    let told = events(&mut back);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].2["count"], 2);
    assert!(back.events.take(&Filter::All, 9, usize::MAX).dropped.is_none());
}

#[test]
fn what_was_lost_before_is_told_after() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    let ids: Vec<Ulid> = (0..103)
        .map(|n| {
            let method = Text::from(&*format!("n/{n}"));
            session.tell(&files(), &Happening::Notification { method, params: None, count: 1 }, at(SECOND))
        })
        .collect();
    shelf.write(&mut session);
    let mut back = shelf.restore(CLEAN, at(MINUTE));
    let taken = back.events.take(&Filter::All, 1, usize::MAX);
    let dropped: Value = taken.dropped.expect("a word on the lost ones").data.read().expect("JSON");
    let (first, last) = (ids[0].to_string(), ids[2].to_string());
    assert_eq!(dropped, json!({"count": 3, "firstLostId": first, "lastLostId": last}));
    assert_eq!(back.events.dropped_ever(), 3);
}

#[test]
fn events_that_vanished_from_the_shelf_count_as_lost() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    tell(&mut session, 5, at(SECOND));
    shelf.write(&mut session);
    shelf.events.drain(..2);
    let mut back = shelf.restore(CLEAN, at(MINUTE));
    let taken = back.events.take(&Filter::All, 9, usize::MAX);
    let dropped: Value = taken.dropped.expect("a word on the lost ones").data.read().expect("JSON");
    assert_eq!((taken.events.len(), &dropped["count"]), (3, &json!(2)));
}

#[test]
fn after_a_crash_ids_that_were_never_written_are_a_gap_and_new_ids_are_newer() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    let written = tell(&mut session, 2, at(SECOND));
    shelf.write(&mut session);
    // Its clock is ahead of the one of the next process.
    let lost = Ulid::elsewhere(written[1].unix() + SECOND * 5);

    let mut back = shelf.restore(CRASH, at(SECOND * 2));
    let new = tell(&mut back, 1, at(SECOND * 3));
    assert!(lost < new[0], "{lost:?} {new:?}");
    let taken = back.events.after(&lost.to_string()).expect("an id of the process before");
    assert_eq!(taken.events.iter().map(|event| event.id).collect::<Vec<_>>(), new);
    let gap = taken.gap.expect("something may lie between");
    assert_eq!((gap.count, gap.before), (None, new[0]));
    assert!(taken.dropped.is_some(), "a client that names no event is told as well");
    back.events.commit(taken.lease.expect("a lease"));
    assert_eq!(back.events.after(&written[0].to_string()).expect("a known id").events.len(), 2);
    let never = Ulid::end_of(new[0].unix() + MINUTE * 9);
    assert!(back.events.after(&never.to_string()).is_err(), "nobody gave out that one");
}

#[test]
fn a_clean_return_has_no_gap() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    tell(&mut session, 1, at(SECOND));
    shelf.write(&mut session);
    let mut back = shelf.restore(CLEAN, at(MINUTE));
    assert!(back.events.take(&Filter::All, 9, usize::MAX).dropped.is_none());
}

#[test]
fn a_crash_is_told_by_the_first_id_that_may_be_lost_and_again_after_every_crash() {
    // Whether the word on the first one was told, whether it arrived, and whether that was written.
    for (told, arrived, written) in
        [(false, false, false), (true, false, true), (true, true, false), (true, true, true), (false, false, true)]
    {
        let (mut session, mut shelf) = (session(), Shelf::default());
        let first = tell(&mut session, 1, at(SECOND));
        let (_, lease) = take(&mut session, 1);
        session.events.commit(lease.expect("a lease"));
        shelf.write(&mut session);

        let mut back = shelf.restore(CRASH, at(SECOND * 2));
        shelf.write(&mut back);
        let mut lost = None;
        if told {
            tell(&mut back, 1, at(SECOND * 3));
            let taken = back.events.take(&Filter::All, 9, usize::MAX);
            lost = taken.dropped.as_ref().map(lost_ids);
            assert_eq!(
                lost.as_ref().map(|(first, _)| *first),
                Some(first[0].next()),
                "the first one after the last known"
            );
            if arrived {
                back.events.commit(taken.lease.expect("a lease"));
            }
        }
        if written {
            shelf.write(&mut back);
        }

        let mut again = shelf.restore(CRASH, at(SECOND * 4));
        tell(&mut again, 1, at(SECOND * 5));
        let dropped = again.events.take(&Filter::All, 9, usize::MAX).dropped;
        let (from, to) = dropped.as_ref().map(lost_ids).expect("a word on the second crash");
        assert!(from <= to, "{from:?} {to:?}");
        if arrived && written {
            assert!(lost.is_some_and(|(_, before)| before < from), "what was told and arrived is not told again");
        } else {
            assert_eq!(from, first[0].next(), "what did not arrive, as far as is known, is told again");
        }
    }
}

/// Processes died one after the other, each before it had written anything down, and gave out the same ids: those of the
/// first crash run ahead of the clock, so that the time said nothing of how many there had been.
#[test]
fn no_id_is_given_out_twice_by_processes_that_die_before_they_write() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    tell(&mut session, 1, at(SECOND));
    shelf.write(&mut session);
    let mut first = shelf.restore(Return { epoch: 2, ..CRASH }, at(SECOND * 2));
    let mut newest = tell(&mut first, 1, at(SECOND * 2))[0];
    shelf.write(&mut first);
    for epoch in 3..8 {
        let mut back = shelf.restore(Return { epoch, ..CRASH }, at(SECOND * 3));
        let given = tell(&mut back, 3, at(SECOND * 3));
        let dropped = back.events.take(&Filter::All, 9, usize::MAX).dropped;
        let (from, to) = dropped.as_ref().map(lost_ids).expect("a gap");
        assert!(from <= newest && newest < to && to < given[0], "epoch {epoch}: {from:?} {newest:?} {to:?} {given:?}");
        newest = given[2];
    }
}

fn lost_ids(dropped: &Event) -> (Ulid, Ulid) {
    let data: Value = dropped.data.read().expect("JSON");
    assert_eq!(data["cause"], "node_lost");
    let id = |name: &str| Ulid::parse(data[name].as_str().expect("an id")).expect("an id");
    (id("firstLostId"), id("lastLostId"))
}

#[test]
fn a_server_that_was_met_before_is_told_as_started_anew_once() {
    let (mut session, mut shelf, wire) = (session(), Shelf::default(), Wire::default());
    let listed = Listed { capabilities: Raw::empty_object(), tools: 3, resources: 2, prompts: 1 };
    let connected = Happening::ServerConnected(Box::new(listed));
    session.tell(&files(), &connected, at(SECOND));
    session.wish("files", |wishes| wishes.subscribe("file:///a", true));
    session.wish("files", |wishes| wishes.log_level = Some("debug".to_owned()));
    session.wish("gone", |wishes| wishes.subscribe("file:///b", true));
    session.forget_server("gone");
    session.promote(new_task(&wire), at(SECOND)).expect("room");
    assert_eq!(session.wishes_before("files"), None, "it is met");
    shelf.write(&mut session);

    // It is not met in the process between.
    let mut back = shelf.restore(CLEAN, at(MINUTE));
    shelf.write(&mut back);
    let mut back = shelf.restore(CLEAN, at(MINUTE));
    let wishes = back.wishes_before("files").expect("it was met before");
    assert_eq!((&*wishes.subscriptions, wishes.log_level.as_deref()), (&["file:///a".to_owned()][..], Some("debug")));
    assert_eq!(back.wishes_before("gone"), None);
    drop(events(&mut back));
    back.tell(&files(), &connected, at(MINUTE));
    back.tell(&Text::from_static("new"), &connected, at(MINUTE));
    back.tell(&files(), &connected, at(MINUTE));
    let told = events(&mut back);
    let kinds: Vec<_> = told.iter().map(|(kind, server, _)| (*kind, &**server)).collect();
    assert_eq!(
        kinds,
        [("server_reconnected", "files"), ("server_connected", "new"), ("server_connected", "files")],
        "once"
    );
    let data = &told[0].2;
    assert_eq!((&data["type"], &data["refreshedTools"]), (&json!("restart"), &json!(3)));
    assert_eq!(back.wishes_before("files"), None);
}

#[test]
fn a_task_that_worked_has_failed_and_one_that_ended_has_its_result() {
    let (mut session, mut shelf, wire) = (session(), Shelf::default(), Wire::default());
    let done = session.promote(new_task(&wire), at(SECOND)).expect("room");
    let works = session.promote(new_task(&wire), at(SECOND)).expect("room");
    shelf.write(&mut session);
    session.task_completed(done, Raw::from_static(r#"{"content":[]}"#), at(SECOND * 2));
    shelf.write(&mut session);

    let mut back = shelf.restore(CRASH, at(SECOND * 5));
    let task = back.task(done).expect("kept");
    assert_eq!((task.status(), task.result().map(Raw::as_str)), (TaskStatus::Completed, Some(r#"{"content":[]}"#)));
    assert_eq!(task.row(), session.task(done).expect("there").row());
    let task = back.task(works).expect("kept");
    assert_eq!((task.status(), task.error()), (TaskStatus::Failed, Some("Node lost")));
    assert_eq!(task.args().as_str(), r#"{"path":"/tmp"}"#);
    let told = events(&mut back);
    let kinds: Vec<_> = told.iter().map(|(kind, _, _)| *kind).collect();
    assert_eq!(kinds, ["task_created", "task_created", "task_completed", "task_failed"]);
    assert_eq!(told[3].2["taskId"], works.to_string());

    // Both are forgotten in their time, the failed one later.
    shelf.write(&mut back);
    back.tick(at(SECOND * 2 + MINUTE * 5));
    assert!(back.task(done).is_none() && back.task(works).is_some());
    back.tick(at(SECOND * 5 + MINUTE * 5));
    assert!(back.task(works).is_none());
    shelf.write(&mut back);
    assert!(shelf.tasks.is_empty(), "nothing stays on the shelf");
}

#[test]
fn a_task_is_written_when_it_is_made_and_when_it_ends_and_not_otherwise() {
    let (mut session, wire) = (session(), Wire::default());
    session.take_delta();
    let id = session.promote(new_task(&wire), at(SECOND)).expect("room");
    assert_eq!(session.take_delta().expect("a task").tasks.len(), 1);
    session.task_progressed(id, Some("half"), at(SECOND));
    tell(&mut session, 1, at(SECOND));
    assert!(session.take_delta().expect("an event").tasks.is_empty());
    session.task_failed(id, "no", None, at(SECOND));
    assert_eq!(session.take_delta().expect("its end").tasks.len(), 1);
}

#[test]
fn requests_of_servers_have_expired_with_the_node() {
    let (mut session, mut shelf, wire) = (session(), Shelf::default(), Wire::default());
    let new = ask("files", PendingKind::Elicitation, wire.remote("ask"));
    let asked = session.request(new, at(SECOND)).expect("room");
    shelf.write(&mut session);
    let mut back = shelf.restore(CRASH, at(MINUTE));
    assert_eq!(back.pending_count(), 0);
    let told = events(&mut back);
    assert_eq!(told[1].0, "elicitation_expired");
    assert_eq!(told[1].2, json!({"requestId": asked.to_string(), "reason": "Node lost", "cause": "node_lost"}));
    shelf.write(&mut back);
    let mut again = shelf.restore(CLEAN, at(MINUTE));
    assert!(events(&mut again).is_empty(), "it is told once");
}

#[test]
fn timers_run_on_by_the_time_of_day_and_an_overdue_one_fires_once() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    let late = session.set_timer(SECOND * 10, "late", false, at(SECOND)).expect("set");
    let early = session.set_timer(MINUTE * 10, "early", false, at(SECOND)).expect("set");
    let ticks = session.set_timer(SECOND * 7, "ticks", true, at(SECOND)).expect("set");
    let deleted = session.set_timer(SECOND * 10, "deleted", false, at(SECOND)).expect("set");
    session.delete_timer(deleted, at(SECOND)).expect("there");
    shelf.write(&mut session);

    // The clock of another process started at another time.
    let now = |unix: Duration| Moment { up: MINUTE * 500 + unix, unix: at(unix).unix };
    let mut back = shelf.restore(CRASH, now(MINUTE));
    back.tick(now(MINUTE));
    let told = events(&mut back);
    let fired: Vec<_> = told.iter().map(|(_, _, data)| (data["timerId"].clone(), data["fireCount"].clone())).collect();
    assert_eq!(fired, [(json!(ticks.to_string()), json!(1)), (json!(late.to_string()), json!(1))]);
    assert_eq!(back.timer(late).expect("kept").status(), TimerStatus::Expired);
    assert_eq!(back.timer(deleted).expect("kept").status(), TimerStatus::Deleted);
    assert_eq!(back.timer(early).expect("kept").due(), now(SECOND + MINUTE * 10).up);
    assert_eq!(back.timer(ticks).expect("kept").due(), now(SECOND + SECOND * 63).up, "on its old schedule");
}

#[test]
fn what_is_too_old_goes_at_once_even_where_the_clock_has_just_started() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    tell(&mut session, 1, at(SECOND));
    shelf.write(&mut session);
    let now = Moment { up: MINUTE * 60, unix: at(MINUTE * 40).unix };
    let mut back = shelf.restore(CLEAN, now);
    back.tick(now);
    assert_eq!(back.events.waiting(&Filter::All), 0);
    assert_eq!(back.events.dropped_ever(), 1);
}

#[test]
fn what_is_none_of_ours_is_refused_whole() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    tell(&mut session, 1, at(SECOND));
    shelf.write(&mut session);
    let record = shelf.record.clone().expect("written");
    let newer = record.as_str().replace(r#""version":1"#, r#""version":2"#);
    for (record, events) in [
        (Raw::parse(newer.into()).expect("JSON"), shelf.events.clone()),
        (Raw::empty_object(), Vec::new()),
        (Raw::from_static("[]"), Vec::new()),
        (record, vec![(1, Raw::from_static(r#"{"kind":"x"}"#))]),
    ] {
        let kept = Kept { record, events, tasks: Vec::new() };
        assert!(Session::restore(Limits::default(), &kept, CLEAN, at(MINUTE)).is_err(), "{kept:?}");
    }
}

#[test]
fn the_owner_hears_once_that_there_is_something_to_write() {
    let heard = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = heard.clone();
    let hear = move || {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    };
    let cell = crate::Cell::keeping(session(), |_| (), hear);
    cell.begin();
    let heard = || heard.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(heard(), 1, "a new session is to be written");
    cell.tell(&files(), &Happening::ServerHealthRestored, at(SECOND));
    assert_eq!(heard(), 1, "that is known");
    assert!(cell.with(Session::take_delta).is_some());
    assert_eq!(heard(), 1, "nothing is left");
    cell.with(|session| session.events.waiting(&Filter::All));
    assert_eq!(heard(), 1, "looking changes nothing");
    cell.tell(&files(), &Happening::ServerHealthRestored, at(SECOND));
    assert_eq!(heard(), 2);
}

#[test]
fn the_end_of_a_session_is_not_written_over_what_it_remembered() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    tell(&mut session, 2, at(SECOND));
    shelf.write(&mut session);
    tell(&mut session, 1, at(SECOND));
    session.close(at(SECOND));
    assert!(session.take_delta().is_none());
    assert_eq!(events(&mut shelf.restore(CRASH, at(MINUTE))).len(), 2);
}

#[test]
fn ids_do_not_go_back_when_the_clock_does() {
    let (mut session, mut shelf) = (session(), Shelf::default());
    tell(&mut session, 1, at(SECOND));
    shelf.write(&mut session);
    // As a process wrote it whose clock was far ahead.
    let ahead = Ulid::elsewhere(at(MINUTE * 60).unix);
    let own = session.events.last_id().expect("an event").to_string();
    let swap = |raw: &Raw| Raw::parse(raw.as_str().replace(&own, &ahead.to_string()).into()).expect("JSON");
    shelf.record = shelf.record.as_ref().map(swap);
    shelf.events = shelf.events.iter().map(|(seq, event)| (*seq, swap(event))).collect();
    let mut back = shelf.restore(CLEAN, at(MINUTE));
    let new = tell(&mut back, 1, at(MINUTE));
    assert!(ahead < new[0]);
    assert_eq!(back.events.after(&ahead.to_string()).expect("a known id").events.len(), 1);
}

/// What can be done to a session.
#[derive(Clone, Debug)]
enum Act {
    Tell(u8),
    Take(u8),
    Commit,
    RollBack,
    Acknowledge(u8),
    Promote,
    Complete,
    Fail,
    Timer(u8, bool),
    DeleteTimer,
    Pass(u16),
    Write,
}

fn acts() -> impl proptest::strategy::Strategy<Value = Vec<Act>> {
    use proptest::prelude::*;
    let act = prop_oneof![
        4 => (1_u8..6).prop_map(Act::Tell),
        3 => (1_u8..9).prop_map(Act::Take),
        2 => Just(Act::Commit),
        1 => Just(Act::RollBack),
        1 => any::<u8>().prop_map(Act::Acknowledge),
        2 => Just(Act::Promote),
        1 => Just(Act::Complete),
        1 => Just(Act::Fail),
        1 => (1_u8..200, any::<bool>()).prop_map(|(seconds, again)| Act::Timer(seconds, again)),
        1 => Just(Act::DeleteTimer),
        2 => (1_u16..400).prop_map(Act::Pass),
        3 => Just(Act::Write),
    ];
    proptest::collection::vec(act, 1..80)
}

/// A session whose bounds are met early, under random acts.
struct Play {
    session: Session,
    shelf: Shelf,
    wire: Wire,
    now: Duration,
    told: Vec<Ulid>,
    leases: Vec<Lease>,
}

impl Play {
    const LIMITS: fn() -> Limits = || Limits { events_max: 12, tasks_ended_max: 3, ..Limits::default() };

    fn new() -> Self {
        let mut session = Session::new(Self::LIMITS());
        session.keep();
        let (shelf, wire, told, leases) = Default::default();
        Self { session, shelf, wire, now: SECOND, told, leases }
    }

    fn act(&mut self, act: &Act) {
        let now = at(self.now);
        let working = self.session.working().next().map(Task::id);
        match act {
            Act::Tell(count) => self.told.extend(tell(&mut self.session, usize::from(*count), now)),
            Act::Take(count) => self.leases.extend(take(&mut self.session, usize::from(*count)).1),
            Act::Commit => self.leases.pop().into_iter().for_each(|lease| self.session.events.commit(lease)),
            Act::RollBack => self.leases.pop().into_iter().for_each(|lease| self.session.events.roll_back(lease)),
            Act::Acknowledge(n) => {
                let id = self.told.get(usize::from(*n) % self.told.len().max(1));
                let taken = id.and_then(|id| self.session.events.after(&id.to_string()).ok());
                self.leases.extend(taken.and_then(|taken| taken.lease));
            }
            Act::Promote => {
                self.session.promote(new_task(&self.wire), now).expect("room for a hundred");
            }
            Act::Complete => working.into_iter().for_each(|id| {
                self.session.task_completed(id, Raw::from_static(r#"{"content":[1]}"#), now);
            }),
            Act::Fail => working.into_iter().for_each(|id| {
                self.session.task_failed(id, "no", None, now);
            }),
            Act::Timer(seconds, again) => {
                let set = self.session.set_timer(SECOND * u32::from(*seconds), "tick", *again, now);
                assert!(set.is_ok() || self.session.timers(false).count() == 100, "{set:?}");
            }
            Act::DeleteTimer => {
                let first = self.session.timers(false).next().map(crate::Timer::id);
                first.into_iter().for_each(|id| drop(self.session.delete_timer(id, now)));
            }
            Act::Pass(seconds) => {
                self.now += SECOND * u32::from(*seconds);
                self.session.tick(at(self.now));
            }
            Act::Write => self.shelf.write(&mut self.session),
        }
    }
}

/// What a client can see of a session in which no response is under way.
fn seen(session: &mut Session) -> Value {
    let tasks: Vec<Value> =
        session.tasks().map(|task| task.detail(&Raw::empty_object()).read().expect("JSON")).collect();
    let timers: Vec<Value> = session.timers(false).map(|timer| timer.row().read().expect("JSON")).collect();
    let cursor = session.events.cursor().map(|id| id.to_string());
    let taken = session.events.take(&Filter::All, usize::MAX, usize::MAX);
    let events: Vec<Value> = taken.events.iter().map(|event| crate::event_json(event).read().expect("JSON")).collect();
    let dropped = taken.dropped.map(|event| crate::event_json(&event).read::<Value>().expect("JSON"));
    json!({"tasks": tasks, "timers": timers, "cursor": cursor, "events": events, "dropped": dropped})
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_happened_the_session_that_comes_back_is_the_one_that_was_written(acts in acts()) {
        let mut play = Play::new();
        acts.iter().for_each(|act| play.act(act));
        // What is under way is not kept: a client that was told nothing, and no call.
        play.leases.drain(..).rev().for_each(|lease| play.session.events.roll_back(lease));
        let working: Vec<Ulid> = play.session.working().map(Task::id).collect();
        for id in working {
            play.session.task_failed(id, "no", None, at(play.now));
        }
        play.session.tick(at(play.now));
        play.shelf.write(&mut play.session);
        proptest::prop_assert!(play.session.take_delta().is_none());

        let record = play.shelf.record.clone().expect("written");
        let named = Kept::tasks_of(&record).expect("our own record");
        proptest::prop_assert_eq!(named.len(), play.shelf.tasks.len(), "no task is left behind");
        let tasks = play.shelf.tasks.iter().map(|(_, task)| task.clone()).collect();
        let kept = Kept { record, events: play.shelf.events.clone(), tasks };
        let mut back = Session::restore(Play::LIMITS(), &kept, CLEAN, at(play.now)).expect("our own record");
        // Timers that no longer run are remembered a little longer.
        if play.session.timers(true).all(|timer| timer.status() == TimerStatus::Active) {
            proptest::prop_assert_eq!(back.next_deadline(), play.session.next_deadline());
        }
        proptest::prop_assert_eq!(seen(&mut back), seen(&mut play.session));
    }
}
