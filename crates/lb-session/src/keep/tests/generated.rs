//! Records that nobody of ours wrote: damaged ones, and some made from nothing.

use bytes::Bytes;
use lb_testkit::generate::{self, Campaign, Rng};

use super::*;

const RECORDS: u64 = 50_000;

const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e400",
    b"9007199254740993",
    b"18446744073709551615",
    b"\"00000000000000000000000000\"",
    b"\"7ZZZZZZZZZZZZZZZZZZZZZZZZZ\"",
    b"[0,18446744073709551615]",
    b"[5,1]",
    b"\"record\":",
    b"\"events\":",
    b"\"waiting\":[[1,9]],",
    b"\"lost\":[],",
    b"\"tasks\":[],",
    b"\"version\":1,",
    b"\"working\"",
    b"\"interval\":true,",
    b"\\u0000",
    b"\xc3\xa9",
    b"\xff",
];

/// All that a shelf has, in one value.
fn written(shelf: &Shelf) -> Value {
    let value = |raw: &Raw| raw.read::<Value>().expect("what we write is JSON");
    json!({
        "record": shelf.record.as_ref().map(value),
        "events": shelf.events.iter().map(|(seq, event)| json!([seq, value(event)])).collect::<Vec<_>>(),
        "tasks": shelf.tasks.iter().map(|(_, task)| value(task)).collect::<Vec<_>>(),
    })
}

/// The same, read as a store would give it: events in the order of their places, one at each.
fn read(input: &[u8]) -> Option<Kept> {
    let all: Value = serde_json::from_slice(input).ok()?;
    let events = all["events"].as_array()?.iter();
    let mut events: Vec<(u64, Raw)> =
        events.map(|event| Some((event[0].as_u64()?, Raw::value(&event[1])))).collect::<Option<_>>()?;
    events.sort_by_key(|(seq, _)| *seq);
    events.dedup_by_key(|(seq, _)| *seq);
    Some(Kept {
        record: Raw::value(&all["record"]),
        events,
        tasks: all["tasks"].as_array()?.iter().map(Raw::value).collect(),
    })
}

/// Whether it comes back. What does lives on as any other session, is no larger than what was read, and what it writes
/// of itself comes back again.
fn check(input: &[u8]) -> bool {
    let Some(kept) = read(input) else { return false };
    drop(Kept::tasks_of(&kept.record));
    // Not later than the other tests here begin: ids are in order over the whole process.
    let now = at(SECOND);
    let Ok(mut session) = Session::restore(Limits::default(), &kept, CRASH, now) else { return false };
    assert!(session.tasks().count() <= kept.tasks.len());
    let told = events(&mut session);
    // Each timer, task and request on record may lead to one more.
    assert!(told.len() <= kept.events.len() + input.len() / 2, "{} events", told.len());
    tell(&mut session, 1, now);
    session.tick(now);
    let mut shelf = Shelf::default();
    session.keep();
    let Some(delta) = session.take_delta() else { return true };
    shelf.record = Some(delta.record);
    shelf.events = delta.events;
    shelf.tasks = delta.tasks.into_iter().map(|(id, task)| (id, task.compose())).collect();
    drop(shelf.restore(CLEAN, now));
    true
}

fn corpus() -> Vec<Vec<u8>> {
    let (mut all, now) = (Vec::new(), at(Duration::ZERO));
    let mut put = |shelf: &Shelf| all.push(written(shelf).to_string().into_bytes());
    let (mut session, mut shelf, wire) = (session(), Shelf::default(), Wire::default());
    shelf.write(&mut session);
    put(&shelf);
    tell(&mut session, 3, now);
    session.tell(&files(), &note("notifications/tools/list_changed"), now);
    let (_, lease) = take(&mut session, 2);
    session.events.commit(lease.expect("a lease"));
    shelf.write(&mut session);
    put(&shelf);
    let done = session.promote(new_task(&wire), now).expect("room");
    session.promote(new_task(&wire), now).expect("room");
    session.task_completed(done, Raw::from_static(r#"{"content":[]}"#), now);
    session.wish("files", |wishes| wishes.subscribe("file:///a", true));
    shelf.write(&mut session);
    put(&shelf);
    for kind in [PendingKind::Elicitation, PendingKind::Sampling] {
        session.request(ask("files", kind, wire.remote("ask")), now).expect("room");
    }
    session.set_timer(MINUTE * 3, "tea", true, now).expect("room");
    session.set_timer(SECOND, "once", false, now).expect("room");
    shelf.write(&mut session);
    put(&shelf);
    let mut back = shelf.restore(CRASH, at(SECOND));
    shelf.write(&mut back);
    put(&shelf);
    all
}

#[test]
fn records_of_sessions_come_back_or_are_refused() {
    let corpus = corpus();
    // Made from a good one with another number somewhere, or of words in a row.
    let fresh = |rng: &mut Rng| {
        let mut input = rng.pick(&corpus);
        let digits: Vec<usize> = (0..input.len()).filter(|at| input[*at].is_ascii_digit()).collect();
        match (rng.one_in(4), digits.is_empty()) {
            (true, _) | (_, true) => generate::soup(rng, WORDS),
            _ => {
                let at = rng.pick(&digits);
                let number = rng.number() >> rng.below(64);
                input.splice(at..=at, number.to_string().into_bytes());
                input
            }
        }
    };
    let campaign = Campaign { name: "session record", count: RECORDS, seed: 0x5E55, corpus: &corpus, words: WORDS };
    campaign.run(fresh, check);
}

#[test]
fn everything_in_the_corpus_comes_back() {
    for input in corpus() {
        assert!(check(&input), "{}", input.escape_ascii());
        assert!(Raw::parse(Bytes::from(input)).is_ok());
    }
}

/// Every number of a value, one after the other, as this one instead.
fn with_each_number(value: &mut Value, number: u64, see: &mut dyn FnMut(&Value), whole: &dyn Fn(&Value) -> Value) {
    match value {
        Value::Number(_) => {
            let before = std::mem::replace(value, json!(number));
            see(&whole(value));
            *value = before;
        }
        Value::Array(_) | Value::Object(_) => {
            let places: Vec<String> = match value {
                Value::Array(all) => (0..all.len()).map(|at| format!("/{at}")).collect(),
                Value::Object(all) => all.keys().map(|name| format!("/{name}")).collect(),
                _ => Vec::new(),
            };
            for place in places {
                let Some(mut inner) = value.pointer(&place).cloned() else { continue };
                let outer = value.clone();
                let within = |changed: &Value| {
                    let mut outer = outer.clone();
                    if let Some(at) = outer.pointer_mut(&place) {
                        *at = changed.clone();
                    }
                    whole(&outer)
                };
                with_each_number(&mut inner, number, see, &within);
            }
        }
        _ => {}
    }
}

/// Sums went past the end of numbers, and a timer that repeats without a pause never let go of whoever looked what was
/// due: each number that is written is read back as none, one, and as large as can be.
#[test]
fn no_number_in_a_record_is_taken_at_its_word() {
    let mut seen = 0;
    for input in corpus() {
        let mut all: Value = serde_json::from_slice(&input).expect("JSON");
        for number in [0, 1, NUMBER_MAX - 1_000, NUMBER_MAX + 1, u64::MAX - 1, u64::MAX] {
            let mut see = |changed: &Value| {
                check(changed.to_string().as_bytes());
                seen += 1;
            };
            with_each_number(&mut all, number, &mut see, &Clone::clone);
        }
    }
    assert!(300 < seen, "{seen}");
}
