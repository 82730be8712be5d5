//! The session as a whole: its end, its deadlines, its activity.

use std::time::Duration;

use lb_exchange::Answer;
use lb_wire::Raw;

use super::kit::{MINUTE, SECOND, Wire, ask, at, events, raw, task};
use super::*;
use crate::logs::{Level, LogRow, LogSource};
use crate::pending::{PendingKind, TooManyPending};
use crate::tasks::{Task, TaskStatus, TooManyTasks};
use crate::timers::{TimerError, TimerStatus};

const START: Duration = Duration::from_secs(1_000);

#[test]
fn closing_replies_then_cancels_then_stops_and_says_nothing_more() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    let call = session.promote(task("one", None, wire.remote("call")), at(START)).expect("room");
    let done = session.promote(task("one", None, wire.remote("done")), at(START)).expect("room");
    session.task_completed(done, Raw::empty_object(), at(START));
    session.request(ask("one", PendingKind::Elicitation, wire.remote("form")), at(START)).expect("room");
    session.request(ask("two", PendingKind::Sampling, wire.remote("model")), at(START)).expect("room");
    let timer = session.set_timer(MINUTE, "tea", true, at(START)).expect("room");
    session.changed = false;

    session.close(at(START + SECOND));
    assert!(session.is_closed() && session.changed, "whoever waits is woken");
    let want = [
        r#"form result k {"action":"cancel"}"#,
        r#"model error k {"code":-1,"message":"Session ended"}"#,
        "call cancel SessionEnd",
    ];
    assert_eq!(wire.run(&mut session), want);
    assert_eq!(session.task(call).map(Task::status), Some(TaskStatus::Cancelled));
    assert_eq!(session.task(done).map(Task::status), Some(TaskStatus::Completed));
    assert_eq!(session.timer(timer).map(crate::timers::Timer::status), Some(TimerStatus::Deleted));
    assert_eq!(session.next_deadline(), None);
    assert!(events(&mut session).is_empty());

    session.changed = false;
    session.close(at(START + SECOND));
    assert!(wire.run(&mut session).is_empty() && !session.changed, "once is enough");
}

#[test]
fn a_session_that_ended_takes_nothing_in() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    session.close(at(START));
    assert_eq!(session.promote(task("one", None, wire.remote("call")), at(START)), Err(TooManyTasks));
    let kind = PendingKind::Elicitation;
    assert_eq!(session.request(ask("one", kind, wire.remote("ask")), at(START)), Err(TooManyPending));
    assert_eq!(session.set_timer(MINUTE, "tea", false, at(START)), Err(TimerError::Closed));
    let row = LogRow { level: Level::Info, logger: None, source: LogSource::Stderr, data: raw("1") };
    session.log(&"one".into(), row, at(START));
    assert_eq!(session.log_count("one"), 0);
    session.tick(at(START + 60 * MINUTE));
    assert!(wire.run(&mut session).is_empty() && events(&mut session).is_empty());
}

#[test]
fn the_next_deadline_is_the_first_of_all_parts() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    assert_eq!(session.next_deadline(), None);
    session.tell(&"one".into(), &Happening::ServerHealthRestored, at(START));
    assert_eq!(session.next_deadline(), Some(START + 30 * MINUTE), "an event gets old");
    session.promote(task("one", Some(20 * MINUTE), wire.remote("call")), at(START)).expect("room");
    assert_eq!(session.next_deadline(), Some(START + 20 * MINUTE));
    let kind = PendingKind::Sampling;
    let request = session.request(ask("two", kind, wire.remote("ask")), at(START)).expect("room");
    assert_eq!(session.next_deadline(), Some(START + 10 * MINUTE));
    session.set_timer(MINUTE, "tea", false, at(START)).expect("room");
    assert_eq!(session.next_deadline(), Some(START + MINUTE));
    session.tick(at(START + MINUTE));
    assert_eq!(session.next_deadline(), Some(START + 6 * MINUTE), "the timer is forgotten");
    session.answer_request(request, kind, Answer::Result(Raw::empty_object()), at(START + MINUTE)).expect("waits");
    session.tick(at(START + 6 * MINUTE));
    assert_eq!(session.next_deadline(), Some(START + 20 * MINUTE));
    session.tick(at(START + 31 * MINUTE));
    assert_eq!(session.events.dropped_ever(), 4, "what got old before anybody had it");
}

#[test]
fn a_session_is_busy_while_a_task_works_or_a_server_waits() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    session.set_timer(MINUTE, "tea", false, at(START)).expect("room");
    assert!(!session.is_busy());
    let id = session.promote(task("one", None, wire.remote("call")), at(START)).expect("room");
    assert!(session.is_busy());
    session.task_failed(id, "broke", None, at(START));
    assert!(!session.is_busy());
    let id = session.request(ask("one", PendingKind::Sampling, wire.remote("ask")), at(START)).expect("room");
    assert!(session.is_busy());
    session.withdraw_request(id, at(START));
    assert!(!session.is_busy());
}

#[test]
fn the_last_activity_is_the_latest_even_when_noted_out_of_order() {
    let mut session = Session::new(Limits::default());
    session.touch(at(START + SECOND));
    session.touch(at(START));
    assert_eq!(session.last_activity(), at(START + SECOND));
    let jumped = Moment { up: START + 2 * SECOND, unix: Duration::from_secs(5) };
    session.touch(jumped);
    assert_eq!(session.last_activity(), jumped, "a clock of the wall that goes back is of no matter");
}

#[test]
fn what_a_server_asks_and_is_told_is_never_in_debug_output() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    let kind = PendingKind::Elicitation;
    let id = session.request(ask("one", kind, wire.remote("ask")), at(START)).expect("room");
    assert!(!format!("{session:?}").contains("who?"));
    let answer = Answer::Result(raw(r#"{"content":{"pin":"4711"}}"#));
    session.answer_request(id, kind, answer, at(START)).expect("waits");
    assert!(!format!("{session:?}").contains("4711"));
}
