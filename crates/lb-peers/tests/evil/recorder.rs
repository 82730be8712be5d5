//! The recorder keeps exact bytes in both directions.

use std::path::Path;

use lb_peers::raw::http::{headers, modern_headers};
use lb_peers::raw::recorder::{read_record, write_replies};

use super::peer::{HttpPeer, modern, post, spawn};

const PROGRAM: &str = env!("CARGO_BIN_EXE_recorder");
const ODD: &[&[u8]] =
    &[br#"{ "content" : [ ] , "n":1.0, "big":1e400 }"#, b"{\"content\":[],\"raw\":\"\xc3\xa9\\u00e9\"}"];

fn arguments(folder: &Path) -> [String; 4] {
    let path = |name: &str| folder.join(name).display().to_string();
    write_replies(&folder.join("replies"), ODD).expect("written");
    ["--record".to_owned(), path("record"), "--replies".to_owned(), path("replies")]
}

fn reply(id: &str, turn: usize) -> Vec<u8> {
    [format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#).as_bytes(), ODD[turn], b"}"].concat()
}

#[tokio::test]
async fn stdio_lines_are_recorded_and_calls_answered_with_the_given_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = arguments(folder.path());
    let mut process = spawn(PROGRAM, &arguments.each_ref().map(String::as_str));
    let lines: [&[u8]; 4] = [
        br#"{"jsonrpc":"2.0", "id":"a\/b","method":"tools/call","params":{"name":"record","arguments":{"n":1.0}}}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/odd" }"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"x\"}} \r",
        br#"{"jsonrpc":"2.0","id":3,"method":"tools/call"}"#,
    ];
    for line in lines {
        process.send(line).await.expect("sent");
    }
    for (id, turn) in [(r#""a\/b""#, 0), ("2", 1), ("3", 0)] {
        let line = process.line().await.expect("a line").expect("stdout stays open");
        assert_eq!(String::from_utf8_lossy(&line), String::from_utf8_lossy(&reply(id, turn)));
    }
    assert_eq!(read_record(&folder.path().join("record")).expect("a record"), lines);
    process.close_stdin();
    assert_eq!(process.wait().await.expect("it ends").code(), Some(0));
}

#[tokio::test]
async fn http_bodies_are_recorded_in_both_eras() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = arguments(folder.path());
    let peer = HttpPeer::start(PROGRAM, &arguments.each_ref().map(String::as_str)).await;
    let (mut client, session) = peer.session().await;
    let call = "{\"jsonrpc\":\"2.0\",\n \"id\":1e0,\"method\":\"tools/call\",\"params\":{\"name\":\"record\"}}";
    assert_eq!(post(&mut client, &session, call).await.body, reply("1e0", 0));
    let modern_call = modern("5", "tools/call", r#""name":"é","arguments":{},"#);
    let encoded = modern_headers("tools/call", Some("=?base64?w6k=?="));
    assert_eq!(post(&mut client, &encoded, &modern_call).await.body, reply("5", 1));
    let found = post(&mut client, &modern_headers("tools/list", None), &modern("6", "tools/list", "")).await;
    assert!(found.text().contains(r#""name":"record""#), "{}", found.text());
    let record = read_record(&folder.path().join("record")).expect("a record");
    assert_eq!(record.len(), 5, "initialize, initialized and three requests");
    assert_eq!(String::from_utf8_lossy(&record[2]), call);
    assert_eq!(String::from_utf8_lossy(&record[3]), modern_call);
}

#[tokio::test]
async fn chunked_requests_and_exact_bytes_are_understood() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = arguments(folder.path());
    let peer = HttpPeer::start(PROGRAM, &arguments.each_ref().map(String::as_str)).await;
    let mut client = peer.connect().await;
    let head = headers(&[("Transfer-Encoding", "chunked")]);
    let lines: String = head.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    client.send_raw(format!("POST /mcp HTTP/1.1\r\n{lines}\r\n").as_bytes()).await.expect("sent");
    for piece in ["3;x=y\r\n{\"m\r\n", "9\r\nethod\":1}\r\n", "0\r\nTrailer: yes\r\n\r\n"] {
        client.send_raw(piece.as_bytes()).await.expect("sent");
    }
    assert_eq!(client.head().await.expect("a head").status(), 400);
    let (body, complete) = client.body().await.expect("a body");
    assert!(complete && String::from_utf8_lossy(&body).contains("-32700"));
    assert_eq!(read_record(&folder.path().join("record")).expect("a record"), [b"{\"method\":1}"]);
    let get = client.request("GET", "/mcp", &[], b"").await.expect("the connection is kept");
    assert_eq!(get.head.status(), 405);
}
