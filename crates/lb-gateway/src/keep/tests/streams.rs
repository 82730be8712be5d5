//! Resumable streams that outlive their process.

use std::future::poll_fn;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};

use lb_exchange::{AskKey, AskKind, EventId, StreamId};
use lb_wire::Id;

use super::store::shaky;
use super::*;

const LAPSE: Duration = Duration::from_secs(11);

fn append(seat: &Arc<dyn Seat>, stream: StreamId, text: &str) -> EventId {
    seat.streams().append(stream, Some(Raw::string(text).into_line())).expect("room")
}

/// What follows an event, with the ids, and whether the stream is over.
fn after(seat: &Arc<dyn Seat>, last: &EventId) -> Option<(Vec<(EventId, String)>, bool)> {
    let mut tail = seat.streams().resume(&last.0).ok()?;
    let mut found = Vec::new();
    loop {
        match tail.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(stored)) => {
                let text = String::from_utf8(stored.line.as_bytes().to_vec()).expect("text");
                found.push((stored.id, text));
            }
            Poll::Ready(None) => return Some((found, true)),
            Poll::Pending => return Some((found, false)),
        }
    }
}

fn text(text: &str) -> String {
    format!("{text:?}")
}

/// An open stream of request 7, the standalone stream, and one that has ended; their first ids.
fn talk(seat: &Arc<dyn Seat>) -> [EventId; 3] {
    let streams = seat.streams();
    let (open, ended) = (streams.open(&mut [Id::number(7)].iter()), streams.open(&mut [Id::number(8)].iter()));
    let cursors =
        [open, streams.standalone(), ended].map(|stream| streams.append(stream, None).expect("room for a cursor"));
    append(seat, open, "half");
    append(seat, streams.standalone(), "news");
    append(seat, ended, "answer");
    streams.finish(ended);
    cursors
}

