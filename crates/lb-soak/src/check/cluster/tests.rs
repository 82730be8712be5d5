//! Every rule against a history that keeps it and one that breaks it.

use super::*;
use crate::check::records_of;

const KILL: Trouble = Trouble::NodeKilled;

fn opened(client: &str, node: usize) -> Record {
    Record::Opened { at_ms: 100, client: client.to_owned(), node: Some(node) }
}

/// From 1,000 ms to 2,000 ms.
fn trouble(what: Trouble, node: Option<usize>) -> Vec<Record> {
    vec![
        Record::Trouble { at_ms: 1_000, what, node, over: false },
        Record::Trouble { at_ms: 2_000, what, node, over: true },
    ]
}

fn call(client: &str, from: u64, until: u64, how: How) -> Vec<Record> {
    let (marker, client) = (format!("MK{from}"), client.to_owned());
    vec![
        Record::Sent { at_ms: from, client: client.clone(), marker: marker.clone(), must: Must::Hold },
        Record::Effect { marker: marker.clone(), pid: 1 },
        Record::Seen { client: client.clone(), marker: marker.clone() },
        Record::Ended { at_ms: until, client, marker, how, detail: String::new() },
    ]
}

fn event(at_ms: u64, id: &str, timer: Option<(&str, u64)>) -> Record {
    let what = if timer.is_some() { "timer_expired" } else { "task_created" };
    let (timer, number) = (timer.map(|(name, _)| name.to_owned()), timer.map(|(_, number)| number));
    let (client, id, what) = ("a".to_owned(), id.to_owned(), what.to_owned());
    Record::Activity { at_ms, client, id, what, timer, number, cause: None, gap: None }
}

/// The ids from one to the other may be missing.
fn dropped(at_ms: u64, first: &str, last: &str) -> Record {
    let (client, what, cause) = ("a".to_owned(), DROPPED.to_owned(), Some(NODE_LOST.to_owned()));
    let gap = Some((first.to_owned(), last.to_owned()));
    Record::Activity { at_ms, client, id: last.to_owned(), what, timer: None, number: None, cause, gap }
}

fn named(session: &str) -> Record {
    Record::Named { client: "a".to_owned(), session: session.to_owned() }
}

/// A node with these sessions is killed.
fn killed(at_ms: u64, node: usize, sessions: &[&str]) -> Vec<Record> {
    let sessions = sessions.iter().map(|session| (*session).to_owned()).collect();
    vec![
        Record::Holds { at_ms, node, sessions },
        Record::Trouble { at_ms, what: KILL, node: Some(node), over: false },
        Record::Trouble { at_ms: at_ms + 1_000, what: KILL, node: Some(node), over: true },
    ]
}

fn armed(timer: &str, due_ms: u64, sure: bool) -> Record {
    armed_at(200, timer, due_ms, sure)
}

fn armed_at(at_ms: u64, timer: &str, due_ms: u64, sure: bool) -> Record {
    Record::Armed { at_ms, client: "a".to_owned(), timer: timer.to_owned(), due_ms, sure }
}

fn caught_up(at_ms: u64) -> Record {
    Record::CaughtUp { at_ms, client: "a".to_owned() }
}

fn lost(at_ms: u64) -> Record {
    Record::Lost { at_ms, client: "a".to_owned(), detail: "404".to_owned() }
}

fn request(what: &str, from: u64, until: u64, how: How) -> Record {
    let (client, what) = ("a".to_owned(), what.to_owned());
    Record::Request { sent_ms: from, at_ms: until, client, what, how, detail: String::new() }
}

fn judge(parts: &[Vec<Record>]) -> Verdict {
    let mut records = vec![Record::Begin { scenario: "test".to_owned(), seed: 5 }];
    records.extend(parts.iter().flatten().cloned());
    records.push(Record::Done);
    records_of(&records)
}

#[track_caller]
fn holds(parts: &[Vec<Record>]) {
    let verdict = judge(parts);
    assert!(verdict.holds(), "{verdict}");
}

#[track_caller]
fn violates(parts: &[Vec<Record>], words: &str) {
    let verdict = judge(parts);
    assert_eq!(verdict.violated, 1, "{verdict}");
    assert!(verdict.violations[0].contains(words), "{verdict}");
}

