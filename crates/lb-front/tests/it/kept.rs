//! Streams that are kept beyond the process: what waits for the store, and for how long.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::poll;
use lb_exchange::Streams as _;
use lb_front::{Frame, Frames, Front, Settings};
use lb_session::streams::{Bell, Limits, SharedStreams, system_clock};
use lb_testkit::{ScriptedMiddle, ask, note, pause, result, wait_for_answer};
use lb_wire::Raw;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::desk::*;

const MS: Duration = Duration::from_millis(1);

/// Keeps the streams of the only session: nothing is written unless the test says so.
struct Keeper {
    streams: SharedStreams,
    written: Mutex<Vec<(u64, Raw)>>,
}

impl Keeper {
    /// Of a session of which this was written.
    fn of(written: Vec<(u64, Raw)>) -> Self {
        let streams = SharedStreams::new(Limits::default(), system_clock);
        streams.restore(&written, !written.is_empty()).expect("our own");
        streams.keep(true, Bell::new(|| {}));
        Self { streams, written: Mutex::new(written) }
    }

    fn new() -> Self {
        Self::of(Vec::new())
    }

    fn middle(&self) -> Arc<ScriptedMiddle> {
        let streams = self.streams.clone();
        ScriptedMiddle::new(move || Arc::new(streams.clone()))
    }

    /// Everything is written.
    fn write(&self) {
        if let Some(delta) = self.streams.take_delta() {
            let upto = delta.upto();
            self.written.lock().expect("no panic").extend(delta.entries);
            self.streams.written(upto);
        }
    }

    /// What comes after this process.
    fn lost(&self) -> Self {
        Self::of(self.written.lock().expect("no panic").clone())
    }

    /// The next frame, which waits until it is written.
    async fn next_written(&self, frames: &mut Frames) -> Frame {
        let mut next = pin!(frames.next());
        assert!(poll!(&mut next).is_pending(), "it waits");
        self.write();
        let std::task::Poll::Ready(Some(frame)) = poll!(&mut next) else { panic!("it is written and waits") };
        let id = event_id(&frame).expect("an id");
        assert!(self.lost().streams.resume(&id).is_ok(), "what has an id can be asked for elsewhere");
        frame
    }
}

/// Notes, asks, and ends.
async fn talking(keeper: &Keeper, revision: &str) -> (Arc<ScriptedMiddle>, Client) {
    let middle = keeper.middle();
    middle.on("talks", |_, out| async move {
        out.step(note("notifications/1", &json!({}))).await;
        out.step(ask("k", "elicitation/create", &json!({}))).await;
        result(&json!(wait_for_answer(&out).await))
    });
    middle.on("notes", |_, out| async move {
        out.step(note("notifications/1", &json!({}))).await;
        out.step(note("notifications/2", &json!({}))).await;
        tokio::time::sleep(60 * SECOND).await;
        result(&json!("done"))
    });
    middle.on("slow", |_, _| async {
        tokio::time::sleep(60 * SECOND).await;
        result(&json!("done"))
    });
    middle.on("polls", |_, out| async move {
        out.step(pause(700 * MS)).await;
        tokio::time::sleep(2 * SECOND).await;
        result(&json!("done"))
    });
    let client = Client::seated(front(&middle), revision, json!({ "elicitation": {} })).await;
    (middle, client)
}

/// The first so many frames.
async fn first(frames: &mut Frames, count: usize) -> Vec<String> {
    let mut shown = Vec::new();
    for _ in 0..count {
        shown.push(show(&frames.next().await.expect("a frame")));
    }
    shown
}

fn answer(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": {} })
}

