//! What becomes of tasks, when, and what is said of it.

use std::time::Duration;

use lb_wire::Raw;
use serde_json::json;

use super::*;
use crate::pending::PendingKind;
use crate::session::kit::{MINUTE, SECOND, Wire, ask, at, events, json as parsed, kinds, nobody, raw, run_to, task};

const START: Duration = Duration::from_secs(1_000);

/// Tries to end a task, and says whether it did.
type End = fn(&mut Session, Ulid) -> bool;

fn promoted(ttl: Option<Duration>) -> (Session, Wire, Ulid) {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    let id = session.promote(task("one", ttl, wire.remote("call")), at(START)).expect("room");
    (session, wire, id)
}

#[test]
fn a_promotion_is_told_once_with_what_is_asked_and_how_long_it_may_take() {
    let (mut session, wire, id) = promoted(None);
    let told = events(&mut session);
    let data = json!({"taskId": id.to_string(), "toolName": "dig", "args": {"deep": 1}, "ttl": 600_000});
    assert_eq!(told, [("task_created", "one".to_owned(), data)]);
    assert!(std::mem::take(&mut session.changed), "those who wait are woken");
    assert!(wire.run(&mut session).is_empty(), "the call goes on");
}

#[test]
fn a_task_expires_exactly_at_its_time_which_is_bounded() {
    for (ttl, want) in [
        (None, 10 * MINUTE),
        (Some(SECOND), SECOND),
        (Some(30 * MINUTE), 30 * MINUTE),
        (Some(60 * MINUTE), 30 * MINUTE),
    ] {
        let (mut session, wire, id) = promoted(ttl);
        assert_eq!(session.next_deadline(), Some(START + want), "{ttl:?}");
        session.tick(at(START + want - Duration::from_nanos(1)));
        assert_eq!(session.task(id).map(Task::status), Some(TaskStatus::Working), "{ttl:?}");
        events(&mut session);
        session.tick(at(START + want));
        session.tick(at(START + want));
        let millis = u64::try_from(want.as_millis()).expect("short");
        let data = json!({"taskId": id.to_string(), "toolName": "dig", "ttl": millis});
        assert_eq!(events(&mut session), [("task_expired", "one".to_owned(), data)], "{ttl:?}");
        assert_eq!(wire.run(&mut session), ["call cancel Deadline"], "{ttl:?}");
        let error = format!("Task expired after {millis}ms");
        assert_eq!(session.task(id).and_then(Task::error), Some(&*error));
    }
}

#[test]
fn a_request_that_came_after_a_task_puts_off_its_expiry_up_to_the_cap() {
    let (mut session, wire, id) = promoted(Some(MINUTE));
    let mut now = START;
    for _ in 0..4 {
        session.request(ask("one", PendingKind::Elicitation, wire.remote("ask")), at(now)).expect("room");
        now += 9 * MINUTE;
        session.tick(at(now));
        assert!(now >= START + 30 * MINUTE || session.task(id).is_some_and(Task::is_working), "{now:?}");
    }
    assert_eq!(session.task(id).map(Task::status), Some(TaskStatus::Expired), "36 minutes");
    // At the cap exactly: the one before asks again and again, this one is left alone with a fresh request.
    let (mut session, wire, id) = promoted(Some(25 * MINUTE));
    session.request(ask("one", PendingKind::Sampling, wire.remote("ask")), at(START + 24 * MINUTE)).expect("room");
    let times = run_to(&mut session, START + 30 * MINUTE);
    assert_eq!(times.first(), Some(&(START + 30 * MINUTE)));
    assert_eq!(session.task(id).map(Task::status), Some(TaskStatus::Expired));
}

#[test]
fn requests_of_others_or_from_before_put_nothing_off() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    session.request(ask("one", PendingKind::Elicitation, wire.remote("ask")), at(START - SECOND)).expect("room");
    let id = session.promote(task("one", Some(MINUTE), wire.remote("call")), at(START)).expect("room");
    session.request(ask("two", PendingKind::Elicitation, wire.remote("ask")), at(START + SECOND)).expect("room");
    session.tick(at(START + MINUTE));
    assert_eq!(session.task(id).map(Task::status), Some(TaskStatus::Expired));
}

#[test]
fn a_task_that_waited_for_an_answer_has_a_minute_to_use_it() {
    let (mut session, wire, id) = promoted(Some(MINUTE));
    let kind = PendingKind::Elicitation;
    let request = session.request(ask("one", kind, wire.remote("ask")), at(START + SECOND)).expect("room");
    let answered = at(START + 5 * MINUTE);
    session.tick(answered);
    session.answer_request(request, kind, lb_exchange::Answer::Result(Raw::empty_object()), answered).expect("waits");
    assert_eq!(session.next_deadline(), Some(START + 6 * MINUTE));
    session.tick(at(START + 6 * MINUTE - SECOND));
    assert!(session.task(id).is_some_and(Task::is_working));
    session.tick(at(START + 6 * MINUTE));
    assert_eq!(session.task(id).map(Task::status), Some(TaskStatus::Expired));
}

