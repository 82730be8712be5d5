use std::collections::VecDeque;

use lb_exchange::Outcome;
use proptest::prelude::*;

use super::*;

/// A connection, and how its requests end.
struct Line {
    calls: Calls,
    written: u64,
    slots: Vec<(u64, Arc<Slot>)>,
}

impl Line {
    fn new() -> Self {
        Self { calls: Calls::new(), written: 0, slots: Vec::new() }
    }

    fn write(&mut self) -> usize {
        let (id, slot) = self.calls.open(Names::default(), true).unwrap();
        self.written += 1;
        slot.place().set(self.written);
        self.slots.push((id, slot));
        self.slots.len() - 1
    }

    fn note(&mut self, readable: bool) {
        self.written += 1;
        self.calls.unasked(self.written, readable);
    }

    fn answer(&self, at: usize) {
        if let Some(slot) = self.calls.answered(self.slots[at].0) {
            slot.end(End::ours(Outcome::Result(Raw::empty_object())));
        }
    }

    fn error(&self, parsing: bool) {
        self.calls.unreadable(End::error(-32700, "unreadable", None), parsing);
    }

    /// How each request ended: `.` for not at all, `r` for a result, `e` for the error, `c` when nobody waits.
    fn ends(&self) -> String {
        let end = |(id, slot): &(u64, Arc<Slot>)| {
            let state = slot.state.lock();
            match state.end.as_ref().map(|end| &end.outcome) {
                Some(Outcome::Error(_)) => 'e',
                Some(_) => 'r',
                None if self.calls.get(*id).is_none() => 'c',
                None => '.',
            }
        };
        self.slots.iter().map(end).collect()
    }
}

/// Plays a story: `w` writes a request, a digit answers it, `e` is an error without an id that says "no JSON", `i` one
/// that says something else, `n` a notification, `N` one that may be unreadable, `p0` progress, `c0` a cancel.
fn play(story: &str) -> String {
    let mut line = Line::new();
    let mut words = story.bytes().filter(|byte| *byte != b' ');
    let digit = |byte: u8| usize::from(byte - b'0');
    while let Some(word) = words.next() {
        match word {
            b'w' => drop(line.write()),
            b'e' => line.error(true),
            b'i' => line.error(false),
            b'n' | b'N' => line.note(word == b'n'),
            b'p' => drop(line.calls.heard(line.slots[digit(words.next().unwrap())].0)),
            b'c' => assert!(line.calls.cancelled(line.slots[digit(words.next().unwrap())].0)),
            _ => line.answer(digit(word)),
        }
    }
    line.ends()
}

#[test]
fn an_error_without_an_id_ends_the_request_that_it_must_be_about() {
    for (story, want) in [
        ("w e", "e"),
        ("w 0 w e", "re"),
        // The first was read before the second was answered, and no error came then.
        ("w w 1 w e", ".re"),
        // Either can be meant, until one is answered.
        ("w w e", ".."),
        ("w w e 0", "re"),
        ("w w e 1", "er"),
        ("w w e e", "ee"),
        ("w w w e e 1", "ere"),
        ("w w w e 1", ".r."),
        ("w w w e 1 2", "err"),
        // What is written later is not meant.
        ("w w e w 0", "re."),
        ("w w e w e 0", "ree"),
        ("w w e w w e 0 2", "rere"),
        // Progress shows that a request was read.
        ("w p0 w e", ".e"),
        ("w w e p0", ".e"),
        // Said late, after the answer to what was read later.
        ("w w 1 e", "er"),
        ("w w w 2 e", "..r"),
        ("w w w 2 e 0", "rer"),
        // Nobody is there to be told.
        ("e w 0", "r"),
        ("w 0 e w", "r."),
    ] {
        assert_eq!(play(story), want, "story {story:?}");
    }
}

