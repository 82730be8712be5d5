//! A batch as the words of `apply.lua`, and the script's answer as what came of it.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use redis::{Script, ScriptInvocation, Value};

use crate::batch::milliseconds;
use crate::claim::Claim;
use crate::valkey::link::Ask;
use crate::{Applied, Batch, Error, Key, Outcome, Refusal, Step, plan};

static APPLY: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("apply.lua")));

const ANSWER: Error = Error::WrongShape("the server answered a batch with something else");

/// The script with its keys and words, and the batch that they came from.
pub(super) struct Call {
    batch: Batch,
    /// As they are named in the batch, in the order of the script's keys.
    names: Vec<Key>,
    invocation: ScriptInvocation<'static>,
}

/// The keys of a script, each once.
struct Keys<'a> {
    prefix: &'a str,
    places: HashMap<String, usize>,
    names: Vec<Key>,
    invocation: ScriptInvocation<'static>,
}

impl Keys<'_> {
    /// The place of a key on the server among the script's keys, counted from 1.
    fn place(&mut self, on_server: String, name: &Key) -> usize {
        let next = self.places.len() + 1;
        let (names, invocation) = (&mut self.names, &mut self.invocation);
        *self.places.entry(on_server).or_insert_with_key(|on_server| {
            names.push(name.clone());
            invocation.key(on_server.as_str());
            next
        })
    }

    fn key(&mut self, key: &Key) -> usize {
        let on_server = format!("{}{key}", self.prefix);
        self.place(on_server, key)
    }

    fn token(&mut self, key: &Key) -> usize {
        let on_server = key.token_on_server(self.prefix);
        self.place(on_server, key)
    }
}

impl Call {
    pub(super) fn new(batch: Batch, prefix: &str) -> Self {
        let mut keys = Keys { prefix, places: HashMap::new(), names: Vec::new(), invocation: APPLY.prepare_invoke() };
        let mut words = Words(Vec::new());
        words.number(batch.guards.len());
        for guard in &batch.guards {
            words.number(keys.key(&guard.key));
            words.number(guard.holds.iter().chain(&guard.or).count());
            guard.holds.iter().chain(&guard.or).for_each(|value| words.bytes(value));
        }
        for step in &batch.steps {
            words.step(step, &mut keys);
        }
        let Keys { names, mut invocation, .. } = keys;
        for word in words.0 {
            invocation.arg(&*word);
        }
        Self { batch, names, invocation }
    }

    pub(super) fn ask(&self) -> Ask<'_> {
        Ask::Script(&self.invocation)
    }

    /// A key that says where the batch belongs; `None` for one without keys.
    pub(super) fn key(&self) -> Option<&Key> {
        self.names.first()
    }

    /// What the script's answer means.
    pub(super) fn read(&self, answer: Value) -> Result<Applied, Error> {
        let Value::Array(parts) = answer else { return Err(ANSWER) };
        let mut parts = parts.into_iter();
        let mut next = || parts.next().ok_or(ANSWER);
        match &*text(next()?)? {
            "done" => {
                let outcomes = self.batch.steps.iter().map(|step| outcome(step, next()?));
                Ok(Applied::Done(outcomes.collect::<Result<_, _>>()?))
            }
            "guard" => Ok(Applied::Refused(Refusal::Guard(number(next()?)?))),
            "order" => {
                let step = number(next()?)?;
                Ok(Applied::Refused(Refusal::Order { step, last: number(next()?)? }))
            }
            "wrong" => {
                let index: usize = number(next()?)?;
                let key = self.names.get(index.wrapping_sub(1)).ok_or(ANSWER)?;
                Err(match &*text(next()?)? {
                    "stream" => plan::stream(key),
                    "value" => plan::not_a_stream(key),
                    "count" => plan::not_a_count(key),
                    "claim" => plan::not_a_claim(key),
                    _ => Error::WrongShape("a count stays below 2^53"),
                })
            }
            _ => Err(ANSWER),
        }
    }
}

struct Words(Vec<Bytes>);

impl Words {
    fn text(&mut self, text: &'static str) {
        self.0.push(Bytes::from_static(text.as_bytes()));
    }

    fn bytes(&mut self, bytes: &Bytes) {
        self.0.push(bytes.clone());
    }

    fn number(&mut self, number: impl ToString) {
        self.0.push(number.to_string().into());
    }

    fn step(&mut self, step: &Step, keys: &mut Keys<'_>) {
        let kind = match step {
            Step::Set { .. } => "set",
            Step::Delete { .. } => "delete",
            Step::Take { .. } => "take",
            Step::Add { .. } => "add",
            Step::Expire { .. } => "expire",
            Step::Append { .. } => "append",
            Step::Trim { .. } => "trim",
            Step::Claim { .. } => "claim",
        };
        self.text(kind);
        self.number(keys.key(step.key()));
        match step {
            Step::Delete { .. } | Step::Take { .. } => {}
            Step::Set { value, ttl, .. } => {
                self.bytes(value);
                self.number(milliseconds(*ttl));
            }
            Step::Add { by, ttl, .. } => {
                self.number(by);
                self.number(milliseconds(*ttl));
            }
            Step::Expire { key, ttl } => {
                self.number(keys.token(key));
                self.number(milliseconds(*ttl));
            }
            Step::Append { seq, entry, keep, ttl, .. } => {
                self.number(seq);
                self.bytes(entry);
                self.number(keep);
                self.number(milliseconds(*ttl));
            }
            Step::Trim { before, .. } => self.number(before),
            Step::Claim { key, holder, ttl } => {
                self.number(keys.token(key));
                self.bytes(&Bytes::copy_from_slice(holder.as_bytes()));
                self.number(milliseconds(*ttl));
            }
        }
    }
}

fn outcome(step: &Step, answer: Value) -> Result<Outcome, Error> {
    Ok(match step {
        Step::Set { .. } | Step::Append { .. } => Outcome::Done,
        Step::Delete { .. } | Step::Expire { .. } => Outcome::Found(number::<u64>(answer)? != 0),
        Step::Trim { .. } => Outcome::Trimmed(number(answer)?),
        Step::Add { .. } => Outcome::Count(number(answer)?),
        Step::Take { .. } => Outcome::Taken(match answer {
            Value::Nil | Value::Boolean(false) => None,
            other => Some(bytes(other)?),
        }),
        Step::Claim { .. } => {
            let answer = bytes(answer)?;
            let (sign, claim) = answer.split_first().ok_or(ANSWER)?;
            let claim = Claim::read(claim).ok_or(ANSWER)?;
            if *sign == b'+' { Outcome::Claimed(claim) } else { Outcome::Held(claim) }
        }
    })
}

fn bytes(value: Value) -> Result<Bytes, Error> {
    match value {
        Value::BulkString(bytes) => Ok(bytes.into()),
        Value::SimpleString(text) => Ok(text.into()),
        _ => Err(ANSWER),
    }
}

fn text(value: Value) -> Result<String, Error> {
    String::from_utf8(bytes(value)?.into()).map_err(|_| ANSWER)
}

fn number<N: std::str::FromStr>(value: Value) -> Result<N, Error> {
    let text = match value {
        Value::Int(number) => number.to_string(),
        other => text(other)?,
    };
    text.parse().map_err(|_| ANSWER)
}
