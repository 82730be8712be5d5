//! Random histories on a store and on a plain model.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use lb_store::{Applied, Batch, Error, Key, Outcome, Refusal, Store};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::suite::{LONG, key};

const NAMES: [&str; 4] = ["{t}a", "{t}b", "{t}c", "{t}d"];

/// A step as it is drawn; the number is one of [`NAMES`].
#[derive(Clone, Debug)]
enum Draw {
    Set(usize, u8),
    Delete(usize),
    Take(usize),
    Add(usize, i8),
    Expire(usize),
    Append(usize, u64, u64),
    Trim(usize, u64),
    Claim(usize, u8),
}

#[derive(Clone, Debug)]
struct Drawn {
    guards: Vec<(usize, Option<u8>)>,
    steps: Vec<Draw>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let name = 0..NAMES.len();
    let step = prop_oneof![
        3 => (name.clone(), 0..4_u8).prop_map(|(k, v)| Draw::Set(k, v)),
        2 => name.clone().prop_map(Draw::Delete),
        1 => name.clone().prop_map(Draw::Take),
        3 => (name.clone(), any::<i8>()).prop_map(|(k, by)| Draw::Add(k, by)),
        1 => name.clone().prop_map(Draw::Expire),
        5 => (name.clone(), 1..30_u64, 1..5_u64).prop_map(|(k, seq, keep)| Draw::Append(k, seq, keep)),
        1 => (name.clone(), 0..30_u64).prop_map(|(k, before)| Draw::Trim(k, before)),
        2 => (name.clone(), 0..2_u8).prop_map(|(k, holder)| Draw::Claim(k, holder)),
    ];
    let guard = (name, prop::option::of(0..4_u8));
    (vec(guard, 0..2), vec(step, 1..4)).prop_map(|(guards, steps)| Drawn { guards, steps })
}

/// Holds a store against the model, in this many histories of 40 batches. The keys are removed between them.
pub async fn holds(store: Arc<dyn Store>, histories: usize, sealed: bool) {
    let mut runner = TestRunner::deterministic();
    for number in 0..histories {
        let history = vec(drawn(), 40).new_tree(&mut runner).unwrap().current();
        let mut model = Model { sealed, ..Model::default() };
        for (at, drawn) in history.iter().enumerate() {
            let got = store.apply(batch(drawn)).await;
            let want = model.apply(drawn);
            let got = model.unclaimed(&drawn.steps, got);
            let shown = || format!("history {number}, batch {at}: {drawn:?}\nmodel {model:?}");
            assert_eq!(got, want, "{}", shown());
            for name in NAMES {
                assert_eq!(look(&*store, &key(name)).await, model.seen(name), "{name} after {}", shown());
            }
        }
        for name in NAMES {
            store.delete(&key(name)).await.unwrap();
        }
    }
}

fn value(number: u8) -> Bytes {
    // Some are counts, so that counting meets values.
    if number < 2 { number.to_string().into() } else { format!("value {number}").into() }
}

fn batch(drawn: &Drawn) -> Batch {
    let mut batch = Batch::new();
    for (name, holds) in &drawn.guards {
        batch = batch.when(&key(NAMES[*name]), holds.map(value));
    }
    for step in &drawn.steps {
        batch = match step {
            Draw::Set(k, v) => batch.set(&key(NAMES[*k]), value(*v), LONG),
            Draw::Delete(k) => batch.delete(&key(NAMES[*k])),
            Draw::Take(k) => batch.take(&key(NAMES[*k])),
            Draw::Add(k, by) => batch.add(&key(NAMES[*k]), i64::from(*by), LONG),
            Draw::Expire(k) => batch.expire(&key(NAMES[*k]), LONG),
            Draw::Append(k, seq, keep) => batch.append(&key(NAMES[*k]), *seq, format!("entry {seq}"), *keep, LONG),
            Draw::Trim(k, before) => batch.trim(&key(NAMES[*k]), *before),
            Draw::Claim(k, holder) => batch.claim(&key(NAMES[*k]), &format!("holder {holder}"), LONG),
        };
    }
    batch
}

