use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::{Decoder, Event, SseError, comment, endpoint, message, priming, retry};
use crate::{line::Line, raw::Raw};

/// Everything a stream gives, with the decoder afterwards.
fn decode<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Result<Event, SseError>>, Decoder) {
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        events.extend(decoder.by_ref());
    }
    (events, decoder)
}

/// `id|event|retry|data`, with `-` for what is absent.
fn show(event: &Event) -> String {
    let text = |bytes: &Option<Bytes>| bytes.as_ref().map_or("-".into(), |b| String::from_utf8_lossy(b).into_owned());
    let retry = event.retry.map_or("-".into(), |delay| delay.as_millis().to_string());
    let data = event.has_data.then(|| event.data.clone());
    format!("{}|{}|{retry}|{}", text(&event.id), text(&event.event), text(&data))
}

fn shown(stream: &[u8]) -> Vec<String> {
    decode(1 << 20, [stream]).0.iter().map(|event| show(event.as_ref().expect("within the limit"))).collect()
}

fn line(text: &str) -> Line {
    Line::from_value(Raw::parse(Bytes::copy_from_slice(text.as_bytes())).expect("JSON"))
}

#[test]
fn blocks_by_the_standard() {
    let table: &[(&str, &[&str])] = &[
        ("data: a\n\n", &["-|-|-|a"]),
        ("data:a\n\n", &["-|-|-|a"]),
        ("data:  a\n\n", &["-|-|-| a"]),
        ("data: a\r\rdata: b\r\n\r\ndata: c\n\n", &["-|-|-|a", "-|-|-|b", "-|-|-|c"]),
        ("data: a\ndata\ndata:b\n\n", &["-|-|-|a\n\nb"]),
        ("data\n\n", &["-|-|-|"]),
        ("data\ndata\n\n", &["-|-|-|\n"]),
        ("id: 1\nretry: 500\ndata:\n\n", &["1|-|500|"]),
        ("id: 1\n\n", &["1|-|-|-"]),
        ("id: 1\nid: 2\ndata: x\n\n", &["2|-|-|x"]),
        ("id: 1\nid: a\0b\ndata: x\n\n", &["1|-|-|x"]),
        ("id\ndata: x\n\n", &["|-|-|x"]),
        ("event: endpoint\ndata: /sse?s=1\n\n", &["-|endpoint|-|/sse?s=1"]),
        ("retry: 10\n\n", &["-|-|10|-"]),
        ("retry: 10x\n\nretry: -1\n\nretry:\n\nretry: 1.5\n\n", &[]),
        ("retry: 99999999999999999999\n\n", &["-|-|4294967295|-"]),
        (": keep-alive\n\n\n\n:\n\n", &[]),
        (": between\ndata: a\n: between\ndata: b\n\n", &["-|-|-|a\nb"]),
        ("Data: a\n data: b\nfoo: bar\nfoo\n\n", &[]),
        ("data: {\"a\": \"b:c\"}\n\n", &["-|-|-|{\"a\": \"b:c\"}"]),
        ("\u{feff}data: a\n\n", &["-|-|-|a"]),
        ("\u{feff}: comment\ndata: a\n\n", &["-|-|-|a"]),
        ("\u{feff}\u{feff}data: a\n\n", &[]),
        ("data: a\n\n\u{feff}data: b\n\n", &["-|-|-|a"]),
        ("data: a\n\ndata: lost\n", &["-|-|-|a"]),
        ("data: a\n\ndata: lost", &["-|-|-|a"]),
        ("", &[]),
    ];
    for (stream, want) in table {
        assert_eq!(shown(stream.as_bytes()), *want, "stream {stream:?}");
    }
}

#[test]
fn a_byte_order_mark_may_come_in_pieces_or_turn_out_not_to_be_one() {
    let table: &[(&[&[u8]], usize)] = &[
        (&[b"\xEF", b"\xBB", b"\xBFdata: a\n\n"], 1),
        (&[b"\xEF\xBB", b"\xBF", b"data: a\n\n"], 1),
        (&[b"\xEF", b"\xBB", b"data: a\n\n"], 0),
        (&[b"\xEF", b"data: a\n\n"], 0),
    ];
    for (chunks, want) in table {
        let (events, _) = decode(100, chunks.iter().copied());
        assert_eq!(events.len(), *want, "chunks {chunks:?}");
    }
}