#[test]
fn a_kill_excuses_those_whose_session_was_there_and_what_went_through_it_just_then() {
    let (mine, other) = (vec![opened("a", 1)], vec![opened("a", 2)]);
    let kill = trouble(KILL, Some(1));
    for how in [How::Broken, How::Error, How::Shed] {
        holds(&[mine.clone(), kill.clone(), call("a", 1_500, 1_600, how)]);
        holds(&[other.clone(), kill.clone(), call("a", 900, 1_050, how)]);
        violates(&[other.clone(), kill.clone(), call("a", 1_500, 1_600, how)], "nothing excuses it");
        violates(&[mine.clone(), kill.clone(), call("a", 2_500, 2_600, how)], "nothing excuses it");
        violates(&[mine.clone(), kill.clone(), call("a", 500, 600, how)], "nothing excuses it");
        // One without a session can be served anywhere.
        violates(&[kill.clone(), call("modern", 1_500, 1_600, how)], "nothing excuses it");
    }
    violates(&[mine.clone(), kill.clone(), call("a", 1_500, 1_600, How::Never)], "must Hold");
    violates(&[mine, kill, call("a", 1_500, 1_600, How::Refused)], "nothing excuses it");
}

#[test]
fn a_stream_is_forgotten_only_where_it_began_in_the_last_moment_and_something_may_be_lost() {
    let kill = trouble(KILL, Some(1));
    let call = |from: u64, detail: &str| {
        let mut call = call("a", from, 1_600, How::Refused);
        if let Some(Record::Ended { detail: said, .. }) = call.last_mut() {
            detail.clone_into(said);
        }
        call
    };
    let resumed = "resuming after 7: 400";
    holds(&[vec![opened("a", 1)], kill.clone(), call(800, resumed)]);
    for first in [Record::Strict, Record::StreamsFirst] {
        violates(&[vec![first, opened("a", 1)], kill.clone(), call(800, resumed)], "nothing excuses it");
    }
    let later = vec![
        Record::Trouble { at_ms: 3_000, what: KILL, node: Some(1), over: false },
        Record::Trouble { at_ms: 4_000, what: KILL, node: Some(1), over: true },
    ];
    let mut long = call(800, resumed);
    if let Some(Record::Ended { at_ms, .. }) = long.last_mut() {
        *at_ms = 4_100;
    }
    violates(&[vec![opened("a", 1)], later, long], "nothing excuses it");
    violates(&[vec![opened("a", 1)], kill.clone(), call(1_100, resumed)], "nothing excuses it");
    violates(&[vec![opened("a", 2)], kill.clone(), call(800, resumed)], "nothing excuses it");
    violates(&[vec![opened("a", 1)], kill, call(800, "404")], "nothing excuses it");
}

#[test]
fn a_node_that_ends_in_order_sends_away_and_fails_only_its_own() {
    let (mine, other) = (vec![opened("a", 1)], vec![opened("a", 2)]);
    let stop = trouble(Trouble::NodeStopped, Some(1));
    for how in [How::Shed, How::Broken] {
        holds(&[other.clone(), stop.clone(), call("a", 1_500, 1_600, how)]);
    }
    holds(&[mine.clone(), stop.clone(), call("a", 1_500, 1_600, How::Error)]);
    violates(&[other, stop.clone(), call("a", 1_500, 1_600, How::Error)], "nothing excuses it");
    violates(&[mine, stop, call("a", 1_500, 1_600, How::Refused)], "nothing excuses it");
}

#[test]
fn a_session_whose_node_is_gone_can_be_anywhere() {
    let moved = [vec![opened("a", 2)], trouble(Trouble::NodeStopped, Some(2))];
    let later = vec![Record::Trouble { at_ms: 5_000, what: KILL, node: Some(0), over: false }];
    let over = vec![Record::Trouble { at_ms: 6_000, what: KILL, node: Some(0), over: true }];
    let [opened, stopped] = moved;
    holds(&[opened.clone(), stopped, later.clone(), over.clone(), call("a", 5_500, 5_600, How::Broken)]);
    violates(&[opened, later, over, call("a", 5_500, 5_600, How::Broken)], "nothing excuses it");
}

#[test]
fn a_store_that_is_away_excuses_only_being_told_to_come_again() {
    for what in [Trouble::StoreAway, Trouble::StoreFull] {
        let parts = |how| [vec![opened("a", 1)], trouble(what, None), call("a", 1_500, 1_600, how)];
        holds(&parts(How::Shed));
        for how in [How::Broken, How::Error, How::Refused] {
            violates(&parts(how), "nothing excuses it");
        }
    }
    let new = |how| [trouble(Trouble::StoreAway, None), vec![request("initialize", 1_500, 1_600, how)]];
    holds(&new(How::Shed));
    violates(&new(How::Broken), "initialize");
    violates(&new(How::Never), "initialize");
}

