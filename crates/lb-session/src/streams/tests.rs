use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use lb_exchange::{EventId, ResumeError, StreamId};
use lb_wire::{Line, Raw};
use proptest::prelude::*;

use super::{Limits, Reader, Streams};

const T0: Duration = Duration::from_millis(1_700_000_000_000);

fn line(text: &str) -> Line {
    Raw::string(text).into_line()
}

fn text(line: &Line) -> String {
    String::from_utf8_lossy(line.as_bytes()).trim_matches('"').to_owned()
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Everything a reader gets before it would wait; true when it is over.
fn drain(streams: &mut Streams, reader: &mut Reader) -> (Vec<String>, bool) {
    let mut out = Vec::new();
    loop {
        match streams.poll_next(reader, &Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(stored)) => out.push(text(&stored.line)),
            Poll::Ready(None) => return (out, true),
            Poll::Pending => return (out, false),
        }
    }
}

#[test]
fn ids_are_padded_ordered_and_never_go_back() {
    let mut streams = Streams::default();
    let stream = streams.open([]);
    let first = streams.append(stream, None, T0).unwrap();
    let second = streams.append(stream, Some(line("a")), T0 - Duration::from_secs(5)).unwrap();
    assert_eq!(&*first.0, "1700000000000-0000000001-1");
    assert_eq!(&*second.0, "1700000000000-0000000002-1");
    assert!(first < second);
}

#[test]
fn resume_replays_strictly_after_the_anchor_then_goes_live_and_ends() {
    let mut streams = Streams::default();
    let (stream, other) = (streams.open([]), streams.open([]));
    let cursor = streams.append(stream, None, T0).unwrap();
    streams.append(other, Some(line("foreign")), T0);
    let first = streams.append(stream, Some(line("a")), T0).unwrap();
    streams.append(stream, Some(line("b")), T0);

    let mut reader = streams.resume(&cursor.0).unwrap();
    assert_eq!(drain(&mut streams, &mut reader), (vec!["a".into(), "b".into()], false));
    let mut reader = streams.resume(&first.0).unwrap();
    assert_eq!(drain(&mut streams, &mut reader), (vec!["b".into()], false), "the anchor itself is not repeated");

    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    assert!(streams.poll_next(&mut reader, &Context::from_waker(&waker)).is_pending());
    streams.append(stream, Some(line("c")), T0);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    streams.finish(stream, T0);
    assert_eq!(drain(&mut streams, &mut reader), (vec!["c".into()], true));
    assert!(streams.append(stream, Some(line("late")), T0).is_none(), "an ended stream takes nothing more");
}

#[test]
fn a_second_reader_ends_the_first() {
    let mut streams = Streams::default();
    let stream = streams.open([]);
    let cursor = streams.append(stream, None, T0).unwrap();
    let mut first = streams.resume(&cursor.0).unwrap();
    let wakes = Arc::new(Wakes::default());
    assert!(streams.poll_next(&mut first, &Context::from_waker(&Waker::from(wakes.clone()))).is_pending());
    let mut second = streams.resume(&cursor.0).unwrap();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "the first reader is woken to learn it");
    streams.append(stream, Some(line("a")), T0);
    assert_eq!(drain(&mut streams, &mut first), (vec![], true));
    assert_eq!(drain(&mut streams, &mut second), (vec!["a".into()], false));
}

#[test]
fn ids_that_were_not_given_out_are_unknown() {
    let mut streams = Streams::default();
    let stream = streams.open([]);
    let good = streams.append(stream, None, T0).unwrap();
    let bad = "|-|x|--|1700000000000-0000000001|1700000000000-0000000002-1|1700000000001-0000000001-1|0-1-1\
               |1700000000000-0000000001-2|1700000000000-1-1|1700000000000-0000000001-01|1700000000000-0000000001-1-1";
    for bad in bad.split('|').chain([&*format!("{} ", good.0)]) {
        assert_eq!(streams.resume(bad).unwrap_err(), ResumeError::Unknown, "id {bad:?}");
    }
    let mut elsewhere = Streams::default();
    assert_eq!(elsewhere.resume(&good.0).unwrap_err(), ResumeError::Unknown);
}

