//! When timers fire, and how long they are remembered.

use serde_json::json;

use super::*;
use crate::limits::Limits;
use crate::session::kit::{MINUTE, SECOND, at, events, json as parsed, kinds, nobody, run_to};

const START: Duration = Duration::from_secs(1_000);

fn set(duration: Duration, interval: bool) -> (Session, Ulid) {
    let mut session = Session::new(Limits::default());
    let id = session.set_timer(duration, "tea", interval, at(START)).expect("good");
    (session, id)
}

#[test]
fn a_timer_fires_once_exactly_when_it_is_due() {
    let (mut session, id) = set(MINUTE, false);
    assert_eq!(session.next_deadline(), Some(START + MINUTE));
    session.tick(at(START + MINUTE - Duration::from_nanos(1)));
    assert!(events(&mut session).is_empty());
    session.tick(at(START + MINUTE));
    session.tick(at(START + MINUTE));
    let data = json!({"timerId": id.to_string(), "message": "tea", "fireCount": 1, "interval": false});
    assert_eq!(events(&mut session), [("timer_expired", "landbridge".to_owned(), data)]);
    assert!(session.changed);
    let timer = session.timer(id).expect("kept");
    assert_eq!((timer.status(), timer.fired()), (TimerStatus::Expired, 1));
}

#[test]
fn a_timer_that_repeats_keeps_to_its_schedule_and_fires_once_for_all_it_missed() {
    let (mut session, id) = set(10 * SECOND, true);
    assert_eq!(run_to(&mut session, START + 30 * SECOND), [10, 20, 30].map(|n| START + n * SECOND));
    session.tick(at(START + 33 * SECOND));
    assert_eq!(kinds(&mut session).len(), 3);
    // Late by three and a half.
    session.tick(at(START + 75 * SECOND));
    assert_eq!(kinds(&mut session).len(), 1);
    assert_eq!(session.next_deadline(), Some(START + 80 * SECOND), "not ten seconds from now");
    // On the dot counts as that one, not as one missed.
    session.tick(at(START + 100 * SECOND));
    let timer = session.timer(id).expect("active");
    assert_eq!((timer.fired(), timer.due(), timer.status()), (5, START + 110 * SECOND, TimerStatus::Active));
}

#[test]
fn bounds_are_kept() {
    let mut session = Session::new(Limits::default());
    let max = Duration::from_secs(86_400);
    let long = "é".repeat(500);
    for (duration, message, want) in [
        (Duration::ZERO, "tea", Err(TimerError::Duration { max })),
        (Duration::from_millis(1), "tea", Ok(())),
        (max, &*long, Ok(())),
        (max + Duration::from_millis(1), "tea", Err(TimerError::Duration { max })),
        (SECOND, "", Err(TimerError::Message)),
        (SECOND, &*format!("{long}x"), Err(TimerError::Message)),
    ] {
        assert_eq!(session.set_timer(duration, message, false, at(START)).map(drop), want, "{duration:?}");
    }
    assert_eq!(TimerError::Duration { max }.to_string(), "the duration of a timer is 1 to 86400000 ms");
    for (duration, interval, want) in [
        (Duration::from_millis(1), true, 1_000),
        (SECOND, true, 1_000),
        (2 * SECOND, true, 2_000),
        (MINUTE / 600, false, 100),
    ] {
        let id = session.set_timer(duration, "tea", interval, at(START)).expect("good");
        let timer = session.timer(id).expect("active");
        assert_eq!(parsed(&timer.row())["durationMs"], want, "{duration:?}");
        assert_eq!(timer.due(), START + Duration::from_millis(want), "{duration:?}");
    }
}

#[test]
fn the_hundred_and_first_active_timer_is_refused() {
    let mut session = Session::new(Limits::default());
    let ids: Vec<Ulid> = (0..100).map(|_| session.set_timer(MINUTE, "tea", false, at(START)).expect("room")).collect();
    assert_eq!(session.set_timer(MINUTE, "tea", false, at(START)), Err(TimerError::TooMany(100)));
    session.delete_timer(ids[0], at(START)).expect("there");
    assert!(session.set_timer(MINUTE, "tea", false, at(START)).is_ok());
    assert_eq!((session.timers(false).count(), session.timers(true).count()), (100, 101));
}

#[test]
fn deleting_is_the_same_once_or_twice_until_the_timer_is_forgotten() {
    let (mut session, id) = set(MINUTE, true);
    let first = session.delete_timer(id, at(START + SECOND)).expect("there");
    let row = json!({
        "id": id.to_string(), "message": "tea", "durationMs": 60_000, "status": "deleted", "interval": true, "fireCount": 0,
        "createdAt": "2027-01-15T08:16:40.000Z", "expiresAt": "2027-01-15T08:17:40.000Z",
    });
    assert_eq!(parsed(&first), row);
    assert_eq!(session.delete_timer(id, at(START + MINUTE)), Ok(first));
    assert_eq!(session.next_deadline(), Some(START + SECOND + 5 * MINUTE), "kept from the first time on");
    session.tick(at(START + SECOND + 5 * MINUTE));
    assert_eq!(session.delete_timer(id, at(START + SECOND + 5 * MINUTE)), Err(TimerNotFound(id)));
    assert!(events(&mut session).is_empty(), "it never fired");
    let gone = session.delete_timer(nobody(), at(START)).expect_err("nobody");
    assert_eq!(gone.to_string(), "Timer '00000000000000000000000000' not found");
}

#[test]
fn a_timer_that_fired_stays_expired_and_is_kept_for_five_minutes() {
    let (mut session, id) = set(SECOND, false);
    session.tick(at(START + SECOND));
    assert_eq!(parsed(&session.delete_timer(id, at(START + MINUTE)).expect("kept"))["status"], "expired");
    assert_eq!((session.timers(false).count(), session.timers(true).count()), (0, 1));
    session.tick(at(START + SECOND + 5 * MINUTE - Duration::from_nanos(1)));
    assert!(session.timer(id).is_some());
    session.tick(at(START + SECOND + 5 * MINUTE));
    assert!(session.timer(id).is_none());
}

#[test]
fn what_no_longer_runs_is_bounded_too() {
    let mut session = Session::new(Limits::default());
    for _ in 0..1_000 {
        let id = session.set_timer(MINUTE, "tea", false, at(START)).expect("room");
        session.delete_timer(id, at(START)).expect("there");
    }
    assert_eq!(session.timers(true).count(), 200);
}

#[test]
fn a_timer_is_confirmed_with_its_times() {
    let (session, id) = set(MINUTE, false);
    let receipt = json!({
        "timerId": id.to_string(), "message": "tea", "durationMs": 60_000, "interval": false,
        "createdAt": "2027-01-15T08:16:40.000Z", "expiresAt": "2027-01-15T08:17:40.000Z",
    });
    assert_eq!(parsed(&session.timer(id).expect("active").receipt()), receipt);
}
