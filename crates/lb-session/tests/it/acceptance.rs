//! What clients are promised about events.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use lb_session::{Cell, Event, Filter, Limits, Session, Taken, Ulid};
use lb_wire::Text;

use crate::support::{at, block_on, plain};

fn cell() -> Arc<Cell> {
    Cell::new(Session::new(Limits::default()), |_| ())
}

fn add(cell: &Arc<Cell>, count: u64) -> Vec<Ulid> {
    let server = Text::from_static("files");
    (0..count).map(|n| cell.tell(&server, &plain(), at(n))).collect()
}

fn take_all(cell: &Arc<Cell>) -> Taken {
    cell.with(|session| session.events.take(&Filter::All, usize::MAX, usize::MAX))
}

fn ids(taken: &Taken) -> Vec<Ulid> {
    taken.events.iter().map(|event| event.id).collect()
}

fn lost(event: &Event) -> (String, String, String) {
    let member = |name| event.data.member(name).expect("a member").as_str().trim_matches('"').to_owned();
    (member("count"), member("firstLostId"), member("lastLostId"))
}

#[test]
fn what_a_reader_missed_is_told_before_the_thousand_that_are_left() {
    let cell = cell();
    let all = add(&cell, 1_200);
    let taken = take_all(&cell);
    let dropped = taken.dropped.as_ref().expect("a gap is told");
    assert_eq!(lost(dropped), ("200".into(), all[0].to_string(), all[199].to_string()));
    assert_eq!(ids(&taken), all[200..]);
    cell.receipt(taken.lease.expect("a lease")).commit();
    assert!(take_all(&cell).dropped.is_none(), "told once");
}

#[test]
fn a_reader_that_fell_behind_has_nothing_twice() {
    let cell = cell();
    let before = add(&cell, 500);
    let taken = take_all(&cell);
    assert_eq!(ids(&taken), before);
    cell.receipt(taken.lease.expect("a lease")).commit();
    let later = add(&cell, 1_100);
    let taken = take_all(&cell);
    assert_eq!(
        lost(taken.dropped.as_ref().expect("a gap")),
        ("100".into(), later[0].to_string(), later[99].to_string())
    );
    assert_eq!(ids(&taken), later[100..]);
}

#[test]
fn every_event_reaches_exactly_one_of_eight_waiters() {
    const EVENTS: usize = 10_000;
    let (cell, had) = (cell(), AtomicUsize::new(0));
    let (cell, had) = (&cell, &had);
    let all = std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..8).map(|n| scope.spawn(move || wait_and_read(cell, had, n))).collect();
        let mut added = HashSet::new();
        while added.len() < EVENTS {
            // Below the cap, so that nothing has to go.
            if cell.with(|session| session.events.waiting(&Filter::All)) < 500 {
                added.extend(add(cell, 1));
            } else {
                std::thread::yield_now();
            }
        }
        // Whatever is lost is never had.
        while had.load(Ordering::Acquire) < EVENTS && cell.with(|session| session.events.dropped_ever()) == 0 {
            std::thread::yield_now();
        }
        cell.with(|session| session.close(at(0)));
        let read: Vec<_> = waiters.into_iter().flat_map(|waiter| waiter.join().expect("a waiter ends")).collect();
        assert_eq!(read.len(), EVENTS);
        assert_eq!(read.into_iter().collect::<HashSet<_>>(), added);
        added.len()
    });
    assert_eq!(all, EVENTS);
    assert_eq!(cell.with(|session| session.events.dropped_ever()), 0);
}

/// Reads until the session ends. Every seventh response is lost on its way.
fn wait_and_read(cell: &Arc<Cell>, had: &AtomicUsize, items_max: usize) -> Vec<Ulid> {
    let mut watch = cell.watch_activity().expect("fewer than may wait");
    let mut read = Vec::new();
    for round in 0_usize.. {
        let taken = block_on(|cx| {
            watch.poll(cx, |session| {
                let taken = session.events.take(&Filter::All, 1 + items_max, usize::MAX);
                if taken.events.is_empty() { session.is_closed().then_some(None) } else { Some(Some(taken)) }
            })
        });
        let Some(taken) = taken else { break };
        let receipt = cell.receipt(taken.lease.expect("a lease"));
        if round % 7 == 6 {
            drop(receipt);
        } else {
            receipt.commit();
            read.extend(ids(&taken));
            had.fetch_add(taken.events.len(), Ordering::AcqRel);
        }
    }
    read
}

#[test]
fn a_response_that_is_lost_gives_its_events_to_the_next_one_and_one_that_is_safe_does_not() {
    let cell = cell();
    let all = add(&cell, 1_003);
    let first = take_all(&cell);
    assert_eq!(take_all(&cell).events.len(), 0, "leased to the first");
    drop(cell.receipt(first.lease.expect("a lease")));
    let second = take_all(&cell);
    assert_eq!(ids(&second), all[3..], "in the old order");
    assert_eq!(lost(second.dropped.as_ref().expect("the gap again")).0, "3");
    cell.receipt(second.lease.expect("a lease")).commit();
    let third = take_all(&cell);
    assert!(third.events.is_empty() && third.dropped.is_none() && third.lease.is_none());
}

/// The event comes when the waiter has looked in vain and does not sleep yet.
#[test]
fn an_event_between_looking_and_sleeping_is_seen_at_once() {
    const ROUNDS: usize = 101;
    let cell = cell();
    let (looked, wanted) = mpsc::sync_channel::<()>(0);
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        let adder = &cell;
        let _ends_with_the_scope = scope.spawn(move || wanted.iter().for_each(|()| drop(add(adder, 1))));
        for _ in 0..ROUNDS {
            let mut watch = cell.watch_activity().expect("nobody else waits");
            let (mut first, mut since) = (true, Instant::now());
            let taken = block_on(|cx| {
                watch.poll(cx, |session| {
                    let taken = session.events.take(&Filter::All, 1, usize::MAX);
                    if std::mem::take(&mut first) {
                        assert!(taken.events.is_empty());
                        looked.send(()).expect("the adder is there");
                        since = Instant::now();
                    }
                    taken.lease
                })
            });
            times.push(since.elapsed());
            cell.receipt(taken).commit();
        }
        drop(looked);
    });
    times.sort();
    // The middle one: a busy machine may stop any single round for longer.
    assert!(times[ROUNDS / 2] < Duration::from_millis(50), "{:?}", times[ROUNDS / 2]);
}
