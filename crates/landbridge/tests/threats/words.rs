//! Text that means something else to whoever reads it next: headers, terminals, patterns.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lb_peers::harness::{Gateway, HttpPeer, config, peer};
use lb_peers::procs::memory_kib;
use lb_peers::raw::RawHttp;
use lb_peers::raw::http1::response;
use lb_peers::tools::ToolClient;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::world::*;

/// Texts that would be a header line of their own, or end the head, if anybody wrote them as they are.
const INJECTIONS: [&str; 12] = [
    "a\r\nX-Evil: 1",
    "a\nX-Evil: 1",
    "a\rX-Evil: 1",
    "a\r\n\r\nGET /X-Evil HTTP/1.1",
    "\r\nX-Evil: 1\r\n",
    "a\0X-Evil",
    "a\u{85}X-Evil: 1",
    "a\u{2028}X-Evil: 1",
    "=?base64?DQpYLUV2aWw6IDE=?=",
    "a\t\r\n X-Evil: 1",
    "\u{1b}[2J",
    "\u{7f}",
];

/// What went over a wire.
type Tap = Arc<Mutex<Vec<u8>>>;

/// A proxy that writes down every byte towards the server.
async fn tapped(server: SocketAddr) -> (SocketAddr, Tap, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (address, tap) = (listener.local_addr().expect("its address"), Tap::default());
    let (seen, mut serving) = (tap.clone(), JoinSet::new());
    serving.spawn(async move {
        let mut pairs = JoinSet::new();
        while let Ok((near, _)) = listener.accept().await {
            let (far, seen) = (TcpStream::connect(server).await.expect("the server listens"), seen.clone());
            let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.into_split(), far.into_split());
            pairs.spawn(async move {
                let mut piece = [0; 8192];
                while let Ok(got @ 1..) = near_in.read(&mut piece).await {
                    let bytes = piece.get(..got).unwrap_or_default();
                    seen.lock().expect("lock").extend_from_slice(bytes);
                    if far_out.write_all(bytes).await.is_err() {
                        return;
                    }
                }
            });
            pairs.spawn(async move {
                // It ends with either side.
                let _ended = tokio::io::copy(&mut far_in, &mut near_out).await;
            });
        }
    });
    (address, tap, serving)
}

/// Heads are lines of visible characters; bodies are JSON in one line, which ends with a brace.
fn check_wire(bytes: &[u8], after: &str) {
    let text = String::from_utf8_lossy(bytes);
    assert!(
        !text.lines().any(|line| line.starts_with("X-Evil") || line.starts_with("GET /X-Evil")),
        "{after:?}: {text}"
    );
    let heads = text.split("\r\n").map(|line| line.rsplit_once('}').map_or(line, |(_, head)| head));
    let odd = heads.flat_map(str::chars).find(|c| c.is_control());
    assert_eq!(odd, None, "{after:?}: {text}");
    assert!(!text.replace("\r\n", "").contains('\r'), "{after:?}: a carriage return by itself: {text}");
}

#[tokio::test]
async fn arguments_that_become_headers_never_become_more_than_their_value() {
    let server = HttpPeer::start(&peer(LANDBRIDGE, "fixture"), &["--era", "modern"]).await;
    let (address, tap, _proxy) = tapped(server.address).await;
    let url = format!("http://{address}/mcp");
    let gateway = Gateway::serve(LANDBRIDGE, json!({ "it": { "url": url } })).await;
    let mut http = RawHttp::connect(gateway.address).await.expect("it listens");
    let session = http.initialize("/mcp/server/it", "2025-11-25").await.expect("a session");
    for text in INJECTIONS {
        // Once as an argument that is mirrored, once as a name that is.
        for params in [
            json!({ "name": "test_custom_header", "arguments": { "value": text } }),
            json!({ "name": text, "arguments": {} }),
        ] {
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
            let answer = http.post("/mcp/server/it", &session.headers(), call.as_bytes()).await.expect("an answer");
            assert!(answer.head.header("x-evil").is_none(), "{text:?}");
            let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
            if params["name"] == "test_custom_header" {
                assert_eq!(
                    body["error"],
                    Value::Null,
                    "the server found the header to be the argument: {text:?} {body}"
                );
            }
            check_wire(&tap.lock().expect("lock"), text);
        }
    }
    let seen = String::from_utf8_lossy(&tap.lock().expect("lock")).to_ascii_lowercase();
    assert!(seen.contains("mcp-param-") && seen.contains("mcp-name"), "nothing was mirrored: {seen}");
}

