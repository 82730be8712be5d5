//! Waiting for events, in every order in which threads can meet at the session's lock.
//!
//! Run with `cargo nextest run -p lb-session --features loom --test loom`.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lb_session::{Cell, Filter, Happening, Limits, Moment, Session, Taken, Ulid, Watch};
use lb_wire::Text;
use loom::sync::{Condvar, Mutex};
use loom::thread;

const EVENTS_MAX: usize = 2;

fn check(test: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(test);
}

fn cell() -> Arc<Cell> {
    let limits = Limits { events_max: EVENTS_MAX, waiters_max: 2, ..Limits::default() };
    Cell::new(Session::new(limits), |_| ())
}

fn add(cell: &Arc<Cell>) -> Ulid {
    let now = Moment { up: Duration::ZERO, unix: Duration::from_secs(1_800_000_000) };
    cell.tell(&Text::from_static("files"), &Happening::ServerHealthRestored, now)
}

fn take(session: &mut Session, items_max: usize) -> Option<Taken> {
    let taken = session.events.take(&Filter::All, items_max, usize::MAX);
    (!taken.events.is_empty()).then_some(taken)
}

/// A thread that sleeps until it is woken.
#[derive(Default)]
struct Sleeper {
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().expect("not poisoned") = true;
        self.bell.notify_one();
    }
}

fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let sleeper = Arc::new(Sleeper::default());
    let waker = Waker::from(sleeper.clone());
    loop {
        if let Poll::Ready(seen) = poll(&mut Context::from_waker(&waker)) {
            return seen;
        }
        let mut woken = sleeper.woken.lock().expect("not poisoned");
        while !std::mem::take(&mut *woken) {
            woken = sleeper.bell.wait(woken).expect("not poisoned");
        }
    }
}

/// Waits for one event and commits it.
fn wait(mut watch: Watch) -> Ulid {
    let taken = block_on(|cx| watch.poll(cx, |session| take(session, 1)));
    watch.cell().receipt(taken.lease.expect("a lease")).commit();
    taken.events[0].id
}

/// A wake-up that is lost leaves the waiter asleep for ever, which loom reports as a deadlock.
#[test]
fn one_waiter_sees_an_event_whenever_it_comes() {
    check(|| {
        let cell = cell();
        let watch = cell.watch_activity().expect("nobody else waits");
        let waiter = thread::spawn(move || wait(watch));
        let added = add(&cell);
        assert_eq!(waiter.join().expect("the waiter ends"), added);
    });
}

#[test]
fn two_waiters_have_one_event_each() {
    check(|| {
        let cell = cell();
        let first = cell.watch_activity().expect("nobody else waits");
        let second = cell.watch_activity().expect("one other waits");
        let waiter = thread::spawn(move || wait(first));
        let adder = {
            let cell = cell.clone();
            thread::spawn(move || [add(&cell), add(&cell)])
        };
        let mut read = [wait(second), waiter.join().expect("the waiter ends")];
        read.sort();
        assert_eq!(read, adder.join().expect("the adder ends"));
        assert_eq!(cell.with(|session| session.events.waiting(&Filter::All)), 0);
    });
}

/// One waiter looks once and goes, perhaps after it was woken; the other must still be served.
#[test]
fn a_waiter_that_goes_swallows_nothing() {
    check(|| {
        let cell = cell();
        let stays = cell.watch_activity().expect("nobody else waits");
        let mut goes = cell.watch_activity().expect("one other waits");
        let leaver = thread::spawn(move || {
            block_on(|cx| {
                // It would take the event only to lose its response.
                if let Poll::Ready(taken) = goes.poll(cx, |session| take(session, 1)) {
                    drop(goes.cell().receipt(taken.lease.expect("a lease")));
                }
                Poll::Ready(())
            });
            drop(goes);
        });
        let adder = {
            let cell = cell.clone();
            thread::spawn(move || add(&cell))
        };
        let read = wait(stays);
        assert_eq!(read, adder.join().expect("the adder ends"));
        leaver.join().expect("the other ends");
        drop(cell.watch_activity().expect("both are gone"));
    });
}

/// What is leased stays while new events push at the cap, and what is delivered goes first.
#[test]
fn a_commit_meets_an_eviction() {
    check(|| {
        let cell = cell();
        let leased = [add(&cell), add(&cell)];
        let taken = cell.with(|session| take(session, EVENTS_MAX)).expect("two events");
        let receipt = cell.receipt(taken.lease.expect("a lease"));
        let adder = {
            let cell = cell.clone();
            thread::spawn(move || add(&cell))
        };
        receipt.commit();
        let added = adder.join().expect("the adder ends");
        assert_eq!(taken.events.iter().map(|event| event.id).collect::<Vec<_>>(), leased);
        let (next, lost) = cell.with(|session| (take(session, EVENTS_MAX), session.events.dropped_ever()));
        match next {
            // Committed first: there was room.
            Some(next) => assert_eq!((next.events[0].id, lost), (added, 0)),
            // Everything was leased, so the newcomer went, and that is counted.
            None => assert_eq!(lost, 1),
        }
    });
}

/// The end of a session reaches whoever waits.
#[test]
fn closing_wakes_a_waiter() {
    check(|| {
        let cell = cell();
        let mut watch = cell.watch();
        let waiter = thread::spawn(move || {
            block_on(|cx| watch.poll(cx, |session| session.is_closed().then_some(())));
        });
        cell.with(|session| session.close(Moment::default()));
        waiter.join().expect("the waiter ends");
    });
}

/// Whoever moves the deadline last is heard last.
#[test]
fn the_hook_ends_up_with_the_deadline_that_holds() {
    check(|| {
        let heard = Arc::new(std::sync::Mutex::new(None));
        let hook = heard.clone();
        let limits = Limits { events_max: EVENTS_MAX, ..Limits::default() };
        let cell = Cell::new(Session::new(limits), move |due| *hook.lock().expect("not poisoned") = due);
        let adder = {
            let cell = cell.clone();
            thread::spawn(move || add(&cell))
        };
        cell.with(|session| session.close(Moment::default()));
        adder.join().expect("the adder ends");
        let due = cell.with(|session| session.next_deadline());
        assert_eq!(*heard.lock().expect("not poisoned"), due);
    });
}
