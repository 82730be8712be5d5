//! What is left of the file when the power goes: all that was synced, and anything of what was written since.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use crate::disk::file::File;
use crate::disk::writer::{Work, write};
use crate::{Batch, Durability, Error, Key, Limits};

/// What was done to the file, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct History(Arc<Mutex<Vec<Event>>>);

#[derive(Clone, Debug)]
enum Event {
    Length(u64),
    Wrote(u64, Vec<u8>),
    Synced,
    /// Not done to the file: a batch with this number was acknowledged.
    Acknowledged(u64),
}

impl History {
    pub(super) fn length(&self, length: u64) {
        self.0.lock().push(Event::Length(length));
    }

    pub(super) fn wrote(&self, offset: u64, data: &[u8]) {
        self.0.lock().push(Event::Wrote(offset, data.to_vec()));
    }

    pub(super) fn synced(&self) {
        self.0.lock().push(Event::Synced);
    }
}

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

fn key(number: u64, part: &str) -> Key {
    Key::parse(&format!("{{{number}}}{part}")).unwrap()
}

/// Writes batches one after the other, and returns what was done to the file meanwhile.
fn written(folder: &Path, durability: Durability, batches: u64) -> Vec<Event> {
    let file = File::open(folder, &Limits::default(), durability).unwrap();
    let ttl = Duration::from_secs(600);
    for number in 0..batches {
        let batch = Batch::new().set(&key(number, "a"), vec![7; 300], ttl).append(&key(number, "s"), 1, "x", 9, ttl);
        // Pages are used again only after something was removed.
        let old = Batch::new().delete(&key(number.wrapping_sub(20), "a"));
        for batch in [batch, old] {
            let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
            let (answer, mut answered) = oneshot::channel();
            write(&file, vec![Work { batch, answer, _place: place }]);
            answered.try_recv().unwrap().unwrap();
        }
        file.history.0.lock().push(Event::Acknowledged(number));
    }
    file.history.0.lock().clone()
}

/// The file when the power goes after `events`: of what was not synced, each write is there or not, as the dice say.
fn image(events: &[Event], dice: &mut Dice) -> Vec<u8> {
    let safe = events.iter().rposition(|event| matches!(event, Event::Synced)).unwrap_or(0);
    let mut image = Vec::new();
    for (index, event) in events.iter().enumerate() {
        if safe < index && dice.roll(2) == 0 {
            continue;
        }
        match event {
            Event::Length(length) => image.resize(usize::try_from(*length).unwrap(), 0),
            Event::Wrote(offset, data) => {
                let start = usize::try_from(*offset).unwrap();
                let end = start + data.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[start..end].copy_from_slice(data);
            }
            Event::Synced | Event::Acknowledged(_) => {}
        }
    }
    image
}

/// What is lost when the power goes after `events`.
fn check(events: &[Event], dice: &mut Dice) -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("state.redb"), image(events, dice)).unwrap();
    let file = File::open(folder.path(), &Limits::default(), Durability::None)?;
    let acknowledged: BTreeSet<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Acknowledged(number) => Some(*number),
            _ => None,
        })
        .collect();
    let last = acknowledged.last().copied().unwrap_or(0);
    for number in acknowledged {
        // The next one may have been under way, and have removed it.
        let is_kept = last + 1 < number + 20;
        assert!(!is_kept || file.value(&key(number, "a"))?.is_some(), "batch {number} of {last} is lost");
        assert_eq!(file.range(&key(number, "s"), 0, 9)?.len(), 1, "batch {number} of {last} is lost");
    }
    Ok(())
}

#[test]
fn a_power_cut_takes_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let history = written(folder.path(), Durability::Event, 60);
    // From the first time on that the file was whole.
    let first = history.iter().position(|event| matches!(event, Event::Acknowledged(_))).unwrap();
    let mut dice = Dice(7);
    for _ in 0..60 {
        let cut = first + 1 + dice.roll(history.len() - first);
        check(&history[..cut], &mut dice).unwrap();
    }
}

/// What the setting says of itself: without syncing, a cut may take anything, and what is left is read or refused.
#[test]
fn without_syncing_a_power_cut_leaves_a_file_that_is_read_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let history = written(folder.path(), Durability::None, 30);
    assert!(!history.iter().any(|event| matches!(event, Event::Synced)));
    let mut dice = Dice(9);
    for _ in 0..20 {
        let cut = 1 + dice.roll(history.len());
        let left = tempfile::tempdir().unwrap();
        std::fs::write(left.path().join("state.redb"), image(&history[..cut], &mut dice)).unwrap();
        match File::open(left.path(), &Limits::default(), Durability::None) {
            Ok(_) | Err(Error::Corrupt { .. } | Error::Refused(_) | Error::Away { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}