#[tokio::test]
async fn headers_of_an_added_server_are_values_or_refused() {
    let server = Always::answers(response(500, &[], b"no")).await;
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({}), &[]).await;
    let client = ToolClient::http(&gateway).await;
    let url = format!("http://{}/mcp", server.address);
    for text in INJECTIONS {
        for given in [json!({ "X-Given": text }), json!({ text: "1" })] {
            let reply = client.call("add_server", json!({ "name": "it", "url": url, "headers": given })).await;
            assert!(reply.is_error(), "{given}: {reply}");
        }
        let reply = client.call("add_server", json!({ "name": "it", "url": format!("{url}?{text}") })).await;
        assert!(reply.is_error(), "{text:?}: {reply}");
    }
    let heads = server.heads.lock().expect("lock");
    assert!(heads.iter().all(|head| head.header("x-evil").is_none()), "{heads:?}");
}

/// What a request says of itself comes back in headers and errors as a value, or not at all.
#[tokio::test]
async fn nothing_of_a_request_becomes_a_header_of_its_answer() {
    let world = World::start(&[]).await;
    for text in INJECTIONS {
        for name in ["X-Request-Id", "Mcp-Session-Id", "Origin", "Mcp-Protocol-Version", "Last-Event-ID", "Host"] {
            let host = if name == "Host" { Vec::new() } else { vec!["Host: localhost".to_owned()] };
            let mut lines = vec!["POST /mcp HTTP/1.1".to_owned()];
            lines.extend(host);
            lines.push(format!("{name}: {text}"));
            // None at all is as good: the connection is closed.
            let Some(answer) = send(world.gateway.address, &lines, "{}").await else { continue };
            assert!(answer.head.header("x-evil").is_none(), "{name}: {text:?}");
            assert!((400..500).contains(&answer.head.status()), "{name}: {text:?}: {}", answer.head.status());
        }
    }
    world.client().await;
}

/// Runs a command to its end; what it printed that moves a cursor or begins a line.
async fn unruly(args: &[&str]) -> Option<String> {
    let home = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(LANDBRIDGE);
    command.args(args).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin").kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").expect("it starts");
    let text = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    let found = text.chars().any(|c| c.is_control() && !['\n', '\t'].contains(&c));
    found.then(|| format!("{args:?}: {text:?}"))
}

/// A config is pasted from elsewhere: nothing in it reaches a terminal as an escape.
#[tokio::test]
async fn what_is_printed_of_a_config_has_no_escape() {
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\rforged";
    let entry = json!({ "command": evil, "args": [evil], "env": { "A": evil }, "cwd": evil, evil: evil });
    let web = json!({ "url": format!("http://127.0.0.1:1/{evil}"), "headers": { evil: evil } });
    for servers in [json!({ "it": entry }), json!({ evil: entry }), json!({ "w": web }), json!({ "x": evil })] {
        let (_folder, file) = config(&servers);
        let file = file.to_string_lossy().into_owned();
        for args in [
            vec!["config", "check", "--config", &file],
            vec!["config", "check", "--json", "--config", &file],
            vec!["config", "show", "--config", &file, "--name", evil, "--description", evil],
            vec!["stdio", "--config", &file],
        ] {
            assert_eq!(unruly(&args).await, None, "{servers}");
        }
    }
}

