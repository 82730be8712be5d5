use lb_wire::Raw;

use super::*;
use crate::step::{AskKey, AskKind, Resume};

fn note(method: &'static str) -> Note {
    Note::new(Text::from_static(method), None)
}

fn log(n: usize) -> FeedItem {
    FeedItem::Log(Note::new(Text::from_static("notifications/message"), Some(Raw::value(&n))))
}

fn ask() -> FeedItem {
    let ask = Ask {
        key: AskKey(Text::from_static("1")),
        kind: AskKind::Roots,
        method: Text::from_static("roots/list"),
        params: None,
        resume: Resume::Live,
    };
    FeedItem::Ask(ask, Remote::deaf())
}

#[test]
fn logs_drop_the_oldest_and_count() {
    let feed = Feed::default();
    for n in 0..Feed::NOTES_MAX + 3 {
        feed.push(log(n)).unwrap();
    }
    let items = feed.drain();
    assert_eq!(items.len(), Feed::NOTES_MAX);
    assert!(matches!(&items[0], FeedItem::Log(note) if note.params.as_ref().unwrap().as_str() == "3"));
    assert_eq!(feed.dropped(), 3);
}

#[test]
fn asks_are_refused_beyond_the_cap_and_never_dropped() {
    let feed = Feed::default();
    for _ in 0..Feed::ASKS_MAX {
        feed.push(ask()).unwrap();
    }
    assert!(feed.push(ask()).is_err());
    for n in 0..10_000 {
        feed.push(log(n)).unwrap();
    }
    assert_eq!(feed.drain().iter().filter(|item| matches!(item, FeedItem::Ask(..))).count(), Feed::ASKS_MAX);
}

#[test]
fn changes_and_updates_are_remembered_once() {
    let feed = Feed::default();
    for n in 0..5000 {
        feed.push(FeedItem::Changed(List::Tools, note("notifications/tools/list_changed"))).unwrap();
        let uri = Text::from(format!("file:///{}", n % 1500).as_str());
        feed.push(FeedItem::Updated(uri, note("notifications/resources/updated"))).unwrap();
    }
    let items = feed.drain();
    assert_eq!(items.iter().filter(|item| matches!(item, FeedItem::Changed(..))).count(), 1);
    assert_eq!(items.len(), 1 + Feed::UPDATED_MAX);
}

#[test]
fn a_mark_is_taken_once_everything_before_it_is() {
    let feed = Feed::default();
    let mark = feed.push(log(0)).unwrap();
    assert!(!feed.is_taken(mark));
    feed.drain();
    assert!(feed.is_taken(mark));
    assert!(!feed.is_taken(feed.push(log(1)).unwrap()));
}

#[test]
fn asking_and_withdrawing_is_passed_on_but_cannot_fill_memory() {
    let feed = Feed::default();
    let withdrawal = || FeedItem::Withdraw(AskKey(Text::from_static("1")));
    feed.push(ask()).unwrap();
    feed.push(withdrawal()).unwrap();
    assert!(matches!(feed.drain().as_slice(), [FeedItem::Ask(..), FeedItem::Withdraw(_)]));

    for _ in 0..10_000 {
        drop(feed.push(ask()));
        feed.push(withdrawal()).unwrap();
    }
    let mark = feed.mark();
    assert!(feed.drain().len() <= 2 * Feed::ASKS_MAX);
    assert!(feed.is_taken(mark));

    // Of an ask that was read, or that never was.
    for _ in 0..10_000 {
        feed.push(withdrawal()).unwrap();
    }
    assert_eq!(feed.drain().len(), Feed::ASKS_MAX);
}