#[test]
fn ended_streams_go_after_ten_minutes_and_messages_of_open_ones_after_a_day() {
    let mut streams = Streams::default();
    let (ended, open) = (streams.open([]), streams.open([]));
    let done = streams.append(ended, Some(line("a")), T0).unwrap();
    let kept = streams.append(open, None, T0).unwrap();
    streams.finish(ended, T0);
    let (minutes, day) = (Duration::from_secs(600), Duration::from_secs(86_400));
    assert_eq!(streams.next_deadline(), Some(T0 + minutes));
    streams.tick(T0 + minutes - Duration::from_millis(1));
    assert!(streams.resume(&done.0).is_ok(), "resume after the end replays");
    streams.tick(T0 + minutes);
    assert!(streams.resume(&done.0).is_err());
    assert!(streams.resume(&kept.0).is_ok());
    assert_eq!(streams.next_deadline(), Some(T0 + day));
    streams.tick(T0 + day);
    assert!(streams.resume(&kept.0).is_err());
    assert_eq!((streams.next_deadline(), streams.len(), streams.bytes()), (None, 0, 0));
}

#[test]
fn the_newest_message_of_a_stream_is_pruned_after_all_others() {
    let limits = Limits { session_messages_max: 3, ..Limits::default() };
    let mut streams = Streams::new(limits);
    let (call, busy) = (streams.open([]), streams.open([]));
    let cursor = streams.append(call, None, T0).unwrap();
    streams.append(call, Some(line("answer")), T0);
    streams.finish(call, T0);
    for n in 0..10 {
        streams.append(busy, Some(line(&n.to_string())), T0);
    }
    assert!(streams.resume(&cursor.0).is_err(), "the cursor was the oldest");
    assert_eq!(streams.len(), 3);
    assert!(streams.rings.contains_key(&call), "the answer outlives younger messages that others followed");
}

#[test]
fn a_reader_that_missed_something_is_ended_instead_of_skipping_it() {
    let mut streams = Streams::new(Limits { stream_messages_max: 2, ..Limits::default() });
    let stream = streams.open([]);
    let cursor = streams.append(stream, None, T0).unwrap();
    let mut reader = streams.resume(&cursor.0).unwrap();
    for n in 0..3 {
        streams.append(stream, Some(line(&n.to_string())), T0);
    }
    assert_eq!(drain(&mut streams, &mut reader), (vec![], true));
}

#[test]
fn one_large_message_is_kept_up_to_the_bound_of_the_session() {
    let mut streams = Streams::new(Limits { stream_bytes_max: 10, session_bytes_max: 30, ..Limits::default() });
    let stream = streams.open([]);
    let cursor = streams.append(stream, None, T0).unwrap();
    assert!(streams.append(stream, Some(line(&"x".repeat(20))), T0).is_some());
    assert!(streams.resume(&cursor.0).is_err(), "everything else of the stream makes room");
    assert!(streams.append(stream, Some(line(&"x".repeat(40))), T0).is_none());
    assert_eq!(streams.bytes(), 22);
}

#[test]
fn closing_ends_readers_and_takes_in_nothing_more() {
    let mut streams = Streams::default();
    let cursor = streams.append(Streams::STANDALONE, None, T0).unwrap();
    let mut reader = streams.resume(&cursor.0).unwrap();
    streams.close();
    assert_eq!(drain(&mut streams, &mut reader), (vec![], true));
    assert!(streams.append(Streams::STANDALONE, None, T0).is_none());
}

/// The same rules, written as slowly and plainly as possible.
#[derive(Default)]
struct Model {
    /// In order of age: sequence, stream, text (none for a cursor), time.
    events: Vec<(u64, u64, Option<String>, Duration)>,
    ended: BTreeMap<u64, Duration>,
    gone: BTreeMap<u64, u64>,
    ever: u64,
}

impl Model {
    fn newest(&self, stream: u64) -> Option<u64> {
        self.events.iter().rev().find(|event| event.1 == stream).map(|event| event.0)
    }

    fn drop_at(&mut self, at: usize) {
        let (sequence, stream, line, _) = self.events.remove(at);
        if line.is_some() {
            self.gone.insert(stream, sequence);
        }
    }

    fn append(&mut self, limits: &Limits, stream: u64, line: Option<String>, now: Duration) {
        self.ever += 1;
        self.events.push((self.ever, stream, line, now));
        let weight = |line: &Option<String>| line.as_ref().map_or(0, |text| text.len() + 2);
        loop {
            let of: Vec<_> = self.events.iter().filter(|event| event.1 == stream).collect();
            let bytes: usize = of.iter().map(|event| weight(&event.2)).sum();
            if of.len() <= 1 || (of.len() <= limits.stream_messages_max && bytes <= limits.stream_bytes_max) {
                break;
            }
            let at = self.events.iter().position(|event| event.1 == stream).unwrap();
            self.drop_at(at);
        }
        loop {
            let bytes: usize = self.events.iter().map(|event| weight(&event.2)).sum();
            if self.events.len() <= limits.session_messages_max && bytes <= limits.session_bytes_max {
                break;
            }
            let ordinary = self.events.iter().position(|event| self.newest(event.1) != Some(event.0));
            self.drop_at(ordinary.unwrap_or(0));
        }
    }