/// What is printed of the command line itself has none either.
#[tokio::test]
async fn what_is_printed_of_the_command_line_has_no_escape() {
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\rforged";
    let mut left = Vec::new();
    for args in [
        vec!["serve", "--listen", evil],
        vec!["serve", "--log-level", evil],
        vec!["serve", "--public-url", evil],
        vec!["serve", "--config", evil],
        vec!["smoke", evil],
        vec![evil],
    ] {
        left.extend(unruly(&args).await);
    }
    assert_eq!(left, [""; 0]);
}

/// Patterns come from servers, in the schema of a question; an answer is matched in time that grows with its length.
#[tokio::test]
async fn a_pattern_of_a_server_cannot_keep_us_busy() {
    let world = World::start(&[]).await;
    let client = world.client().await;
    let almost = "a".repeat(1 << 20) + "!";
    for pattern in
        ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*a){20}$", "((a{1000}){1000}){1000}", "(?:a?){64}a{64}$", "("]
    {
        let schema = json!({ "type": "object", "properties": { "x": { "type": "string", "pattern": pattern } } });
        let params = json!({ "message": "which?", "requestedSchema": schema });
        let reply = run(&client, "ask", json!({ "method": "elicitation/create", "params": params })).await;
        assert!(!reply.is_error(), "{pattern}: {reply}");
        let id = client.call("get_elicitations", json!({})).await.json()[0]["requestId"].clone();
        let start = Instant::now();
        let content = json!({ "x": almost });
        client
            .call("respond_to_elicitation", json!({ "request_id": id, "action": "accept", "content": content }))
            .await;
        // Ten times 50 ms, and what a mebibyte takes to be sent, read and passed on, whatever is done with it.
        assert!(start.elapsed() < Duration::from_secs(4), "{pattern} took {:?}", start.elapsed());
        client.call("respond_to_elicitation", json!({ "request_id": id, "action": "decline" })).await;
        works(&client).await;
    }
}

/// Patterns come from clients too, as what `list_tools` looks for, here also in a name that is as long as a server can make
/// it: short ones are matched in time that grows with the name, others are refused before they take any room.
#[tokio::test]
async fn a_pattern_of_a_client_cannot_keep_us_busy() {
    let entry = json!({ "command": "python3", "args": [SERVER], "env": { "LONG": (1 << 19).to_string() } });
    let gateway = Gateway::serve_tools(LANDBRIDGE, json!({ "it": entry }), &[]).await;
    let client = ToolClient::http(&gateway).await;
    works(&client).await;
    let before_kib = memory_kib(gateway.pid(), "VmHWM");
    let (classes, groups) = (r"\w".repeat(20_000), "(".repeat(20_000));
    for (pattern, fits) in [
        ("^(a+)+$", true),
        ("^(a|a)*$", true),
        ("(.*a){20}$", true),
        ("(?:a?){64}a{64}$", true),
        ("(a|b)*a(a|b){12}$", true),
        ("((a{1000}){1000}){1000}", false),
        (r"\pL{1000}", false),
        (&classes, false),
        (&groups, false),
    ] {
        for argument in ["server", "tool"] {
            let start = Instant::now();
            let reply = client.call("list_tools", json!({ argument: pattern })).await;
            let shown: String = pattern.chars().take(40).collect();
            assert_eq!(reply.is_error(), !fits, "{argument} {shown}: {}", reply.code());
            assert!(fits || reply.code() == "INVALID_ARGUMENT", "{argument} {shown}: {reply}");
            // Ten times 50 ms, and what a mebibyte of a name takes to be listed, whatever is looked for in it.
            assert!(start.elapsed() < Duration::from_secs(4), "{argument} {shown} took {:?}", start.elapsed());
        }
    }
    let grown_kib = memory_kib(gateway.pid(), "VmHWM") - before_kib;
    assert!(grown_kib < 64 << 10, "{grown_kib} KiB");
    works(&client).await;
}
