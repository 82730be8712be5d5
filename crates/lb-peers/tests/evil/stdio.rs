//! Faults on stdio that are about bytes.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use lb_peers::evil::{Transport, payload};
use lb_peers::raw::handshake::Era;
use lb_peers::raw::http::modern_meta;

use super::peer::{answer, calm, evil, modern, modern_answer, modern_call, strike};

const TOKEN: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"strike","_meta":{"progressToken":"t\/1"}}}"#;

#[tokio::test]
async fn half_line_stops_in_the_middle_for_ever() {
    let mut process = evil(&["--fault", "half-line"]).await;
    process.send(strike("1", "half of this").as_bytes()).await.expect("sent");
    process.send(calm("2", "x").as_bytes()).await.expect("sent");
    let whole = answer("1", "half of this");
    let (half, _) = whole.as_bytes().split_at(whole.len() / 2);
    process.patience = Duration::from_millis(500);
    assert_eq!(process.line().await.map_err(|e| e.kind()), Err(ErrorKind::TimedOut));
    assert_eq!(process.partial(), half);
    assert!(process.is_alive().expect("known"));
    process.patience = super::peer::PATIENCE;
    process.close_stdin();
    assert_eq!(process.wait().await.expect("it ends").code(), Some(0));
}

#[tokio::test]
async fn garbage_comes_before_the_true_answer() {
    let mut process = evil(&["--fault", "garbage"]).await;
    process.send(strike("1", "true").as_bytes()).await.expect("sent");
    for want in payload::garbage_lines().split(|byte| *byte == b'\n').take(7) {
        assert_eq!(process.line().await.expect("a line").as_deref(), Some(want));
    }
    assert_eq!(process.text().await.expect("an answer"), answer("1", "true"));
    assert_eq!(process.ask(&calm("2", "x")).await.expect("an answer"), answer("2", "x"));
}

#[tokio::test]
async fn flood_is_50_megabytes_and_then_the_answer() {
    let mut process = evil(&["--fault", "flood"]).await;
    process.send(strike("1", "after").as_bytes()).await.expect("sent");
    let mut bytes = 0;
    loop {
        let line = process.line().await.expect("a line").expect("stdout stays open");
        if !line.starts_with(br#"{"jsonrpc":"2.0","method":"notifications/message""#) {
            assert_eq!(String::from_utf8_lossy(&line), answer("1", "after"));
            break;
        }
        bytes += line.len();
    }
    assert_eq!(bytes, payload::FLOOD_BYTES);
}

#[tokio::test]
async fn hang_never_answers_and_leaves_the_rest_working() {
    let mut process = evil(&["--fault", "hang"]).await;
    process.send(strike("1", "x").as_bytes()).await.expect("sent");
    assert_eq!(process.ask(&calm("2", "y")).await.expect("an answer"), answer("2", "y"));
    process.patience = Duration::from_millis(700);
    assert_eq!(process.line().await.map_err(|e| e.kind()), Err(ErrorKind::TimedOut));
    assert_eq!(process.partial(), b"");
}

