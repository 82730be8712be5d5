use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use lb_exchange::{EventId, StreamId, Streams as _};
use lb_wire::{Id, Line, Raw};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::restore::{GAP, without_line};
use super::super::{Bell, Limits, SharedStreams, Streams, StreamsDelta, parts_of, system_clock};
use super::Slack;

const T0: Duration = Duration::from_millis(1_700_000_000_000);

fn line(text: &str) -> Line {
    Raw::string(text).into_line()
}

/// What a store holds.
#[derive(Clone, Default)]
struct Log(BTreeMap<u64, Raw>);

impl Log {
    fn write(&mut self, delta: StreamsDelta) -> u64 {
        let upto = delta.upto();
        for (number, entry) in delta.entries {
            assert!(self.0.last_key_value().is_none_or(|(last, _)| *last < number), "numbers grow");
            self.0.insert(number, entry);
        }
        self.0 = self.0.split_off(&delta.from);
        upto
    }

    fn entries(&self) -> Vec<(u64, Raw)> {
        self.0.iter().map(|(number, entry)| (*number, entry.clone())).collect()
    }

    fn restored(&self, limits: Limits) -> Streams {
        let mut streams = Streams::new(limits);
        streams.restore(&self.entries()).unwrap();
        streams
    }
}

/// All that a client could tell apart, and the counts.
#[derive(Debug, PartialEq)]
struct Look {
    streams: BTreeMap<u64, Vec<(EventId, Option<Line>)>>,
    ended: BTreeSet<(Duration, u64)>,
    requests: BTreeMap<u64, Vec<Id>>,
    events_ever: u64,
    len: usize,
    bytes: usize,
    deadline: Option<u128>,
}

fn look(streams: &Streams) -> Look {
    let rings = || streams.rings.iter().filter(|(_, ring)| !ring.is_empty());
    let is_there = |stream: &StreamId, due: &Duration| rings().any(|(s, ring)| s == stream && ring.due() == Some(*due));
    let ended = streams.ended.iter().filter(|(due, stream)| is_there(stream, due));
    Look {
        streams: rings()
            .map(|(stream, ring)| (stream.0, ring.events().map(|e| (e.id.clone(), e.line.clone())).collect()))
            .collect(),
        ended: ended.map(|(due, stream)| (*due, stream.0)).collect(),
        requests: rings()
            .filter(|(_, ring)| !ring.has_ended())
            .map(|(stream, ring)| (stream.0, ring.requests().to_vec()))
            .collect(),
        events_ever: streams.events_ever,
        len: streams.len(),
        bytes: streams.bytes(),
        deadline: streams.oldest().map(|place| place.at.as_millis()),
    }
}

#[derive(Clone, Debug)]
enum Op {
    Open(u64),
    Append(usize, Option<String>),
    Finish(usize),
    Forget(usize),
    Wait(u64),
    Read(usize),
    /// Nothing is taken before the next one.
    Hold,
    Restart,
    Anew,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let line = proptest::option::weighted(0.9, "[a-z]{0,12}");
    let op = prop_oneof![
        3 => (0..3u64).prop_map(Op::Open),
        10 => (0..6usize, line).prop_map(|(stream, line)| Op::Append(stream, line)),
        2 => (0..6usize).prop_map(Op::Finish),
        1 => (0..6usize).prop_map(Op::Forget),
        2 => (0..40u64).prop_map(Op::Wait),
        1 => (0..20usize).prop_map(Op::Read),
        3 => Just(Op::Hold),
        1 => Just(Op::Restart),
        1 => Just(Op::Anew),
    ];
    proptest::collection::vec(op, 0..90)
}

/// Streams that are written, step by step.
struct Kept {
    limits: Limits,
    slack: Slack,
    streams: Streams,
    log: Log,
    open: Vec<StreamId>,
    given: Vec<EventId>,
    now: Duration,
    longest: usize,
}

impl Kept {
    fn new(limits: Limits, slack: Slack) -> Self {
        let mut streams = Streams::new(limits);
        streams.keep();
        streams.journal.as_mut().unwrap().slack = slack;
        let (log, open, given) = (Log::default(), vec![Streams::STANDALONE], Vec::new());
        Self { limits, slack, streams, log, open, given, now: T0, longest: 0 }
    }

