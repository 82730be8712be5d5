//! The judgement: what was sent against what arrived, byte for byte.
//!
//! Two things may differ. Where a frame ends with the line, each CR and LF between tokens is a space. And a progress
//! token, which is ours on the way to the server and the client's own on the way back.

use lb_peers::raw::recorder::{Reply, TOKEN};

use crate::case::{Request, Wire};
use crate::client::Answer;
use crate::json;

/// Everything that one run has shown.
pub struct Seen<'a> {
    pub requests: &'a [Request],
    /// In the order in which calls reach the server.
    pub replies: &'a [Reply],
    /// The server's record.
    pub record: &'a [Vec<u8>],
    /// In the order of the requests.
    pub answers: &'a [Answer],
    /// Notifications that came beside the answers, where the wire does not tell to which they belong.
    pub loose: Option<&'a [(Vec<u8>, Vec<u8>)]>,
    pub behind: Wire,
}

/// Finds the first difference.
pub fn check(seen: &Seen<'_>) -> Result<(), String> {
    let cases = requests(seen)?;
    let mut loose = Vec::new();
    for (turn, case) in cases.into_iter().enumerate() {
        let (request, answer, reply) = (&seen.requests[case], &seen.answers[case], &seen.replies[turn]);
        let at = |what: &str, why: String| format!("case {case}, {what}: {why}");
        same(&request.id, &answer.id).map_err(|why| at("id", why))?;
        if answer.is_error != reply.is_error {
            return Err(at("outcome", format!("an error is {}", answer.is_error)));
        }
        let is_stream = seen.behind == Wire::Http && (reply.is_stream || !reply.notes.is_empty());
        let body = arriving(&reply.body, is_stream, answer.is_line);
        same(&body, &answer.body).map_err(|why| at("answer", why))?;
        let notes = sent_notes(reply, request).into_iter().map(|note| {
            let note = arriving(&note, is_stream, true);
            let member = |name| json::member(&note, name).expect("a note has it").to_vec();
            (member("method"), member("params"))
        });
        match seen.loose {
            Some(_) => loose.extend(notes),
            None => same_notes(&notes.collect::<Vec<_>>(), &answer.notes).map_err(|why| at("notes", why))?,
        }
    }
    let Some(found) = seen.loose else { return Ok(()) };
    let mut found = found.to_vec();
    loose.sort();
    found.sort();
    same_notes(&loose, &found)
}

/// Compares the record with the requests; the cases in the order in which they reached the server.
fn requests(seen: &Seen<'_>) -> Result<Vec<usize>, String> {
    let mut cases = Vec::new();
    for message in seen.record {
        let method = json::member(message, "method").ok_or_else(|| format!("no request: {}", json::show(message)))?;
        match method {
            br#""tools/call""# => {}
            br#""initialize""# | br#""notifications/initialized""# | br#""server/discover""# | br#""tools/list""# => {
                continue;
            }
            _ => return Err(format!("a message that nobody sent: {}", json::show(message))),
        }
        let params = json::member(message, "params").unwrap_or_default();
        let case = case_of(params).ok_or_else(|| format!("a call that nobody sent: {}", json::show(message)))?;
        let request = seen.requests.get(case).ok_or_else(|| format!("no case {case}"))?;
        same_params(request, params, seen.behind).map_err(|why| format!("case {case}, params: {why}"))?;
        cases.push(case);
    }
    let mut sorted = cases.clone();
    sorted.sort_unstable();
    sorted.dedup();
    match (cases.len(), sorted.len()) {
        (calls, distinct) if calls == distinct && calls == seen.requests.len() => Ok(cases),
        (calls, distinct) => {
            Err(format!("{calls} calls of {distinct} cases arrived, {} were sent", seen.requests.len()))
        }
    }
}

/// The number at the end of the tool's name.
fn case_of(params: &[u8]) -> Option<usize> {
    let name = json::members(params).into_iter().find(|(name, _)| matches!(*name, b"name" | br"n\u0061me"))?.1;
    let text = std::str::from_utf8(name).ok()?;
    text.trim_end_matches('"').rsplit('-').next()?.parse().ok()
}

fn same_params(request: &Request, params: &[u8], behind: Wire) -> Result<(), String> {
    let want = if behind == Wire::Stdio { unbroken(&request.params) } else { request.params.clone() };
    let Some((at, token)) = &request.token else { return same(&want, params) };
    // Ours is another value; around it nothing may change.
    let (before, after) = (&want[..*at], &want[at + token.len()..]);
    let Some(rest) = params.strip_prefix(before) else {
        return same(&want, params);
    };
    let Some(own) = rest.strip_suffix(after) else { return same(&want, params) };
    let is_token = own.iter().all(u8::is_ascii_digit) || (own.starts_with(b"\"") && json::string(own, 0) == own.len());
    if is_token && !own.is_empty() { Ok(()) } else { Err(format!("no token of ours: {}", json::show(own))) }
}

/// The notes of a reply that go out, with the client's token in them.
fn sent_notes(reply: &Reply, request: &Request) -> Vec<Vec<u8>> {
    let with_token = |note: &Vec<u8>| {
        let Some(at) = note.windows(TOKEN.len()).position(|window| window == TOKEN) else { return Some(note.clone()) };
        let (_, token) = request.token.as_ref()?;
        Some([&note[..at], token, &note[at + TOKEN.len()..]].concat())
    };
    reply.notes.iter().filter_map(with_token).collect()
}

/// What a client gets of a value: an event stream on the way turns CR into LF, a frame that ends with the line turns
/// both into spaces.
fn arriving(sent: &[u8], is_stream: bool, is_line: bool) -> Vec<u8> {
    match (is_line, is_stream) {
        (true, _) => unbroken(sent),
        (false, true) => sent.iter().map(|byte| if *byte == b'\r' { b'\n' } else { *byte }).collect(),
        (false, false) => sent.to_vec(),
    }
}

/// With spaces for CR and LF, which valid JSON has only between tokens.
pub fn unbroken(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

fn same_notes(want: &[(Vec<u8>, Vec<u8>)], got: &[(Vec<u8>, Vec<u8>)]) -> Result<(), String> {
    if want.len() != got.len() {
        return Err(format!("{} notes where {} were sent", got.len(), want.len()));
    }
    for ((want_method, want_params), (method, params)) in want.iter().zip(got) {
        same(want_method, method)?;
        same(want_params, params)?;
    }
    Ok(())
}

fn same(want: &[u8], got: &[u8]) -> Result<(), String> {
    if want == got {
        return Ok(());
    }
    let at = want.iter().zip(got).take_while(|(a, b)| a == b).count();
    let around = |text: &[u8]| json::show(&text[at.saturating_sub(40)..text.len().min(at + 80)]);
    Err(format!("at byte {at} of {}: sent …{}…, arrived …{}…", want.len(), around(want), around(got)))
}