fn sequence(id: &EventId) -> u64 {
    id.0.split('-').nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

fn stream_of(id: &EventId) -> StreamId {
    StreamId(id.0.split('-').nth(2).and_then(|number| number.parse().ok()).expect("a number"))
}

fn next_ask(seat: &Arc<dyn Seat>) -> u64 {
    let ask = seat.desk().ask(Remote::deaf(), AskKey("k".into()), AskKind::Roots).expect("room");
    ask.to_number().expect("a number")
}

#[tokio::test]
async fn a_stream_that_never_rests_is_written_all_the_same() {
    let (shaky, _, store) = shaky().await;
    let process = A.start(&store).await;
    let id = process.begin().await;
    let seat = process.seat(&id).await.expect("there");
    let stream = seat.streams().open(&mut [Id::number(7)].iter());
    let (talks, left) = (seat.clone(), AtomicUsize::new(100));
    let says_more = move || {
        let again = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if again {
            append(&talks, stream, "more");
        }
    };
    assert!(shaky.meanwhile.0.set(Box::new(says_more)).is_ok());
    append(&seat, stream, "first");
    let kept = poll_fn(|cx| seat.streams().poll_kept(stream, cx)).await;
    assert!(kept, "nobody is told that the store takes nothing");
    process.stop().await;
}

#[tokio::test]
async fn a_client_resumes_after_a_restart_with_the_id_it_had() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    let id = first.begin().await;
    let other = first.begin().await;
    let seat = first.seat(&id).await.expect("there");
    let [open, standalone, ended] = talk(&seat);
    let asked = next_ask(&seat);
    let before = after(&seat, &ended).expect("known");
    first.stop().await;

    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    let seat = second.seat(&id).await.expect("it is back");
    assert_eq!(after(&seat, &ended), Some(before), "ids and all");
    let (rest, over) = after(&seat, &open).expect("known");
    assert!(over && rest.len() == 2 && rest[0].1 == text("half"), "{rest:?}");
    assert!(rest[1].1.contains(r#""id":7"#) && rest[1].1.contains(r#""reason":"node_lost""#), "{rest:?}");
    let (rest, over) = after(&seat, &standalone).expect("known");
    assert_eq!((rest.len(), over), (1, false), "goes on");
    let news = append(&seat, seat.streams().standalone(), "more");
    assert_eq!(after(&seat, &rest[0].0), Some((vec![(news.clone(), text("more"))], false)), "no gap, and none twice");
    assert!(rest[0].0 < news && asked < next_ask(&seat), "nothing is given out twice");
    let stranger = second.seat(&other).await.expect("there");
    assert!(after(&stranger, &open).is_none(), "an id means something in its session only");
    second.stop().await;

    let third = Node { boot: "3", ..ALONE }.start(&store).await;
    let seat = third.seat(&id).await.expect("again");
    assert_eq!(after(&seat, &rest[0].0), Some((vec![(news, text("more"))], false)));
    assert_eq!(after(&seat, &open).expect("known").0.len(), 2, "it was told once");
}

#[tokio::test(start_paused = true)]
async fn after_the_loss_of_a_node_streams_go_on_where_they_were_written() {
    let store = memory().await;
    let (a, b) = (A.start(&store).await, B.start(&store).await);
    let id = a.begin().await;
    let seat = a.seat(&id).await.expect("there");
    let [open, standalone, _] = talk(&seat);
    a.written().await;
    a.crash();
    let unwritten = append(&seat, seat.streams().standalone(), "lost");
    let report = append(&seat, stream_of(&open), "more");
    let unheard = append(&seat, seat.streams().open(&mut [Id::number(9)].iter()), "never written");
    tokio::time::sleep(LAPSE).await;

    let seat = b.seat(&id).await.expect("taken over");
    assert!(after(&seat, &open).expect("known").1, "its call went with its node");
    let (rest, over) = after(&seat, &report).expect("it says which stream it was of");
    assert!(over && rest.len() == 1 && rest[0].1.contains("node_lost"), "{rest:?}");
    assert_eq!(after(&seat, &unwritten), Some((Vec::new(), false)), "and this one goes on");
    assert!(after(&seat, &unheard).is_none(), "nobody knows that stream any more");
    assert_eq!(after(&seat, &standalone).expect("known").0.len(), 1);
    let next = append(&seat, seat.streams().standalone(), "next");
    assert_eq!(after(&seat, &unwritten).expect("known").0, [(next.clone(), text("next"))]);
    assert!(sequence(&unwritten) + 100_000 < sequence(&next), "far from all that may have been given out");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_when_it_is_written_and_when_the_store_is_away() {
    let (shaky, _, store) = shaky().await;
    let a = A.start(&store).await;
    let id = a.begin().await;
    let seat = a.seat(&id).await.expect("there");
    let standalone = seat.streams().standalone();
    let kept = || poll_fn(|cx| seat.streams().poll_kept(standalone, cx));
    append(&seat, standalone, "a");
    let soon = Duration::from_millis(20);
    assert_eq!(tokio::time::timeout(soon, kept()).await, Ok(true), "written by itself");
    assert!(!store.range(&key(&id, "streams"), 0, 9).await.expect("an answer").is_empty());

    shaky.fails.store(usize::MAX, Ordering::SeqCst);
    append(&seat, standalone, "b");
    assert_eq!(tokio::time::timeout(soon, kept()).await, Ok(false), "nobody waits for a store that is away");
    shaky.fails.store(0, Ordering::SeqCst);
    a.written().await;
    assert_eq!(tokio::time::timeout(soon, kept()).await, Ok(true));
    // Done without an answer: it is not written twice, and counts.
    shaky.mute.store(1, Ordering::SeqCst);
    append(&seat, standalone, "c");
    while !a.keeper().write_marked().await {}
    assert_eq!(tokio::time::timeout(soon, kept()).await, Ok(true));
    let entries = store.range(&key(&id, "streams"), 0, 9).await.expect("an answer");
    assert_eq!(entries.len(), 3, "{entries:?}");
}

#[tokio::test]
async fn streams_that_a_store_has_lost_or_that_cannot_be_read_do_not_harm_their_session() {
    let store = memory().await;
    let first = ALONE.start(&store).await;
    first.keeper().finishing.cancel();
    let id = first.begin().await;
    let seat = first.seat(&id).await.expect("there");
    let [_, standalone, _] = talk(&seat);
    first.written().await;
    for part in ["owner", "head", "record", "events", "streams"] {
        store.delete(&key(&id, part)).await.expect("gone");
    }
    append(&seat, seat.streams().standalone(), "more");
    while !first.keeper().write_marked().await {}
    first.stop().await;
    let second = Node { boot: "2", ..ALONE }.start(&store).await;
    let seat = second.seat(&id).await.expect("there");
    assert_eq!(after(&seat, &standalone).expect("known").0.len(), 2, "it was written anew");
    second.stop().await;

    let entries = store.range(&key(&id, "streams"), 0, 99).await.expect("an answer");
    let last = entries.last().expect("an entry").0;
    store.append(&key(&id, "streams"), last + 1, "{\"odd\":1}", 99, TTL).await.expect("written");
    let third = Node { boot: "3", ..ALONE }.start(&store).await;
    let seat = third.seat(&id).await.expect("the session is there all the same");
    assert!(after(&seat, &standalone).is_none());
    let fresh = append(&seat, seat.streams().standalone(), "fresh");
    third.stop().await;
    let fourth = Node { boot: "4", ..ALONE }.start(&store).await;
    assert!(after(&fourth.seat(&id).await.expect("there"), &fresh).is_some(), "and goes on from there");
}

#[tokio::test]
async fn streams_are_gone_with_their_session_and_cost_nothing_without_messages() {
    let store = memory().await;
    let process = ALONE.start(&store).await;
    let id = process.begin().await;
    process.written().await;
    assert!(!keys(&store).await.contains(&key(&id, "streams").as_str().to_owned()), "nothing was said");
    let seat = process.seat(&id).await.expect("there");
    talk(&seat);
    process.written().await;
    assert!(keys(&store).await.contains(&key(&id, "streams").as_str().to_owned()));
    seat.end(Cancel::SessionEnd);
    seat.ended().await;
    assert_eq!(keys(&store).await, [key(&id, "owner").as_str()]);
}
