//! Rows come, end, make room and hide what is secret.

use bytes::Bytes;

use super::*;

fn at(ms: u64) -> Moment {
    Moment { up: Duration::from_millis(ms), unix: Duration::from_millis(1_700_000_000_000 + ms) }
}

fn tool(tracker: &Tracker, session: &str, name: &str, ms: u64) -> Tracked {
    tracker.begin(session, Kind::BackendTool, name, Some("git"), None, at(ms))
}

fn names(tracker: &Tracker, session: Option<&str>) -> Vec<String> {
    tracker.snapshot(session).iter().map(|row| row.name.to_string()).collect()
}

fn args_of(json: &str) -> String {
    let tracker = Tracker::new(true);
    let raw = Raw::parse(Bytes::copy_from_slice(json.as_bytes())).unwrap();
    let _running = tracker.begin("s", Kind::ToolCall, "t", None, Some(&raw), at(0));
    tracker.snapshot(None)[0].args.as_deref().unwrap().to_owned()
}

#[test]
fn a_row_says_what_ran_and_how_it_ended() {
    let tracker = Tracker::new(false);
    let good = tool(&tracker, "s", "status", 10);
    let bad = tool(&tracker, "s", "push", 20);
    let open = tool(&tracker, "s", "log", 30);
    good.completed(Some("2 blocks".into()), at(15));
    bad.failed("refused", at(27));
    let rows = tracker.snapshot(None);
    let told: Vec<_> = rows
        .iter()
        .map(|row| (&*row.name, row.status, row.ended.map(|took| took.as_millis()), row.error.as_deref()))
        .collect();
    assert_eq!(
        told,
        [
            ("status", Status::Completed, Some(5), None),
            ("push", Status::Failed, Some(7), Some("refused")),
            ("log", Status::Pending, None, None),
        ]
    );
    assert_eq!(rows[0].summary.as_deref(), Some("2 blocks"));
    assert_eq!((rows[0].server.as_deref(), rows[0].started), (Some("git"), at(10)));
    drop(open);
}

#[test]
fn a_session_keeps_its_last_hundred_rows_and_gives_up_finished_ones_first() {
    let tracker = Tracker::new(false);
    let running = tool(&tracker, "s", "running", 0);
    for n in 0..SESSION_ROWS_MAX as u64 + 50 {
        tool(&tracker, "s", &format!("n{n}"), n).completed(None, at(n));
    }
    tool(&tracker, "other", "other", 0).completed(None, at(1));
    let kept = names(&tracker, Some("s"));
    assert_eq!(kept.len(), SESSION_ROWS_MAX);
    assert_eq!((kept[0].as_str(), kept[1].as_str(), kept[99].as_str()), ("running", "n51", "n149"));
    assert_eq!(names(&tracker, Some("other")), ["other"]);
    running.completed(None, at(500));
    assert_eq!(tracker.snapshot(Some("s"))[0].status, Status::Completed);
}

#[test]
fn a_session_of_running_rows_is_bounded_too_and_their_ends_do_no_harm() {
    let tracker = Tracker::new(false);
    let running: Vec<_> = (0..SESSION_ROWS_MAX as u64 + 1).map(|n| tool(&tracker, "s", &format!("n{n}"), n)).collect();
    assert_eq!(names(&tracker, None)[0], "n1");
    running.into_iter().for_each(|running| running.completed(None, at(1_000)));
    assert_eq!(tracker.snapshot(None).len(), SESSION_ROWS_MAX);
}

#[test]
fn all_sessions_together_keep_a_thousand_rows_and_empty_ones_are_forgotten() {
    let tracker = Tracker::new(false);
    let running = tool(&tracker, "first", "running", 0);
    for n in 0..ROWS_MAX as u64 + 200 {
        tool(&tracker, &format!("s{}", n / 50), &format!("n{n}"), n).completed(None, at(n));
    }
    let rows = tracker.snapshot(None);
    assert_eq!(rows.len(), ROWS_MAX);
    assert_eq!((&*rows[0].name, &*rows[1].name), ("running", "n201"));
    assert!(rows.is_sorted_by_key(|row| row.id));
    // s0 to s3 had the two hundred oldest, and s4 one more of them.
    assert_eq!(tracker.table.lock().sessions_len(), 1 + 20);
    drop(running);
}

#[test]
fn a_cleared_session_leaves_nothing_and_its_late_ends_bring_nothing_back() {
    let tracker = Tracker::new(false);
    let late = tool(&tracker, "gone", "late", 0);
    tool(&tracker, "gone", "done", 1).completed(None, at(2));
    tool(&tracker, "stays", "here", 3).completed(None, at(4));
    tracker.clear_session("gone");
    tracker.clear_session("never was");
    late.completed(None, at(9));
    assert_eq!(names(&tracker, None), ["here"]);
    assert_eq!(tracker.table.lock().sessions_len(), 1);
}

