use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::{Level, Metadata, Subscriber, span};

use super::*;

fn at(seconds: u64) -> Moment {
    Moment::default().plus(Duration::from_secs(seconds))
}

fn server() -> Text {
    Text::from_static("files")
}

fn log(events_max: usize) -> EventLog {
    EventLog::new(Limits { events_max, ..Limits::default() })
}

fn add(log: &mut EventLog, count: usize) -> Vec<Ulid> {
    (0..count).map(|_| log.add(&server(), &Happening::ServerHealthRestored, at(0))).collect()
}

fn note(method: &'static str, params: Option<&'static str>) -> Happening {
    let (method, params) = (Text::from_static(method), params.map(Raw::from_static));
    Happening::Notification { method, params, count: 1 }
}

fn take(log: &mut EventLog) -> Taken {
    log.take(&Filter::All, usize::MAX, usize::MAX)
}

fn ids(taken: &Taken) -> Vec<Ulid> {
    taken.events.iter().map(|event| event.id).collect()
}

fn deliver(log: &mut EventLog) -> Vec<Ulid> {
    let taken = take(log);
    taken.lease.into_iter().for_each(|lease| log.commit(lease));
    ids(&taken)
}

fn lost(taken: &Taken) -> Option<u64> {
    taken.dropped.as_ref().map(|event| event.data.member("count").expect("a count").as_str().parse().expect("a number"))
}

#[test]
fn peeking_consumes_nothing() {
    let mut log = log(10);
    let all = add(&mut log, 3);
    assert_eq!([log.waiting(&Filter::All), log.waiting(&Filter::All)], [3, 3]);
    assert_eq!(deliver(&mut log), all);
    assert_eq!(log.waiting(&Filter::All), 0);
}

#[test]
fn a_take_keeps_to_its_limits_but_never_stands_still() {
    let mut log = log(10);
    let all = add(&mut log, 5);
    let two = log.take(&Filter::All, 2, usize::MAX);
    assert_eq!((ids(&two), two.remaining), (all[..2].to_vec(), 3));
    let one = log.take(&Filter::All, 9, 1);
    assert_eq!((ids(&one), one.remaining), (all[2..3].to_vec(), 2));
    let bytes = one.events[0].bytes();
    assert_eq!(bytes, event_json(&one.events[0]).as_bytes().len() + 1);
    assert_eq!(ids(&log.take(&Filter::All, 9, 2 * bytes)), all[3..]);
}

#[test]
fn delivered_events_go_first_then_the_oldest_that_wait_and_leased_ones_never() {
    let mut log = log(4);
    let old = add(&mut log, 4);
    let leased = log.take(&Filter::All, 1, usize::MAX);
    let delivered = log.take(&Filter::All, 1, usize::MAX);
    log.commit(delivered.lease.expect("a lease"));
    let new = add(&mut log, 2);
    // old[1] was delivered and went first, then old[2], which waited.
    assert_eq!(log.dropped_ever(), 1);
    log.roll_back(leased.lease.expect("a lease"));
    let taken = take(&mut log);
    assert_eq!(ids(&taken), [old[0], old[3], new[0], new[1]]);
    assert_eq!(lost(&taken), Some(1));
    assert_eq!(taken.dropped.expect("a gap").id, old[2]);
}

#[test]
fn where_everything_is_leased_the_newcomer_is_lost_and_the_log_stays_bounded() {
    let mut log = log(2);
    let old = add(&mut log, 2);
    let taken = take(&mut log);
    let new = add(&mut log, 3);
    assert_eq!((log.rows.len(), log.dropped_ever()), (2, 3));
    log.roll_back(taken.lease.expect("a lease"));
    let taken = take(&mut log);
    assert_eq!((ids(&taken), lost(&taken)), (old, Some(3)));
    // The newest ever is known even so.
    assert_eq!(log.after(&new[2].to_string()).map(|taken| taken.events.len()), Ok(0));
}

#[test]
fn a_rollback_restores_the_drop_it_had_told_and_joins_it_with_later_ones() {
    let mut log = log(2);
    let all = add(&mut log, 3);
    let taken = take(&mut log);
    assert_eq!(lost(&taken), Some(1));
    let later = add(&mut log, 1);
    log.roll_back(taken.lease.expect("a lease"));
    let taken = take(&mut log);
    let dropped = taken.dropped.as_ref().expect("a gap");
    assert_eq!(dropped.data.member("firstLostId"), Some(Raw::string(&all[0].to_string())));
    assert_eq!(dropped.data.member("lastLostId"), Some(Raw::string(&later[0].to_string())));
    assert_eq!(lost(&taken), Some(2));
    log.commit(taken.lease.expect("a lease"));
    add(&mut log, 1);
    assert_eq!(lost(&take(&mut log)), None, "told once");
}