    fn stream(&self, n: usize) -> StreamId {
        self.open[n % self.open.len()]
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Open(requests) => {
                let ids: Vec<_> = (0..requests).map(Id::number).collect();
                let stream = self.streams.open(&ids);
                assert!(!self.open.contains(&stream), "stream numbers never repeat");
                self.open.push(stream);
                if 6 < self.open.len() {
                    self.open.remove(1);
                }
            }
            Op::Append(n, text) => {
                let id = self.streams.append(self.stream(n), text.as_deref().map(line), self.now);
                self.given.extend(id);
            }
            Op::Finish(n) => self.streams.finish(self.stream(n), self.now),
            Op::Forget(n) => self.streams.forget(self.stream(n)),
            Op::Wait(millis) => {
                self.now += Duration::from_millis(millis);
                self.streams.tick(self.now);
            }
            Op::Read(n) => {
                if let Some(id) = self.given.get(n % self.given.len().max(1))
                    && let Ok(mut reader) = self.streams.resume(&id.0)
                {
                    let cx = Context::from_waker(Waker::noop());
                    while let Poll::Ready(Some(_)) = self.streams.poll_next(&mut reader, &cx) {}
                }
            }
            Op::Hold => {}
            Op::Restart => {
                self.take();
                let before = self.streams.streams_ever;
                self.streams = self.log.restored(self.limits);
                self.streams.journal.as_mut().unwrap().slack = self.slack;
                // A stream in which nothing is stored is known to nobody any more.
                self.streams.streams_ever = before;
                let rings = &self.streams.rings;
                self.open.retain(|stream| *stream == Streams::STANDALONE || rings.contains_key(stream));
            }
            Op::Anew => {
                self.log = Log::default();
                self.streams.keep();
            }
        }
    }

    fn take(&mut self) {
        if let Some(delta) = self.streams.take_delta() {
            let upto = self.log.write(delta);
            self.streams.written(upto);
        }
        self.longest = self.longest.max(self.log.0.len());
    }
}

const SMALL: Limits = Limits {
    stream_messages_max: 5,
    stream_bytes_max: 40,
    session_messages_max: 9,
    session_bytes_max: 80,
    node_bytes_max: usize::MAX,
    ended_for: Duration::from_millis(50),
    open_for: Duration::from_millis(200),
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_500))]

    #[test]
    fn what_is_made_of_the_deltas_is_what_is_there_after_every_step(ops in ops(), entries in 0..12usize, bytes in 0..60usize) {
        let mut kept = Kept::new(SMALL, Slack { entries, bytes });
        for op in ops {
            let hold = matches!(op, Op::Hold);
            kept.step(op);
            if hold {
                continue;
            }
            kept.take();
            prop_assert_eq!(look(&kept.log.restored(SMALL)), look(&kept.streams));
            prop_assert!(kept.streams.take_delta().is_none(), "nothing is written twice");
        }
        // Every event, twice over, and the marks of as many streams; then what may stay in one stretch.
        prop_assert!(kept.longest <= 4 * (9 + 8) + 2 * entries + 40, "{} entries", kept.longest);
        let unique: BTreeSet<_> = kept.given.iter().collect();
        prop_assert_eq!(unique.len(), kept.given.len(), "ids never repeat");
    }

    #[test]
    fn a_process_that_is_lost_takes_its_last_words_with_it_and_no_id_comes_again(
        ops in ops(), more in ops(), lost in 0..90usize,
    ) {
        let mut kept = Kept::new(SMALL, Slack { entries: 4, bytes: 20 });
        for (n, op) in ops.into_iter().enumerate() {
            kept.step(op);
            if n < lost {
                kept.take();
            }
        }
        let opened = kept.open.clone();
        kept.streams = kept.log.restored(SMALL);
        kept.streams.leave_gap(GAP);
        kept.streams.end_lost(kept.now);
        prop_assert!(kept.streams.rings.iter().all(|(stream, ring)| stream.0 == 0 || ring.has_ended()));
        let stream = kept.streams.open([]);
        prop_assert!(!opened.contains(&stream));
        for op in more {
            kept.step(op);
        }
        let unique: BTreeSet<_> = kept.given.iter().collect();
        prop_assert_eq!(unique.len(), kept.given.len());
        let sequences: BTreeSet<_> = kept.given.iter().map(|id| parts_of(&id.0).unwrap().0).collect();
        prop_assert_eq!(sequences.len(), kept.given.len());
    }

    #[test]
    fn entries_of_any_shape_are_refused_or_read(texts in proptest::collection::vec(
        "\\{(\"(s|n|t|due|upto|gone)\":[1-9][0-9]{0,2},){0,4}\"(line|requests|ever|gap|lost)\":(1|\\[1,2,3\\]|\\[\\[1,2\\]\\]|true|null)\\}", 0..8,
    )) {
        let entries = texts.into_iter().enumerate().map(|(n, text)| (n as u64 + 1, Raw::parse(text.into()).unwrap()));
        let mut streams = Streams::new(SMALL);
        let read = streams.restore(&entries.collect::<Vec<_>>());
        streams.append(Streams::STANDALONE, None, T0);
        let delta = streams.take_delta().expect("it is kept either way");
        prop_assert!(read.is_ok() || 1 < delta.from, "what cannot be read goes");
    }
}