#[test]
fn a_node_that_died_while_the_store_was_away_is_believed_dead_only_later() {
    let killed = [vec![opened("a", 1)], trouble(KILL, Some(1)), trouble(Trouble::StoreAway, None)];
    let [mine, kill, away] = killed;
    let late = call("a", 9_000, 9_100, How::Shed);
    holds(&[mine.clone(), kill.clone(), away.clone(), late.clone()]);
    violates(&[mine.clone(), kill.clone(), late], "nothing excuses it");
    violates(&[mine, kill, away, call("a", 15_000, 15_100, How::Shed)], "nothing excuses it");
}

#[test]
fn a_session_is_lost_only_with_the_store() {
    holds(&[vec![opened("a", 1)], trouble(Trouble::StoreEmptied, None), vec![lost(5_000)]]);
    violates(&[vec![opened("a", 1)], trouble(KILL, Some(2)), vec![lost(5_000)]], "its session is lost");
    violates(&[vec![opened("a", 1), lost(5_000)]], "its session is lost");
}

#[test]
fn no_event_comes_twice_or_out_of_order() {
    let mine = vec![opened("a", 1)];
    holds(&[mine.clone(), vec![event(300, "01A", None), event(310, "01B", None)]]);
    violates(&[mine.clone(), vec![event(300, "01A", None), event(310, "01A", None)]], "came twice");
    violates(&[mine, vec![event(300, "01B", None), event(310, "01A", None)]], "came after 01B");
}

#[test]
fn a_timer_is_told_with_every_number_once() {
    let timer = |numbers: &[(&str, u64)]| {
        let mut records = vec![opened("a", 1), armed("t", 300, true)];
        records.extend(numbers.iter().map(|(id, number)| event(400, id, Some(("t", *number)))));
        vec![records]
    };
    holds(&timer(&[("1", 1), ("2", 2), ("3", 3)]));
    violates(&timer(&[("1", 1), ("2", 3)]), "silent gap");
    violates(&timer(&[("1", 1), ("2", 1)]), "again");
}

#[test]
fn a_gap_that_is_owned_up_to_is_none_and_one_without_a_cause_is() {
    let mine = vec![opened("a", 1), armed("t", 300, true), event(400, "1", Some(("t", 1)))];
    let after = |number| vec![dropped(2_100, "2", "5"), event(2_200, "6", Some(("t", number))), caught_up(9_000)];
    holds(&[mine.clone(), trouble(KILL, Some(1)), after(7)]);
    holds(&[mine.clone(), trouble(KILL, Some(1)), after(1)]);
    violates(&[mine.clone(), after(2)], "nothing explains it");
    violates(&[mine, trouble(Trouble::NodeStopped, Some(1)), after(2)], "nothing explains it");
}

#[test]
fn what_is_missing_lies_in_the_range_that_is_told() {
    let kill = trouble(KILL, Some(1));
    let parts = |gap: Record, next: Record| {
        let mine = vec![opened("a", 1), armed("t", 300, true), event(400, "3", Some(("t", 1)))];
        [mine, kill.clone(), vec![gap, next]]
    };
    let jump = || event(2_200, "6", Some(("t", 3)));
    holds(&parts(dropped(2_100, "4", "5"), jump()));
    // What was told last may have been lost with the rest.
    holds(&parts(dropped(2_100, "2", "5"), jump()));
    // It was told before what is missing, and of something else.
    let early = vec![opened("a", 1), armed("t", 300, true)];
    let late = vec![dropped(2_050, "1", "2"), event(2_100, "3", Some(("t", 1))), event(2_200, "6", Some(("t", 3)))];
    violates(&[early, kill.clone(), late], "silent gap");
    violates(&parts(dropped(2_100, "7", "8"), jump()), "silent gap");
    violates(&parts(dropped(2_100, "5", "4"), event(2_200, "6", Some(("t", 2)))), "it is not told which");
    let mut unsaid = dropped(2_100, "4", "5");
    if let Record::Activity { gap, .. } = &mut unsaid {
        *gap = None;
    }
    violates(&parts(unsaid, event(2_200, "6", Some(("t", 2)))), "it is not told which");
    let newer = vec![event(2_050, "6", Some(("t", 2))), dropped(2_100, "4", "5")];
    let mine = vec![opened("a", 1), armed("t", 300, true), event(400, "3", Some(("t", 1)))];
    violates(&[mine, kill, newer], "told after the event 6");
}

#[test]
fn a_timer_that_is_never_told_is_a_silent_gap() {
    let parts =
        |sure, due, more: Vec<Record>| [vec![opened("a", 1), armed("t", due, sure)], more, vec![caught_up(9_000)]];
    violates(&parts(true, 300, vec![]), "was never told");
    holds(&parts(false, 300, vec![]));
    holds(&parts(true, 8_500, vec![]));
    holds(&parts(true, 300, vec![event(400, "1", Some(("t", 1)))]));
    let mut more = trouble(KILL, Some(1));
    more.push(dropped(2_500, "1", "2"));
    holds(&parts(true, 300, more));
}