/// What can be seen of a key; of a claim only the holder, because its token is the store's to choose.
#[derive(Clone, Debug, PartialEq)]
enum Thing {
    Value(String),
    /// A count, where those are no values.
    Count(i64),
    Claim(u8),
    Stream(Vec<u64>),
}

async fn look(store: &dyn Store, key: &Key) -> Option<Thing> {
    match store.get(key).await {
        Ok(None) => None,
        Ok(Some(value)) => match lb_store::Claim::read(&value) {
            Some(claim) => Some(Thing::Claim(claim.holder.trim_start_matches("holder ").parse().unwrap())),
            None => Some(Thing::Value(String::from_utf8(value.to_vec()).unwrap())),
        },
        Err(Error::WrongKind { .. }) => {
            let entries = store.range(key, 0, 100).await.unwrap();
            assert!(entries.iter().all(|(seq, entry)| *entry == format!("entry {seq}")), "{entries:?}");
            Some(Thing::Stream(entries.into_iter().map(|(seq, _)| seq).collect()))
        }
        Err(error) => panic!("{error}"),
    }
}

/// As simple as can be: a copy is changed step by step, and kept if no step minds.
#[derive(Clone, Debug, Default)]
struct Model {
    /// Whether counts and claims are no values.
    sealed: bool,
    things: BTreeMap<&'static str, Thing>,
    /// The last position of each stream, which outlives its entries.
    reached: HashMap<&'static str, u64>,
}

/// What came of a batch, in the words of the model.
#[derive(Clone, Debug, PartialEq)]
enum Came {
    Done(Vec<String>),
    Refused(Refusal),
    Wrong,
}

impl Model {
    fn look(&self, name: &str) -> Option<Thing> {
        self.things.get(name).cloned()
    }

    /// What a reader sees.
    fn seen(&self, name: &str) -> Option<Thing> {
        self.look(name).filter(|thing| !self.sealed || matches!(thing, Thing::Value(_) | Thing::Stream(_)))
    }

    fn apply(&mut self, drawn: &Drawn) -> Came {
        let names: Vec<usize> = drawn.steps.iter().map(name_of).collect();
        for (at, name) in names.iter().enumerate() {
            let appends = |index: usize| matches!(drawn.steps[index], Draw::Append(..));
            if (0..at).any(|before| names[before] == *name && !(appends(before) && appends(at))) {
                return Came::Wrong;
            }
        }
        for (index, (name, holds)) in drawn.guards.iter().enumerate() {
            let wanted = holds.map(|number| Thing::Value(String::from_utf8(value(number).to_vec()).unwrap()));
            match self.look(NAMES[*name]) {
                Some(Thing::Stream(_)) => return Came::Wrong,
                found if found != wanted => return Came::Refused(Refusal::Guard(index)),
                _ => {}
            }
        }
        let mut copy = self.clone();
        let mut outcomes = Vec::new();
        for (index, step) in drawn.steps.iter().enumerate() {
            match copy.step(step) {
                Ok(outcome) => outcomes.push(outcome),
                Err(None) => return Came::Wrong,
                Err(Some(last)) => return Came::Refused(Refusal::Order { step: index, last }),
            }
        }
        *self = copy;
        Came::Done(outcomes)
    }