fn values(streams: &mut Streams, last: &EventId) -> (Vec<Value>, bool) {
    let mut reader = streams.resume(&last.0).unwrap();
    let mut out = Vec::new();
    loop {
        match streams.poll_next(&mut reader, &Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(stored)) => out.push(serde_json::from_slice(stored.line.as_bytes()).unwrap()),
            Poll::Ready(None) => return (out, true),
            Poll::Pending => return (out, false),
        }
    }
}

fn message(value: &Value) -> Line {
    Raw::value(value).into_line()
}

#[test]
fn requests_that_ran_end_with_an_error_and_those_that_were_answered_do_not() {
    let mut streams = Streams::default();
    streams.keep();
    let ids = [Id::number(7), Id::from_raw(&Raw::string("b")).unwrap(), Id::number(9)];
    let batch = streams.open(&ids);
    let standalone = streams.append(Streams::STANDALONE, None, T0).unwrap();
    let cursor = streams.append(batch, None, T0).unwrap();
    let answer = json!({ "jsonrpc": "2.0", "id": "b", "result": {} });
    streams.append(batch, Some(message(&answer)), T0);
    let ask = json!({ "jsonrpc": "2.0", "id": 9, "method": "roots/list" });
    streams.append(batch, Some(message(&ask)), T0);
    let done = streams.open(&[Id::number(10)]);
    let done_cursor = streams.append(done, None, T0).unwrap();
    streams.finish(done, T0);
    let mut log = Log::default();
    log.write(streams.take_delta().unwrap());

    let mut back = log.restored(Limits::default());
    back.leave_gap(GAP);
    back.end_lost(T0);
    let (got, over) = values(&mut back, &cursor);
    assert!(over, "the stream ends");
    assert_eq!(got.len(), 4);
    assert_eq!((&got[0], &got[1]), (&answer, &ask), "the client's id 9 is not our id 9");
    for (value, id) in got[2..].iter().zip([7, 9]) {
        assert_eq!((&value["id"], &value["error"]["code"]), (&json!(id), &json!(-32603)));
        assert_eq!(value["error"]["data"], json!({ "reason": "node_lost" }));
        assert!(value["error"]["message"].as_str().unwrap().starts_with("Node lost: "), "{value}");
    }
    assert_eq!(values(&mut back, &done_cursor), (vec![], true), "as it was");
    assert_eq!(values(&mut back, &standalone), (vec![], false), "goes on");
    let next = back.append(Streams::STANDALONE, Some(line("on")), T0).unwrap();
    assert!(next.0.ends_with(&format!("{:010}-0", GAP + 8)), "{next:?}");
    assert_eq!(values(&mut back, &standalone), (vec![json!("on")], false));

    // That they ended is written as everything else.
    log.write(back.take_delta().unwrap());
    assert_eq!(look(&log.restored(Limits::default())), look(&back));
}

