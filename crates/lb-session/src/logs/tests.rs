//! What is kept of logs, and what is found.

use serde_json::{Value, json};

use super::*;
use crate::limits::Limits;
use crate::session::kit::{SECOND, at, json as parsed, raw};

const ALL: LogWish<'static> =
    LogWish { server: None, level: None, limit: 500, sources: &[], exclude: &[], clear: false, sight: Sight::ALL };

fn write(session: &mut Session, server: &str, level: Level, source: LogSource, data: &Raw) {
    let row = LogRow { level, logger: None, source, data: data.clone() };
    session.log(&Text::from(server), row, at(SECOND));
}

fn said(session: &mut Session, wish: &LogWish<'_>) -> Vec<Value> {
    session.logs(wish).iter().map(|row| parsed(row)["data"].clone()).collect()
}

fn session() -> Session {
    Session::new(Limits::default())
}

#[test]
fn the_five_hundred_and_first_row_of_a_server_takes_the_place_of_the_first() {
    let mut session = session();
    write(&mut session, "two", Level::Info, LogSource::Protocol, &raw("-1"));
    for n in 0..501 {
        write(&mut session, "one", Level::Info, LogSource::Protocol, &Raw::value(&n));
    }
    assert_eq!((session.log_count("one"), session.log_count("two"), session.log_count("three")), (500, 1, 0));
    let rows = said(&mut session, &LogWish { server: Some("one"), ..ALL });
    assert_eq!((rows.len(), &rows[0], &rows[499]), (500, &json!(1), &json!(500)));
}