#[test]
fn a_promoted_row_runs_on_and_ends_with_its_whole_time() {
    let tracker = Tracker::new(false);
    let mut slow = tool(&tracker, "s", "slow", 0);
    slow.promoted(at(5_000));
    let row = &tracker.snapshot(None)[0];
    assert_eq!((row.status, row.ended), (Status::Timeout, Some(Duration::from_secs(5))));
    // It still runs, so what is over makes room before it does.
    for n in 0..SESSION_ROWS_MAX as u64 {
        tool(&tracker, "s", "quick", n).completed(None, at(n));
    }
    assert_eq!(names(&tracker, None)[0], "slow");
    slow.completed(None, at(9_000));
    let row = &tracker.snapshot(None)[0];
    assert_eq!((row.status, row.ended), (Status::Completed, Some(Duration::from_secs(9))));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_row_was_cancelled_at_that_time() {
    let tracker = Tracker::new(false);
    let running = tool(&tracker, "s", "given up", 100);
    tokio::time::advance(Duration::from_millis(70)).await;
    drop(running);
    let row = &tracker.snapshot(None)[0];
    assert_eq!((row.status, row.error.as_deref()), (Status::Failed, Some("cancelled")));
    assert_eq!(row.ended, Some(Duration::from_millis(70)));
}

#[test]
fn arguments_are_kept_only_when_asked_for() {
    let raw = Raw::from_static(r#"{"path":"/tmp"}"#);
    for (record, want) in [(false, None), (true, Some(r#"{"path":"/tmp"}"#))] {
        let tracker = Tracker::new(record);
        let _running = tracker.begin("s", Kind::ToolCall, "t", None, Some(&raw), at(0));
        assert_eq!(tracker.snapshot(None)[0].args.as_deref(), want);
    }
}

#[test]
fn secrets_in_arguments_are_hidden_wherever_they_stand() {
    for (json, want) in [
        (r#"{"user":"ann","password":"hunter2"}"#, r#"{"user":"ann","password":"***"}"#),
        (r#"{"a":[{"API_Key" : "k1"},{"api-key":7, "b":1}]}"#, r#"{"a":[{"API_Key":"***"},{"api-key":"***", "b":1}]}"#),
        (r#"{"Secret":{"deep":["x","}"]},"b":"c"}"#, r#"{"Secret":"***","b":"c"}"#),
        (r#"{"clientSecret":null}"#, r#"{"clientSecret":"***"}"#),
        (r#"{"p\u0061ssw\u006frd":"hunter2"}"#, r#"{"p\u0061ssw\u006frd":"***"}"#),
        (r#"{"h":{"AUTHORIZATION":"Basic x"},"t":true}"#, r#"{"h":{"AUTHORIZATION":"***"},"t":true}"#),
        (r#"{"access_token":"a\"b","x":"y"}"#, r#"{"access_token":"***","x":"y"}"#),
        (r#"{"header":"Bearer abcdefghijklmnop1234"}"#, r#"{"header":"Bearer ***"}"#),
        (r#"{"body":"{\"password\":\"hunter2\",\"n\":1}"}"#, r#"{"body":"{\"password\":\"***\",\"n\":1}"}"#),
        (r#"["sk-abcdefghijklm","plain"]"#, r#"["***","plain"]"#),
        (r#"{"url":"https://ann:pw@host/p?token=1&q=2"}"#, r#"{"url":"https://***@host/p?token=***&q=2"}"#),
        (r#""token""#, r#""token""#),
        ("12", "12"),
    ] {
        assert_eq!(args_of(json), want, "{json}");
    }
}

#[test]
fn long_arguments_are_cut_between_characters() {
    for (piece, count) in [("a", 5_000), ("ü", 5_000), ("€", 3_000), ("😀", 3_000), ("\\\"", 5_000)] {
        let args = args_of(&format!(r#"{{"x":"{}"}}"#, piece.repeat(count)));
        assert!(args.len() <= ARGS_BYTES_MAX && ARGS_BYTES_MAX - 8 < args.len(), "{piece}: {}", args.len());
        assert!(args.ends_with('…'), "{args}");
    }
    let exact = format!(r#""{}""#, "a".repeat(ARGS_BYTES_MAX - 2));
    assert_eq!(args_of(&exact), exact);
    let secret_at_the_cut = format!(r#"{{"x":"{}","password":"hunter2"}}"#, "a".repeat(ARGS_BYTES_MAX - 20));
    assert!(!args_of(&secret_at_the_cut).contains("hunter"));
}

#[test]
fn texts_are_short_and_hide_what_looks_like_a_credential() {
    let tracker = Tracker::new(false);
    tool(&tracker, "s", &"n".repeat(10_000), 0).failed(&"ü".repeat(10_000), at(1));
    tracker.begin("s", Kind::ResourceRead, "db://u:p@h/x", None, None, at(0)).failed("bad api_key=abc!d, sorry", at(1));
    tool(&tracker, "s", "t", 0).completed(Some("Authorization: Bearer abc.def/g= sent".into()), at(1));
    let rows = tracker.snapshot(None);
    assert_eq!(rows[0].error.as_deref(), Some("ü".repeat(300).as_str()));
    assert_eq!(rows[0].name.len(), NAME_CHARS_MAX);
    assert_eq!((&*rows[1].name, rows[1].error.as_deref()), ("db://***@h/x", Some("bad api_key=***, sorry")));
    assert_eq!(rows[2].summary.as_deref(), Some("Authorization: Bearer *** sent"));
}

#[test]
fn ordinary_texts_stay_as_they_are() {
    for text in ["", "read_file", "file:///a b?x=1&y=2", "the token has expired", "Basic things", "a:b=c", "ключ: 1"]
    {
        assert_eq!(redacted_text(text), text);
    }
}

proptest::proptest! {
    #[test]
    fn no_text_breaks_the_cutting(text in ".{0,400}") {
        let json = serde_json::json!({ "password": text, "x": text }).to_string();
        let args = args_of(&json);
        proptest::prop_assert!(args.len() <= ARGS_BYTES_MAX);
        let begins_hidden = args.starts_with(r#"{"password":"***","x":""#);
        proptest::prop_assert!(begins_hidden, "{}", args);
        let shown = short_text(&text);
        proptest::prop_assert!(shown.chars().count() <= TEXT_CHARS_MAX);
    }
}