#[test]
fn a_carriage_return_ends_the_event_without_waiting_for_more() {
    let (events, mut decoder) = decode(100, [&b"data: a\r\n\r"[..]]);
    assert_eq!(events.len(), 1);
    // The LF that follows belongs to the CR before it and is not a second blank line.
    decoder.push(Bytes::from_static(b"\ndata: b\n\n"));
    let next = decoder.next().expect("event").expect("small");
    assert_eq!(next.data, "b");
}

#[test]
fn last_id_and_retry_outlive_events_and_streams() {
    let (_, mut decoder) = decode(100, [&b"id: 7\ndata: a\n\ndata: b\n\nid: 8\nretry: 20\n"[..]]);
    assert_eq!(decoder.last_event_id(), b"7", "the block of id 8 is not finished");
    assert_eq!(decoder.retry(), Some(Duration::from_millis(20)), "retry counts at once");
    assert!(decoder.finish());
    assert!(!decoder.finish());
    decoder.push(Bytes::from_static(b"\xEF\xBB\xBFdata: c\n\n"));
    assert_eq!(decoder.next().expect("event").expect("small").data, "c");
    assert_eq!(decoder.last_event_id(), b"7");
    decoder.push(Bytes::from_static(b"id\n\n"));
    assert!(decoder.next().is_some());
    assert_eq!(decoder.last_event_id(), b"", "an empty id takes the cursor back");
}

#[test]
fn comments_are_counted_and_take_no_memory() {
    let (events, decoder) = decode(16, [&b": ok\n\n:"[..], &[b'x'; 1000], b"\r\n: three\n"]);
    assert_eq!((events, decoder.comments()), (vec![], 3));
}

#[test]
fn data_within_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b"event: message\nid: 1\ndata: {\"jsonrpc\":\"2.0\"}\n\n");
    let mut decoder = Decoder::new(1000);
    decoder.push(chunk.clone());
    let event = decoder.next().expect("event").expect("small");
    let start = chunk.len() - 2 - event.data.len();
    assert_eq!(event.data.as_ptr(), chunk.slice(start..).as_ptr());
    assert!(event.is_message() && !event.is_priming());
}

#[test]
fn an_event_over_the_limit_ends_the_stream() {
    let fits = b"data: 0123456789\n\n";
    let table: &[(&[u8], bool)] = &[
        (b"data: 0123456789\n\n", true),
        (b"data: 01234567890\n\n", false),
        (b"data: 01234567890", false),
        (b"id: 123456\ndata: 01234\n\n", false),
        (b"id: 12345\ndata: 01234\n\n", true),
        (b"data: a\ndata: b\ndata: c\ndata: d\ndata: e\ndata: f\ndata: g\n\n", false),
        (b"unknown-field-name: x\n\n", false),
        (b": a comment may be longer than any event\n\ndata: x\n\n", true),
    ];
    for (stream, ok) in table {
        let (events, mut decoder) = decode(16, [&fits[..], stream]);
        let want = if *ok { None } else { Some(Err(SseError::TooLarge { event_bytes_max: 16 })) };
        let got = events.iter().find(|event| event.is_err()).cloned();
        assert_eq!(got, want, "stream {:?}", String::from_utf8_lossy(stream));
        assert_eq!(events.len(), 2, "stream {:?}", String::from_utf8_lossy(stream));
        if !ok {
            decoder.push(Bytes::from_static(b"\n\ndata: x\n\n"));
            assert_eq!(decoder.next(), None, "nothing is read past the error");
            decoder.finish();
            decoder.push(Bytes::from_static(b"data: x\n\n"));
            assert!(decoder.next().is_some_and(|event| event.is_ok()), "a new stream starts clean");
        }
    }
}

#[test]
fn chunks_may_be_pushed_ahead_of_taking() {
    let mut decoder = Decoder::new(100);
    for piece in [&b"da"[..], b"", b"ta: a\n", b"\nid: 1\nda", b"ta: b\n\n"] {
        decoder.push(Bytes::copy_from_slice(piece));
    }
    let data: Vec<Bytes> = decoder.by_ref().map(|event| event.expect("small").data).collect();
    assert_eq!(data, ["a", "b"]);
}

#[test]
fn a_long_line_byte_by_byte_is_searched_once() {
    // Searching the gathered part again at every byte would take 10^11 steps here.
    let mut stream = b"data: ".to_vec();
    stream.resize(500_000, b'x');
    stream.extend_from_slice(b"\n\n");
    let (events, _) = decode(1 << 20, stream.chunks(1));
    assert_eq!(events.len(), 1);
}

