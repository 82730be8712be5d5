use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lb_exchange::{Command, End, Outcome, Receipt};
use lb_front::Frame;
use lb_testkit::{note, pause, result};
use serde_json::json;

use crate::desk::*;

#[tokio::test(start_paused = true)]
async fn a_lost_call_goes_on_in_its_stream_and_is_resumed_without_gap_or_repetition() {
    let middle = middle();
    middle.on("steps", |_, out| async move {
        for n in 1..=4 {
            out.step(note(&format!("notifications/{n}"), &json!({}))).await;
            tokio::time::sleep(SECOND).await;
        }
        result(&json!("done"))
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let mut frames = stream_of(client.call(1, "steps").await);
    let first = frames.next().await.unwrap();
    let cursor = event_id(&first).unwrap();
    drop(frames);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(middle.log(), ["open steps", "adopt"]);

    let mut frames = stream_of(client.get(Some(&cursor)));
    assert_eq!(
        rest(&mut frames).await,
        ["note notifications/2", "note notifications/3", "note notifications/4", "result 1 \"done\""]
    );
    let mut again = stream_of(client.get(Some(&cursor)));
    assert_eq!(rest(&mut again).await.len(), 4, "an ended stream replays and ends");
    assert_eq!(code_of(client.get(Some("1700000000000-0000000099-1"))), (400, -32000));
    let other = Client::seated(client.front.clone(), "2025-06-18", json!({})).await;
    assert_eq!(code_of(other.get(Some(&cursor))), (400, -32000), "ids of another session mean nothing");
}

#[tokio::test(start_paused = true)]
async fn a_second_reader_ends_the_first_and_need_not_wait_for_the_standalone_stream() {
    let middle = middle();
    middle.on("slow", |_, out| async move {
        out.step(note("notifications/1", &json!({}))).await;
        tokio::time::sleep(60 * SECOND).await;
        result(&json!("done"))
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let _standalone = stream_of(client.get(None));
    let mut frames = stream_of(client.call(1, "slow").await);
    let cursor = event_id(&frames.next().await.unwrap()).unwrap();
    drop(frames);
    let mut first = stream_of(client.get(Some(&cursor)));
    let mut second = stream_of(client.get(Some(&cursor)));
    assert_eq!(rest(&mut first).await, Vec::<String>::new());
    let mut shown = rest(&mut second).await;
    shown.retain(|frame| frame != "comment");
    assert_eq!(shown, ["result 1 \"done\""]);
}

#[tokio::test(start_paused = true)]
async fn without_a_cursor_a_call_runs_on_and_its_result_is_dropped() {
    let middle = middle();
    middle.on("slow", |_, _| async {
        tokio::time::sleep(5 * SECOND).await;
        result(&json!("done"))
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let lost = tokio::time::timeout(SECOND / 2, client.call(1, "slow")).await;
    assert!(lost.is_err());
    assert_eq!(middle.log(), ["open slow", "adopt"], "not cancelled");
    middle.happened("end slow").await;
    // The stream began, but the client never had an id of it.
    let mut frames = stream_of(client.call(2, "slow").await);
    assert_eq!(show(&frames.next().await.unwrap()), "comment");
    drop(frames);
    assert_eq!(middle.log().iter().filter(|line| *line == "adopt").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_detached_call_can_still_be_cancelled() {
    let middle = middle();
    middle.on("waits", |_, out| async move {
        out.step(note("notifications/1", &json!({}))).await;
        lb_testkit::wait_for_cancel(&out).await.1
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let mut frames = stream_of(client.call(1, "waits").await);
    let cursor = event_id(&frames.next().await.unwrap()).unwrap();
    drop(frames);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    client.post(&cancel).await;
    middle.happened("end waits").await;
    assert_eq!(rest(&mut stream_of(client.get(Some(&cursor)))).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pause_closes_the_connection_of_clients_that_know_it() {
    let middle = middle();
    middle.on("polls", |_, out| async move {
        out.step(pause(Duration::from_millis(700))).await;
        loop {
            if let Command::Back = out.command().await {
                return result(&json!("back"));
            }
        }
    });
    let client = Client::seated(front(&middle), "2025-11-25", json!({})).await;
    let _standalone = stream_of(client.get(None));
    let mut frames = stream_of(client.call(1, "polls").await);
    let first = frames.next().await.unwrap();
    assert_eq!(show(&first), "priming 700", "the server's own delay");
    assert!(frames.next().await.is_none(), "the connection is closed before the result");
    let mut frames = stream_of(client.get(event_id(&first).as_deref()));
    assert_eq!(rest(&mut frames).await, ["result 1 \"back\""]);
}

#[tokio::test(start_paused = true)]
async fn a_later_pause_says_when_to_come_back() {
    let middle = middle();
    middle.on("polls", |_, out| async move {
        out.step(note("notifications/1", &json!({}))).await;
        out.step(pause(Duration::from_millis(700))).await;
        tokio::time::sleep(SECOND).await;
        result(&json!("done"))
    });
    let client = Client::seated(front(&middle), "2025-11-25", json!({})).await;
    let mut frames = stream_of(client.call(1, "polls").await);
    let mut cursor = None;
    let mut shown = vec![];
    while let Some(frame) = frames.next().await {
        cursor = event_id(&frame).or(cursor);
        shown.push(show(&frame));
    }
    assert_eq!(shown, ["priming 3000", "note notifications/1", "retry 700"]);
    assert_eq!(rest(&mut stream_of(client.get(cursor.as_deref()))).await, ["result 1 \"done\""]);

    let old = Client::seated(client.front.clone(), "2025-06-18", json!({})).await;
    let shown = rest(&mut stream_of(old.call(1, "polls").await)).await;
    assert_eq!(shown, ["note notifications/1", "result 1 \"done\""], "older clients just wait");
}

#[tokio::test(start_paused = true)]
async fn the_standalone_stream_resumes_where_it_was() {
    let middle = middle();
    let client = Client::seated(front(&middle), "2025-11-25", json!({})).await;
    let seat = middle.seat_of(client.session.as_ref().unwrap()).unwrap();
    let mut frames = stream_of(client.get(None));
    let cursor = event_id(&frames.next().await.unwrap()).unwrap();
    seat.say(note("notifications/1", &json!({})));
    frames.next().await.unwrap();
    // The first connection is still open: a client that comes back with a cursor takes over.
    let mut back = stream_of(client.get(Some(&cursor)));
    assert_eq!(show(&back.next().await.unwrap()), "note notifications/1");
    assert_eq!(rest(&mut frames).await, Vec::<String>::new());
    seat.say(note("notifications/2", &json!({})));
    assert_eq!(show(&back.next().await.unwrap()), "note notifications/2");
}

/// How many receipts were committed and rolled back.
#[derive(Default)]
struct Tally(AtomicU32, AtomicU32);

impl Tally {
    fn receipt(self: &Arc<Self>) -> Receipt {
        let tally = self.clone();
        Receipt::new(move |safe| {
            if safe { &tally.0 } else { &tally.1 }.fetch_add(1, Ordering::SeqCst);
        })
    }

    fn read(&self) -> (u32, u32) {
        (self.0.load(Ordering::SeqCst), self.1.load(Ordering::SeqCst))
    }
}

#[tokio::test(start_paused = true)]
async fn receipts_follow_the_bytes() {
    let middle = middle();
    let tally = Arc::new(Tally::default());
    let scribe = tally.clone();
    middle.on("leases", move |_, out| {
        let receipt = scribe.receipt();
        async move {
            out.step(note("notifications/1", &json!({}))).await;
            tokio::time::sleep(SECOND).await;
            End { receipt: Some(receipt), ..End::ours(Outcome::Result(lb_testkit::raw(&json!({})))) }
        }
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;

    let mut frames = stream_of(client.call(1, "leases").await);
    frames.next().await.unwrap();
    let Some(Frame::Message { receipt: Some(receipt), .. }) = frames.next().await else { panic!("no receipt") };
    assert_eq!(tally.read(), (0, 0), "the transport decides");
    receipt.commit();
    assert_eq!(tally.read(), (1, 0));

    // Lost with a cursor: the stored copy is the delivery.
    let mut frames = stream_of(client.call(2, "leases").await);
    frames.next().await.unwrap();
    drop(frames);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(tally.read(), (2, 0));

    // Lost without: nobody can ask for it.
    drop(stream_of(client.call(3, "leases").await));
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(tally.read(), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn receipts_of_a_batch_follow_the_cursor() {
    let middle = middle();
    let tally = Arc::new(Tally::default());
    let scribe = tally.clone();
    middle.on("leases", move |_, _| {
        let receipt = scribe.receipt();
        async { End { receipt: Some(receipt), ..End::ours(Outcome::Result(lb_testkit::raw(&json!({})))) } }
    });
    middle.on("talks", |_, out| async move {
        tokio::time::sleep(SECOND / 2).await;
        out.step(note("notifications/1", &json!({}))).await;
        result(&json!("talks"))
    });
    let client = Client::seated(front(&middle), "2025-03-26", json!({})).await;
    let batch =
        json!([tool_call(1, "leases"), tool_call(2, "leases"), request(3, "ping", json!({})), tool_call(4, "talks")]);

    drop(stream_of(client.post(&batch).await));
    assert_eq!(tally.read(), (0, 2), "no cursor: nobody can ask for them");
    middle.happened("end talks").await;
    let mut frames = stream_of(client.post(&batch).await);
    assert_eq!(show(&frames.next().await.unwrap()), "result 3 {}");
    drop(frames);
    assert_eq!(tally.read(), (2, 2), "a cursor: the stored copies are the delivery");
}

#[tokio::test(start_paused = true)]
async fn a_call_is_told_whether_its_client_reads() {
    let middle = middle();
    let (tell, mut told) = tokio::sync::mpsc::channel(16);
    middle.on("hears", move |_, out| {
        let tell = tell.clone();
        async move {
            out.step(note("notifications/1", &json!({}))).await;
            loop {
                tell.send(format!("{:?}", out.command().await)).await.unwrap();
            }
        }
    });
    let client = Client::seated(front(&middle), "2025-06-18", json!({})).await;
    let mut frames = stream_of(client.call(1, "hears").await);
    let cursor = event_id(&frames.next().await.unwrap()).unwrap();
    drop(frames);
    assert_eq!(told.recv().await.unwrap(), "Away");
    let frames = stream_of(client.get(Some(&cursor)));
    assert_eq!(told.recv().await.unwrap(), "Back");
    let second = stream_of(client.get(Some(&cursor)));
    assert_eq!(told.recv().await.unwrap(), "Back");
    drop(frames);
    assert_eq!(told.recv().await.unwrap(), "Back", "one of two is left");
    drop(second);
    assert_eq!(told.recv().await.unwrap(), "Away");

    drop(stream_of(client.call(2, "hears").await));
    assert_eq!(told.recv().await.unwrap(), "Alone", "it never had a cursor");
}
