//! Every rule against a history that keeps it and one that breaks it.

use super::*;
use crate::history::{Must, Quantity};

fn sent(client: &str, marker: &str, must: Must) -> Record {
    Record::Sent { at_ms: 10, client: client.to_owned(), marker: marker.to_owned(), must }
}

fn ended(client: &str, marker: &str, how: How) -> Record {
    let (client, marker, detail) = (client.to_owned(), marker.to_owned(), String::new());
    Record::Ended { at_ms: 35, client, marker, how, detail }
}

fn seen(client: &str, marker: &str) -> Record {
    Record::Seen { client: client.to_owned(), marker: marker.to_owned() }
}

fn effect(marker: &str) -> Record {
    Record::Effect { marker: marker.to_owned(), pid: 7 }
}

fn event(id: &str, number: u64) -> Record {
    Record::Event { stream: "s".to_owned(), id: id.to_owned(), number }
}

fn sample(at_ms: u64, phase: &str, rss_kib: u64) -> Record {
    Record::Sample { at_ms, phase: phase.to_owned(), pid: 1, rss_kib, fds: 5, processes: 2, zombies: 0, ticks: 3 }
}

fn count(name: &str, value: i64) -> Record {
    Record::Count { name: name.to_owned(), value }
}

/// One call that went well.
fn good() -> Vec<Record> {
    vec![sent("a", "m1", Must::Succeed), seen("a", "m1"), effect("m1"), ended("a", "m1", How::Result)]
}

fn judge(middle: Vec<Record>) -> Verdict {
    let mut records = vec![Record::Begin { scenario: "test".to_owned(), seed: 5 }];
    records.extend(middle);
    records.push(Record::Done);
    records_of(&records)
}

#[track_caller]
fn violates(middle: Vec<Record>, words: &str) {
    let verdict = judge(middle);
    assert_eq!(verdict.violated, 1, "{verdict}");
    assert!(verdict.violations[0].contains(words), "{verdict}");
}

#[track_caller]
fn holds(middle: Vec<Record>) {
    let verdict = judge(middle);
    assert!(verdict.holds(), "{verdict}");
}

fn and(mut records: Vec<Record>, more: &[Record]) -> Vec<Record> {
    records.extend_from_slice(more);
    records
}

#[test]
fn a_good_history_holds_and_is_counted() {
    let verdict = judge(good());
    assert!(verdict.holds(), "{verdict}");
    assert_eq!((verdict.scenario.as_str(), verdict.seed, verdict.calls, verdict.results), ("test", 5, 1, 1));
}

#[test]
fn a_history_that_breaks_off_does_not_hold() {
    let begin = Record::Begin { scenario: "test".to_owned(), seed: 5 };
    assert!(records_of(&[begin]).violations[0].contains("breaks off"));
    assert_eq!(records_of(&[]).violated, 2);
}

#[test]
fn every_call_ends_once() {
    violates(vec![sent("a", "m1", Must::End)], "never ended");
    violates(and(good(), &[ended("a", "m1", How::Result)]), "ended twice");
    violates(and(good(), &[ended("a", "m2", How::Error)]), "never sent");
    violates(vec![sent("a", "m1", Must::End), ended("a", "m1", How::Never)], "Never");
}

#[test]
fn every_call_ends_as_it_must() {
    let call = |must, how| vec![sent("a", "m1", must), ended("a", "m1", how)];
    for (must, how) in [
        (Must::Fail, How::Error),
        (Must::Answer, How::Error),
        (Must::ServeOrShed, How::Shed),
        (Must::End, How::Broken),
        (Must::End, How::Refused),
    ] {
        holds(call(must, how));
    }
    for (must, how) in [
        (Must::Succeed, How::Error),
        (Must::Succeed, How::Broken),
        (Must::Succeed, How::Shed),
        (Must::Fail, How::Broken),
        (Must::Answer, How::Broken),
        (Must::Answer, How::Refused),
        (Must::ServeOrShed, How::Refused),
        (Must::ServeOrShed, How::Error),
    ] {
        violates(call(must, how), "must");
    }
}

#[test]
fn nobody_sees_what_belongs_to_another() {
    violates(and(good(), &[seen("b", "m1")]), "LEAK: b saw m1 of a");
    violates(and(good(), &[seen("a", "m9")]), "nobody had sent");
    let begun = |name: &str| {
        vec![sent(name, "m2", Must::Succeed), effect("m2"), seen(name, "m2"), ended(name, "m2", How::Result)]
    };
    holds(and(begun("modern-waits2.1"), &[seen("modern-waits2.2", "m2")]));
    violates(and(begun("modern-waits2.1"), &[seen("modern-waits3.1", "m2")]), "LEAK");
    violates(and(begun("waits2.1"), &[seen("waits2.2", "m2")]), "LEAK");
    let foreign = vec![sent("a", "m1", Must::Succeed), effect("m1"), ended("a", "m1", How::Result)];
    violates(foreign, "not its own");
}