#[test]
fn frames_as_they_go_out() {
    let frame = |write: &dyn Fn(&mut BytesMut)| {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).expect("text")
    };
    let millis = Duration::from_millis;
    for (got, want) in [
        (frame(&|out| message(out, None, &line("{}"))), "event: message\ndata: {}\n\n"),
        (
            frame(&|out| message(out, Some("a-1"), &line("{\n\"x\":1}"))),
            "event: message\nid: a-1\ndata: { \"x\":1}\n\n",
        ),
        (frame(&|out| message(out, Some("a\nb"), &line("{}"))), "event: message\ndata: {}\n\n"),
        (frame(&|out| priming(out, "a-0", millis(3000))), "id: a-0\nretry: 3000\ndata:\n\n"),
        (frame(&|out| comment(out, "keep-alive")), ": keep-alive\n\n"),
        (frame(&|out| comment(out, "a\r\ndata: b")), ": a  data: b\n\n"),
        (frame(&|out| retry(out, millis(500))), "retry: 500\n\n"),
        (frame(&|out| endpoint(out, "/sse?session=x\n\ndata: y")), "event: endpoint\ndata: /sse?session=xdata:y\n\n"),
    ] {
        assert_eq!(got, want);
    }
}

#[test]
fn what_we_write_we_read() {
    let mut out = BytesMut::new();
    priming(&mut out, "s-0", Duration::from_secs(3));
    comment(&mut out, "");
    message(&mut out, Some("s-1"), &line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
    let want = ["s-0|-|3000|", r#"s-1|message|-|{"jsonrpc":"2.0","id":1,"result":{}}"#];
    assert_eq!(shown(&out), want);
}

/// The standard read literally: split all lines, then interpret. Only for streams that end with a line end.
fn model(stream: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(stream).replace("\r\n", "\n").replace('\r', "\n");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop();
    let (mut out, mut id, mut event, mut retry, mut data) = (Vec::new(), None, None, None, None::<Vec<&str>>);
    for line in lines {
        if line.is_empty() {
            let seen = id.is_some() || event.is_some() || retry.is_some() || data.is_some();
            let [i, e, r, d] = [id.take(), event.take(), retry.take(), data.take().map(|lines| lines.join("\n"))]
                .map(|field: Option<String>| field.unwrap_or("-".into()));
            if seen {
                out.push(format!("{i}|{e}|{r}|{d}"));
            }
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => data.get_or_insert_default().push(value),
            "event" => event = Some(value.to_owned()),
            "id" if !value.contains('\0') => id = Some(value.to_owned()),
            "retry" if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) => {
                retry = Some(value.parse().unwrap_or(u32::MAX).to_string());
            }
            _ => {}
        }
    }
    out
}

/// Streams made of the pieces that matter, so that random ones are not all garbage.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "\u{feff}",
        "data",
        "data:",
        "data: ",
        "id: ",
        "id",
        "event: ",
        "retry: ",
        "retry",
        ":",
        ": ",
        " ",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "\0",
        "7",
        "42",
        "x",
        "é",
        "message",
        "{\"a\":1}",
        "99999999999",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes())
}

fn cut<'a>(stream: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    at.extend([0, stream.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn the_decoder_agrees_with_the_standard(mut stream in streams()) {
        stream.extend_from_slice(b"\n");
        prop_assert_eq!(shown(&stream), model(&stream));
    }

    #[test]
    fn chunking_changes_nothing(stream in streams(), cuts in prop::collection::vec(any::<usize>(), 0..12), limit in 1usize..60) {
        let (whole, one) = decode(limit, [&stream[..]]);
        for chunks in [cut(&stream, &cuts), stream.chunks(1).collect()] {
            let (events, mut other) = decode(limit, chunks);
            prop_assert_eq!(&events, &whole);
            prop_assert_eq!(other.last_event_id(), one.last_event_id());
            prop_assert_eq!((other.retry(), other.comments()), (one.retry(), one.comments()));
            prop_assert!(other.held() <= limit);
            other.finish();
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(stream in prop::collection::vec(any::<u8>(), 0..200), size in 1usize..9, limit in 0usize..50) {
        let (events, _) = decode(limit, stream.chunks(size));
        let (whole, _) = decode(limit, [&stream[..]]);
        prop_assert_eq!(events, whole);
    }
}
