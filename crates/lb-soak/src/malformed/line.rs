//! Damaged lines on stdin.

use lb_peers::raw::RawStdio;
use lb_testkit::generate::{self, Rng, damage};
use serde_json::Value;
use serde_json::value::RawValue;

use super::corpus::WORDS;
use super::judge::{Kind, answer, id_of, members};

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asks {
    /// Nothing: it is empty, a notification or a response.
    Nothing,
    /// An error, with any id or none.
    Error,
    /// An answer with this id.
    Answer(String),
    /// An array of messages, answered or refused as a whole.
    Batch,
    /// One that asks for nothing: it may be refused as a whole.
    QuietBatch,
}

fn asks(line: &[u8]) -> Asks {
    if line.trim_ascii().is_empty() {
        return Asks::Nothing;
    }
    let Ok(raw) = serde_json::from_slice::<&RawValue>(line) else { return Asks::Error };
    if raw.get().starts_with('[') {
        let members: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
        let quiet = !members.is_empty() && members.iter().all(|one| asks(one.get().as_bytes()) == Asks::Nothing);
        return if quiet { Asks::QuietBatch } else { Asks::Batch };
    }
    let Some(members) = members(line) else { return Asks::Error };
    let part = |name: &str| members.get(name).map(String::as_str);
    let responds = part("result").or(part("error")).is_some() && part("method").is_none();
    let notifies = part("method").is_some_and(|method| method.starts_with('"')) && part("id").is_none();
    match id_of(line) {
        _ if part("jsonrpc") == Some("\"2.0\"") && (responds || notifies) => Asks::Nothing,
        Some(id) => Asks::Answer(id),
        None => Asks::Error,
    }
}

/// Sends one line and a ping behind it, and judges what comes back: the ping is always answered.
///
/// # Errors
/// When there is no answer, more than one, or none that a client can understand.
pub async fn exchange(stdio: &mut RawStdio, n: u64, line: &[u8]) -> Result<Kind, String> {
    let lost = |error: std::io::Error| format!("no answer: {error}");
    let ping = format!("\n{{\"jsonrpc\":\"2.0\",\"id\":\"ping-{n}\",\"method\":\"ping\"}}\n");
    stdio.send_raw(&[line, ping.as_bytes()].concat()).await.map_err(lost)?;
    let pong = format!(r#"{{"jsonrpc":"2.0","id":"ping-{n}","result":{{}}}}"#);
    let mut lines = Vec::new();
    loop {
        let line = stdio.text().await.map_err(lost)?;
        if line == pong {
            break;
        }
        lines.push(line);
    }
    let asks = asks(line);
    let is_answer =
        |line: &&String| (line.contains("\"result\"") || line.contains("\"error\"")) && !line.contains("\"method\"");
    // A call to the server may take longer than a ping.
    let wanted = |line: &&String| match &asks {
        Asks::Answer(id) => line.contains(&format!("\"id\":{id}")) || line.contains("\"id\":null"),
        Asks::Batch => is_answer(line),
        Asks::Nothing | Asks::QuietBatch | Asks::Error => true,
    };
    let waits = matches!(asks, Asks::Answer(_) | Asks::Batch);
    while waits && !lines.iter().any(|line| wanted(&line)) {
        lines.push(stdio.text().await.map_err(lost)?);
    }
    let answers: Vec<&String> = lines.iter().filter(is_answer).collect();
    judge(line, &asks, &answers)
}

fn judge(line: &[u8], asks: &Asks, answers: &[&String]) -> Result<Kind, String> {
    let refused = |one: &str| match answer(one.as_bytes(), None)? {
        Kind::Error => Ok(Kind::Refused),
        other => Err(format!("{other:?}: {one}")),
    };
    match (asks, answers) {
        // The second looks like a message and is none: repeated names, params that are no object, result and error.
        (Asks::Error | Asks::Nothing, [one]) => refused(one),
        (Asks::Answer(id), [one]) => {
            // What the gateway itself cannot read has no id; what only the server cannot read has one.
            let ours = ["Parse error: ", "Invalid Request: "].iter().any(|start| one.contains(start));
            let nameless = one.contains("\"id\":null");
            if is_odd(line) && nameless && !ours {
                return Err(format!("nobody can tell whose answer this is: {one}"));
            }
            answer(one.as_bytes(), Some(id.as_str()).filter(|_| !nameless))
        }
        (Asks::Batch | Asks::QuietBatch, [_]) => Ok(Kind::Error),
        (Asks::Nothing | Asks::QuietBatch, []) => Ok(Kind::Quiet),
        (asks, answers) => Err(format!("{answers:?} for {asks:?}")),
    }
}

/// A bad line.
#[must_use]
pub fn line(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut line = match rng.below(8) {
        0 => generate::message(rng).into_bytes(),
        1 => (0..rng.below(200)).map(|_| rng.byte()).collect(),
        _ => {
            let mut line = rng.pick(corpus);
            damage(rng, &mut line, corpus, WORDS);
            line
        }
    };
    line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
    line
}

/// Whether a line is JSON, but not to the fixture: halves of surrogate pairs, numbers that no double holds.
#[must_use]
pub fn is_odd(line: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(line).is_ok() && serde_json::from_slice::<Value>(line).is_err()
}
