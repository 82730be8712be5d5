use std::time::Duration;

use lb_exchange::Place;
use lb_front::{Headers, Route, Wanted};
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
            match front.route(&Headers { session: Some(session.as_bytes()), ..Headers::default() }) {
                Route::Here => panic!("nobody was asked"),
                Route::Ask(place) => place.await,
            }
        }
    };
    let headers = Headers { session: Some(own.as_bytes()), ..Headers::default() };
    assert!(matches!(front.route(&headers), Route::Here));
    assert!(matches!(front.route(&Headers::default()), Route::Here));
    assert!(!middle.log().contains(&"locate".to_owned()), "nobody was asked");
    assert_eq!(route("other").await, Place::Node(url.into()));
    assert_eq!(route("unknown").await, Place::Away(wait));
    assert_eq!(route("nowhere").await, Place::Here, "the front says that there is none");
}