#[test]
fn an_answer_within_the_time_of_a_task_changes_nothing_about_it() {
    let (mut session, wire, _) = promoted(Some(MINUTE));
    let kind = PendingKind::Sampling;
    let request = session.request(ask("one", kind, wire.remote("ask")), at(START + SECOND)).expect("room");
    session.cancel_request(request, kind, "no", at(START + MINUTE - SECOND)).expect("waits");
    assert_eq!(session.next_deadline(), Some(START + MINUTE));
}

#[test]
fn the_first_end_is_the_end() {
    let ends: [(&str, End); 4] = [
        ("completed", |session, id| session.task_completed(id, raw(r#"{"isError":true}"#), at(START + SECOND))),
        ("failed", |session, id| session.task_failed(id, "broke", Some("crash"), at(START + SECOND))),
        ("cancelled", |session, id| session.cancel_task(id, at(START + SECOND)).is_ok()),
        ("expired", |session, id| {
            let working = session.task(id).is_some_and(Task::is_working);
            session.tick(at(START + MINUTE));
            working
        }),
    ];
    for (first, act) in ends {
        for (second, again) in ends {
            let (mut session, wire, id) = promoted(Some(MINUTE));
            events(&mut session);
            assert!(act(&mut session, id), "{first}");
            assert!(!again(&mut session, id), "{first} then {second}");
            assert_eq!(session.task(id).map(|task| task.status().as_str()), Some(first), "{first} then {second}");
            assert_eq!(kinds(&mut session), [format!("task_{first}")], "{first} then {second}");
            let commands = usize::from(matches!(first, "cancelled" | "expired"));
            assert_eq!(wire.run(&mut session).len(), commands, "{first} then {second}");
        }
    }
}

#[test]
fn what_cannot_be_cancelled_says_why() {
    let (mut session, wire, id) = promoted(None);
    assert_eq!(session.cancel_task(nobody(), at(START)), Err(TaskError::NotFound(nobody())));
    let text = session.cancel_task(nobody(), at(START)).expect_err("nobody").to_string();
    assert_eq!(text, "Task '00000000000000000000000000' not found");
    assert_eq!(session.cancel_task(id, at(START)), Ok(()));
    assert_eq!(wire.run(&mut session), ["call cancel Said(None)"]);
    assert_eq!(session.cancel_task(id, at(START)), Err(TaskError::Ended(TaskStatus::Cancelled)));
    assert!(!session.task_completed(nobody(), Raw::empty_object(), at(START)));
}

#[test]
fn the_hundred_and_first_working_task_is_refused() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    let new = |session: &mut Session| session.promote(task("one", None, wire.remote("call")), at(START));
    let ids: Vec<Ulid> = (0..100).map(|_| new(&mut session).expect("room")).collect();
    assert_eq!(new(&mut session), Err(TooManyTasks));
    assert!(session.task_completed(ids[0], Raw::empty_object(), at(START)));
    assert!(new(&mut session).is_ok(), "those that ended do not count");
    assert!(session.tasks().map(Task::id).is_sorted_by(|a, b| a > b), "newest first");
}

#[test]
fn what_ended_is_kept_for_five_minutes_and_no_more_than_two_hundred_of_it() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    let mut ids = Vec::new();
    for n in 0..201 {
        let id = session.promote(task("one", None, wire.remote("call")), at(START)).expect("room");
        assert!(session.task_failed(id, "broke", None, at(START + n * SECOND)));
        ids.push(id);
    }
    assert_eq!(session.tasks().count(), 200);
    assert!(session.task(ids[0]).is_none() && session.task(ids[1]).is_some(), "the oldest goes");
    session.tick(at(START + SECOND + 5 * MINUTE - Duration::from_nanos(1)));
    assert!(session.task(ids[1]).is_some());
    assert_eq!(session.next_deadline(), Some(START + SECOND + 5 * MINUTE));
    session.tick(at(START + SECOND + 5 * MINUTE));
    assert!(session.task(ids[1]).is_none() && session.task(ids[2]).is_some());
    session.tick(at(START + 200 * SECOND + 5 * MINUTE));
    assert_eq!(session.tasks().count(), 0);
}

#[test]
fn results_that_take_too_much_room_go_oldest_first_and_the_newest_stays() {
    let limits = Limits { tasks_ended_bytes_max: 1_000, ..Limits::default() };
    let (mut session, wire) = (Session::new(limits), Wire::default());
    let mut end = |bytes: usize| {
        let id = session.promote(task("one", None, wire.remote("call")), at(START)).expect("room");
        assert!(session.task_completed(id, Raw::string(&"x".repeat(bytes)), at(START)));
        session.tasks().map(|task| task.result().map_or(0, |result| result.as_bytes().len())).collect::<Vec<_>>()
    };
    assert_eq!(end(298), [300]);
    assert_eq!(end(598), [600, 300]);
    assert_eq!(end(298), [300, 600], "arguments count too");
    assert_eq!(end(4_998), [5_000]);
    assert_eq!(end(0), [2]);
}

#[test]
fn only_the_tasks_of_a_server_fail_with_it() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    for server in ["one", "two", "one"] {
        session.promote(task(server, None, wire.remote("call")), at(START)).expect("room");
    }
    events(&mut session);
    assert_eq!(session.fail_tasks_of("one", "Server removed", Some("server_removed"), at(START)), 2);
    assert_eq!(session.fail_tasks_of("one", "Server removed", Some("server_removed"), at(START)), 0);
    assert_eq!((session.working_of("one").count(), session.working_of("two").count()), (0, 1));
    let told = events(&mut session);
    assert_eq!(told.len(), 2, "one each");
    let (kind, server, data) = &told[0];
    assert_eq!((*kind, &**server), ("task_failed", "one"));
    assert_eq!((&data["error"], &data["reason"]), (&json!("Server removed"), &json!("server_removed")));
    assert_eq!(wire.run(&mut session), ["call cancel Gone"; 2], "what hangs is given up");
}