#[test]
fn an_id_that_went_with_its_process_still_names_its_stream_in_all_that_follow() {
    let mut streams = Streams::default();
    streams.keep();
    let call = streams.open(&[Id::number(7)]);
    let done = streams.open(&[Id::number(8)]);
    for stream in [call, Streams::STANDALONE, done] {
        streams.append(stream, None, T0).unwrap();
    }
    streams.finish(done, T0);
    let mut log = Log::default();
    log.write(streams.take_delta().unwrap());
    let late = T0 + Duration::from_millis(30);
    let lost = streams.append(call, Some(line("half")), late).unwrap();
    let news = streams.append(Streams::STANDALONE, Some(line("news")), late).unwrap();
    let unwritten = streams.open(&[Id::number(9)]);
    let unwritten = streams.append(unwritten, None, late).unwrap();

    let mut back = log.restored(Limits::default());
    back.leave_gap(GAP);
    back.end_lost(T0 + Duration::from_secs(10));
    for round in 0..3 {
        let (got, over) = values(&mut back, &lost);
        let told = got.iter().map(|value| &value["error"]["data"]["reason"]).collect::<Vec<_>>();
        assert_eq!((told, over), (vec![&json!("node_lost")], true), "round {round}: nothing but its end");
        assert_eq!(values(&mut back, &news), (vec![json!("on"); round], false), "it goes on");
        let number = parts_of(&lost.0).unwrap().0;
        let with = |at: Duration, number: u64, stream: u64| super::super::event_id(at, number, StreamId(stream)).0;
        let wrong = [
            with(late, number, done.0),
            with(late, number, 77),
            with(T0 - Duration::from_millis(1), number, call.0),
            with(late, GAP * 9, call.0),
            with(late, 2, call.0),
        ];
        for id in wrong.iter().chain([&unwritten.0]) {
            assert!(back.resume(id).is_err(), "round {round}: {id}");
        }
        // And once more, in a process after this one.
        back.append(Streams::STANDALONE, Some(line("on")), T0 + Duration::from_secs(11)).unwrap();
        log.write(back.take_delta().unwrap());
        back = log.restored(Limits::default());
        back.leave_gap(GAP);
        back.end_lost(T0 + Duration::from_secs(20));
    }
    // As long as the stream is there, and no longer.
    back.forget(call);
    assert!(back.resume(&lost.0).is_err());
}

#[test]
fn a_message_too_large_to_be_written_is_not_jumped_over() {
    let mut streams = Streams::new(Limits { stream_bytes_max: 64 << 20, ..Limits::default() });
    streams.keep();
    let before = streams.append(Streams::STANDALONE, Some(line("before")), T0).unwrap();
    let large = streams.append(Streams::STANDALONE, Some(line(&"x".repeat(8 << 20))), T0).unwrap();
    streams.append(Streams::STANDALONE, Some(line("after")), T0);
    let mut log = Log::default();
    log.write(streams.take_delta().unwrap());
    let mut back = log.restored(Limits::default());
    assert!(back.resume(&before.0).is_err(), "it has not had the large one");
    assert_eq!(values(&mut back, &large), (vec![json!("after")], false));
    let entry = json!({ "s": 0, "n": 2, "t": 5, "line": {}, "ever": [2, 0, 1] });
    let short = without_line(&Raw::value(&entry)).unwrap();
    assert_eq!(short.read::<Value>().unwrap(), json!({ "s": 0, "n": 2, "t": 5, "ever": [2, 0, 1], "gap": true }));
    assert!(without_line(&short).is_none(), "once is enough");
}

#[test]
fn what_comes_and_goes_between_two_deltas_is_not_written() {
    let mut kept = Kept::new(Limits::default(), Slack::default());
    for _ in 0..10_000 {
        let stream = kept.streams.open(&[Id::number(1)]);
        kept.streams.append(stream, Some(line("x")), T0);
        kept.streams.forget(stream);
    }
    assert!(kept.streams.journal.as_ref().unwrap().fresh.len() < 3_000, "nor remembered for long");
    let delta = kept.streams.take_delta().unwrap();
    assert_eq!(delta.entries.len(), 1, "only how far the numbers have come");
}

#[test]
fn a_full_ring_is_pruned_in_the_log_without_an_entry_for_each() {
    let mut kept = Kept::new(Limits::default(), Slack::default());
    let mut entries = 0;
    for n in 0..20_000 {
        kept.streams.append(Streams::STANDALONE, Some(line("x")), T0);
        if n % 10 == 0 {
            let delta = kept.streams.take_delta().unwrap();
            entries += delta.entries.len();
            kept.log.write(delta);
            kept.longest = kept.longest.max(kept.log.0.len());
        }
    }
    assert!(entries <= 20_000, "{entries} entries for 20,000 messages");
    assert!(kept.longest <= 1_000 + 256 + 20, "{} entries at most", kept.longest);
}

