use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake};

use lb_exchange::{Answer, AskKey, Remote};
use lb_wire::Raw;
use parking_lot::Mutex as Plain;

use super::*;
use crate::events::Filter;
use crate::limits::Limits;

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rung(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn cell() -> Arc<Cell> {
    Cell::new(Session::new(Limits { waiters_max: 2, ..Limits::default() }), |_| ())
}

fn add(cell: &Cell) -> Ulid {
    cell.tell(&Text::from_static("files"), &Happening::ServerHealthRestored, Moment::default())
}

fn poll(watch: &mut Watch, bell: &Arc<Bell>) -> Poll<Lease> {
    let waker = Waker::from(bell.clone());
    watch.poll(&mut Context::from_waker(&waker), |session| session.events.take(&Filter::All, 9, 9).lease)
}

#[test]
fn a_change_wakes_everybody_who_looked_in_vain_and_nobody_else() {
    let cell = cell();
    let (mut one, mut other) = (cell.watch(), cell.watch());
    let (bell, late) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    assert!(poll(&mut one, &bell).is_pending());
    cell.with(|session| session.events.waiting(&Filter::All));
    assert_eq!(bell.rung(), 0, "nothing changed");
    add(&cell);
    assert_eq!(bell.rung(), 1);
    assert!(poll(&mut other, &late).is_ready());
    add(&cell);
    assert_eq!((bell.rung(), late.rung()), (0, 0), "one has not looked again, the other had something");
}

#[test]
fn a_response_that_is_lost_wakes_those_who_wait() {
    let cell = cell();
    let id = add(&cell);
    let (mut watch, bell) = (cell.watch(), Arc::new(Bell::default()));
    let Poll::Ready(lease) = poll(&mut watch, &bell) else { panic!("an event waits") };
    let receipt = cell.receipt(lease);
    assert!(poll(&mut watch, &bell).is_pending());
    drop(receipt);
    assert_eq!(bell.rung(), 1);
    let taken = cell.with(|session| session.events.take(&Filter::All, 9, 9));
    assert_eq!(taken.events[0].id, id);
    assert!(poll(&mut watch, &bell).is_pending());
    cell.receipt(taken.lease.expect("a lease")).commit();
    assert_eq!(bell.rung(), 0);
}

#[test]
fn as_many_wait_for_activity_as_may_and_whoever_goes_makes_room() {
    let cell = cell();
    let one = cell.watch_activity().expect("room");
    let _other = cell.watch_activity().expect("room");
    let _task = cell.watch();
    assert_eq!(cell.watch_activity().map(drop), Err(TooManyWaiters { max: 2 }));
    drop(one);
    let bell = Arc::new(Bell::default());
    let mut third = cell.watch_activity().expect("room again");
    assert!(poll(&mut third, &bell).is_pending());
    drop(third);
    add(&cell);
    assert_eq!(bell.rung(), 0, "gone at once");
    assert_eq!(Arc::strong_count(&bell), 1);
}

#[test]
fn the_hook_hears_of_a_deadline_only_when_it_changes() {
    let heard = Arc::new(Plain::new(Vec::new()));
    let hook = heard.clone();
    let cell = Cell::new(Session::new(Limits::default()), move |due| hook.lock().push(due));
    assert_eq!(*heard.lock(), []);
    add(&cell);
    add(&cell);
    cell.with(|session| session.events.prune(Moment::default().plus(Duration::from_secs(9_999))));
    assert_eq!(*heard.lock(), [Some(Duration::from_secs(1_800)), None]);
}

#[test]
fn effects_run_without_the_lock_even_when_the_work_panics() {
    let cell = cell();
    let (ran, bell) = (Arc::new(AtomicUsize::new(0)), Arc::new(Bell::default()));
    let mut watch = cell.watch();
    assert!(poll(&mut watch, &bell).is_pending());
    let (count, inner) = (ran.clone(), cell.clone());
    let remote = Remote::sink(move |_| {
        inner.with(|session| session.events.waiting(&Filter::All));
        count.fetch_add(1, Ordering::Relaxed);
        true
    });
    let panics = || {
        cell.with(|session| {
            session.changed = true;
            session.effects.push(Effect::Answer(remote, AskKey("1".into()), Answer::Result(Raw::empty_object())));
            panic!("in the middle of it");
        })
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert_eq!((ran.load(Ordering::Relaxed), bell.rung()), (1, 1));
    add(&cell);
    assert!(poll(&mut watch, &bell).is_ready(), "the cell works on");
}