#[test]
fn a_request_that_may_be_innocent_is_not_ended() {
    for (story, want) in [
        // A cancelled request may have been the one.
        ("w c0 w e", "c."),
        ("w c0 w 1 w e", "cre"),
        ("w w e c0", "c."),
        ("w w c1 0 w e", "rc."),
        ("w w w e c0 1", "cr."),
        ("w w c0 1 e w 2", "crr"),
        ("w w w c1 2 e", ".cr"),
        // It is not if it is answered all the same, or if there are two errors.
        ("w w c1 0 1 w e", "rce"),
        ("w w e c0 0", "ce"),
        ("w c0 w e e", "ce"),
        ("w c0 e w e", "ce"),
        // So may a line that is no request: if it cannot be read, or if the server answers what it should not.
        ("w n e", "e"),
        ("n w e", "e"),
        ("n w i", "."),
        ("N w e", "."),
        ("N w 0 w e", "re"),
        ("N e w e", "e"),
        ("N N e w e", "."),
        ("N w e e", "e"),
        ("N N e e w e", "e"),
        ("n w 0 w i", "re"),
    ] {
        assert_eq!(play(story), want, "story {story:?}");
    }
}

#[derive(Clone, Debug)]
enum Event {
    Write { bad: bool },
    Note { bad: bool, answered: bool },
    Cancel(usize),
    Read,
    Answer(usize),
    Progress(usize),
    Deliver,
}

/// What the server says.
#[derive(Debug)]
enum Said {
    Answer(usize),
    Progress(usize),
    Unreadable,
    Rude,
}

/// A server that reads in order, complains at once, and answers when it likes.
#[derive(Default)]
struct Server {
    unread: VecDeque<Event>,
    requests: usize,
    working: Vec<usize>,
    said: VecDeque<Said>,
}

impl Server {
    fn read(&mut self) {
        match self.unread.pop_front() {
            Some(Event::Write { bad }) => {
                let this = self.requests;
                self.requests += 1;
                if bad { self.said.push_back(Said::Unreadable) } else { self.working.push(this) }
            }
            Some(Event::Note { bad: true, .. }) => self.said.push_back(Said::Unreadable),
            Some(Event::Note { answered: true, .. }) => self.said.push_back(Said::Rude),
            _ => {}
        }
    }

    fn answer(&mut self, nth: usize) {
        if !self.working.is_empty() {
            let this = self.working.remove(nth % self.working.len());
            self.said.push_back(Said::Answer(this));
        }
    }