#[tokio::test(start_paused = true)]
async fn cursors_requests_and_answers_go_out_when_they_are_written_and_notes_at_once() {
    let keeper = Keeper::new();
    let (_middle, client) = talking(&keeper, "2025-11-25").await;
    let mut frames = stream_of(client.call(1, "talks").await);
    assert_eq!(show(&keeper.next_written(&mut frames).await), "priming 3000");
    let began = Instant::now();
    assert_eq!(show(&frames.next().await.unwrap()), "note notifications/1");
    assert_eq!(began.elapsed(), Duration::ZERO, "a note does not wait");
    assert_eq!(show(&keeper.next_written(&mut frames).await), "ask 1 elicitation/create");
    client.post(&answer(1)).await;
    assert_eq!(show(&keeper.next_written(&mut frames).await), "result 1 \"{}\"");
    assert!(frames.next().await.is_none());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_first_id_of_a_client_without_cursors_is_written_whatever_it_comes_with() {
    let keeper = Keeper::new();
    let (_middle, client) = talking(&keeper, "2025-06-18").await;
    let mut frames = stream_of(client.call(1, "notes").await);
    assert_eq!(show(&keeper.next_written(&mut frames).await), "note notifications/1");
    let began = Instant::now();
    let second = frames.next().await.unwrap();
    assert_eq!((show(&second).as_str(), began.elapsed()), ("note notifications/2", Duration::ZERO));
    let after = keeper.lost();
    let middle = after.middle();
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    after.write();
    let mut frames = stream_of(client.get(event_id(&second).as_deref()));
    let end = frames.next().await.unwrap();
    assert_eq!(show(&end), "error 1 -32603", "the node is lost");
    assert!(frames.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_costs_a_quarter_of_a_second_and_the_id() {
    let keeper = Keeper::new();
    let (_middle, client) = talking(&keeper, "2025-11-25").await;
    let mut frames = stream_of(client.call(1, "talks").await);
    for want in ["retry 3000", "note notifications/1", "ask 1 elicitation/create", "result 1 \"{}\""] {
        let began = Instant::now();
        let frame = frames.next().await.unwrap();
        let waits = !want.starts_with("note");
        assert_eq!((show(&frame).as_str(), event_id(&frame)), (want, None), "nobody would know it");
        let expected = if waits { 250 * MS } else { Duration::ZERO };
        assert!((expected..=expected + 5 * MS).contains(&began.elapsed()), "{want}: {:?}", began.elapsed());
        if want.starts_with("ask") {
            client.post(&answer(1)).await;
        }
    }
    assert!(frames.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_store_that_is_known_to_be_away() {
    let keeper = Keeper::new();
    let (_middle, client) = talking(&keeper, "2025-11-25").await;
    keeper.streams.stalled();
    let mut frames = stream_of(client.call(1, "talks").await);
    let began = Instant::now();
    assert_eq!(show(&frames.next().await.unwrap()), "retry 3000");
    assert_eq!(show(&frames.next().await.unwrap()), "note notifications/1");
    let ask = frames.next().await.unwrap();
    assert_eq!((show(&ask).as_str(), event_id(&ask)), ("ask 1 elicitation/create", None));
    assert_eq!(began.elapsed(), Duration::ZERO);
    keeper.write();
    client.post(&answer(1)).await;
    assert_eq!(show(&keeper.next_written(&mut frames).await), "result 1 \"{}\"", "it is back");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_closed_on_a_client_without_a_cursor() {
    let keeper = Keeper::new();
    let (_middle, client) = talking(&keeper, "2025-11-25").await;
    let mut frames = stream_of(client.call(1, "polls").await);
    assert_eq!(rest(&mut frames).await, ["retry 700", "result 1 \"done\""]);

    let mut frames = stream_of(client.call(2, "polls").await);
    assert_eq!(show(&keeper.next_written(&mut frames).await), "priming 700");
    assert!(frames.next().await.is_none(), "with one it is");
}

#[tokio::test(start_paused = true)]
async fn keep_alives_and_json_do_not_wait_for_the_store() {
    let keeper = Keeper::new();
    let (middle, client) = talking(&keeper, "2025-06-18").await;
    assert_eq!(json_of(client.post(&request(1, "tools/list", json!({}))).await).0, 200);
    assert!(keeper.streams.take_delta().is_none(), "JSON is not stored");
    let mut frames = stream_of(client.call(2, "slow").await);
    for _ in 0..3 {
        assert_eq!(show(&frames.next().await.unwrap()), "comment");
    }
    assert!(keeper.streams.take_delta().is_none(), "nor are signs of life");

    // Nor while something waits: here signs of life are due before the wait is over.
    let settings = Settings { keep_alive_every: 100 * MS, ..Settings::default() };
    let impatient = Client { front: Front::new(middle, settings), ..client };
    let shown = first(&mut stream_of(impatient.call(3, "talks").await), 6).await;
    let waited = |last: &'static str| ["comment", "comment", last];
    assert_eq!(shown, [waited("note notifications/1"), waited("ask 1 elicitation/create")].concat());
}

#[tokio::test(start_paused = true)]
async fn the_standalone_stream_and_a_resumed_one_wait_the_same() {
    let keeper = Keeper::new();
    let (middle, client) = talking(&keeper, "2025-11-25").await;
    let mut standalone = stream_of(client.get(None));
    assert_eq!(show(&keeper.next_written(&mut standalone).await), "priming 3000");

    let mut frames = stream_of(client.call(1, "talks").await);
    let cursor = event_id(&keeper.next_written(&mut frames).await).unwrap();
    drop(frames);
    tokio::task::yield_now().await;
    let mut back = stream_of(client.get(Some(&cursor)));
    let said = back.next().await.unwrap();
    assert_eq!((show(&said).as_str(), event_id(&said).is_some()), ("note notifications/1", true), "it is known");
    assert_eq!(show(&keeper.next_written(&mut back).await), "ask 1 elicitation/create");
    client.post(&answer(1)).await;
    tokio::task::yield_now().await;
    let began = Instant::now();
    let end = back.next().await.unwrap();
    assert_eq!((show(&end).as_str(), event_id(&end)), ("result 1 \"{}\"", None));
    assert!((250 * MS..255 * MS).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert!(back.next().await.is_none());

    let seat = middle.only_seat().unwrap();
    seat.say(note("notifications/2", &json!({})));
    assert_eq!(show(&standalone.next().await.unwrap()), "note notifications/2");
    seat.say(ask("s", "elicitation/create", &json!({})));
    assert_eq!(show(&keeper.next_written(&mut standalone).await), "ask 2 elicitation/create");
}

#[tokio::test(start_paused = true)]
async fn a_client_goes_on_after_its_node_is_lost_where_it_was() {
    let keeper = Keeper::new();
    let (_middle, client) = talking(&keeper, "2025-11-25").await;
    let mut standalone = stream_of(client.get(None));
    let heard = event_id(&keeper.next_written(&mut standalone).await).unwrap();
    let mut frames = stream_of(client.call(1, "talks").await);
    let cursor = event_id(&keeper.next_written(&mut frames).await).unwrap();
    frames.next().await.unwrap();
    keeper.next_written(&mut frames).await;

    let next = keeper.lost();
    let (middle, client) = talking(&next, "2025-11-25").await;
    let mut frames = stream_of(client.get(Some(&cursor)));
    let mut shown = Vec::new();
    while let Some(frame) = {
        next.write();
        frames.next().await
    } {
        shown.push(show(&frame));
    }
    assert_eq!(shown, ["note notifications/1", "ask 1 elicitation/create", "error 1 -32603"]);
    assert_eq!(json_of(client.post(&answer(1)).await).0, 202, "an answer that comes too late means nothing");
    let mut standalone = stream_of(client.get(Some(&heard)));
    middle.only_seat().unwrap().say(note("notifications/2", &json!({})));
    assert_eq!(show(&standalone.next().await.unwrap()), "note notifications/2");
}
