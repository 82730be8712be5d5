//! The event log against a naive model of it, over many random histories.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lb_session::{Event, EventLog, Filter, Gap, Happening, Lease, Limits, Taken, Ulid, event_json};
use lb_wire::{Raw, Text};

use crate::support::at;

const HISTORIES: u64 = 100_000;
const STEPS_MAX: u64 = 200;
const AGE_MAX: u64 = 400;

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Waiting,
    Leased(Lease),
    Delivered,
}

struct Row {
    id: Ulid,
    since: Ulid,
    server: usize,
    /// Which notification it is, if it is one; those from 2 on are merged.
    note: Option<usize>,
    count: u32,
    up: u64,
    state: State,
}

impl Row {
    /// What it takes in a list.
    fn bytes(&self) -> usize {
        let (what, server, unix) = (happening(self.note, self.count), name(self.server), at(self.up).unix);
        let data = what.data(&server, unix);
        let event = Event { seq: 0, id: self.id, kind: what.kind(), server, data, unix };
        event_json(&event).as_bytes().len() + 1
    }
}

type Lost = Option<(u64, Ulid, Ulid)>;

fn join(one: Lost, other: Lost) -> Lost {
    match (one, other) {
        (Some(a), Some(b)) => Some((a.0 + b.0, a.1.min(b.1), a.2.max(b.2))),
        _ => one.or(other),
    }
}

#[derive(Default)]
struct Model {
    limits: Limits,
    rows: Vec<Row>,
    ever: Vec<Ulid>,
    gone: Vec<Ulid>,
    lost: Lost,
    lost_ever: u64,
    told: Vec<(Lease, Lost)>,
    merged: u64,
    delivered: u64,
}

impl Model {
    fn matching(&self, filter: &Filter, row: &Row) -> bool {
        match filter {
            Filter::All => true,
            Filter::Notifications { server: None } => row.note.is_some(),
            Filter::Notifications { server: Some(server) } => row.note.is_some() && *server == name(row.server),
        }
    }

    fn waiting(&self, filter: &Filter) -> usize {
        self.rows.iter().filter(|row| row.state == State::Waiting && self.matching(filter, row)).count()
    }

    fn remove(&mut self, place: usize) {
        let row = self.rows.remove(place);
        self.gone.push(row.id);
        if row.state == State::Waiting {
            self.lost_ever += 1;
            self.lost = join(self.lost, Some((1, row.id, row.id)));
        }
    }

    fn bound_notes(&mut self, server: usize) {
        let filter = Filter::Notifications { server: Some(name(server)) };
        while self.limits.notifications_max < self.waiting(&filter) {
            let oldest = self.rows.iter().position(|row| row.state == State::Waiting && self.matching(&filter, row));
            self.remove(oldest.expect("one is there"));
        }
    }

    fn add(&mut self, id: Ulid, server: usize, note: Option<usize>, up: u64) {
        let mut row = Row { id, since: id, server, note, count: 1, up, state: State::Waiting };
        let same = |old: &&Row| {
            old.state == State::Waiting && old.server == server && old.note == note && note.is_some_and(|n| 2 <= n)
        };
        let newest = self.ever.last().copied();
        if let Some(old) = self.rows.last().filter(|old| Some(old.id) == newest).filter(same) {
            (row.since, row.count) = (old.since, old.count + 1);
            self.rows.pop();
            self.merged += 1;
        }
        self.rows.push(row);
        self.ever.push(id);
        self.bound_notes(server);
        while self.limits.events_max < self.rows.len() {
            let first = |state| self.rows.iter().position(|row| row.state == state);
            let Some(place) = first(State::Delivered).or_else(|| first(State::Waiting)) else { break };
            self.remove(place);
        }
    }