#[test]
fn a_drop_is_not_told_alone_nor_among_mere_notifications() {
    let mut log = log(2);
    add(&mut log, 3);
    log.prune(at(30 * 60));
    assert_eq!(log.dropped_ever(), 3);
    assert!(take(&mut log).dropped.is_none());
    log.add(&server(), &note("notifications/x", None), at(1_800));
    let notes = log.take(&Filter::Notifications { server: None }, 9, usize::MAX);
    assert_eq!((notes.events.len(), lost(&notes)), (1, None));
    add(&mut log, 1);
    assert_eq!(lost(&take(&mut log)), Some(3));
}

#[test]
fn settling_twice_changes_nothing() {
    let mut log = log(4);
    let all = add(&mut log, 2);
    let lease = take(&mut log).lease.expect("a lease");
    log.commit(lease);
    log.roll_back(lease);
    assert_eq!(deliver(&mut log), []);
    let lease = log.after(&all[0].to_string()).expect("a known id").lease;
    assert_eq!(lease, None, "a mere replay holds nothing");
}

#[test]
fn the_hundred_and_first_notification_of_a_server_pushes_out_its_first() {
    let mut log = log(1_000);
    let ids_of = |log: &mut EventLog, server: &'static str, count: usize| -> Vec<_> {
        (0..count).map(|_| log.add(&Text::from_static(server), &note("notifications/x", None), at(0))).collect()
    };
    let one = ids_of(&mut log, "files", 101);
    let other = ids_of(&mut log, "mail", 100);
    assert_eq!(log.dropped_ever(), 1);
    let filter = |server| Filter::Notifications { server: Some(Text::from_static(server)) };
    assert_eq!(log.waiting(&filter("files")), 100);
    assert_eq!(log.waiting(&filter("web")), 0);
    let taken = log.take(&filter("files"), usize::MAX, usize::MAX);
    assert_eq!(ids(&taken), one[1..]);
    log.commit(taken.lease.expect("a lease"));
    assert_eq!(deliver(&mut log), other);
}

#[test]
fn notifications_given_back_keep_to_their_cap() {
    let mut log = EventLog::new(Limits { notifications_max: 2, ..Limits::default() });
    let add = |log: &mut EventLog| log.add(&server(), &note("notifications/x", None), at(0));
    let first = [add(&mut log), add(&mut log)];
    let lease = take(&mut log).lease.expect("a lease");
    let second = add(&mut log);
    log.roll_back(lease);
    let taken = take(&mut log);
    assert_eq!((ids(&taken), lost(&taken)), (vec![first[1], second], Some(1)));
}