    fn progress(&mut self, nth: usize) {
        if !self.working.is_empty() {
            self.said.push_back(Said::Progress(self.working[nth % self.working.len()]));
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => prop::bool::weighted(0.4).prop_map(|bad| Event::Write { bad }),
        1 => (prop::bool::weighted(0.3), any::<bool>()).prop_map(|(bad, answered)| Event::Note { bad, answered }),
        1 => any::<usize>().prop_map(Event::Cancel),
        4 => Just(Event::Read),
        3 => any::<usize>().prop_map(Event::Answer),
        1 => any::<usize>().prop_map(Event::Progress),
        4 => Just(Event::Deliver),
    ]
}

fn deliver(line: &Line, said: Option<Said>) {
    match said {
        Some(Said::Answer(at)) => line.answer(at),
        Some(Said::Progress(at)) => drop(line.calls.heard(line.slots[at].0)),
        Some(Said::Unreadable) => line.error(true),
        Some(Said::Rude) => line.error(false),
        None => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_unreadable_are_told_and_nobody_else(events in prop::collection::vec(event(), 0..60), stubborn: bool) {
        let (mut line, mut server) = (Line::new(), Server::default());
        let (mut bad, mut sure) = (Vec::new(), true);
        for event in events {
            match event {
                Event::Write { bad: is_bad } => {
                    line.write();
                    bad.push(is_bad);
                    server.unread.push_back(event);
                }
                Event::Note { bad, .. } => {
                    line.note(!bad);
                    server.unread.push_back(event);
                }
                Event::Cancel(nth) if !line.slots.is_empty() => {
                    let at = nth % line.slots.len();
                    if line.calls.cancelled(line.slots[at].0) && !stubborn {
                        // It may never answer, and then nobody knows.
                        sure = false;
                        server.working.retain(|working| *working != at);
                    }
                }
                Event::Cancel(_) => {}
                Event::Read => server.read(),
                Event::Answer(nth) => server.answer(nth),
                Event::Progress(nth) => server.progress(nth),
                Event::Deliver => deliver(&line, server.said.pop_front()),
            }
        }
        while !server.unread.is_empty() {
            server.read();
        }
        while !server.working.is_empty() {
            server.answer(0);
        }
        while !server.said.is_empty() {
            deliver(&line, server.said.pop_front());
        }
        for (at, (end, bad)) in line.ends().chars().zip(bad).enumerate() {
            prop_assert!(bad || end != 'e', "{at} is innocent: {}", line.ends());
            prop_assert!(!bad || !sure || end != '.', "{at} waits: {}", line.ends());
        }
    }
}

#[test]
fn asking_and_withdrawing_cannot_fill_memory() {
    use lb_exchange::{Ask, AskKey, AskKind, Resume, Step};
    use lb_wire::Text;
    let calls = Calls::new();
    let (_, slot) = calls.open(Names::default(), true).expect("it is open");
    let key = |text: &'static str| AskKey(Text::from_static(text));
    let ask = |text| Ask {
        key: key(text),
        kind: AskKind::Roots,
        method: Text::from_static("roots/list"),
        params: None,
        resume: Resume::Live,
    };
    let next = || slot.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    for _ in 0..10_000 {
        assert!(slot.ask(ask("seen by nobody")));
        slot.withdraw(&key("seen by nobody"));
        slot.withdraw(&key("never asked"));
    }
    let told = std::iter::from_fn(|| match next() {
        std::task::Poll::Ready(step) => Some(step),
        std::task::Poll::Pending => None,
    });
    assert!(told.count() <= STEPS_MAX + 1, "it waits until somebody reads");

    assert!(slot.ask(ask("seen")));
    assert!(matches!(next(), std::task::Poll::Ready(Step::Ask(_))));
    slot.withdraw(&key("seen"));
    slot.withdraw(&key("seen"));
    assert!(matches!(next(), std::task::Poll::Ready(Step::Withdraw { key }) if &*key.0 == "seen"));
    assert!(next().is_pending(), "told once");
}

#[test]
fn an_ask_is_answered_once_and_not_after_the_server_has_taken_it_back() {
    use lb_exchange::{Ask, Command, OpenAsks, Remote};
    use lb_wire::Text;
    let (key, open) = (AskKey(Text::from_static("1")), OpenAsks::default());
    let known = open.clone();
    let remote = Remote::sink(move |command| matches!(command, Command::Answer(key, _) if known.close(&key)));
    let stray = || Resume::Stray(Stray::new(key.clone(), AskKind::Roots, open.clone(), remote.clone()));
    let live = || Resume::Live;
    for make in [&stray as &dyn Fn() -> Resume, &live] {
        let calls = Calls::new();
        let (_, slot) = calls.open(Names::default(), true).expect("it is open");
        let ask = || Ask {
            key: key.clone(),
            kind: AskKind::Roots,
            method: Text::from_static("roots/list"),
            params: None,
            resume: make(),
        };
        assert!(slot.ask(ask()));
        assert!(slot.answered(&key), "it waits for its answer");
        assert!(!slot.answered(&key), "it has it");
        assert!(slot.ask(ask()));
        open.close(&key);
        slot.withdraw(&key);
        assert!(!slot.answered(&key), "it has taken it back");
    }
}

#[test]
fn the_end_of_a_clients_request_is_remembered_and_that_of_our_own_is_not() {
    let calls = Calls::new();
    let listen = Names { listen: Some(Raw::empty_object()), of_client: true, ..Names::default() };
    for names in [Names::default(), listen] {
        let (id, _) = calls.open(names, false).unwrap();
        calls.answered(id);
        assert_eq!(calls.ended(), None);
    }
    let of_client = || Names { of_client: true, ..Names::default() };
    let (id, _) = calls.open(of_client(), true).unwrap();
    assert_eq!(calls.ended(), None, "it goes on");
    calls.answered(id);
    let first = calls.ended().expect("it has ended");
    let (id, _) = calls.open(of_client(), true).unwrap();
    calls.cancelled(id);
    assert!(calls.ended().is_some_and(|ended| first <= ended));
}