#[test]
fn an_event_carries_a_result_of_sixteen_kibibytes_and_no_more() {
    for (bytes, omitted) in [(16 << 10, false), ((16 << 10) + 1, true)] {
        let (mut session, _, id) = promoted(None);
        events(&mut session);
        let result = raw(&format!("\"{}\"", "x".repeat(bytes - 2)));
        assert!(session.task_completed(id, result.clone(), at(START)));
        let (_, _, data) = events(&mut session).remove(0);
        assert_eq!(data.get("resultOmitted"), omitted.then_some(&json!(true)), "{bytes}");
        assert_eq!(data.get("result"), (!omitted).then(|| parsed(&result)).as_ref(), "{bytes}");
        assert_eq!(session.task(id).and_then(Task::result), Some(&result), "it is kept whole");
    }
}

#[test]
fn a_result_of_more_than_ten_mebibytes_is_shown_by_its_start() {
    let whole = raw(&format!("\"{}\"", "x".repeat((10 << 20) - 2)));
    let (mut session, _, id) = promoted(None);
    assert!(session.task_completed(id, whole.clone(), at(START)));
    assert_eq!(session.task(id).map(|task| (task.result(), task.error())), Some((Some(&whole), None)));

    let (mut session, _, id) = promoted(None);
    // Two bytes each, and none of them cut in half.
    assert!(session.task_completed(id, raw(&format!("\"{}\"", "é".repeat(5 << 20))), at(START)));
    let task = session.task(id).expect("kept");
    assert_eq!((task.status(), task.error()), (TaskStatus::Completed, Some("result too large")));
    let shown = parsed(task.result().expect("a preview"));
    let text = shown["content"][0]["text"].as_str().expect("a text");
    assert!(text.starts_with("result too large: 10485762 bytes, of which this is the start\n\"éé"), "{text:.80}");
    assert!(text.ends_with("… [truncated, 10485762 bytes]") && text.len() < 9 << 10);
    assert_eq!(shown["isError"], true);
}

#[test]
fn rows_say_what_is_known_and_nothing_of_handles() {
    let (mut session, _, id) = promoted(Some(2 * MINUTE));
    let name = id.to_string();
    session.task_progressed(id, Some("half way"), at(START + SECOND));
    session.task_progressed(id, None, at(START + 2 * SECOND));
    assert_eq!(kinds(&mut session), ["task_created"], "progress is no event");
    let task = session.task(id).expect("kept");
    let (created, updated) = ("2027-01-15T08:16:40.000Z", "2027-01-15T08:16:42.000Z");
    let row = json!({
        "taskId": name, "server": "one", "toolName": "dig", "status": "working", "statusMessage": "half way",
        "createdAt": created, "lastUpdatedAt": updated, "ttl": 120_000, "expiresAt": "2027-01-15T08:18:40.000Z",
        "hasResult": false,
    });
    assert_eq!(parsed(&task.row()), row);
    let brief = json!({"taskId": name, "toolName": "dig", "status": "working", "createdAt": created});
    assert_eq!(parsed(&task.brief()), brief);

    assert!(session.task_completed(id, raw(r#"{"content":[]}"#), at(START + 3 * SECOND)));
    session.task_progressed(id, Some("too late"), at(START + 4 * SECOND));
    let task = session.task(id).expect("kept");
    assert_eq!(parsed(&task.row())["hasResult"], true);
    let detail = json!({
        "taskId": name, "server": "one", "toolName": "dig", "args": {"deep": 1}, "status": "completed",
        "statusMessage": "half way", "createdAt": created, "lastUpdatedAt": "2027-01-15T08:16:43.000Z",
        "ttl": 120_000, "result": {"content": []}, "pending_elicitations": [],
    });
    assert_eq!(parsed(&task.detail(&raw("[]"))), detail);
}

#[test]
fn every_status_reads_back() {
    for word in ["working", "completed", "failed", "cancelled", "expired"] {
        assert_eq!(TaskStatus::parse(word).map(TaskStatus::as_str), Some(word));
    }
    assert_eq!(TaskStatus::parse("Working"), None);
}