#[tokio::test]
async fn slow_takes_20_ms_for_each_byte() {
    let mut process = evil(&["--fault", "slow"]).await;
    for (id, text) in [("1", "s".to_owned()), ("2", "long ".repeat(200))] {
        let whole = answer(id, &text);
        let start = Instant::now();
        process.send(strike(id, &text).as_bytes()).await.expect("sent");
        process.patience = Duration::from_millis(600);
        assert_eq!(process.line().await.map_err(|e| e.kind()), Err(ErrorKind::TimedOut));
        let seen = process.partial().len();
        assert!(0 < seen && seen < whole.len(), "{seen} of {} bytes after 600 ms", whole.len());
        process.patience = super::peer::PATIENCE;
        assert_eq!(process.text().await.expect("an answer"), whole);
        let least = Duration::from_millis(20) * u32::try_from(whole.len().min(200)).expect("small");
        assert!(least <= start.elapsed(), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn two_strikes_get_each_others_ids_and_one_its_own() {
    let mut process = evil(&["--fault", "swapped-ids"]).await;
    let both = format!("{}\n{}\n", strike("1", "one"), strike("\"two\"", "two"));
    process.send_raw(both.as_bytes()).await.expect("sent");
    let mut lines = [process.text().await.expect("an answer"), process.text().await.expect("an answer")];
    lines.sort();
    assert_eq!(lines, [answer("\"two\"", "one"), answer("1", "two")]);
    let start = Instant::now();
    assert_eq!(process.ask(&strike("3", "three")).await.expect("an answer"), answer("3", "three"));
    assert!(Duration::from_millis(500) <= start.elapsed());
}

#[tokio::test]
async fn stale_answers_come_before_the_true_one() {
    let mut process = evil(&["--fault", "stale-ids"]).await;
    assert_eq!(process.ask(&calm("7", "x")).await.expect("an answer"), answer("7", "x"));
    process.send(strike("8", "true").as_bytes()).await.expect("sent");
    let mut lines = Vec::new();
    while lines.last() != Some(&answer("8", "true")) {
        lines.push(process.text().await.expect("a line"));
    }
    for id in ["7", "\"8\"", "987654321", "-1", "\"never-issued\""] {
        assert!(lines.contains(&answer(id, "stale")), "no stale answer to {id} in {lines:?}");
    }
    assert_eq!(process.ask(&calm("9", "x")).await.expect("an answer"), answer("9", "x"));
}

#[tokio::test]
async fn huge_line_is_one_line_of_40_megabytes() {
    let mut process = evil(&["--fault", "huge-line"]).await;
    process.send(strike("1", "x").as_bytes()).await.expect("sent");
    let line = process.line().await.expect("a line").expect("stdout stays open");
    assert_eq!(line.len(), answer("1", "").len() + payload::HUGE_BYTES);
    assert!(line.ends_with(br#"evil"}]}}"#));
    assert_eq!(process.ask(&calm("2", "x")).await.expect("an answer"), answer("2", "x"));
}

#[tokio::test]
async fn odd_content_is_exactly_what_the_payload_says() {
    let mut process = evil(&["--fault", "odd-content"]).await;
    for (era, request) in [(Era::Legacy, strike("1", "")), (Era::Modern, modern_call("1", "strike", ""))] {
        process.send(request.as_bytes()).await.expect("sent");
        let result = payload::odd_result(era, Transport::Stdio);
        let want = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
        assert_eq!(process.text().await.expect("an answer"), want);
    }
}

#[tokio::test]
async fn progress_storm_needs_a_token() {
    let mut process = evil(&["--fault", "progress-storm"]).await;
    assert_eq!(process.ask(&strike("0", "none")).await.expect("an answer"), answer("0", "none"));
    process.send(TOKEN.as_bytes()).await.expect("sent");
    for want in payload::progress(r#""t\/1""#) {
        assert_eq!(process.text().await.expect("a line"), want);
    }
    assert_eq!(process.text().await.expect("an answer"), answer("1", "progress-storm"));
}

#[tokio::test]
async fn the_list_changes_with_the_notification() {
    let mut process = evil(&["--fault", "list-changed-first"]).await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let before = process.ask(list).await.expect("an answer");
    let changed = process.ask(&strike("2", "x")).await.expect("a line");
    assert_eq!(changed, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}"#);
    assert_eq!(process.text().await.expect("an answer"), answer("2", "x"));
    let after = process.ask(list).await.expect("an answer");
    assert_ne!(before, after);
    assert!(after.contains("extra_1"), "{after}");
}

#[tokio::test]
async fn a_modern_list_change_goes_to_the_listens() {
    let mut process = evil(&["--fault", "list-changed-first"]).await;
    let listen = modern("\"L\"", "subscriptions/listen", r#""notifications":{"toolsListChanged":true},"#);
    let tag = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"L"}"#;
    let acknowledged = process.ask(&listen).await.expect("a line");
    assert!(acknowledged.contains("notifications/subscriptions/acknowledged") && acknowledged.contains(tag));
    let changed = process.ask(&modern_call("2", "strike", "x")).await.expect("a line");
    assert_eq!(
        changed,
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{{tag}}}}}"#)
    );
    assert_eq!(process.text().await.expect("an answer"), modern_answer("2", "x"));
    let cancel = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"L","_meta":{}}}}}"#,
        modern_meta("")
    );
    process.send(cancel.as_bytes()).await.expect("sent");
    let quiet = process.ask(&modern_call("3", "strike", "y")).await.expect("a line");
    assert_eq!(quiet, modern_answer("3", "y"));
}