    /// Which events a take should get.
    fn taken(&self, filter: &Filter, items_max: usize, bytes_max: usize) -> Vec<Ulid> {
        let (mut ids, mut bytes) = (Vec::new(), 0);
        for row in self.rows.iter().filter(|row| row.state == State::Waiting && self.matching(filter, row)) {
            bytes += if bytes_max == usize::MAX { 0 } else { row.bytes() };
            if ids.len() == items_max || (bytes_max < bytes && !ids.is_empty()) {
                break;
            }
            ids.push(row.id);
        }
        ids
    }

    fn check_taken(&mut self, taken: &Taken, want: &[Ulid], tells: bool) {
        let got: Vec<_> = taken.events.iter().map(|event| event.id).collect();
        assert_eq!(got, want);
        let lost = if tells && !want.is_empty() { self.lost.take() } else { None };
        let told = taken.dropped.as_ref().map(|event| {
            let text = |name| event.data.member(name).expect("a member").to_text().expect("a text").into_owned();
            let id = |name| Ulid::parse(&text(name)).expect("an id");
            let count = event.data.member("count").expect("a count").as_str().parse().expect("a number");
            (count, id("firstLostId"), id("lastLostId"))
        });
        assert_eq!(told, lost);
        let fresh = self.rows.iter_mut().filter(|row| row.state == State::Waiting && want.contains(&row.id));
        let fresh: Vec<_> = fresh.collect();
        assert_eq!(taken.lease.is_some(), !fresh.is_empty() || lost.is_some());
        if let Some(lease) = taken.lease {
            fresh.into_iter().for_each(|row| row.state = State::Leased(lease));
            self.told.push((lease, lost));
        }
    }

    fn settle(&mut self, lease: Lease, safe: bool) {
        let Some(place) = self.told.iter().position(|(held, _)| *held == lease) else { return };
        let (_, lost) = self.told.remove(place);
        let mut servers = Vec::new();
        for row in self.rows.iter_mut().filter(|row| row.state == State::Leased(lease)) {
            row.state = if safe { State::Delivered } else { State::Waiting };
            self.delivered += u64::from(safe);
            servers.push(row.server);
        }
        if !safe {
            self.lost = join(self.lost, lost);
            servers.into_iter().for_each(|server| self.bound_notes(server));
        }
    }

    /// The events after an id and the gap before them, or `None` when the id is unknown.
    fn after(&self, id: Ulid) -> Option<(Vec<Ulid>, Option<Gap>)> {
        let last = *self.ever.last()?;
        if id < self.ever[0] || last < id {
            return None;
        }
        let known = id == last || self.rows.iter().any(|row| row.since <= id && id <= row.id);
        let older = self.rows.first().is_none_or(|row| id < row.since);
        if !known && !older {
            return None;
        }
        let rows = self.rows.iter().filter(|row| id < row.id && !matches!(row.state, State::Leased(_)));
        let gap = (!known).then(|| Gap {
            count: (self.gone.iter().max() == Some(&id)).then_some(0),
            before: self.rows.first().map_or(last, |row| row.id),
        });
        Some((rows.map(|row| row.id).collect(), gap))
    }

    fn acknowledge(&mut self, id: Ulid) {
        for row in self.rows.iter_mut().filter(|row| row.id <= id && row.state != State::Delivered) {
            row.state = State::Delivered;
            self.delivered += 1;
        }
    }

    fn prune(&mut self, now: u64) {
        let old = |row: &Row| row.up + AGE_MAX <= now && !matches!(row.state, State::Leased(_));
        while let Some(place) = self.rows.iter().position(old) {
            self.remove(place);
        }
    }

    fn deadline(&self) -> Option<Duration> {
        let free = self.rows.iter().filter(|row| !matches!(row.state, State::Leased(_)));
        free.map(|row| Duration::from_millis(row.up + AGE_MAX)).min()
    }