#[test]
fn the_log_stays_short_around_a_stream_that_stays_open() {
    let mut kept = Kept::new(Limits::default(), Slack::default());
    let slow = kept.streams.open(&[Id::number(1)]);
    let cursor = kept.streams.append(slow, Some(line("slow")), T0).unwrap();
    for n in 0..5_000u64 {
        let now = T0 + Duration::from_secs(n);
        let quick = kept.streams.open(&[Id::number(2)]);
        kept.streams.append(quick, Some(line(&"y".repeat(10_000))), now);
        kept.streams.finish(quick, now);
        kept.streams.tick(now);
        kept.take();
    }
    // 600 streams are there, of three entries each.
    assert!(kept.longest < 3 * 3 * 600, "{} entries", kept.longest);
    let bytes: usize = kept.log.0.values().map(|entry| entry.as_bytes().len()).sum();
    assert!(bytes < 3 * 600 * 10_000 + (2 << 20), "{bytes} bytes");
    let mut back = kept.log.restored(Limits::default());
    back.end_lost(T0);
    assert_eq!(values(&mut back, &cursor).0.len(), 1, "it is still known, and whose it is");
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn waiting_ends_when_everything_of_the_stream_is_written_and_when_that_may_take_long() {
    let streams = SharedStreams::new(Limits::default(), system_clock);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let cx = &mut Context::from_waker(&waker);
    let rung = Arc::new(AtomicUsize::default());
    let count = rung.clone();
    let bell = Bell::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let stream = streams.open(&mut [Id::number(1)].iter());
    streams.append(stream, None);
    assert_eq!(streams.poll_kept(stream, cx), Poll::Ready(true), "nobody keeps them");
    streams.keep(true, bell);
    assert_eq!(rung.load(Ordering::Relaxed), 1, "what was there before is written, too");

    assert_eq!(streams.poll_kept(stream, cx), Poll::Pending);
    let first = streams.take_delta().unwrap();
    streams.append(stream, Some(line("a")));
    assert_eq!(rung.load(Ordering::Relaxed), 2);
    streams.append(stream, Some(line("b")));
    assert_eq!(rung.load(Ordering::Relaxed), 2, "once until it is taken");
    streams.written(first.upto());
    assert_eq!((wakes.0.load(Ordering::Relaxed), streams.poll_kept(stream, cx)), (0, Poll::Pending));
    let second = streams.take_delta().unwrap();
    let other = streams.open(&mut std::iter::empty());
    streams.append(other, Some(line("c")));
    streams.written(second.upto());
    assert_eq!((wakes.0.load(Ordering::Relaxed), streams.poll_kept(stream, cx)), (1, Poll::Ready(true)));

    assert_eq!(streams.poll_kept(other, cx), Poll::Pending);
    streams.stalled();
    assert_eq!((wakes.0.load(Ordering::Relaxed), streams.poll_kept(other, cx)), (2, Poll::Ready(false)));
    let third = streams.take_delta().unwrap();
    streams.written(third.upto());
    assert_eq!(streams.poll_kept(other, cx), Poll::Ready(true));

    streams.append(other, Some(line("d")));
    assert_eq!(streams.poll_kept(other, cx), Poll::Pending);
    streams.keep_anew(99);
    streams.written(third.upto());
    assert_eq!(streams.poll_kept(stream, cx), Poll::Pending, "an old word about a log that is lost");
    let all = streams.take_delta().unwrap();
    assert_eq!((all.entries[0].0, all.from, all.entries.len()), (100, 100, 5), "everything, behind what is there");
    streams.close();
    assert!(streams.take_delta().is_none(), "an end is nothing to remember");
    assert_eq!((wakes.0.load(Ordering::Relaxed), streams.poll_kept(other, cx)), (4, Poll::Ready(true)));
}

#[test]
fn where_nobody_waits_only_the_journal_is_written() {
    let streams = SharedStreams::new(Limits::default(), system_clock);
    streams.keep(false, Bell::new(|| {}));
    let id = streams.append(streams.standalone(), Some(line("a"))).unwrap();
    assert_eq!(streams.poll_kept(streams.standalone(), &mut Context::from_waker(Waker::noop())), Poll::Ready(true));
    let mut log = Log::default();
    log.write(streams.take_delta().unwrap());

    let back = SharedStreams::new(Limits::default(), system_clock);
    back.restore(&log.entries(), false).unwrap();
    assert!(back.resume(&id.0).is_ok());
    assert_eq!((back.bytes(), back.events_ever()), (3, 1_001));
    let other = SharedStreams::new(Limits::default(), system_clock);
    assert!(other.resume(&id.0).is_err(), "an id means nothing elsewhere");
}
