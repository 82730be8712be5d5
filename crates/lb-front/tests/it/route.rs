use std::time::Duration;

use lb_exchange::{Mount, Place, Principal, Visitor};
use lb_front::{Arrival, Headers, Route, Wanted};
use serde_json::json;

use crate::desk::*;

#[test]
fn only_a_session_of_the_legacy_era_is_wanted_somewhere() {
    let session: Option<&[u8]> = Some(b"abc");
    for (version, session, want) in [
        (None, session, Wanted::Session("abc")),
        (Some("2025-11-25"), session, Wanted::Session("abc")),
        (Some("2024-11-05"), session, Wanted::Session("abc")),
        (Some("2099-01-01"), session, Wanted::Session("abc")),
        (Some("2026-07-28"), session, Wanted::Nothing),
        (None, None, Wanted::Nothing),
        (Some("2025-11-25"), None, Wanted::Nothing),
        (None, Some(b"\xff".as_slice()), Wanted::Nothing),
    ] {
        let headers = Headers { version: version.map(str::as_bytes), session, ..Headers::default() };
        assert_eq!(Wanted::by(&headers), want, "{version:?} {session:?}");
    }
    assert_eq!(format!("{:?}", Wanted::Session("abc")), "Session(***)");
}

#[tokio::test(start_paused = true)]
async fn what_is_here_is_served_without_asking_anybody() {
    let middle = middle();
    let front = front(&middle);
    let client = Client::seated(front.clone(), "2025-11-25", json!({})).await;
    let (url, wait) = ("http://127.0.0.1:1", Duration::from_secs(1));
    middle.elsewhere(move |id| match id {
        "other" => Place::Node(url.into()),
        "unknown" => Place::Away(wait),
        _ => Place::Here,
    });
    let own = client.session.clone().expect("a session");
    let route = |session: &'static str| {
        let front = front.clone();
        async move {
            match front.route(&Headers { session: Some(session.as_bytes()), ..Headers::default() }, None) {
                Route::Here => panic!("nobody was asked"),
                Route::Ask(place) => place.await,
            }
        }
    };
    let headers = Headers { session: Some(own.as_bytes()), ..Headers::default() };
    assert!(matches!(front.route(&headers, None), Route::Here));
    assert!(matches!(front.route(&Headers::default(), None), Route::Here));
    assert!(!middle.log().contains(&"locate".to_owned()), "nobody was asked");
    assert_eq!(route("other").await, Place::Node(url.into()));
    assert_eq!(route("unknown").await, Place::Away(wait));
    assert_eq!(route("nowhere").await, Place::Here, "the front says that there is none");
}

#[test]
fn a_modern_call_of_a_tool_may_need_what_another_node_has() {
    let by = |version: &'static str, method: &'static [u8], name: Option<&'static [u8]>| {
        let version = Some(version.as_bytes());
        Wanted::by(&Headers { version, method: Some(method), name, ..Headers::default() })
    };
    let modern = "2026-07-28";
    assert_eq!(by(modern, b"tools/call", Some(b"get_task")), Wanted::Tool("get_task".into()));
    assert_eq!(by(modern, b" tools/call ", Some(b"=?base64?Z2V0X3Rhc2s=?=")), Wanted::Tool("get_task".into()));
    assert_eq!(by(modern, b"tools/call", None), Wanted::Nothing);
    assert_eq!(by(modern, b"tools/list", Some(b"get_task")), Wanted::Nothing);
    assert_eq!(by("2025-11-25", b"tools/call", Some(b"get_task")), Wanted::Nothing);
}

#[tokio::test(start_paused = true)]
async fn a_modern_call_is_served_where_what_it_needs_is() {
    let middle = middle();
    let front = front(&middle);
    let (mount, visitor) = (Mount::Tools, Visitor::of(Principal::named("ann")));
    let arrival = Some(Arrival { mount: &mount, visitor: &visitor });
    let headers = |tool: &'static str| {
        let (version, method) = (Some("2026-07-28".as_bytes()), Some("tools/call".as_bytes()));
        Headers { version, method, name: Some(tool.as_bytes()), ..Headers::default() }
    };
    assert!(matches!(front.route(&headers("kept_there"), arrival), Route::Here), "there is one node");
    middle.elsewhere(|what| match what {
        "ann kept_there" => Place::Node("http://127.0.0.1:1".into()),
        _ => Place::Here,
    });
    assert!(!front.is_here(&headers("kept_there"), arrival));
    assert!(front.is_here(&headers("kept_there"), None), "a request without a body calls nothing");
    assert!(matches!(front.route(&headers("echo"), arrival), Route::Here), "it needs nothing");
    for (tool, want) in [("kept_there", Place::Node("http://127.0.0.1:1".into())), ("kept_here", Place::Here)] {
        match front.route(&headers(tool), arrival) {
            Route::Here => panic!("nobody was asked"),
            Route::Ask(place) => assert_eq!(place.await, want, "{tool}"),
        }
    }
}