    fn forget(&mut self, stream: u64) {
        self.events.retain(|event| event.1 != stream);
        self.ended.remove(&stream);
    }

    fn tick(&mut self, limits: &Limits, now: Duration) {
        let due: Vec<_> = self.ended.iter().filter(|(_, at)| **at + limits.ended_for <= now).map(|(s, _)| *s).collect();
        for stream in due {
            self.forget(stream);
        }
        while self.events.first().is_some_and(|event| event.3 + limits.open_for <= now) {
            self.drop_at(0);
        }
    }

    fn after(&self, sequence: u64) -> Option<(Vec<String>, bool)> {
        let stream = self.events.iter().find(|event| event.0 == sequence)?.1;
        let rest = self.events.iter().filter(|event| event.1 == stream && sequence < event.0);
        Some((rest.filter_map(|event| event.2.clone()).collect(), self.ended.contains_key(&stream)))
    }
}

#[derive(Clone, Debug)]
enum Op {
    Append(u64, Option<String>),
    Finish(u64),
    Forget(u64),
    Wait(u64),
    Resume(usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let line = proptest::option::weighted(0.9, "[a-z]{0,12}");
    let op = prop_oneof![
        8 => (0..4u64, line).prop_map(|(stream, line)| Op::Append(stream, line)),
        1 => (1..4u64).prop_map(Op::Finish),
        1 => (1..4u64).prop_map(Op::Forget),
        2 => (0..40u64).prop_map(Op::Wait),
        4 => (0..200usize).prop_map(Op::Resume),
    ];
    proptest::collection::vec(op, 0..120)
}

proptest! {
    #[test]
    fn behaves_like_the_model(ops in ops()) {
        let limits = Limits {
            stream_messages_max: 5,
            stream_bytes_max: 40,
            session_messages_max: 9,
            session_bytes_max: 80,
            node_bytes_max: usize::MAX,
            ended_for: Duration::from_millis(50),
            open_for: Duration::from_millis(200),
        };
        let (mut streams, mut model) = (Streams::new(limits), Model::default());
        let mut given: Vec<EventId> = Vec::new();
        let mut now = T0;
        for op in ops {
            match op {
                Op::Append(stream, text) => {
                    let id = streams.append(StreamId(stream), text.as_deref().map(line), now);
                    prop_assert_eq!(id.is_some(), !model.ended.contains_key(&stream));
                    if let Some(id) = id {
                        model.append(&limits, stream, text, now);
                        given.push(id);
                    }
                }
                Op::Finish(stream) => {
                    streams.finish(StreamId(stream), now);
                    if model.events.iter().any(|event| event.1 == stream) {
                        model.ended.entry(stream).or_insert(now);
                    }
                }
                Op::Forget(stream) => {
                    streams.forget(StreamId(stream));
                    model.forget(stream);
                }
                Op::Wait(millis) => {
                    now += Duration::from_millis(millis);
                    streams.tick(now);
                    model.tick(&limits, now);
                    prop_assert!(streams.next_deadline().is_none_or(|due| now < due));
                }
                Op::Resume(n) => {
                    if let Some(id) = given.get(n % given.len().max(1)) {
                        let got = streams.resume(&id.0).ok().map(|mut reader| drain(&mut streams, &mut reader));
                        let sequence = super::parts_of(&id.0).unwrap().0;
                        prop_assert_eq!(got, model.after(sequence));
                    }
                }
            }
            model.ended.retain(|stream, _| model.events.iter().any(|event| event.1 == *stream));
            prop_assert_eq!(streams.len(), model.events.len());
            let bytes: usize = model.events.iter().filter_map(|event| event.2.as_ref()).map(|text| text.len() + 2).sum();
            prop_assert_eq!(streams.bytes(), bytes);
        }
    }

    #[test]
    fn resume_never_panics(id in ".{0,40}") {
        let mut streams = Streams::default();
        streams.append(Streams::STANDALONE, Some(Raw::parse(Bytes::from_static(b"1")).unwrap().into_line()), T0);
        prop_assert!(streams.resume(&id).is_err());
    }
}
