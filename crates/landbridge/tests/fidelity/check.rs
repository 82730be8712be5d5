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
    /// Whether the sides speak different eras, so that some members are ours to add and to take away.
    pub is_bridged: bool,
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
        let unchanged = match seen.is_bridged && !reply.is_error {
            true => same_members(&body, &answer.body, |name| RESULT_OURS.contains(&name)),
            false => same(&body, &answer.body),
        };
        unchanged.map_err(|why| at("answer", why))?;
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
        let unchanged = match seen.is_bridged {
            true => bridged_params(&request.params, params),
            false => same_params(request, params, seen.behind),
        };
        unchanged.map_err(|why| format!("case {case}, params: {why}"))?;
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

/// What a result has in one era only.
const RESULT_OURS: [&[u8]; 3] = [b"resultType", b"ttlMs", b"cacheScope"];

fn is_meta(name: &[u8]) -> bool {
    matches!(name, b"_meta" | br"_met\u0061")
}

/// Members of `_meta` that the protocol owns, by the end of their names, however it is spelled.
fn is_ours(name: &[u8]) -> bool {
    [&b"protocolVersion"[..], b"clientCapabilities", b"clientInfo"].iter().any(|end| name.ends_with(end))
}

fn is_token(name: &[u8]) -> bool {
    matches!(name, b"progressToken" | br"progress\u0054oken")
}

/// Towards another era `_meta` is ours to write; what the client put there for others, and everything beside it, stays.
fn bridged_params(want: &[u8], got: &[u8]) -> Result<(), String> {
    same_members(want, got, is_meta)?;
    let meta =
        |params| json::members(params).into_iter().find(|(name, _)| is_meta(name)).map_or(&b"{}"[..], |(_, meta)| meta);
    let (want, got) = (meta(want), meta(got));
    same_members(want, got, |name| is_ours(name) || is_token(name))?;
    let token = |meta| json::members(meta).into_iter().find(|(name, _)| is_token(name)).map(|(_, token)| token);
    match (token(want), token(got)) {
        (None, None) => Ok(()),
        (Some(theirs), Some(ours)) if theirs != ours => Ok(()),
        (theirs, ours) => Err(format!("token {:?} became {:?}", theirs.map(json::show), ours.map(json::show))),
    }
}

/// Compares the members of two objects in order, names and values as written, but for those that `skip` names.
fn same_members(want: &[u8], got: &[u8], skip: impl Fn(&[u8]) -> bool) -> Result<(), String> {
    let kept = |text| json::members(text).into_iter().filter(|(name, _)| !skip(name)).collect::<Vec<_>>();
    let (wanted, found) = (kept(want), kept(got));
    if wanted.len() != found.len() {
        return Err(format!("{} members of {}: {}", found.len(), wanted.len(), json::show(got)));
    }
    for ((want_name, want), (name, got)) in wanted.into_iter().zip(found) {
        same(want_name, name)?;
        same(want, got)?;
    }
    Ok(())
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
