use std::time::Duration;

use lb_exchange::{Command, ErrorBody, Mount, Principal, Refusal, Visitor};
use lb_front::{Accept, Headers, Reply};
use lb_testkit::{note, result, wait_for_cancel};
use serde_json::json;

use crate::desk::*;

#[tokio::test(start_paused = true)]
async fn initialize_seats_a_client_and_settles_the_revision() {
    for (asked, got) in [("2025-11-25", "2025-11-25"), ("2024-11-05", "2024-11-05"), ("2030-01-01", "2025-11-25")] {
        let client = Client::new(front(&middle()));
        let params = json!({ "protocolVersion": asked, "capabilities": {} });
        let reply = client.post(&request(1, "initialize", params)).await;
        let Reply::Json { status, body, session, .. } = reply else { panic!("{reply:?}") };
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, body["result"]["protocolVersion"].as_str()), (200, Some(got)), "asked {asked}");
        assert_eq!(session.unwrap().as_str().len(), 64);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_client_leaves_no_session() {
    let middle = middle();
    let client = Client::new(front(&middle));
    for (busy, status) in [(false, 200), (true, 503)] {
        middle.refuse(Refusal { error: ErrorBody::new(-32603, "down", None), busy });
        let reply = client.post(&request(1, "initialize", json!({ "protocolVersion": "2025-11-25" }))).await;
        let Reply::Json { session: None, status: got, .. } = reply else { panic!("{reply:?}") };
        assert_eq!((got, middle.seats()), (status, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn initialize_with_a_session_header_counts_only_if_the_session_lives() {
    let client = Client::seated(front(&middle()), "2025-11-25", json!({})).await;
    let hello = request(1, "initialize", json!({ "protocolVersion": "2025-11-25" }));
    assert_eq!(code_of(client.post(&hello).await), (400, -32600));
    let stale = Client { session: Some("gone".into()), ..client };
    let Reply::Json { session: Some(_), .. } = stale.post(&hello).await else { panic!("a stale header is ignored") };
}

#[tokio::test(start_paused = true)]
async fn requests_need_a_session_that_lives_here() {
    let middle = middle();
    let client = Client::seated(front(&middle), "2025-11-25", json!({})).await;
    let list = request(7, "tools/list", json!({}));
    assert_eq!(
        json_of(client.post(&list).await),
        (200, json!({"jsonrpc":"2.0","id":7,"result":{"method":"tools/list"}}))
    );

    let none = Client { session: None, ..client.clone() };
    let unknown = Client { session: Some("unknown".into()), ..client.clone() };
    assert_eq!(code_of(none.post(&list).await), (400, -32000));
    assert_eq!(code_of(unknown.post(&list).await), (404, -32001));
    assert_eq!(code_of(none.get(None)), (400, -32000));
    assert_eq!(code_of(unknown.get(None)), (404, -32001));

    let elsewhere = lb_front::Request {
        mount: Mount::Server(lb_exchange::ServerName::parse("one").unwrap()),
        visitor: Visitor::local(),
        headers: client.headers(),
    };
    let body = bytes::Bytes::from(list.to_string());
    assert_eq!(
        code_of(client.front.post(elsewhere, vec![], body).reply().await),
        (404, -32001),
        "one mount per session"
    );

    let gone = client.front.delete(&client.request(client.headers()));
    assert_eq!(json_of(gone).0, 200);
    assert_eq!(code_of(client.post(&list).await), (404, -32001), "DELETE ends the session");
}

#[tokio::test(start_paused = true)]
async fn a_session_is_unknown_to_everybody_but_one_client_of_one_principal() {
    let middle = middle();
    let who = |principal: &str, client: Option<&str>| Visitor {
        client: client.map(Into::into),
        family: Some("f1".into()),
        ..Visitor::of(Principal::named(principal))
    };
    let ours = who("ann", Some("editor"));
    let client = Client::seated_as(front(&middle), ours.clone(), "2025-11-25", json!({})).await;
    let list = request(7, "tools/list", json!({}));
    let priming = stream_of(client.get(None)).next().await.expect("a first frame");
    let cursor = event_id(&priming).expect("an id");
    let unknown = Client { session: Some("0".repeat(64)), ..client.clone() };
    let hello = request(1, "initialize", json!({ "protocolVersion": "2025-11-25" }));
    for stranger in [who("ann", Some("shell")), who("ann", None), who("bob", Some("editor")), Visitor::local()] {
        let foreign = Client { visitor: stranger.clone(), ..client.clone() };
        let pairs = [
            (foreign.post(&list).await, unknown.post(&list).await),
            (foreign.get(None), unknown.get(None)),
            (foreign.get(Some(&cursor)), unknown.get(Some(&cursor))),
            (
                foreign.front.delete(&foreign.request(foreign.headers())),
                unknown.front.delete(&unknown.request(unknown.headers())),
            ),
        ];
        for (foreign, unknown) in pairs {
            let foreign = json_of(foreign);
            assert_eq!(foreign.0, 404, "{stranger:?}");
            assert_eq!(foreign, json_of(unknown), "{stranger:?} is told nothing else");
        }
        let Reply::Json { session: Some(other), .. } = foreign.post(&hello).await else { panic!("a new session") };
        assert_ne!(Some(other.as_str()), client.session.as_deref());
    }
    let renewed = Client { visitor: Visitor { family: Some("f2".into()), ..ours }, ..client.clone() };
    assert_eq!(json_of(renewed.post(&list).await).0, 200, "another login of the same client goes on");
    stream_of(renewed.get(Some(&cursor)));
}

#[tokio::test(start_paused = true)]
async fn version_headers_must_be_known_but_may_differ() {
    let client = Client::seated(front(&middle()), "2025-11-25", json!({})).await;
    let list = request(1, "tools/list", json!({}));
    for (version, want) in [("2025-03-26", 200), ("2025-11-25", 200), ("1999-01-01", 400)] {
        let (status, body) = json_of(Client { version: Some(version), ..client.clone() }.post(&list).await);
        assert_eq!(status, want, "version {version}");
        if want == 400 {
            assert_eq!(body["error"]["code"], -32000);
            assert_eq!(body["error"]["data"]["requested_version"], version);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_no_message_are_refused() {
    let client = Client::seated(front(&middle()), "2025-11-25", json!({})).await;
    for (body, want) in [
        ("", (400, -32700)),
        ("{", (400, -32700)),
        ("{} {}", (400, -32700)),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, (400, -32700)),
        (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, (400, -32600)),
        (r#"{"id":1}"#, (400, -32600)),
        ("3", (400, -32600)),
        ("[]", (400, -32600)),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, (400, -32600)),
    ] {
        assert_eq!(code_of(client.post_text(body).await), want, "body {body:?}");
    }
    let (_, body) = json_of(client.post_text("{").await);
    assert!(body.get("id").is_some_and(serde_json::Value::is_null), "legacy errors say id null: {body}");
    assert_eq!(code_of(Client { accept: Accept::Neither, ..client }.post_text("{}").await), (406, -32000));
}

#[tokio::test(start_paused = true)]
async fn pings_notifications_and_answers_stay_here() {
    let middle = middle();
    let client = Client::seated(front(&middle), "2025-11-25", json!({})).await;
    assert_eq!(
        json_of(client.post(&request(3, "ping", json!({}))).await),
        (200, json!({"jsonrpc":"2.0","id":3,"result":{}}))
    );
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(json_of(client.post(&initialized).await).0, 202);
    let stray = json!({ "jsonrpc": "2.0", "id": 99, "result": {} });
    assert_eq!(json_of(client.post(&stray).await).0, 202, "an answer to nothing is taken and ignored");
    assert_eq!(middle.log(), ["note notifications/initialized"]);
}

#[tokio::test(start_paused = true)]
async fn an_end_first_is_json_and_anything_else_a_stream() {
    let middle = middle();
    middle.on("quick", |_, _| async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        result(&json!("quick"))
    });
    middle.on("talks", |_, out| async move {
        out.step(note("notifications/message", &json!({ "level": "info" }))).await;
        result(&json!("talks"))
    });
    middle.on("slow", |_, _| async {
        tokio::time::sleep(Duration::from_millis(20_500)).await;
        result(&json!("slow"))
    });
    let old = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let new = Client::seated(front(&middle), "2025-11-25", json!({})).await;

    assert_eq!(json_of(old.call(1, "quick").await).1["result"], "quick");
    let mut frames = stream_of(old.call(2, "talks").await);
    assert_eq!(rest(&mut frames).await, ["note notifications/message", "result 2 \"talks\""]);
    let mut frames = stream_of(new.call(2, "talks").await);
    assert_eq!(rest(&mut frames).await, ["priming 3000", "note notifications/message", "result 2 \"talks\""]);

    let start = tokio::time::Instant::now();
    let mut frames = stream_of(old.call(3, "slow").await);
    assert_eq!(start.elapsed().as_millis(), 1_000, "sse_after");
    assert_eq!(rest(&mut frames).await, ["comment", "comment", "result 3 \"slow\""], "a sign of life every 15 s");
    let mut frames = stream_of(new.call(3, "slow").await);
    assert_eq!(rest(&mut frames).await, ["priming 3000", "comment", "result 3 \"slow\""]);
}

#[tokio::test(start_paused = true)]
async fn what_a_client_accepts_decides() {
    let middle = middle();
    middle.on("talks", |_, out| async move {
        out.step(note("notifications/message", &json!({}))).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        result(&json!("talks"))
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let json_only = Client { accept: Accept::Json, ..client.clone() };
    assert_eq!(json_of(json_only.call(1, "talks").await).1["result"], "talks", "notes are dropped");
    let stream_only = Client { accept: Accept::Stream, ..client };
    let mut frames = stream_of(stream_only.post(&request(2, "tools/list", json!({}))).await);
    assert_eq!(rest(&mut frames).await, [r#"result 2 {"method":"tools/list"}"#]);
    let hello = request(3, "initialize", json!({ "protocolVersion": "2025-06-18" }));
    let reply = Client { session: None, ..stream_only }.post(&hello).await;
    let Reply::Stream { session: Some(_), .. } = reply else { panic!("{reply:?}") };
}

#[tokio::test(start_paused = true)]
async fn progress_without_a_token_does_not_begin_a_stream() {
    let middle = middle();
    middle.on("works", |_, out| async move {
        let lb_exchange::Step::Note(mut note) = note("notifications/progress", &json!({})) else { unreachable!() };
        note.forward = false;
        out.step(lb_exchange::Step::Note(note)).await;
        result(&json!(1))
    });
    let client = Client::seated(front(&middle), "2025-11-25", json!({})).await;
    assert_eq!(json_of(client.call(1, "works").await).1["result"], 1);
}

#[tokio::test(start_paused = true)]
async fn cancelling_empties_the_reply_or_closes_the_stream() {
    let middle = middle();
    middle.on("waits", |_, out| async move { wait_for_cancel(&out).await.1 });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let cancel = |id: u64| {
        let params = json!({ "requestId": id, "reason": "enough" });
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
    };

    let (reply, cancelled) = tokio::join!(client.call(1, "waits"), async { client.post(&cancel(1)).await });
    assert_eq!((json_of(reply).0, json_of(cancelled).0), (202, 202));

    let mut frames = stream_of(client.call(2, "waits").await);
    assert_eq!(show(&frames.next().await.unwrap()), "comment");
    client.post(&cancel(2)).await;
    assert_eq!(rest(&mut frames).await, Vec::<String>::new(), "nothing more is said about that id");
    assert_eq!(json_of(client.post(&cancel(77)).await).0, 202, "unknown ids are ignored");
    assert!(matches!(client.call(2, "waits").await, Reply::Stream { .. }), "the id is free again");
}

#[tokio::test(start_paused = true)]
async fn an_id_in_use_is_refused() {
    let middle = middle();
    middle.on("waits", |_, out| async move { wait_for_cancel(&out).await.1 });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let _first = client.call(1, "waits").await;
    assert_eq!(code_of(client.call(1, "waits").await), (400, -32600));
}

#[tokio::test(start_paused = true)]
async fn the_standalone_stream_is_one_per_session() {
    let middle = middle();
    let client = Client::seated(front(&middle), "2025-11-25", json!({})).await;
    let seat = middle.seat_of(client.session.as_ref().unwrap()).unwrap();
    let mut first = stream_of(client.get(None));
    assert_eq!(show(&first.next().await.unwrap()), "priming 3000");
    seat.say(note("notifications/tools/list_changed", &json!({})));
    assert_eq!(show(&first.next().await.unwrap()), "note notifications/tools/list_changed");
    assert_eq!(code_of(client.get(None)), (409, -32000));

    // Nobody took anything from it for 30 s.
    tokio::time::advance(Duration::from_secs(31)).await;
    let mut second = stream_of(client.get(None));
    assert_eq!(show(&second.next().await.unwrap()), "priming 3000");
    assert_eq!(rest(&mut first).await, Vec::<String>::new(), "the newest wins");
    drop(first);
    assert_eq!(code_of(client.get(None)), (409, -32000), "the first one's end does not free the second one's place");
    drop(second);
    let old = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let mut frames = stream_of(old.get(None));
    assert_eq!(show(&frames.next().await.unwrap()), "comment", "older revisions do not know priming");
    assert_eq!(show(&frames.next().await.unwrap()), "retry 3000");
    assert_eq!(show(&frames.next().await.unwrap()), "comment", "and a sign of life after 15 s");
    assert_eq!(code_of(Client { accept: Accept::Json, ..old.clone() }.get(None)), (406, -32000));
    old.front.delete(&old.request(old.headers()));
    assert_eq!(rest(&mut frames).await, Vec::<String>::new(), "the end of the session ends it");
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_made_plain_for_a_legacy_client() {
    let middle = middle();
    middle.on("modern", |_, _| async {
        lb_testkit::modern_result(&json!({ "resultType": "complete", "content": [], "ttlMs": 3 }))
    });
    middle.on("asks", |_, out| async move {
        out.step(lb_testkit::replay("k", "elicitation/create", &json!({}))).await;
        lb_testkit::modern_result(&json!({ "resultType": "input_required" }))
    });
    middle.on("prompts/get", |_, out| async move {
        out.step(lb_testkit::replay("k", "elicitation/create", &json!({}))).await;
        lb_testkit::modern_result(&json!({ "resultType": "input_required" }))
    });
    let client = Client::seated(front(&middle), "2025-11-25", json!({ "elicitation": {} })).await;
    assert_eq!(json_of(client.call(1, "modern").await).1["result"], json!({ "content": [] }));
    assert_eq!(json_of(client.call(2, "asks").await).1["result"]["isError"], true);
    assert_eq!(code_of(client.post(&request(3, "prompts/get", json!({}))).await), (200, -32603));
}

#[tokio::test(start_paused = true)]
async fn two_unread_streams_do_not_block_a_third_request() {
    let middle = middle();
    middle.on("talks", |_, out| async move {
        for n in 0..200 {
            out.step(note("notifications/progress", &json!({ "progress": n }))).await;
        }
        result(&json!("done"))
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let mut unread = stream_of(client.call(1, "talks").await);
    let _also = stream_of(client.call(2, "talks").await);
    assert_eq!(json_of(client.post(&request(3, "tools/list", json!({}))).await).0, 200);
    let shown = rest(&mut unread).await;
    assert_eq!((shown.len(), shown.last().map(String::as_str)), (201, Some("result 1 \"done\"")));
}

#[tokio::test(start_paused = true)]
async fn the_middle_hears_the_reason_of_a_cancel() {
    let middle = middle();
    let heard = std::sync::Arc::new(parking_lot::Mutex::new(String::new()));
    let told = heard.clone();
    middle.on("waits", move |_, out| {
        let told = told.clone();
        async move {
            let Command::Cancel(lb_exchange::Cancel::Said(Some(reason))) = out.command().await else { panic!() };
            reason.as_str().clone_into(&mut told.lock());
            lb_exchange::End::ours(lb_exchange::Outcome::Cancelled)
        }
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1, "reason": "x" } });
    tokio::join!(client.call(1, "waits"), client.post(&cancel));
    assert_eq!(*heard.lock(), "\"x\"");
    assert_eq!(
        code_of(client.front.get(&client.request(Headers { version: Some(b"1999"), ..client.headers() }))).0,
        400
    );
}
