//! One case: a call as a client writes it, and an answer as a server writes it, independent of each other.

use lb_peers::raw::recorder::{Reply, TOKEN};

use crate::generate::{Breaks, Member, Rng, Writer};

/// The era of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

/// How one side frames what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Http,
    Stdio,
}

impl Wire {
    fn breaks(self) -> Breaks {
        match self {
            Self::Http => Breaks::Any,
            Self::Stdio => Breaks::Cr,
        }
    }
}

/// What a client sends.
pub struct Request {
    /// The whole message.
    pub message: Vec<u8>,
    /// Its id as written.
    pub id: Vec<u8>,
    /// Its `params` as written.
    pub params: Vec<u8>,
    /// Its progress token as written, and where that stands in `params`.
    pub token: Option<(usize, Vec<u8>)>,
    /// The tool it names.
    pub tool: String,
}

/// A call whose tool names the case.
pub fn request(seed: u64, case: usize, era: Era, wire: Wire) -> Request {
    let mut rng = Rng::new(seed, 2 * case as u64);
    let tool = format!("case-{case}");
    let params = params(&mut rng, &tool, case, era, wire);
    let token = token_in(&params);
    let mut out = Writer::new(&mut rng, wire.breaks());
    let id = id(out.rng, case);
    out.white();
    let mut envelope = vec![
        Member::text("\"jsonrpc\"", "\"2.0\""),
        Member::text("\"id\"", id.clone()),
        Member::text("\"method\"", out.rng.pick(&["\"tools/call\"", "\"tools/call\"", r#""tools\/call""#])),
        Member::new("\"params\"", |out| out.out.extend_from_slice(&params)),
    ];
    if out.rng.once_in(16) {
        envelope.push(Member::new(out.fresh_name(0), |out| out.value(1)));
    }
    out.members(envelope);
    out.white();
    Request { message: out.out, id: id.into_bytes(), params, token, tool }
}

fn id(rng: &mut Rng, case: usize) -> String {
    let number = case as u64;
    match rng.below(6) {
        0 => (u64::MAX - number).to_string(),
        1 => (i64::MIN + case as i64).to_string(),
        2 => (9_007_199_254_740_993 + 2 * number).to_string(),
        3 => number.to_string(),
        4 => format!(r#""\u0061\/\"\\{number}\n\ud83d\ude00é""#),
        _ => Writer::new(rng, Breaks::Cr).fresh_name(case),
    }
}

/// A known name, now and then written in an unusual way.
fn known(rng: &mut Rng, plain: &str, odd: &str) -> String {
    format!("\"{}\"", if rng.once_in(25) { odd } else { plain })
}

fn params(rng: &mut Rng, tool: &str, case: usize, era: Era, wire: Wire) -> Vec<u8> {
    let mut out = Writer::new(rng, wire.breaks());
    let name = if out.rng.once_in(10) { tool.replacen('a', r"\u0061", 1) } else { tool.to_owned() };
    let mut members = vec![Member::text(known(out.rng, "name", r"n\u0061me"), format!("\"{name}\""))];
    if !out.rng.once_in(40) {
        let key = known(out.rng, "arguments", r"\u0061rguments");
        members.push(Member::new(key, move |out| match out.rng.below(1000) {
            0 => {
                out.put("{\"heavy\":");
                out.heavy(if case.is_multiple_of(4) { 1 << 20 } else { 40 << 10 });
                out.put("}");
            }
            _ => out.object(3),
        }));
    }
    if era == Era::Modern || !out.rng.once_in(3) {
        members.push(Member::new(known(out.rng, "_meta", r"_met\u0061"), move |out| meta(out, era)));
    }
    for number in 0..out.rng.below(3) {
        members.push(Member::new(out.fresh_name(number), |out| out.value(2)));
    }
    out.members(members);
    out.out
}

fn meta(out: &mut Writer<'_>, era: Era) {
    let mut members = Vec::new();
    if era == Era::Modern {
        let version =
            known(out.rng, "io.modelcontextprotocol/protocolVersion", r"io.modelcontextprotocol\/protocolVersion");
        members.push(Member::text(version, "\"2026-07-28\""));
        let capabilities = out.rng.pick(&["{}", "{ }", r#"{"experimental":{"z":1.0,"a":-0}}"#]);
        members.push(Member::text("\"io.modelcontextprotocol/clientCapabilities\"", capabilities));
        members.push(Member::text(
            "\"io.modelcontextprotocol/clientInfo\"",
            r#"{"version":"1","name":"raw\/é","x":{"b":1,"a":2,"b":3}}"#,
        ));
    }
    if out.rng.once_in(2) {
        let key = known(out.rng, "progressToken", r"progress\u0054oken");
        members.push(Member::new(key, |out| {
            let token = out.rng.next();
            match out.rng.below(3) {
                0 => out.put(&token.to_string()),
                1 => out.put(&format!(r#""t\/{token}\u00e9""#)),
                _ => out.put(&(i64::MIN + (token >> 40) as i64).to_string()),
            }
        }));
    }
    for number in 0..out.rng.below(3) {
        members.push(Member::new(out.fresh_name(number).replacen('x', "com.example/", 1), |out| out.value(2)));
    }
    out.members(members);
}

/// The progress token: where it stands in the params, and its text.
fn token_in(params: &[u8]) -> Option<(usize, Vec<u8>)> {
    let is = |name: &[u8], plain: &[u8], odd: &[u8]| name == plain || name == odd;
    let meta = crate::json::members(params).into_iter().find(|(name, _)| is(name, b"_meta", br"_met\u0061"))?.1;
    let members = crate::json::members(meta);
    let token = members.into_iter().find(|(name, _)| is(name, b"progressToken", br"progress\u0054oken"))?.1;
    let at = token.as_ptr() as usize - params.as_ptr() as usize;
    Some((at, token.to_vec()))
}

/// An answer. Notes are progress, which can be told apart on every wire; over HTTP also such as nobody knows.
pub fn reply(seed: u64, turn: usize, era: Era, wire: Wire) -> Reply {
    let mut rng = Rng::new(seed, 2 * turn as u64 + 1);
    let is_error = rng.once_in(8);
    let body = if is_error { error(&mut rng, wire) } else { result(&mut rng, turn, era, wire) };
    let is_stream = wire == Wire::Http && rng.once_in(16);
    let mut notes = Vec::new();
    if rng.once_in(12) {
        notes.push(note(&mut rng, wire, "notifications/progress"));
    }
    if wire == Wire::Http && rng.once_in(16) {
        notes.push(note(&mut rng, wire, "notifications/com.example/odd"));
    }
    Reply { notes, body, is_error, is_stream, waits: false }
}

fn result(rng: &mut Rng, turn: usize, era: Era, wire: Wire) -> Vec<u8> {
    let mut out = Writer::new(rng, wire.breaks());
    let mut members = vec![Member::new("\"content\"", content)];
    if era == Era::Modern {
        members.push(Member::text("\"resultType\"", "\"complete\""));
    }
    if out.rng.once_in(2) {
        members.push(Member::new("\"structuredContent\"", move |out| match out.rng.below(1000) {
            0 => out.heavy(if turn.is_multiple_of(4) { 1 << 20 } else { 40 << 10 }),
            _ => out.object(3),
        }));
    }
    if out.rng.once_in(3) {
        members.push(Member::new("\"_meta\"", |out| {
            let names: Vec<_> = (0..out.rng.below(4)).map(|number| out.fresh_name(number)).collect();
            out.members(names.into_iter().map(|name| Member::new(name, |out| out.value(2))).collect());
        }));
    }
    if out.rng.once_in(3) {
        members.push(Member::text("\"isError\"", out.rng.pick(&["true", "false"])));
    }
    for number in 0..out.rng.below(3) {
        members.push(Member::new(out.fresh_name(number), |out| out.value(3)));
    }
    out.members(members);
    out.out
}

/// Blocks of known and unknown types, with members that no revision knows.
fn content(out: &mut Writer<'_>) {
    out.put("[");
    for n in 0..out.rng.below(3) {
        if n != 0 {
            out.put(",");
        }
        out.white();
        let kind =
            out.rng.pick(&["\"text\"", "\"hologram\"", r#""com.example\/x""#, "\"resource_link\"", "17", "null"]);
        let members = vec![
            Member::text("\"type\"", kind),
            Member::new("\"text\"", |out| out.string()),
            Member::text("\"annotations\"", r#"{"audience":["user","robot"],"priority":1.0e0}"#),
            Member::new(out.fresh_name(0), |out| out.value(2)),
        ];
        out.members(members);
        out.white();
    }
    out.put("]");
}

fn error(rng: &mut Rng, wire: Wire) -> Vec<u8> {
    let mut out = Writer::new(rng, wire.breaks());
    let mut members = vec![
        Member::text("\"code\"", out.rng.pick(&["-32603", "7", "-31999", "1000000"])),
        Member::new("\"message\"", |out| out.string()),
    ];
    if out.rng.once_in(2) {
        members.push(Member::new("\"data\"", |out| out.value(3)));
    }
    if out.rng.once_in(3) {
        members.push(Member::new(out.fresh_name(0), |out| out.value(2)));
    }
    out.members(members);
    out.out
}

fn note(rng: &mut Rng, wire: Wire, method: &str) -> Vec<u8> {
    let mut out = Writer::new(rng, wire.breaks());
    let mut members = vec![Member::new(out.fresh_name(0), |out| out.value(2))];
    if method == "notifications/progress" {
        let progress = out.rng.pick(&["1", "1.0", "0.50", "1e2"]);
        members.push(Member::text("\"progress\"", progress));
        members.push(Member::text("\"progressToken\"", String::from_utf8_lossy(TOKEN)));
        members.push(Member::new("\"message\"", |out| out.string()));
    }
    let mut params = Writer::new(out.rng, wire.breaks());
    params.members(members);
    let params = params.out;
    out.members(vec![
        Member::text("\"jsonrpc\"", "\"2.0\""),
        Member::text("\"method\"", format!("\"{method}\"")),
        Member::new("\"params\"", |out| out.out.extend_from_slice(&params)),
    ]);
    out.out
}