    /// The outcome, or why not: a wrong kind, or the position that was reached.
    fn step(&mut self, step: &Draw) -> Result<String, Option<u64>> {
        let name = NAMES[name_of(step)];
        let found = self.look(name);
        match (step, found) {
            (Draw::Set(_, v), _) => {
                self.put(name, Thing::Value(String::from_utf8(value(*v).to_vec()).unwrap()));
                Ok("done".into())
            }
            (Draw::Delete(_), found) => Ok(format!("found {}", self.forget(name) && found.is_some())),
            (Draw::Expire(_), found) => Ok(format!("found {}", found.is_some())),
            (Draw::Take(_), Some(Thing::Stream(_))) => Err(None),
            (Draw::Take(_), _) => {
                let seen = self.seen(name);
                self.forget(name);
                Ok(format!("taken {seen:?}"))
            }
            (Draw::Add(_, by), found) => {
                let old: i64 = match found {
                    None => 0,
                    Some(Thing::Value(text)) if !self.sealed => text.parse().map_err(|_| None)?,
                    Some(Thing::Count(count)) => count,
                    Some(_) => return Err(None),
                };
                let sum = old + i64::from(*by);
                self.put(name, if self.sealed { Thing::Count(sum) } else { Thing::Value(sum.to_string()) });
                Ok(format!("count {sum}"))
            }
            (Draw::Append(_, seq, keep), None | Some(Thing::Stream(_))) => {
                let last = self.reached.get(name).copied().unwrap_or(0);
                if *seq <= last {
                    return Err(Some(last));
                }
                let mut entries = match self.look(name) {
                    Some(Thing::Stream(entries)) => entries,
                    _ => Vec::new(),
                };
                entries.push(*seq);
                let drop = entries.len().saturating_sub(*keep as usize);
                self.things.insert(name, Thing::Stream(entries.split_off(drop)));
                self.reached.insert(name, *seq);
                Ok("done".into())
            }
            (Draw::Trim(_, before), Some(Thing::Stream(entries))) => {
                let left: Vec<u64> = entries.iter().copied().filter(|seq| before <= seq).collect();
                let gone = entries.len() - left.len();
                self.things.insert(name, Thing::Stream(left));
                Ok(format!("trimmed {gone}"))
            }
            (Draw::Trim(..), None) => Ok("trimmed 0".into()),
            (Draw::Claim(_, holder), None) => {
                self.put(name, Thing::Claim(*holder));
                Ok(format!("claimed {holder}"))
            }
            (Draw::Claim(_, holder), Some(Thing::Claim(present))) if present == *holder => {
                Ok(format!("claimed {holder}"))
            }
            (Draw::Claim(..), Some(Thing::Claim(present))) => Ok(format!("held {present}")),
            (Draw::Append(..) | Draw::Trim(..) | Draw::Claim(..), _) => Err(None),
        }
    }

    fn put(&mut self, name: &'static str, thing: Thing) {
        self.reached.remove(name);
        self.things.insert(name, thing);
    }

    fn forget(&mut self, name: &str) -> bool {
        self.reached.remove(name);
        self.things.remove(name).is_some()
    }

    /// The store's answer in the words of the model.
    fn unclaimed(&self, steps: &[Draw], got: Result<Applied, Error>) -> Came {
        let holder = |claim: &lb_store::Claim| claim.holder.trim_start_matches("holder ").to_owned();
        match got {
            Err(Error::WrongKind { .. } | Error::WrongShape(_)) => Came::Wrong,
            Err(error) => panic!("{error} for {steps:?}"),
            Ok(Applied::Refused(refusal)) => Came::Refused(refusal),
            Ok(Applied::Done(outcomes)) => {
                let words = outcomes.iter().map(|outcome| match outcome {
                    Outcome::Done => "done".to_owned(),
                    Outcome::Taken(taken) => {
                        let thing = taken.as_ref().map(|value| match lb_store::Claim::read(value) {
                            Some(claim) => Thing::Claim(holder(&claim).parse().unwrap()),
                            None => Thing::Value(String::from_utf8(value.to_vec()).unwrap()),
                        });
                        format!("taken {thing:?}")
                    }
                    Outcome::Count(count) => format!("count {count}"),
                    Outcome::Found(found) => format!("found {found}"),
                    Outcome::Trimmed(count) => format!("trimmed {count}"),
                    Outcome::Claimed(claim) => format!("claimed {}", holder(claim)),
                    Outcome::Held(claim) => format!("held {}", holder(claim)),
                });
                Came::Done(words.collect())
            }
        }
    }
}

fn name_of(step: &Draw) -> usize {
    match step {
        Draw::Set(k, _)
        | Draw::Delete(k)
        | Draw::Take(k)
        | Draw::Add(k, _)
        | Draw::Expire(k)
        | Draw::Append(k, ..)
        | Draw::Trim(k, _)
        | Draw::Claim(k, _) => *k,
    }
}
