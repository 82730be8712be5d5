use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lb_exchange::{EventId, ResumeError, StreamId, Streams as _};
use lb_wire::Raw;
use proptest::prelude::*;

use super::{Limits, SharedStreams, Store};

/// Every look at it is a millisecond later, so that nothing has the same age.
fn clock() -> Duration {
    static MILLIS: AtomicU64 = AtomicU64::new(1_700_000_000_000);
    Duration::from_millis(MILLIS.fetch_add(1, Ordering::Relaxed))
}

fn store(node_bytes_max: usize) -> Store {
    Store::new(Limits { node_bytes_max, ..Limits::default() }, clock)
}

/// A message of this many bytes.
fn append(session: &SharedStreams, stream: StreamId, bytes: usize) -> EventId {
    session.append(stream, Some(Raw::string(&"x".repeat(bytes - 2)).into_line())).unwrap()
}

/// A stream of a cursor and a message, ended.
fn answered(session: &SharedStreams, bytes: usize) -> EventId {
    let stream = session.open(&mut std::iter::empty());
    let cursor = session.append(stream, None).unwrap();
    append(session, stream, bytes);
    session.finish(stream);
    cursor
}

fn known(session: &SharedStreams, id: &EventId) -> bool {
    match session.resume(&id.0) {
        Ok(_) => true,
        Err(ResumeError::Unknown) => false,
    }
}

#[test]
fn by_default_a_node_keeps_256_mib() {
    assert_eq!(Limits::default().node_bytes_max, 256 << 20);
}

#[test]
fn the_oldest_ended_streams_of_all_sessions_make_room() {
    let store = store(1_000);
    let (one, two, open) = (store.session(), store.session(), store.session());
    let first = append(&open, open.standalone(), 300);
    let ended = [answered(&one, 300), answered(&two, 200), answered(&one, 100)];
    assert_eq!((store.bytes(), store.take_dropped()), (900, 0), "all fits");

    append(&open, open.open(&mut std::iter::empty()), 200);
    assert_eq!(store.bytes(), 800);
    assert!(!known(&one, &ended[0]), "the oldest that has ended, though of another session");
    assert!(known(&two, &ended[1]) && known(&one, &ended[2]), "no more than needed");
    assert!(known(&open, &first), "older, but its stream is open");
    assert_eq!((store.take_dropped(), store.take_dropped()), (2, 0), "a cursor and a message, told once");

    append(&open, open.open(&mut std::iter::empty()), 250);
    assert!(!known(&two, &ended[1]) && known(&one, &ended[2]) && known(&open, &first));
}

#[test]
fn without_ended_streams_the_oldest_messages_go_and_the_newest_of_a_stream_last() {
    let store = store(1_000);
    let (one, two) = (store.session(), store.session());
    let (call, busy) = (one.open(&mut std::iter::empty()), two.open(&mut std::iter::empty()));
    let answer = append(&one, call, 200);
    let followed: Vec<_> = (0..4).map(|_| append(&two, busy, 200)).collect();
    let last = append(&two, busy, 200);
    assert_eq!(store.bytes(), 800);
    let kept: Vec<_> = followed.iter().map(|id| known(&two, id)).collect();
    assert_eq!(kept, [false, false, true, true]);
    assert!(known(&one, &answer) && known(&two, &last));

    append(&two, two.open(&mut std::iter::empty()), 900);
    assert!(!known(&one, &answer), "at last the answers too");
    assert_eq!((store.bytes(), store.take_dropped()), (900, 6));
}

#[test]
fn sessions_that_end_give_their_bytes_back() {
    let store = store(1_000);
    let (closed, dropped, kept) = (store.session(), store.session(), store.session());
    for session in [&closed, &dropped, &kept] {
        answered(session, 300);
    }
    closed.close();
    assert_eq!(store.bytes(), 600);
    drop(dropped);
    assert_eq!(store.bytes(), 300);
    kept.forget(StreamId(1));
    assert_eq!((store.bytes(), store.take_dropped()), (0, 0));
}

#[test]
fn sessions_that_are_gone_are_not_remembered() {
    let store = store(1_000);
    for _ in 0..1_000 {
        drop(store.session());
    }
    assert!(store.0.sessions.lock().unwrap().all.len() < 50);
}

proptest! {
    #[test]
    fn the_bound_holds_and_the_count_is_true(ops in proptest::collection::vec((0..3usize, 0..4u64, 2..200usize), 0..150)) {
        let store = store(1_000);
        let sessions = [store.session(), store.session(), store.session()];
        for (session, stream, bytes) in ops {
            let session = &sessions[session];
            if stream != 0 && bytes % 7 == 0 {
                session.finish(StreamId(stream));
            } else if stream != 0 && bytes % 11 == 0 {
                session.forget(StreamId(stream));
            } else {
                let line = Raw::string(&"x".repeat(bytes - 2)).into_line();
                session.append(StreamId(stream), Some(line));
            }
            prop_assert!(store.bytes() <= 1_000);
            prop_assert_eq!(store.bytes(), sessions.iter().map(SharedStreams::bytes).sum::<usize>());
        }
    }
}