#[test]
fn a_row_is_no_event_and_wakes_nobody() {
    let mut session = session();
    write(&mut session, "one", Level::Emergency, LogSource::Stderr, &raw(r#""fire""#));
    assert!(!session.changed && session.effects.is_empty());
    assert_eq!(session.events.last_id(), None);
    assert_eq!(session.next_deadline(), None);
}

#[test]
fn rows_of_all_servers_are_in_the_order_in_which_they_came() {
    let mut session = session();
    for n in 0..30 {
        write(&mut session, ["one", "two", "three"][n % 3], Level::Info, LogSource::Protocol, &Raw::value(&n));
    }
    assert_eq!(said(&mut session, &ALL), (0..30).map(|n| json!(n)).collect::<Vec<_>>());
}

#[test]
fn a_row_says_where_and_when_and_how_bad() {
    let mut session = session();
    let row = LogRow {
        level: Level::Notice,
        logger: Some("db".into()),
        source: LogSource::Protocol,
        data: raw(r#"{"a":[1,2]}"#),
    };
    session.log(&Text::from("one"), row, at(SECOND));
    write(&mut session, "one", Level::Warning, LogSource::Stderr, &raw(r#""line""#));
    let rows: Vec<Value> = session.logs(&ALL).iter().map(parsed).collect();
    let when = "2027-01-15T08:00:01.000Z";
    let first = json!({
        "server": "one", "level": "notice", "logger": "db", "source": "protocol", "timestamp": when, "data": {"a": [1, 2]},
    });
    let second = json!({"server": "one", "level": "warning", "source": "stderr", "timestamp": when, "data": "line"});
    assert_eq!(rows, [first, second]);
}

#[test]
fn wishes_select_by_server_level_and_source() {
    let mut session = session();
    for (n, (server, level, source)) in [
        ("one", Level::Debug, LogSource::Protocol),
        ("one", Level::Warning, LogSource::Stderr),
        ("two", Level::Error, LogSource::Protocol),
        ("two", Level::Info, LogSource::Stdout),
    ]
    .into_iter()
    .enumerate()
    {
        write(&mut session, server, level, source, &Raw::value(&n));
    }
    let (stderr, protocol) = ([LogSource::Stderr], [LogSource::Protocol, LogSource::Stdout]);
    for (wish, want) in [
        (ALL, vec![0, 1, 2, 3]),
        (LogWish { server: Some("two"), ..ALL }, vec![2, 3]),
        (LogWish { server: Some("three"), ..ALL }, vec![]),
        (LogWish { level: Some(Level::Warning), ..ALL }, vec![1, 2]),
        (LogWish { sources: &stderr, ..ALL }, vec![1]),
        (LogWish { exclude: &stderr, ..ALL }, vec![0, 2, 3]),
        (LogWish { sources: &protocol, exclude: &protocol, ..ALL }, vec![]),
        (LogWish { limit: 2, ..ALL }, vec![0, 1]),
        (LogWish { limit: 0, ..ALL }, vec![]),
    ] {
        assert_eq!(said(&mut session, &wish), want.into_iter().map(|n| json!(n)).collect::<Vec<_>>(), "{wish:?}");
    }
}

#[test]
fn what_is_returned_is_cleared_and_nothing_else() {
    let mut session = session();
    for n in 0..10 {
        let level = if n % 2 == 0 { Level::Error } else { Level::Debug };
        write(&mut session, "one", level, LogSource::Protocol, &Raw::value(&n));
    }
    let wish = LogWish { level: Some(Level::Error), limit: 3, clear: true, ..ALL };
    assert_eq!(said(&mut session, &wish), [json!(0), json!(2), json!(4)]);
    assert_eq!(said(&mut session, &wish), [json!(6), json!(8)]);
    assert_eq!(said(&mut session, &wish), Vec::<Value>::new());
    assert_eq!(said(&mut session, &LogWish { clear: true, ..ALL }), [1, 3, 5, 7, 9].map(|n| json!(n)));
    assert!(session.logs.by_server.is_empty(), "not even an empty ring stays");
}

#[test]
fn long_lines_are_cut_and_marked() {
    let mut session = session();
    let fits = "x".repeat(16 << 10);
    for text in [fits.clone(), format!("{fits}x"), format!("x{}", "é".repeat(8 << 10))] {
        write(&mut session, "one", Level::Info, LogSource::Stdout, &Raw::string(&text));
    }
    let object = json!({"a": fits});
    write(&mut session, "one", Level::Info, LogSource::Protocol, &Raw::value(&object));
    let rows = said(&mut session, &ALL);
    assert_eq!(rows[0], fits.as_str());
    assert_eq!(rows[1], format!("{fits}… [truncated, 16385 bytes]"));
    let odd = rows[2].as_str().expect("a text");
    assert!(odd.ends_with("é… [truncated, 16385 bytes]"), "a character is not cut in half");
    let object = rows[3].as_str().expect("an object that is too long is shown as its text");
    assert!(object.starts_with(r#"{"a":"xxx"#) && object.ends_with("… [truncated, 16392 bytes]"));
}

#[test]
fn the_last_lines_of_standard_error_are_found() {
    let mut session = session();
    for n in 0..5 {
        write(&mut session, "one", Level::Warning, LogSource::Stderr, &Raw::string(&format!("line \"{n}\"")));
        write(&mut session, "one", Level::Info, LogSource::Stdout, &raw(r#""noise""#));
    }
    assert_eq!(session.last_stderr("one", 2), ["line \"3\"", "line \"4\""]);
    assert_eq!(session.last_stderr("one", 50).len(), 5);
    assert!(session.last_stderr("two", 2).is_empty());
}

#[test]
fn a_server_that_is_forgotten_leaves_no_rows() {
    let mut session = session();
    for server in ["one", "two"] {
        write(&mut session, server, Level::Info, LogSource::Stdout, &raw("1"));
    }
    session.forget_server("one");
    assert_eq!((session.log_count("one"), session.log_count("two")), (0, 1));
}

#[test]
fn levels_and_sources_are_the_words_of_the_protocol_in_order() {
    let words = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    let levels: Vec<Level> = words.iter().filter_map(|word| Level::parse(word)).collect();
    assert_eq!(levels, Level::ALL);
    assert!(levels.is_sorted());
    assert_eq!(words.map(Some), [0, 1, 2, 3, 4, 5, 6, 7].map(|n: usize| levels.get(n).map(|level| level.as_str())));
    assert_eq!(Level::parse("warn"), None);
    for source in LogSource::ALL {
        assert_eq!(LogSource::parse(source.as_str()), Some(source));
    }
    assert_eq!(LogSource::parse("stdin"), None);
}
