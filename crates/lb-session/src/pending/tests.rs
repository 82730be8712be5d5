//! What becomes of requests, and what servers hear of it.

use serde_json::json;

use super::*;
use crate::limits::Limits;
use crate::session::kit::{MINUTE, SECOND, Wire, ask, at, events, json as parsed, kinds, nobody, raw};

const START: Duration = Duration::from_secs(1_000);
const KINDS: [PendingKind; 2] = [PendingKind::Elicitation, PendingKind::Sampling];

/// Tries to end a request, and says whether it did.
type End = fn(&mut Session, Ulid, PendingKind) -> bool;

fn yes() -> Answer {
    Answer::Result(raw(r#"{"action":"accept"}"#))
}

fn asked(kind: PendingKind) -> (Session, Wire, Ulid) {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    let id = session.request(ask("one", kind, wire.remote("ask")), at(START)).expect("room");
    (session, wire, id)
}

#[test]
fn a_request_is_told_with_its_params_and_wakes_those_who_wait() {
    for (kind, word) in [(PendingKind::Elicitation, "elicitation_request"), (PendingKind::Sampling, "sampling_request")]
    {
        let (mut session, wire, id) = asked(kind);
        let params = parsed(session.pending_request(id).expect("waits").params());
        assert_eq!(
            events(&mut session),
            [(word, "one".to_owned(), json!({"requestId": id.to_string(), "params": params}))]
        );
        assert!(session.changed);
        assert!(wire.run(&mut session).is_empty());
    }
}

#[test]
fn an_unanswered_request_expires_exactly_after_ten_minutes() {
    let due = START + 10 * MINUTE;
    for (kind, event, said, reply) in [
        (
            PendingKind::Elicitation,
            "elicitation_expired",
            "Elicitation request timed out after 600000ms",
            r#"ask result k {"action":"cancel"}"#,
        ),
        (
            PendingKind::Sampling,
            "sampling_expired",
            "Sampling request timed out after 600000ms",
            r#"ask error k {"code":-32001,"message":"Sampling request timed out after 600000ms"}"#,
        ),
    ] {
        let (mut session, wire, id) = asked(kind);
        events(&mut session);
        assert_eq!(session.next_deadline(), Some(due));
        session.tick(at(due - Duration::from_nanos(1)));
        assert!(session.pending_request(id).is_some());
        session.tick(at(due));
        session.tick(at(due));
        let data = json!({"requestId": id.to_string(), "reason": said, "cause": "timeout"});
        assert_eq!(events(&mut session), [(event, "one".to_owned(), data)]);
        assert_eq!(wire.run(&mut session), [reply]);
        assert_eq!(session.answer_request(id, kind, yes(), at(due)), Err(RequestGone(id)));
    }
}

#[test]
fn a_cancelled_request_is_answered_in_the_words_of_its_protocol() {
    for (kind, event, reply) in [
        (PendingKind::Elicitation, "elicitation_expired", r#"ask result k {"action":"cancel"}"#),
        (PendingKind::Sampling, "sampling_expired", r#"ask error k {"code":-1,"message":"User cancelled"}"#),
    ] {
        let (mut session, wire, id) = asked(kind);
        events(&mut session);
        assert_eq!(session.cancel_request(id, kind, "User cancelled", at(START)).as_deref(), Ok("one"));
        let data = json!({"requestId": id.to_string(), "reason": "User cancelled", "cause": "cancelled"});
        assert_eq!(events(&mut session), [(event, "one".to_owned(), data)]);
        assert_eq!(wire.run(&mut session), [reply]);
    }
}

#[test]
fn however_two_end_a_request_the_first_wins_and_the_server_hears_once() {
    let ends: [(&str, usize, End); 5] = [
        ("answer", 1, |session, id, kind| session.answer_request(id, kind, yes(), at(START + SECOND)).is_ok()),
        ("cancel", 1, |session, id, kind| session.cancel_request(id, kind, "no", at(START + SECOND)).is_ok()),
        ("withdraw", 0, |session, id, _| session.withdraw_request(id, at(START + SECOND))),
        ("disconnect", 0, |session, _, _| {
            session.reject_requests_of(Some("one"), Cause::ServerDisconnected, false, at(START + SECOND)) != (0, 0)
        }),
        ("expire", 1, |session, id, _| {
            let waits = session.pending_request(id).is_some();
            session.tick(at(START + 10 * MINUTE));
            waits
        }),
    ];
    for kind in KINDS {
        for (first, replies, act) in ends {
            for (second, _, again) in ends {
                let (mut session, wire, id) = asked(kind);
                events(&mut session);
                assert!(act(&mut session, id, kind), "{first}");
                assert!(!again(&mut session, id, kind), "{first} then {second}");
                assert_eq!(wire.run(&mut session).len(), replies, "{first} then {second}");
                assert_eq!(kinds(&mut session).len(), usize::from(first != "answer"), "{first} then {second}");
                assert_eq!(session.pending_client(20, true, Sight::ALL), None, "{first} then {second}");
            }
        }
    }
}

#[test]
fn an_answer_of_the_wrong_kind_leaves_the_request_waiting() {
    let (mut session, wire, id) = asked(PendingKind::Elicitation);
    let gone = session.answer_request(id, PendingKind::Sampling, yes(), at(START)).expect_err("no such sampling");
    assert_eq!(gone.to_string(), format!("Request '{id}' not found or already completed"));
    assert_eq!(session.cancel_request(id, PendingKind::Sampling, "no", at(START)), Err(RequestGone(id)));
    assert_eq!(
        session.answer_request(nobody(), PendingKind::Elicitation, yes(), at(START)),
        Err(RequestGone(nobody()))
    );
    assert!(wire.run(&mut session).is_empty());
    assert_eq!(session.answer_request(id, PendingKind::Elicitation, yes(), at(START)).as_deref(), Ok("one"));
    assert_eq!(wire.run(&mut session), [r#"ask result k {"action":"accept"}"#]);
}

#[test]
fn the_hundred_and_first_request_of_a_server_is_refused_and_others_are_not() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    for n in 0..100 {
        session.request(ask("one", KINDS[n % 2], wire.remote("ask")), at(START)).expect("room");
    }
    let more = session.request(ask("one", PendingKind::Sampling, wire.remote("ask")), at(START));
    assert_eq!(more.map_err(|error| error.to_string()), Err("Too many pending requests".to_owned()));
    assert!(session.request(ask("two", PendingKind::Sampling, wire.remote("ask")), at(START)).is_ok());
    assert_eq!(session.reject_requests_of(Some("one"), Cause::ServerDisconnected, false, at(START)), (50, 50));
    assert!(wire.run(&mut session).is_empty(), "nobody is there to be answered");
    assert_eq!((session.pending_of("one").count(), session.pending_of("two").count()), (0, 1));
    assert!(session.request(ask("one", PendingKind::Sampling, wire.remote("ask")), at(START)).is_ok());
}

#[test]
fn ends_that_no_client_chose_say_their_cause() {
    for (cause, word) in [
        (Cause::ServerDisconnected, "server_disconnected"),
        (Cause::ServerRemoved, "server_removed"),
        (Cause::Shutdown, "shutdown"),
    ] {
        let (mut session, wire, _) = asked(PendingKind::Sampling);
        events(&mut session);
        assert_eq!(session.reject_requests_of(None, cause, true, at(START)), (0, 1));
        assert_eq!(events(&mut session)[0].2["cause"], word);
        assert_eq!(wire.run(&mut session).len(), 1, "{word}");
    }
    let (mut session, _, id) = asked(PendingKind::Elicitation);
    events(&mut session);
    assert!(session.withdraw_request(id, at(START)));
    assert_eq!(events(&mut session)[0].2["cause"], "server_cancelled");
}

#[test]
fn ten_thousand_responses_leave_nothing_behind() {
    let limits = Limits { event_age_max: SECOND, ..Limits::default() };
    let (mut session, wire) = (Session::new(limits), Wire::default());
    for n in 0..10_000_u32 {
        let now = at(START + n * Duration::from_millis(1));
        let (kind, server) = (KINDS[n as usize % 2], format!("server-{}", n % 50));
        let id = session.request(ask(&server, kind, wire.remote("ask")), now).expect("room");
        session.answer_request(id, kind, yes(), now).expect("waits");
        session.tick(now);
    }
    assert_eq!(wire.run(&mut session).len(), 10_000);
    assert!(session.requests.all.is_empty() && session.requests.by_server.is_empty());
    session.tick(at(START + MINUTE));
    assert_eq!(session.next_deadline(), None, "no timer is left");
}

#[test]
fn rows_pass_on_what_is_listed_and_keep_back_the_rest() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    let related = Ulid::mint(at(START));
    let times = json!({"timestamp": "2027-01-15T08:16:40.000Z", "expiresAt": "2027-01-15T08:26:40.000Z"});
    for (kind, params, shown) in [
        (
            PendingKind::Elicitation,
            json!({"message": "a \"name\"", "requestedSchema": {"type": "object"}, "_meta": {"x": 1}, "other": 2}),
            json!({"mode": "form", "message": "a \"name\"", "requestedSchema": {"type": "object"}}),
        ),
        (
            PendingKind::Elicitation,
            json!({"mode": "url", "message": "go", "url": "https://a.example", "elicitationId": "e1"}),
            json!({"mode": "url", "message": "go", "url": "https://a.example", "elicitationId": "e1"}),
        ),
        (PendingKind::Elicitation, json!({"mode": 7}), json!({"mode": "form", "message": ""})),
        (
            PendingKind::Sampling,
            json!({
                "maxTokens": 9, "systemPrompt": "s", "temperature": 0.5, "stopSequences": ["a"], "messages": [{"role": "user"}],
                "modelPreferences": {}, "includeContext": "none", "tools": [{"name": "t", "inputSchema": {"a": 1}}],
                "toolChoice": {"mode": "auto"}, "metadata": {"secret": 1},
            }),
            json!({
                "maxTokens": 9, "systemPrompt": "s", "temperature": 0.5, "stopSequences": ["a"], "messages": [{"role": "user"}],
                "modelPreferences": {}, "includeContext": "none", "tools": [{"name": "t", "inputSchema": {"a": 1}}],
                "toolChoice": {"mode": "auto"},
            }),
        ),
    ] {
        let new = NewRequest {
            params: Raw::value(&params),
            related_task: Some(related),
            ..ask("one", kind, wire.remote("ask"))
        };
        let id = session.request(new, at(START)).expect("room");
        let mut want = json!({"requestId": id.to_string(), "server": "one", "relatedTaskId": related.to_string()});
        for part in [&times, &shown] {
            want.as_object_mut().expect("an object").extend(part.as_object().expect("an object").clone());
        }
        assert_eq!(parsed(&session.pending_request(id).expect("waits").row()), want);
    }
    assert_eq!(session.pending(PendingKind::Elicitation).count(), 3);
    assert!(session.pending(PendingKind::Elicitation).map(Pending::id).is_sorted(), "oldest first");
}

#[test]
fn what_waits_is_counted_in_full_and_listed_in_part() {
    let (mut session, wire) = (Session::new(Limits::default()), Wire::default());
    assert_eq!(session.pending_client(20, true, Sight::ALL), None);
    let long = NewRequest {
        params: Raw::value(&json!({"message": "m".repeat(5_000), "mode": "url"})),
        ..ask("one", PendingKind::Elicitation, wire.remote("ask"))
    };
    let first = session.request(long, at(START)).expect("room");
    for _ in 0..2 {
        session.request(ask("two", PendingKind::Elicitation, wire.remote("ask")), at(START)).expect("room");
    }
    let sampling = session.request(ask("two", PendingKind::Sampling, wire.remote("ask")), at(START)).expect("room");
    let shown = parsed(&session.pending_client(2, true, Sight::ALL).expect("something waits"));
    assert_eq!((&shown["sampling"], &shown["elicitation"]), (&json!(1), &json!(3)));
    assert_eq!(shown["elicitations"].as_array().map(Vec::len), Some(2));
    assert_eq!(shown["elicitations"][0]["requestId"], first.to_string());
    assert_eq!(shown["elicitations"][0]["mode"], "url");
    let message = shown["elicitations"][0]["message"].as_str().expect("a text");
    assert!(message.ends_with("… [truncated, 5000 bytes]") && message.len() < 1_100, "{message}");
    assert_eq!(shown["sampling_requests"], json!([{"requestId": sampling.to_string(), "server": "two"}]));
    let shown = parsed(&session.pending_client(20, false, Sight::ALL).expect("something waits"));
    assert_eq!(shown["elicitations"].as_array().map(Vec::len), Some(3));
    assert_eq!(shown["elicitations"][1].get("mode"), None);
}

#[test]
fn what_waits_since_when_is_known_per_server() {
    let (session, _, _) = asked(PendingKind::Sampling);
    for (server, up, want) in
        [("one", START - SECOND, true), ("one", START, true), ("one", START + SECOND, false), ("two", START, false)]
    {
        assert_eq!(session.is_pending_since(server, up), want, "{server} {up:?}");
    }
}