    fn cursor(&self) -> Option<Ulid> {
        let Some(first) = self.rows.iter().position(|row| row.state == State::Waiting) else {
            return self.ever.last().copied();
        };
        match first {
            0 => self.ever.first().copied().filter(|id| *id < self.rows[0].id),
            first => Some(self.rows[first - 1].id),
        }
    }
}

fn name(server: usize) -> Text {
    Text::from_static(["files", "mail", "web"][server])
}

fn happening(note: Option<usize>, count: u32) -> Happening {
    let (method, params) = match note {
        None => return Happening::ServerHealthRestored,
        Some(0) => ("notifications/progress", Some(r#"{"progress":1}"#)),
        Some(1) => ("notifications/custom", None),
        Some(2) => ("notifications/tools/list_changed", None),
        Some(3) => ("notifications/resources/updated", Some(r#"{"uri":"a:1"}"#)),
        Some(_) => ("notifications/resources/updated", Some(r#"{"uri":"a:2"}"#)),
    };
    Happening::Notification { method: Text::from_static(method), params: params.map(Raw::from_static), count }
}

/// Small, fast and the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn index(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll(sides as u64)).expect("a small number")
    }
}

/// How often each thing happened.
#[derive(Default, Debug)]
struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    fn add(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }
}

struct History {
    dice: Dice,
    log: EventLog,
    model: Model,
    now: u64,
    readers: Vec<Option<Lease>>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let limits = Limits {
            events_max: 2 + dice.index(20),
            notifications_max: 1 + dice.index(6),
            event_age_max: Duration::from_millis(AGE_MAX),
            ..Limits::default()
        };
        let readers = vec![None; 3 + dice.index(3)];
        let model = Model { limits, ..Model::default() };
        Self { dice, log: EventLog::new(limits), model, now: 0, readers }
    }

    fn step(&mut self, counts: &mut Counts) {
        match self.dice.roll(20) {
            0..=9 => self.add(counts),
            10..=13 => self.take(counts),
            14..=17 => self.settle(counts),
            18 => self.after(counts),
            _ => self.pass_time(counts),
        }
        self.compare();
    }

    fn add(&mut self, counts: &mut Counts) {
        self.now += self.dice.roll(5);
        let server = self.dice.index(3);
        let note = Some(self.dice.index(8)).filter(|note| *note < 5);
        let id = self.log.add(&name(server), &happening(note, 1), at(self.now));
        self.model.add(id, server, note, self.now);
        counts.add("added", 1);
    }

    fn filter(&mut self) -> Filter {
        match self.dice.roll(4) {
            0 => Filter::Notifications { server: None },
            1 => Filter::Notifications { server: Some(name(self.dice.index(3))) },
            _ => Filter::All,
        }
    }

    fn take(&mut self, counts: &mut Counts) {
        let Some(reader) = self.readers.iter().position(Option::is_none) else { return };
        let (filter, items_max) = (self.filter(), 1 + self.dice.index(8));
        let bytes_max = if self.dice.roll(3) == 0 { 200 * self.dice.index(5) } else { usize::MAX };
        let want = self.model.taken(&filter, items_max, bytes_max);
        let taken = self.log.take(&filter, items_max, bytes_max);
        self.model.check_taken(&taken, &want, filter == Filter::All);
        assert_eq!(taken.remaining, self.model.waiting(&filter));
        assert_eq!(taken.gap, None);
        self.readers[reader] = taken.lease;
        counts.add("taken", u64::from(taken.lease.is_some()));
        counts.add("took_nothing", u64::from(taken.lease.is_none()));
        counts.add("told", u64::from(taken.dropped.is_some()));
    }

    fn settle(&mut self, counts: &mut Counts) {
        let reader = self.dice.index(self.readers.len());
        let Some(lease) = self.readers[reader].take() else { return };
        let safe = self.dice.roll(3) != 0;
        if safe {
            self.log.commit(lease);
            counts.add("committed", 1);
        } else {
            self.log.roll_back(lease);
            counts.add("rolled_back", 1);
        }
        self.model.settle(lease, safe);
        // Whatever comes a second time changes nothing.
        if self.dice.roll(2) == 0 { self.log.commit(lease) } else { self.log.roll_back(lease) }
    }

    fn after(&mut self, counts: &mut Counts) {
        let Some(reader) = self.readers.iter().position(Option::is_none) else { return };
        let id = match (self.dice.roll(8), self.model.ever.len()) {
            // Newer than all, or between two of them: never an event.
            (0, _) | (_, 0) => Ulid::mint(at(self.now)),
            (1, _) => *self.model.ever.last().expect("one is there"),
            (2..=5, events) => self.model.ever[events - 1 - self.dice.index(events.min(10))],
            (_, events) => self.model.ever[self.dice.index(events)],
        };
        let Some((want, gap)) = self.model.after(id) else {
            assert!(self.log.after(&id.to_string()).is_err(), "{id}");
            counts.add("refused", 1);
            return;
        };
        self.model.acknowledge(id);
        let taken = self.log.after(&id.to_string()).expect("a known id");
        assert_eq!(taken.gap, gap);
        assert_eq!(taken.remaining, 0);
        self.model.check_taken(&taken, &want, true);
        self.readers[reader] = taken.lease;
        counts.add("acknowledged", u64::from(gap.is_none()));
        counts.add("acknowledged_evicted", u64::from(gap.is_some()));
        counts.add("told", u64::from(taken.dropped.is_some()));
    }

    fn pass_time(&mut self, counts: &mut Counts) {
        self.now += self.dice.roll(300);
        self.log.prune(at(self.now));
        self.model.prune(self.now);
        counts.add("pruned", 1);
    }

    fn compare(&mut self) {
        let filter = self.filter();
        assert_eq!(self.log.waiting(&filter), self.model.waiting(&filter));
        assert_eq!(self.log.next_deadline(), self.model.deadline());
        assert_eq!(self.log.dropped_ever(), self.model.lost_ever);
        assert_eq!(self.log.last_id(), self.model.ever.last().copied());
        assert_eq!(self.log.cursor(), self.model.cursor());
    }

    /// Every event is delivered once, lost, merged into another, or still there.
    fn finish(self, counts: &mut Counts) {
        let model = &self.model;
        let left = model.rows.iter().filter(|row| row.state != State::Delivered).count();
        let accounted = model.delivered + model.lost_ever + model.merged + left as u64;
        assert_eq!(accounted, model.ever.len() as u64);
        counts.add("delivered", model.delivered);
        counts.add("lost", model.lost_ever);
        counts.add("merged", model.merged);
    }
}

/// Four tests, so that none takes long where many run at once.
#[test]
fn the_log_does_what_a_naive_one_does_in_a_first_quarter_of_histories() {
    run(0);
}

#[test]
fn the_log_does_what_a_naive_one_does_in_a_second_quarter_of_histories() {
    run(1);
}

#[test]
fn the_log_does_what_a_naive_one_does_in_a_third_quarter_of_histories() {
    run(2);
}

#[test]
fn the_log_does_what_a_naive_one_does_in_a_fourth_quarter_of_histories() {
    run(3);
}

#[expect(clippy::print_stdout, reason = "a test says what it has tried")]
fn run(quarter: u64) {
    let (mut counts, since) = (Counts::default(), Instant::now());
    let histories = HISTORIES / 4;
    for seed in quarter * histories + 1..=(quarter + 1) * histories {
        let mut history = History::new(seed);
        for step in 0..=history.dice.roll(STEPS_MAX) {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| history.step(&mut counts)));
            assert!(outcome.is_ok(), "history {seed}, step {step}");
        }
        history.finish(&mut counts);
    }
    println!("{histories} histories in {:?}: {counts:?}", since.elapsed());
    for (what, seen) in counts.0 {
        assert!(histories / 10 < seen, "{what}: {seen}");
    }
}