#[test]
fn an_effect_happens_at_most_once_and_before_its_result() {
    violates(and(good(), &[effect("m1")]), "m1 had 2 effects");
    violates(and(good(), &[effect("m2")]), "never sent");
    let lie = vec![sent("a", "m1", Must::Succeed), seen("a", "m1"), ended("a", "m1", How::Result)];
    violates(lie, "had no effect");
}

#[test]
fn a_resumed_stream_has_each_event_once_and_misses_none() {
    let end = Record::StreamEnd { stream: "s".to_owned(), count: 3 };
    holds(vec![event("x1", 1), event("x2", 2), event("x3", 3), end.clone()]);
    holds(vec![event("x1", 1), event("x3", 3)]);
    violates(vec![event("x1", 1), event("x3", 3), end.clone()], "1 of 3 are missing: [2]");
    violates(vec![event("x1", 1), event("x1", 2)], "came twice");
    violates(vec![event("x1", 2), event("x2", 1)], "out of order");
    violates(vec![event("x1", 1), event("x2", 1)], "out of order or repeated");
    violates(vec![end], "3 of 3 are missing");
}

#[test]
fn nothing_is_left() {
    violates(vec![Record::Left { pid: 9, what: "ledger".to_owned() }], "process 9 is left: ledger");
}

#[test]
fn figures_are_held_against_their_bounds() {
    let rss = |from: &str, to: &str| Measure::Growth { of: Quantity::RssKib, from: from.to_owned(), to: to.to_owned() };
    let bound = |of: Measure, min: i64, max: i64| Record::Bound { of, min, max };
    let phase = |name: &str| name.to_owned();
    let run = vec![
        sample(0, "start", 100),
        sample(0, "load", 110),
        sample(30_000, "load", 300),
        sample(60_000, "load", 130),
        count("kills", 2),
        count("kills", 3),
    ];
    let figures = [
        (rss("start", "load"), 30),
        (Measure::Peak { of: Quantity::RssKib, from: phase("start"), to: phase("load") }, 200),
        (Measure::PerMinute { of: Quantity::RssKib, phase: phase("load") }, 20),
        (Measure::Last { of: Quantity::Zombies, phase: phase("load") }, 0),
        (Measure::Counted { name: phase("kills") }, 5),
    ];
    for (of, value) in figures {
        holds(and(run.clone(), &[bound(of.clone(), value, value)]));
        violates(and(run.clone(), &[bound(of.clone(), i64::MIN, value - 1)]), "not from");
        violates(and(run.clone(), &[bound(of, value + 1, i64::MAX)]), "not from");
    }
    violates(and(run.clone(), &[bound(rss("start", "other"), 0, 1000)]), "nothing was measured");
    let calls = |how| Measure::Calls { client: "a".to_owned(), how };
    holds(and(good(), &[bound(calls(How::Result), 1, 1), bound(Measure::Slowest { how: How::Result }, 25, 25)]));
    violates(and(good(), &[bound(calls(How::Error), 1, 1)]), "is 0");
}

#[test]
fn a_file_gives_the_same_verdict_as_its_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let history = crate::History::create(folder.path().join("h.jsonl"), "test", 5);
    for record in and(good(), &[seen("b", "m1")]) {
        history.write(&record);
    }
    history.write(&Record::Done);
    assert_eq!(file(history.path()), judge(and(good(), &[seen("b", "m1")])));
    std::fs::write(history.path(), "no history\n").expect("written");
    assert!(file(history.path()).violations[0].contains("cannot be read"));
}

#[test]
fn a_slope_that_lasts_is_told_from_a_step() {
    let run = |rss: fn(u64) -> u64| -> Vec<Record> { (0..120).map(|at| sample(500 * at, "churn", rss(at))).collect() };
    let of = Measure::Steady { of: Quantity::RssKib, phase: "churn".to_owned() };
    assert_eq!(figure(&of, &run(|at| if at < 60 { 1_000 } else { 9_000 })), Some(0));
    assert_eq!(figure(&of, &run(|at| 1_000 + 10 * at)), Some(1_200));
}

#[test]
fn a_percentile_is_of_the_calls_of_those_that_are_meant() {
    let mut records = Vec::new();
    for number in 0..100 {
        records.push(sent("a", &format!("m{number}"), Must::Succeed));
        records.push(ended("a", &format!("m{number}"), How::Result));
    }
    let of = |client: &str| Measure::Percentile { client: client.to_owned(), percent: 99 };
    assert_eq!((figure(&of("a"), &records), figure(&of("b"), &records)), (Some(25), None));
}