#[test]
fn a_gap_that_was_told_before_a_timer_was_set_is_no_excuse_for_it() {
    let gap = vec![opened("a", 1), dropped(2_100, "1", "2")];
    let set = vec![armed_at(2_200, "t", 2_300, true), caught_up(9_000)];
    violates(&[trouble(KILL, Some(1)), gap, set], "was never told: a silent gap");
}

#[test]
fn where_nothing_may_be_lost_a_gap_excuses_only_what_nobody_was_told() {
    let strict = || vec![Record::Strict, opened("a", 1), armed("t", 300, true)];
    let (kill, gap) = (trouble(KILL, Some(1)), dropped(2_500, "2", "4"));
    let never = vec![gap.clone(), caught_up(9_000)];
    violates(&[strict(), kill.clone(), never.clone()], "acknowledged, and lost");
    let told = |number| vec![event(400, "1", Some(("t", 1))), gap.clone(), event(2_600, "5", Some(("t", number)))];
    violates(&[strict(), kill.clone(), told(1)], "again");
    holds(&[strict(), kill.clone(), told(2)]);
    holds(&[strict(), kill.clone(), told(3)]);
    let unknown = vec![request(CURSOR, 3_000, 3_010, How::Error)];
    violates(&[strict(), kill.clone(), unknown.clone()], CURSOR);
    // A store that was not there is another matter.
    for what in [Trouble::StoreAway, Trouble::StoreEmptied, Trouble::StoreFull] {
        holds(&[strict(), kill.clone(), trouble(what, None), never.clone(), unknown.clone()]);
    }
}

#[test]
fn whoever_takes_a_session_from_a_dead_node_says_so_every_time() {
    let (mine, end) = (vec![opened("a", 1), named("s")], vec![caught_up(19_000)]);
    let gap = |at_ms, id: &str| vec![dropped(at_ms, id, id)];
    violates(&[mine.clone(), killed(1_000, 1, &["s"]), end.clone()], "may be missing");
    holds(&[mine.clone(), killed(1_000, 1, &["s"]), gap(2_500, "1"), end.clone()]);
    holds(&[mine.clone(), killed(1_000, 1, &["other"]), end.clone()]);
    // The second node that had it, whichever that was.
    let twice = [mine.clone(), killed(1_000, 1, &["s"]), gap(2_500, "1"), killed(5_000, 2, &["x", "s"])];
    violates(&[twice.concat(), end.clone()], "node 2, which had its session, was killed at 5000 ms");
    holds(&[twice.concat(), gap(6_500, "2"), end.clone()]);
    // One event tells of two where nothing was told between them.
    holds(&[mine.clone(), killed(1_000, 1, &["s"]), killed(5_000, 2, &["s"]), gap(6_500, "2"), end.clone()]);
    let between = vec![armed_at(2_000, "t", 2_100, true), event(2_200, "1", Some(("t", 1)))];
    let silent = [mine.clone(), killed(1_000, 1, &["s"]), between.clone(), killed(5_000, 2, &["s"]), gap(6_500, "2")];
    violates(&[silent.concat(), end.clone()], "when it is told of a timer that was set later");
    holds(&[mine.clone(), killed(1_000, 1, &["s"]), gap(2_100, "0"), between, end.clone()]);
    // Handed over in order before the kill: there was nothing to lose.
    holds(&[mine, trouble(Trouble::NodeStopped, Some(1)), killed(5_000, 1, &[]), end]);
}

#[test]
fn a_cursor_is_unknown_only_where_something_can_be_missing() {
    let refused = vec![request(CURSOR, 3_000, 3_010, How::Error)];
    holds(&[vec![opened("a", 1)], trouble(KILL, Some(1)), refused.clone()]);
    violates(&[vec![opened("a", 1)], trouble(Trouble::NodeStopped, Some(1)), refused], CURSOR);
}

#[test]
fn foreign_bytes_and_second_effects_are_found_among_nodes_as_anywhere() {
    let mut foreign = call("a", 500, 600, How::Result);
    foreign.push(Record::Seen { client: "b".to_owned(), marker: "MK500".to_owned() });
    violates(&[foreign], "LEAK");
    let mut timer = vec![armed("t", 300, true)];
    timer.push(Record::Seen { client: "b".to_owned(), marker: "t".to_owned() });
    violates(&[timer], "LEAK");
    let mut twice = call("a", 500, 600, How::Result);
    twice.push(Record::Effect { marker: "MK500".to_owned(), pid: 2 });
    violates(&[twice], "2 effects");
}