#[test]
fn the_same_said_again_is_one_event_with_a_count_and_the_newest_id() {
    let changed = || note("notifications/tools/list_changed", None);
    let updated = |params| note("notifications/resources/updated", Some(params));
    let mut log = log(100);
    let mut add = |what: Happening| log.add(&server(), &what, at(0));
    let first = add(changed());
    let merged = [first, add(changed()), add(changed())];
    let a = [add(updated(r#"{"uri":"a"}"#)), add(updated(r#"{"uri":"a","more":1}"#))];
    let b = add(updated(r#"{"uri":"b"}"#));
    let plain = [add(note("notifications/x", None)), add(note("notifications/x", None))];
    assert_eq!(log.cursor(), Some(first), "nothing is acknowledged by an id that others were merged over");
    let after = log.after(&merged[1].to_string()).expect("its meaning is still there");
    assert_eq!(ids(&after), [merged[2], a[1], b, plain[0], plain[1]]);
    let counts: Vec<_> = after.events.iter().map(|event| event.data.member("count")).collect();
    let count = |text| Some(Raw::from_static(text));
    assert_eq!(counts, [count("3"), count("2"), None, None, None]);
    assert_eq!(after.events[1].data.member("params"), Some(Raw::from_static(r#"{"uri":"a","more":1}"#)));
    assert_eq!(log.dropped_ever(), 0, "what is merged is not lost");
}

#[test]
fn nothing_is_merged_into_what_somebody_holds_or_had_or_what_another_server_said() {
    let changed = note("notifications/tools/list_changed", None);
    let mut log = log(100);
    let first = log.add(&server(), &changed, at(0));
    let lease = take(&mut log).lease.expect("a lease");
    let second = log.add(&server(), &changed, at(0));
    log.roll_back(lease);
    let third = log.add(&Text::from_static("mail"), &changed, at(0));
    let taken = take(&mut log);
    assert_eq!(ids(&taken), [first, second, third]);
    log.commit(taken.lease.expect("a lease"));
    let fourth = log.add(&Text::from_static("mail"), &changed, at(0));
    let last = take(&mut log);
    assert_eq!(ids(&last), [fourth]);
    for event in taken.events.iter().chain(&last.events) {
        assert_eq!(event.data.member("count"), None);
    }
}

#[test]
fn an_acknowledged_event_is_not_told_again_and_what_follows_is_even_if_it_was() {
    let mut log = log(10);
    let all = add(&mut log, 5);
    assert_eq!(deliver(&mut log), all);
    let new = add(&mut log, 2);
    let taken = log.after(&all[2].to_string().to_lowercase()).expect("a known id");
    assert_eq!(ids(&taken), [all[3], all[4], new[0], new[1]]);
    assert_eq!((taken.gap, taken.remaining), (None, 0));
    log.roll_back(taken.lease.expect("of the new ones"));
    assert_eq!(ids(&take(&mut log)), new, "what had been delivered stays so");
}

#[test]
fn an_acknowledgement_ends_leases_of_what_it_covers() {
    let mut log = log(10);
    let all = add(&mut log, 3);
    let lease = take(&mut log).lease.expect("a lease");
    let taken = log.after(&all[1].to_string()).expect("a known id");
    assert_eq!((ids(&taken), taken.lease), (vec![], None), "the third is on its way in another response");
    log.roll_back(lease);
    assert_eq!(deliver(&mut log), all[2..]);
}

#[test]
fn an_evicted_id_gets_all_there_is_and_the_gap() {
    let mut log = log(3);
    let old = add(&mut log, 3);
    deliver(&mut log);
    let new = add(&mut log, 4);
    let taken = log.after(&old[0].to_string()).expect("an id of before");
    assert_eq!(ids(&taken), new[1..]);
    assert_eq!(taken.gap, Some(Gap { count: None, before: new[1] }));
    assert_eq!(lost(&taken), Some(1));
    log.commit(taken.lease.expect("a lease"));
    let taken = log.after(&new[0].to_string()).expect("an id of before");
    assert_eq!(taken.gap, Some(Gap { count: Some(0), before: new[1] }), "nothing lies between");
    log.prune(at(30 * 60));
    let taken = log.after(&new[1].to_string()).expect("an id of before");
    assert_eq!((ids(&taken), taken.gap), (vec![], Some(Gap { count: None, before: new[3] })));
    assert_eq!(log.after(&new[3].to_string()).map(|taken| taken.gap), Ok(None), "nothing came after the newest");
}

#[test]
fn an_unknown_id_is_refused_and_consumes_nothing() {
    let before = Ulid::mint(at(0));
    let mut log = log(4);
    assert_eq!(log.after(&before.to_string()).map(|_| ()), Err(UnknownEvent), "no event yet");
    add(&mut log, 1);
    let between = Ulid::mint(at(0));
    let rest = add(&mut log, 3);
    // Gone from the middle: delivered while an older one is leased.
    let leased = log.take(&Filter::All, 1, usize::MAX);
    let gone = log.take(&Filter::All, 1, usize::MAX);
    log.commit(gone.lease.expect("a lease"));
    add(&mut log, 1);
    for id in [before.to_string(), between.to_string(), rest[0].to_string(), "nonsense".into(), String::new()] {
        assert_eq!(log.after(&id).map(|_| ()), Err(UnknownEvent), "{id}");
    }
    assert_eq!(log.after(&Ulid::mint(at(0)).to_string()).map(|_| ()), Err(UnknownEvent), "newer than all");
    assert_eq!(log.waiting(&Filter::All), 3);
    log.roll_back(leased.lease.expect("a lease"));
    assert_eq!(ids(&take(&mut log)).len(), 4);
}

#[test]
fn age_takes_the_delivered_and_the_waiting_and_counts_only_the_latter() {
    let mut log = log(10);
    add(&mut log, 1);
    deliver(&mut log);
    log.add(&server(), &Happening::ServerHealthRestored, at(60));
    let leased = log.add(&server(), &note("notifications/x", None), at(90));
    let taken = log.take(&Filter::Notifications { server: None }, 1, usize::MAX);
    assert_eq!(log.next_deadline(), Some(Duration::from_secs(1_800)));
    log.prune(at(1_799));
    assert_eq!(log.rows.len(), 3);
    log.prune(at(1_800));
    assert_eq!((log.rows.len(), log.dropped_ever()), (2, 0));
    assert_eq!(log.next_deadline(), Some(Duration::from_secs(1_860)));
    log.prune(at(9_999));
    assert_eq!((log.rows.len(), log.dropped_ever()), (1, 1), "what is leased stays");
    assert_eq!(log.next_deadline(), None);
    log.roll_back(taken.lease.expect("a lease"));
    assert_eq!(log.next_deadline(), Some(Duration::from_secs(1_890)));
    assert_eq!(ids(&take(&mut log)), [leased]);
}

#[test]
fn a_cursor_never_passes_an_event_that_waits() {
    let mut log = log(3);
    assert_eq!((log.cursor(), log.last_id()), (None, None));
    let all = add(&mut log, 3);
    assert_eq!((log.cursor(), log.last_id()), (None, Some(all[2])));
    let taken = log.take(&Filter::All, 2, usize::MAX);
    assert_eq!(log.cursor(), Some(all[1]));
    log.roll_back(taken.lease.expect("a lease"));
    assert_eq!(log.cursor(), None);
    deliver(&mut log);
    assert_eq!(log.cursor(), Some(all[2]));
    add(&mut log, 3);
    assert_eq!(log.cursor(), Some(all[0]), "of before the oldest that is left");
}

#[test]
fn a_closed_log_is_empty_and_stays_so() {
    let mut log = log(3);
    add(&mut log, 5);
    let lease = log.take(&Filter::All, 1, usize::MAX).lease.expect("a lease");
    log.close();
    log.roll_back(lease);
    add(&mut log, 1);
    let taken = take(&mut log);
    assert!(taken.events.is_empty() && taken.dropped.is_none() && taken.lease.is_none());
    assert_eq!((log.waiting(&Filter::All), log.next_deadline()), (0, None));
}

/// Keeps the warnings, and the `event` field of every line.
#[derive(Default)]
struct Lines(Mutex<Vec<(Level, String)>>);

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if ["message", "event"].contains(&field.name()) {
            self.0 = format!("{}{value:?};", self.0);
        }
    }
}

impl Subscriber for &'static Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        self.0.lock().expect("not poisoned").push((*event.metadata().level(), words.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

impl Lines {
    /// How many lines of a level since the last time, by what they say.
    fn count(&self, level: Level, part: &str) -> usize {
        let mut lines = self.0.lock().expect("not poisoned");
        let before = lines.len();
        lines.retain(|(of, line)| *of != level || !line.contains(part));
        before - lines.len()
    }
}

#[test]
fn a_log_that_fills_up_warns_once_per_crossing_and_says_what_it_evicts() {
    let lines: &'static Lines = Box::leak(Box::default());
    let mut log = log(10);
    tracing::subscriber::with_default(lines, || {
        add(&mut log, 7);
        assert_eq!(lines.count(Level::WARN, "nearly full"), 0);
        add(&mut log, 3);
        assert_eq!(lines.count(Level::WARN, "nearly full"), 1);
        assert_eq!(lines.count(Level::DEBUG, "event_store_eviction"), 0);
        add(&mut log, 3);
        assert_eq!(lines.count(Level::WARN, "event_store_eviction"), 1, "one line for one gap");
        assert_eq!(lines.count(Level::DEBUG, "event_store_eviction"), 2);
        deliver(&mut log);
        add(&mut log, 1);
        assert_eq!(lines.count(Level::DEBUG, "event_store_eviction"), 1);
        assert_eq!(lines.count(Level::WARN, ""), 0, "what was delivered takes no room from what was not");
        log.prune(at(30 * 60));
        assert_eq!(lines.count(Level::WARN, "event_store_eviction"), 1);
        add(&mut log, 8);
        assert_eq!(lines.count(Level::WARN, "nearly full"), 1, "armed again");
    });
}
