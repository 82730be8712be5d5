use std::time::Duration;

use lb_exchange::{AskKey, Remote};
use lb_wire::Text;

use super::*;
use crate::backend::Listed;
use crate::happening::Happening;
use crate::limits::Limits;
use crate::moment::Moment;
use crate::pending::{NewRequest, PendingKind};
use crate::ulid::Ulid;

const WISH: ContextWish<'static> = ContextWish { session: None, events: true, pending: true, sight: Sight::ALL };

fn now() -> Moment {
    Moment { up: Duration::ZERO, unix: Duration::from_millis(1_767_225_600_000) }
}

fn add(session: &mut Session, what: &Happening) -> Ulid {
    session.tell(&Text::from_static("files"), what, now())
}

fn note() -> Happening {
    let method = Text::from_static("notifications/x");
    Happening::Notification { method, params: Some(Raw::from_static(r#"{"a":1}"#)), count: 1 }
}

fn block(session: &mut Session, wish: &ContextWish<'_>) -> String {
    session.context(wish).block.map_or_else(String::new, |block| block.as_str().to_owned())
}

#[test]
fn there_is_no_block_when_there_is_nothing_to_say() {
    let mut session = Session::new(Limits::default());
    let context = session.context(&WISH);
    assert_eq!((context.block, context.lease), (None, None));
    assert_eq!(block(&mut session, &ContextWish { session: Some("h\""), ..WISH }), r#"{"session":"h\""}"#);
}

#[test]
fn each_kind_of_event_has_its_list_and_nothing_comes_twice() {
    let mut session = Session::new(Limits::default());
    let timer = Ulid::mint(now());
    let expired = Happening::TimerExpired { timer, message: "tea".into(), fired: 1, interval: false };
    let restored = add(&mut session, &Happening::ServerHealthRestored);
    add(&mut session, &note());
    session.tell(&Text::from_static("landbridge"), &expired, now());
    let time = "2026-01-01T00:00:00.000Z";
    let timers = format!(r#""expired_timers":[{{"id":"{timer}","message":"tea","expiredAt":"{time}"}}]"#);
    let rest = format!(
        r#""notifications":[{{"server":"files","method":"notifications/x","timestamp":"{time}","params":{{"a":1}}}}],"events":[{{"id":"{restored}","type":"server_health_restored","server":"files","createdAt":"{time}","data":{{"name":"files"}}}}]"#
    );
    let context = session.context(&WISH);
    assert_eq!(context.block.as_ref().map(Raw::as_str), Some(format!("{{{timers},{rest}}}").as_str()));
    assert_eq!(block(&mut session, &WISH), "", "leased");
    session.events.roll_back(context.lease.expect("one lease over all"));
    assert_eq!(block(&mut session, &WISH), format!("{{{timers},{rest}}}"));
}

#[test]
fn what_was_lost_is_told_first() {
    let mut session = Session::new(Limits { events_max: 1, ..Limits::default() });
    let first = add(&mut session, &Happening::ServerHealthRestored);
    let second = add(&mut session, &Happening::ServerHealthRestored);
    let told = block(&mut session, &WISH);
    let start = format!(
        r#"{{"events":[{{"id":"{first}","type":"events_dropped","server":"landbridge","createdAt":"2026-01-01T00:00:00.000Z","data":{{"count":1,"firstLostId":"{first}","lastLostId":"{first}"}}}},{{"id":"{second}","#
    );
    assert!(told.starts_with(&start), "{told}");
}

#[test]
fn a_block_is_capped_and_says_how_many_more_wait() {
    let mut session = Session::new(Limits::default());
    let all: Vec<_> = (0..60).map(|_| add(&mut session, &Happening::ServerHealthRestored)).collect();
    let told = block(&mut session, &WISH);
    assert_eq!(told.matches("server_health_restored").count(), 50);
    assert!(told.contains(&all[49].to_string()) && told.ends_with(r#"],"events_remaining":10}"#), "{told}");
    let told = block(&mut session, &WISH);
    assert!(told.contains(&all[59].to_string()) && !told.contains("events_remaining"), "{told}");

    let large = Happening::ServerConnected(Box::new(Listed {
        capabilities: Raw::string(&"x".repeat(10 << 10)),
        tools: 0,
        resources: 0,
        prompts: 0,
    }));
    for _ in 0..4 {
        add(&mut session, &large);
    }
    let told = block(&mut session, &WISH);
    assert!(told.len() <= 32 << 10 && told.ends_with(r#"],"events_remaining":1}"#), "{}", told.len());
}

#[test]
fn a_block_without_events_leases_none() {
    let mut session = Session::new(Limits::default());
    add(&mut session, &note());
    let wish = ContextWish { session: Some("h"), events: false, ..WISH };
    let context = session.context(&wish);
    assert_eq!(context.lease, None);
    assert_eq!(context.block.as_ref().map(Raw::as_str), Some(r#"{"session":"h","events_remaining":1}"#));
    assert!(block(&mut session, &WISH).contains("notifications/x"));
}

#[test]
fn what_waits_for_the_client_comes_before_events_every_time() {
    let mut session = Session::new(Limits::default());
    let ids: Vec<_> = (0..21)
        .map(|n| {
            let params = Raw::value(&serde_json::json!({"message": format!("who {n}?")}));
            let (server, key) = (Text::from_static("files"), AskKey(n.to_string().as_str().into()));
            let remote = Remote::sink(|_| true);
            let new = NewRequest { server, kind: PendingKind::Elicitation, params, remote, key, related_task: None };
            session.request(new, now()).expect("room")
        })
        .collect();
    let told = block(&mut session, &WISH);
    let start = format!(
        r#"{{"pending_client":{{"sampling":0,"elicitation":21,"elicitations":[{{"requestId":"{}","server":"files","message":"who 0?"}},"#,
        ids[0]
    );
    assert!(told.starts_with(&start), "{told}");
    assert!(told.contains(r#""sampling_requests":[]},"events":["#), "{told}");
    let events = r#""type":"elicitation_request""#;
    assert_eq!((told.matches(r#""message":"who "#).count(), told.matches(events).count()), (20 + 21, 21));
    let again = block(&mut session, &WISH);
    assert!(again.starts_with(&start) && !again.contains(events), "{again}");
    assert_eq!(block(&mut session, &ContextWish { pending: false, ..WISH }), "");
}
