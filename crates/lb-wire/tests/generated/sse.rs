//! The event stream decoder, against the standard's algorithm over the whole stream at once.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use lb_wire::sse::{self, Decoder, Event};
use lb_wire::{Line, Raw};

/// True when the stream holds an event with data.
pub fn check(input: &[u8]) -> bool {
    let want = events(input);
    let hash = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    // Byte by byte only where it is quick.
    let bytewise = (input.len() <= 100).then_some(0);
    for pattern in [u64::MAX, hash].into_iter().chain(bytewise) {
        let mut decoder = Decoder::new(1 << 20);
        let got: Vec<Event> = chunks(input, pattern).flat_map(|chunk| decode(&mut decoder, chunk)).collect();
        assert_eq!(got, want, "in chunks by {pattern:#x}");
        let last = want.iter().rev().find_map(|event| event.id.clone()).unwrap_or_default();
        assert_eq!(decoder.last_event_id(), last, "in chunks by {pattern:#x}");
    }
    check_bound(input, &want);
    check_cut(input, hash, &want);
    want.iter().filter(|event| event.has_data).for_each(check_round_trip);
    want.iter().any(|event| event.has_data)
}

fn decode(decoder: &mut Decoder, chunk: &[u8]) -> Vec<Event> {
    decoder.push(Bytes::copy_from_slice(chunk));
    decoder.by_ref().map(|event| event.expect("far below the bound")).collect()
}

/// The stream in pieces: whole for `u64::MAX`, byte by byte for 0, else of sizes that the bits of `pattern` give.
fn chunks(mut input: &[u8], pattern: u64) -> impl Iterator<Item = &[u8]> {
    let mut turn = 0;
    std::iter::from_fn(move || {
        turn += 7;
        let size = if pattern == u64::MAX { input.len() } else { 1 + (pattern.rotate_left(turn) % 24) as usize };
        let size = if pattern == 0 { 1 } else { size };
        let (chunk, rest) = input.split_at(size.min(input.len()));
        input = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// A decoder with a small bound gives the same events up to one that is too large, and then nothing.
fn check_bound(input: &[u8], want: &[Event]) {
    let mut decoder = Decoder::new(48);
    decoder.push(Bytes::copy_from_slice(input));
    let got: Vec<_> = decoder.by_ref().collect();
    let good: Vec<_> = got.iter().take_while(|event| event.is_ok()).flatten().cloned().collect();
    assert_eq!(good, want[..good.len()]);
    assert!(got.len() <= good.len() + 1 && (good.len() == want.len() || got.len() == good.len() + 1));
    assert!(good.iter().all(|event| event.data.len() <= 48));
}

/// A stream that breaks off anywhere gives a part of its events, never a part of an event.
fn check_cut(input: &[u8], hash: u64, want: &[Event]) {
    let at = (hash >> 7) as usize % (input.len() + 1);
    let mut decoder = Decoder::new(1 << 20);
    let got = decode(&mut decoder, &input[..at]);
    assert_eq!(got, want[..got.len()], "cut at {at}");
    decoder.finish();
    assert_eq!(decode(&mut decoder, b"data: fresh\n\n").len(), 1, "a new stream starts clean");
}

/// Data that is JSON, sent as a message of ours, comes back as it was.
fn check_round_trip(event: &Event) {
    let Ok(raw) = Raw::parse(event.data.clone()) else { return };
    let line = Line::from_value(raw);
    let mut out = BytesMut::new();
    sse::message(&mut out, Some("id-1"), &line);
    let mut decoder = Decoder::new(1 << 20);
    let got = decode(&mut decoder, &out);
    assert_eq!(got.iter().map(|event| event.data.as_ref()).collect::<Vec<_>>(), [line.as_bytes()]);
    assert_eq!(decoder.last_event_id(), b"id-1");
}

/// The algorithm of the standard, on lines. A line without its end does not count.
fn events(input: &[u8]) -> Vec<Event> {
    let input = input.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(input);
    let (mut events, mut event, mut any) = (Vec::new(), Event::default(), false);
    let mut data: Vec<Vec<u8>> = Vec::new();
    for line in lines(input) {
        if line.is_empty() {
            event.has_data = !data.is_empty();
            event.data = data.join(&b'\n').into();
            if std::mem::take(&mut any) {
                events.push(std::mem::take(&mut event));
            }
            data.clear();
            continue;
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let bytes = || Some(Bytes::copy_from_slice(value));
        match name {
            b"data" => data.push(value.to_vec()),
            b"event" => event.event = bytes(),
            b"id" if !value.contains(&0) => event.id = bytes(),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(value).expect("digits");
                // More than 32 bits of milliseconds count as that many.
                let millis = digits.parse::<u128>().map_or(u32::MAX, |all| u32::try_from(all).unwrap_or(u32::MAX));
                event.retry = Some(Duration::from_millis(millis.into()));
            }
            _ => continue,
        }
        any = true;
    }
    events
}

/// Whole lines, without their CR LF, LF or CR.
fn lines(input: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut start, mut at) = (Vec::new(), 0, 0);
    while at < input.len() {
        if matches!(input[at], b'\r' | b'\n') {
            lines.push(&input[start..at]);
            at += usize::from(input[at..].starts_with(b"\r\n"));
            start = at + 1;
        }
        at += 1;
    }
    lines
}
